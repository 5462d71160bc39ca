//! The order in which this layer takes its locks: one table, which debug builds assert (`sys::Mutex::ranked`).
//!
//! Whoever waits for a lock holds none of those at or behind its own row. The locks of other crates (the keeper's
//! client, a device's) are taken last, and nothing of ours under them.

/// A row of the table, outermost first.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Rank {
    /// The runtime begins.
    Starting = 1,
    /// What a process and its relatives have together (family/).
    Family,
    /// In a child: claims that are not answered yet.
    Claims,
    /// In a child: where claims go.
    Parents,
    /// What became of each interface; held while one is opened.
    Links,
    /// Where packets go.
    Routes,
    /// What the parent left of its devices.
    Inherited,
    /// In a child: what an epoll set held at the fork.
    Held,
    /// An item of an epoll set takes another form: before what the form depends on.
    Settling,
    /// A connection in memory, as a lane for those on the wire.
    Room,
    /// What is owed to peers by connections that are closed.
    Debts,
    /// Who captures a lane.
    Capture,
    /// A lane. Who takes several takes them in the order of their slots.
    Lane,
    /// What control calls know of a socket.
    Control,
    /// Who waits for a socket.
    Watch,
    /// Epoll sets in epoll sets.
    Relations,
    /// What is in an epoll set.
    Items,
    /// The private part of an epoll set.
    Side,
    /// Whose bells rang.
    Bells,
    /// Those whose peers are to ring.
    Asleep,
    /// Groups of all sockets.
    Members,
    /// Rules of the configuration file.
    Rules,
    /// IPsec policies.
    Policies,
    /// Questions to the kernel.
    Netlink,
    /// Neighbours that somebody else is to look for.
    Unasked,
    /// Somebody looks for what is not seen here.
    Unseen,
    /// A trial of carriers.
    Trial,
    /// Objects for sockets to come.
    Objects,
    /// Epoll sets to come.
    Sets,
    /// Shadows to come.
    Spares,
    /// What sleepers sleep on.
    Gate,
    /// What the extra API was told.
    Extra,
    /// The worker, while it rests.
    Parked,
    /// The statistics are made.
    Segment,
    /// Sockets that were left to the kernel, for the statistics.
    Left,
}

impl Rank {
    /// A lock of this rank.
    pub(crate) const fn lock<T>(self, value: T) -> sys::Mutex<T> {
        sys::Mutex::ranked(self as u8, value)
    }
}
