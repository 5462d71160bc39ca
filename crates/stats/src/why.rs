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
    /// The ways there and back are different interfaces'.
    OtherInterface "packets go and come by different interfaces" ""
    /// The interface was deleted while the socket was on it.
    InterfaceGone "its interface was deleted" ""
    /// All ephemeral ports are held by connections that the kernel knows better.
    NoPort "no ephemeral port is left but what the kernel can share" "widen net.ipv4.ip_local_port_range"
    /// There is no chosen interface at all.
    NoInterface "no interface is chosen for acceleration" "name one in SIDESTEP_INTERFACES; `ip link` lists them"
    /// Of CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK one is missing.
    NoPrivilege "no privilege for AF_XDP" "run a keeper (sidestepd, or SIDESTEP_KEEPER=start), which serves workers that gave up root too; or run as root, or give the program CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK"
    /// Neither the kernel nor the device has it.
    NoAfXdp "no AF_XDP on this kernel or device" "needs a kernel with CONFIG_XDP_SOCKETS"
    /// Somebody else has bound the queue.
    QueueBusy "another process holds the interface's queues" "stop it, or use another interface"
    /// Somebody else's XDP program is attached.
    ForeignProgram "another XDP program is attached to the interface" "`ip link show` tells its number; detach it"
    /// Memory could not be had or locked.
    NoMemory "no memory for packet frames" "give the program CAP_IPC_LOCK, raise the limit of locked memory (ulimit -l), or lower SIDESTEP_FRAMES"
    /// An interface takes some twenty descriptors, from the upper quarter of what the process may open.
    FewDescriptors "the limit of open files leaves no room for an interface beside the program's own" "raise it to 128 at least (ulimit -n)"
    /// The device failed to open.
    DeviceFailed "the AF_XDP device could not be opened" "the log has the error and what it means"
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
    /// setns or unshare, network or pid.
    Namespace "in another namespace than the process' first sockets" "accelerate a process in each namespace"
    /// A filter of system calls (seccomp), or rules for ports (Landlock).
    Confined "the program confined itself (seccomp, Landlock)" "leave its system calls or ports unconfined"
    /// The kernel protects or blocks its packets.
    Ipsec "an IPsec policy could select its packets" "`ip xfrm policy` lists the policies"
    /// A listener is the kernel's where more than one process may have it.
    Shared "several processes may have this listener" "what they accept moves to the wire"
    /// stdio reads and writes past every hook.
    StandardStream "descriptor 0, 1 or 2" "duplicate the socket to another number"
    /// The kernel does what rings ask for.
    IoUring "used by io_uring" "let the program use epoll"
    /// The kernel, or a thread of libc, does what its requests ask for.
    Aio "used by asynchronous I/O (io_submit, aio_read)" "let the program use epoll"
    /// Who waits on it asks the kernel.
    UnseenSet "in an epoll set that was made past the library" "let the program make the set by epoll_create1(3)"
    /// A rule of libsdp.conf, or that none of it fits.
    SdpRule "libsdp.conf says tcp" "see libsdp.conf (LIBSDP_CONFIG_FILE); log min-level 3 tells which line"
    /// Wanted as SDP, and TCP carries it.
    NoSdp "nothing carries SDP to this peer" ""
    /// Wanted as SDP alone, and the peer speaks TCP.
    SdpRefused "libsdp.conf says sdp, and the peer does not speak it" "run the peer under libsdp.so as the same user, or let libsdp.conf say both"
    /// A file of rules that is there and cannot be read, under SIDESTEP_STRICT.
    NoRules "the configuration file cannot be read" "make it readable (VMA_CONFIG_FILE): the log says what is wrong"
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
                | OtherInterface
                | InterfaceGone
                | Inherited
                | OtherFamily
                | Executed
                | Passed
                | Namespace
                | Confined
                | Ipsec
                | Shared
                | StandardStream
                | SdpRule
                | NoSdp
                | SdpRefused
        )
    }

    /// The reason of this number.
    pub fn from_number(number: u64) -> Option<Why> {
        usize::try_from(number).ok().and_then(|number| Why::ALL.get(number)).copied()
    }
}
