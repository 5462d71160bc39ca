//! What can be planted in the engine. The simulator must notice each (`crates/sim/tests/mutations.rs`).

pub(crate) use planted::planted;

planted::faults! {
    /// A connection that moves leaves behind what was not sent yet.
    MoveLosesUnsent,
    /// A connection that moves takes the peer's FIN for a byte that is still to come.
    MoveForgetsFin,
    /// A connection that moves forgets the window that it promised.
    MoveShrinksWindow,
    /// Segments with old timestamps are taken (RFC 7323, 5).
    SkipPaws,
    /// The peer's window is scaled by one bit too much.
    WindowScaledTwice,
    /// The peer's window is counted from what was sent, not from what was acknowledged.
    WindowFromNext,
    /// An ACK that acknowledges nothing new does not open the window.
    WindowUpdateIgnored,
    /// The window's right edge moves back when the application is slow.
    WindowShrinks,
    /// A window that its unit cannot say is told as more, however full the buffer is.
    WindowGrowsByRounding,
    /// Round trips are measured by segments that were sent twice (Karn).
    NoKarn,
    /// The timeout does not double.
    NoBackoff,
    /// Any acknowledgment ends the doubling of the timeout, and what was sent again is never measured.
    NoLongerPath,
    /// SACK blocks end one byte too late.
    SackTooLong,
    /// The window grows to what it likes at the beginning.
    NoCongestionWindow,
    /// The retransmission timer is not set after sending.
    NoRetransmissionTimer,
    /// The delayed ACK's timer is not set.
    NoDelayedAckTimer,
    /// Nobody asks whether a closed window opened.
    NoPersistTimer,
    /// A lost SYN is not sent again.
    NoSynTimer,
    /// TIME-WAIT never ends.
    NoTimeWaitTimer,
    /// Half-open connections never end.
    NoHalfOpenTimer,
    /// Incomplete datagrams are kept for ever.
    NoReassemblyTimer,
    /// Any RST in the window resets (RFC 5961, 3).
    RstInWindow,
    /// A SYN in the window resets (RFC 5961, 4).
    SynInWindow,
    /// ACKs of what was never sent are taken.
    AckOfUnsent,
    /// Data with an ancient ACK is taken (RFC 5961, 5).
    AncientAck,
    /// Any ACK is the proof of a SYN cookie.
    AnyCookie,
    /// Bytes that overlap what arrived before are taken from the wrong place.
    OverlapShifted,
    /// A FIN goes out before all data did.
    EarlyFin,
    /// What is sent again begins one byte too late.
    ResendShifted,
    /// A frame that was read is not given back to the budget.
    BudgetLeak,
    /// The application is not told of room to write.
    NoRoomEvent,
    /// The application is not told of data when a hole before it was filled.
    NoDataEvent,
    /// ICMP's "fragmentation needed" is not heeded.
    NoPathMtu,
    /// Checksums are not looked at.
    NoChecksum,
    /// An acknowledgment of our FIN in FIN-WAIT-1 is overlooked.
    FinAckLost,
    /// A datagram is said to come from where it went.
    SenderMistaken,
    /// A datagram goes to whom the socket sent the one before.
    Misaddressed,
    /// FINs that cross lead to TIME-WAIT before ours is acknowledged.
    NoClosing,
}
