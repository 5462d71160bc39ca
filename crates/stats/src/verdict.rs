//! What carries a socket, and the judge's reason for it: counted, logged and shown.

/// What carries a socket's bytes, as [`crate::Socket::carrier`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Carrier {
    /// Not decided: a socket that is neither bound nor connected.
    None,
    /// The kernel.
    Kernel,
    /// An engine, by AF_XDP.
    Wire,
    /// A segment that both ends share, inside the host.
    Memory,
}

impl Carrier {
    /// All, in the order of their numbers.
    pub const ALL: &[Carrier] = &[Carrier::None, Carrier::Kernel, Carrier::Wire, Carrier::Memory];

    /// The name, as it is shown; `None` where nothing carries it yet.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Carrier::None => None,
            Carrier::Kernel => Some("kernel"),
            Carrier::Wire => Some("wire"),
            Carrier::Memory => Some("memory"),
        }
    }

    /// The carrier of this number.
    pub fn from_number(number: u64) -> Carrier {
        usize::try_from(number).ok().and_then(|at| Carrier::ALL.get(at)).copied().unwrap_or(Carrier::None)
    }
}

/// One row per verdict: name, and the words.
macro_rules! verdicts {
    ($($(#[$doc:meta])* $name:ident $text:literal)+) => {
        /// Why a socket is on its carrier, beyond the reasons that any socket has to be left to the kernel
        /// ([`crate::Why`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Verdict { $($(#[$doc])* $name),+ }

        impl Verdict {
            /// All, in the order of their numbers.
            pub const ALL: &[Verdict] = &[$(Verdict::$name),+];

            /// The name, as in the source and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Verdict::$name => stringify!($name)),+ }
            }

            /// What was found.
            pub const fn text(self) -> &'static str {
                match self { $(Verdict::$name => $text),+ }
            }
        }
    };
}

verdicts! {
    /// Neither bound nor connected.
    Undecided "not decided yet (neither bound nor connected)"
    /// Its first carrier was an engine.
    AtOnce "on the wire from its beginning"
    /// The other end is a process of this host, and has met this one.
    MetPeer "its peer is on this host, and has met it in memory"
    /// The two ends share no segment any more.
    PartedFromPeer "went back from memory, for what only the kernel can do"
    /// The judge of memory (`docs/design/memory.md`).
    EachCallRings "both its ends sleep for each message, which loopback does for less than memory"
    /// Its calls are too few, or the peer has not come yet.
    LooksForPeer "its peer may come to meet it in memory; they have not met yet"
    /// The meeting place was taken away again.
    NobodyCame "its peer does not come to meet it in memory: it has no library of ours, or says little"
    /// No segment reaches there.
    PeerElsewhere "its peer is not on this host"
    /// Memory between threads is their own already.
    PeerIsSelf "both its ends are this process's"
    /// SO_PEERCRED.
    PeerOfOtherUser "its peer is another user's process"
    /// [`Verdict::MetPeer`] was near.
    PeerHungUp "its peer gave up the meeting, or has ended"
    /// Something else than the protocol.
    PeerMistaken "its peer spoke nonsense at the meeting, or showed a segment that is none"
    /// Four names that are others.
    PeerIsStranger "who came to meet it has another connection, or it ends"
    /// memfd_create, mmap, or too many descriptors.
    NoSegment "no memory or descriptor for a segment"
    /// Exchanges with little data: they gain on the wire.
    SmallCalls "little data a call"
    /// The extra API was used on it.
    Demanded "the program asked for what only the wire has"
    /// SIDESTEP_MOVE_EVERY.
    Shaken "it moves every so many calls (SIDESTEP_MOVE_EVERY)"
    /// It comes back to the lane of the threads that use it (VMA_RING_MIGRATION_RATIO_RX).
    OtherThread "on its way to the lane of the thread that uses it"
    /// Bulk on the wire that found no way back.
    BulkStays "bulk, and the kernel does not take it back"
    /// It began in the kernel, and its calls are too few to judge by.
    TooFewCalls "it has not shown yet that it gains on the wire"
    /// Neither little nor much a call.
    Between "neither little data a call nor bulk"
    /// What the judge says of many large calls.
    Bulk "bulk, which the kernel carries for less where the device copies"
    /// The trial said so (threads/trial.rs).
    Threads "its process has several threads, or shares its processor, and gets more done by the kernel, which was tried"
    /// The same, before that was tried.
    Untried "its process has several threads, or shares its processor: the kernel's until it is tried which serves it better"
    /// The interface is opened beside the program.
    Opening "until its interface is open"
    /// Its connections move, it does not.
    Listener "a listener, whose queue is the kernel's; its connections may move"
    /// SIDESTEP_CARRIER=kernel.
    ByParameter "SIDESTEP_CARRIER=kernel"
    /// Several processes may use it.
    OthersHaveIt "another process may have it, too"
    /// sendfile, splice, shutdown, control messages, MSG_WAITALL and their like.
    CallOfTheKernel "a call went to the kernel that it carries out whole"
    /// A socket option.
    OptionOfTheKernel "an option is set that only the kernel can do"
    /// Another thread.
    InCall "another thread is in a call"
    /// The urgent mark.
    Urgent "urgent data is to be read"
    /// The queue changed between two looks.
    Changing "what it sends changes"
    /// An errno of TCP_REPAIR.
    NotTold "the kernel did not tell all of it"
    /// No room in the XDP program's map.
    SteeringFull "the steering map is full"
    /// No room in the engine.
    EngineFull "the engine has no room for it"
    /// A state other than ESTABLISHED and CLOSE-WAIT.
    NotEstablished "it is not established, or it ends"
    /// TCP_USEC_TS.
    MicrosecondClock "its timestamps count microseconds"
    /// SO_PEEK_OFF.
    PeekOffset "SO_PEEK_OFF is set"
    /// A classic or eBPF socket filter.
    Filtered "a filter is attached to it"
    /// IPv6.
    NotIpv4 "it is not a connection over IPv4"
    /// A UDP socket that is not bound.
    NoPort "it has no port yet"
    /// A UDP socket whose datagrams come from here.
    PeerOnHost "its peer is on this host"
}

impl Verdict {
    /// How many there are.
    pub const COUNT: usize = Verdict::ALL.len();

    /// The verdict of this number.
    pub fn from_number(number: u64) -> Option<Verdict> {
        usize::try_from(number).ok().and_then(|number| Verdict::ALL.get(number)).copied()
    }
}
