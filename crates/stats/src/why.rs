//! Why a socket is left to the kernel: the answer that is counted, logged and shown.

/// One row per reason: name, the words, and what the user can do about it.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal $remedy:literal)+) => {
        /// A reason. Counted per process in [`crate::segment::Segment::left_to_kernel`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Why { $($(#[$doc])* $name),+ }

        impl Why {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Why] = &[$(Why::$name),+];

            /// The name, as in the source and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Why::$name => stringify!($name)),+ }
            }

            /// What is the matter.
            pub fn text(self) -> &'static str {
                match self { $(Why::$name => $text),+ }
            }

            /// What to do about it; empty if nothing needs doing.
            pub fn remedy(self) -> &'static str {
                match self { $(Why::$name => $remedy),+ }
            }
        }
    };
}

reasons! {
    /// Another family or type than TCP and UDP over IPv4.
    OtherFamily "not TCP or UDP over IPv4" "IPv4 only for now; connect to the IPv4 address of the peer"
    /// The address is 127/8 or one of this host.
    LocalAddress "loopback or an address of this host" ""
    /// A rule of libvma.conf.
    RuleSaysOs "a rule says os" "see libvma.conf (VMA_CONFIG_FILE)"
    /// VMA_OFFLOADED_SOCKETS=0, or the extra API said so for this thread.
    NotOffloaded "acceleration is off for new sockets" "set VMA_OFFLOADED_SOCKETS=1"
    /// No CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF.
    NoPrivilege "no privilege for AF_XDP" "run with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or as root"
    /// The kernel has no AF_XDP or forbids it.
    NoAfXdp "the kernel has no AF_XDP" "needs CONFIG_XDP_SOCKETS and Linux 5.10 or later"
    /// No route, or none that leaves by an accelerated interface.
    NoRoute "no route by an accelerated interface" "check ip route get, and SIDESTEP_INTERFACES"
    /// SIDESTEP_INTERFACES does not name the interface.
    InterfaceNotChosen "the interface is not chosen" "name it in SIDESTEP_INTERFACES"
    /// The interface cannot: its type, or its driver refused the program.
    InterfaceCannot "the interface cannot be accelerated" "try SIDESTEP_XDP_MODE=generic"
    /// Somebody else's XDP program is attached.
    ForeignProgram "another XDP program is attached to the interface" "ip link show tells whose; detach it"
    /// Somebody else has bound the queue.
    QueueBusy "another process holds the interface's queue" "one process per queue: use another interface or more queues"
    /// No packet buffers are left.
    OutOfFrames "no packet buffers left" "raise SIDESTEP_FRAMES"
    /// A bound of the engine or of the descriptor table.
    OutOfSpace "a limit of the engine is reached" "fewer sockets, or a process more"
    /// Memory could not be had or locked.
    NoMemory "not enough memory" "raise the limit of locked memory (ulimit -l) or lower SIDESTEP_FRAMES"
    /// Bound to an address of an interface that is not accelerated.
    BoundElsewhere "bound to an address of another interface" "bind to an accelerated interface or to any"
    /// A multicast or broadcast destination that is not carried.
    MulticastOrBroadcast "broadcast or multicast that is not carried" ""
    /// An option that only the kernel has.
    UnsupportedOption "an option that only the kernel has" "VMA_TRACELEVEL=debug names it"
    /// A call that only the kernel can do on this socket.
    UnsupportedCall "a call that only the kernel has" "VMA_TRACELEVEL=debug names it"
    /// The socket was made by another process: fork, exec or descriptor passing.
    Inherited "inherited from another process" "open it after fork"
    /// The process is a child of vfork or is ending.
    NotNow "the process is ending or between fork and exec" ""
    /// The user's program is set-user-ID.
    SetUserId "a set-user-ID program is left alone" ""
    /// The engine failed and is fenced off.
    LaneFailed "acceleration failed in this process and is switched off" "please report it with the log"
}

impl Why {
    /// How many there are.
    pub const COUNT: usize = Why::ALL.len();

    /// The reason of this number.
    pub fn from_number(number: u64) -> Option<Why> {
        usize::try_from(number).ok().and_then(|number| Why::ALL.get(number)).copied()
    }
}
