//! Explicit congestion notification as the wire shows it (RFC 3168, 6.1): see the module `tcp`.

use super::tcp::Stream;
use crate::packet::{ACK, CWR, ECE, Packet, SYN, Tcp};

/// What one side of a connection said and learned of it.
#[derive(Default)]
pub struct Marks {
    /// A SYN of it asked, or its SYN-ACK agreed.
    spoken: bool,
    /// A mark was delivered to it.
    met: bool,
    /// Where data with a mark ended that was delivered in order, and no CWR since: what acknowledges it must say ECE.
    owed: Option<u64>,
}

impl Marks {
    /// Nobody remembers what was to be said.
    pub fn forget(&mut self) {
        self.owed = None;
    }
}

/// Checks what a segment says, which begins at `begin` of the stream.
pub fn check(
    mine: &mut Stream,
    theirs: &Stream,
    packet: &Packet<'_>,
    t: &Tcp<'_>,
    begin: u64,
) -> Result<(), String> {
    let ect = packet.tos & 3;
    if t.has(SYN) {
        let asks = if t.has(ACK) { t.has(ECE) && !t.has(CWR) } else { t.has(ECE) && t.has(CWR) };
        mine.marks.spoken |= asks;
        return if ect == 0 { Ok(()) } else { Err("a SYN that is ECN-capable".to_string()) };
    }
    if theirs.is_forgotten(t) {
        return Ok(());
    }
    let agreed = mine.marks.spoken && theirs.marks.spoken;
    if (ect != 0 || t.has(ECE) || t.has(CWR)) && !agreed {
        return Err("ECN that was not agreed on".to_string());
    }
    if ect == 3 || ect != 0 && (t.payload.is_empty() || begin < mine.sent_end) {
        return Err("ECN-capable, and not new data".to_string());
    }
    if t.has(CWR) && t.payload.is_empty() {
        return Err("CWR without data".to_string());
    }
    if t.has(ECE) && !mine.marks.met {
        return Err("ECE, and no mark was delivered".to_string());
    }
    // What is over (TIME-WAIT) repeats its acknowledgment without it.
    let ack = theirs.position(t.ack).unwrap_or(0);
    let over = theirs.fin_at.is_some_and(|fin| ack > fin);
    if !t.has(ECE) && !over && mine.marks.owed.is_some_and(|end| ack >= end) {
        return Err("a mark was delivered, no CWR since, and it does not say ECE".to_string());
    }
    Ok(())
}

/// A segment of `from`, which begins at `begin`, is about to enter the stack of `to`. `next`: where it ends, if nothing
/// of it was delivered before and nothing is missing.
pub fn on_delivered(
    from: &Stream,
    to: &mut Stream,
    packet: &Packet<'_>,
    t: &Tcp<'_>,
    begin: u64,
    next: Option<u64>,
) {
    if t.has(CWR) && !t.has(SYN) {
        to.marks.owed = None;
    }
    // A listener whose queue is full drops what comes: the copy, which has no mark, is then the first that is seen.
    let came_before = to.marks.owed.is_some_and(|end| begin < end && begin >= from.acked);
    if came_before && packet.tos & 3 != 3 && !t.payload.is_empty() {
        to.marks.owed = None;
    }
    if packet.tos & 3 == 3 && from.marks.spoken && to.marks.spoken {
        to.marks.met = true;
        if let (Some(end), false) = (next, t.payload.is_empty()) {
            to.marks.owed.get_or_insert(end);
        }
    }
}
