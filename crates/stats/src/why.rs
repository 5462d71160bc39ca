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
    /// A descriptor that was never a candidate: the ordinary case, which is not counted.
    NotOurs "not a socket of ours" ""
    /// VMA_OFFLOADED_SOCKETS=0, or the library could not start.
    Disabled "acceleration is switched off" "set VMA_OFFLOADED_SOCKETS=1; the log says if the start failed"
    /// A rule of libvma.conf.
    Rule "a rule of the configuration file says os" "see libvma.conf (VMA_CONFIG_FILE)"
    /// Loopback or an address of this host.
    LocalAddress "loopback or an address of this host" ""
    /// Broadcast or multicast.
    GroupAddress "a broadcast or multicast address" ""
    /// The kernel has no route.
    NoRoute "no route to the destination" "ask `ip route get ADDRESS`"
    /// The route leaves by another interface.
    InterfaceNotChosen "the route's interface is not chosen for acceleration" "name it in SIDESTEP_INTERFACES"
    /// There is no chosen interface at all.
    NoInterface "no interface is chosen for acceleration" "name one in SIDESTEP_INTERFACES; `ip link` lists them"
    /// No CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF.
    NoPrivilege "no privilege for AF_XDP" "run as root, or give the program CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
    /// Neither the kernel nor the device has it.
    NoAfXdp "no AF_XDP on this kernel or device" "needs CONFIG_XDP_SOCKETS; try SIDESTEP_XDP_MODE=generic"
    /// Somebody else has bound the queue.
    QueueBusy "another process holds the interface's queues" "stop it, or use another interface"
    /// Somebody else's XDP program is attached.
    ForeignProgram "another XDP program is attached to the interface" "`ip link show` tells its number; detach it"
    /// Memory could not be had or locked.
    NoMemory "no memory for packet frames" "lower SIDESTEP_FRAMES, or raise the limit of locked memory (ulimit -l)"
    /// The device failed to open.
    DeviceFailed "the AF_XDP device could not be opened" "the log has the error; try SIDESTEP_XDP_MODE=generic"
    /// A bound of the engine.
    EngineFull "the engine's tables are full" "fewer sockets per process, or more processes"
    /// The socket came into the process by fork.
    Inherited "inherited over fork" "sockets opened after fork are accelerated"
    /// An option or call without an accelerated form.
    Unsupported "no accelerated form of what the program asked" "VMA_TRACELEVEL=debug names the call or option"
    /// The engine failed.
    Fenced "fenced off after an internal error" "please report it with the log"
    /// Another family or type.
    OtherFamily "not TCP or UDP over IPv4" "use the IPv4 address of the peer"
    /// The program that exec begins goes on with the connection.
    Executed "passed to another program by exec" ""
    /// A message carried the descriptor to another process (SCM_RIGHTS).
    Passed "passed to another process" ""
    /// Workers of one listener that take turns, or are busy while others are not.
    Shared "workers let clients wait that others could serve" "let all workers wait for clients, without a lock"
}

impl Why {
    /// How many there are.
    pub const COUNT: usize = Why::ALL.len();

    /// Whether it is the normal course of things (told at DEBUG) rather than a loss that the user should hear of (one
    /// warning).
    pub fn is_ordinary(self) -> bool {
        use Why::*;
        matches!(
            self,
            NotOurs
                | Disabled
                | Rule
                | LocalAddress
                | GroupAddress
                | NoRoute
                | InterfaceNotChosen
                | NoInterface
                | Inherited
                | OtherFamily
                | Executed
                | Passed
                | Shared
        )
    }

    /// The reason of this number.
    pub fn from_number(number: u64) -> Option<Why> {
        usize::try_from(number).ok().and_then(|number| Why::ALL.get(number)).copied()
    }
}
