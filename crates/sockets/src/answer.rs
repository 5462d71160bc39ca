//! The three-way answer of every call: done, an errno, or "the kernel, because".

/// The only control-flow type above the engine.
pub type Answer<T> = Result<T, Stop>;

/// Why a call was not carried out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Fail with this errno.
    Errno(i32),
    /// Call the genuine function with the same arguments.
    Kernel(Why),
}

/// Why the kernel does it. `NotOurs` is the ordinary case of a descriptor that was never a candidate and is not
/// counted; the others are counted once per socket, and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Why {
    /// Not a socket of ours.
    NotOurs,
    /// The library is switched off (VMA_OFFLOADED_SOCKETS=0, or it could not start).
    Disabled,
    /// A rule of the configuration file says "os".
    Rule,
    /// Loopback, or an address of this host.
    LocalAddress,
    /// Broadcast or multicast, which the kernel serves.
    GroupAddress,
    /// The kernel has no route to the destination: its own call tells the error.
    NoRoute,
    /// The route leaves by an interface that is not chosen for acceleration.
    InterfaceNotChosen,
    /// No chosen interface exists in this network namespace.
    NoInterface,
    /// Opening AF_XDP or loading the program needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
    NoPrivilege,
    /// The kernel or the device has no AF_XDP.
    NoAfXdp,
    /// Another process holds the interface's queues.
    QueueBusy,
    /// Another XDP program is attached to the interface.
    ForeignProgram,
    /// No memory for frames or maps.
    NoMemory,
    /// The device failed to open for another reason.
    DeviceFailed,
    /// The engine's tables are full.
    EngineFull,
    /// The socket came into this process by fork.
    Inherited,
    /// The call or option has no accelerated form; the socket went back to the kernel before it was used.
    Unsupported,
    /// A panic fenced the library off; see the log.
    Fenced,
}

impl Why {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Why; 18] = [
        Why::NotOurs,
        Why::Disabled,
        Why::Rule,
        Why::LocalAddress,
        Why::GroupAddress,
        Why::NoRoute,
        Why::InterfaceNotChosen,
        Why::NoInterface,
        Why::NoPrivilege,
        Why::NoAfXdp,
        Why::QueueBusy,
        Why::ForeignProgram,
        Why::NoMemory,
        Why::DeviceFailed,
        Why::EngineFull,
        Why::Inherited,
        Why::Unsupported,
        Why::Fenced,
    ];

    /// Whether it is the normal course of things (told at debug) rather than a loss that the user should hear of
    /// (one warning).
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
        )
    }

    /// For the log and the monitor.
    pub fn text(self) -> &'static str {
        match self {
            Why::NotOurs => "not a socket of ours",
            Why::Disabled => "acceleration is switched off",
            Why::Rule => "a rule of the configuration file says os",
            Why::LocalAddress => "loopback or an address of this host",
            Why::GroupAddress => "a broadcast or multicast address",
            Why::NoRoute => "no route to the destination",
            Why::InterfaceNotChosen => {
                "the route's interface is not chosen for acceleration (SIDESTEP_INTERFACES)"
            }
            Why::NoInterface => "no interface is chosen for acceleration (SIDESTEP_INTERFACES)",
            Why::NoPrivilege => "missing privilege: AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
            Why::NoAfXdp => "no AF_XDP on this kernel or device",
            Why::QueueBusy => "another process holds the interface's queues",
            Why::ForeignProgram => "another XDP program is attached to the interface",
            Why::NoMemory => "no memory for packet frames",
            Why::DeviceFailed => "the AF_XDP device could not be opened",
            Why::EngineFull => "the engine's tables are full",
            Why::Inherited => "inherited over fork",
            Why::Unsupported => "no accelerated form of what the program asked",
            Why::Fenced => "fenced off after an internal error",
        }
    }
}
