//! What is on its way: send times of messages that want an answer, in a ring of constant size.
//!
//! The sending thread writes a slot before it sends; the receiving thread reads it when the answer is there. The
//! network between the two orders them; the release and acquire on `seq` make that order hold for the compiler.
//! An answer that comes after its slot was reused is unknown, and its message stays counted as lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// One message that wants an answer.
#[derive(Default)]
struct Slot {
    seq: AtomicU64,
    tx: AtomicU64,
    intended: AtomicU64,
    /// One bit for each server that answered.
    answered: AtomicU64,
}

/// The ring.
pub struct Ledger {
    slots: Box<[Slot]>,
    mask: u64,
    every: u64,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first from this server.
    First {
        /// When the message was sent.
        tx: u64,
        /// When the schedule wanted it sent.
        intended: u64,
    },
    /// This server answered before.
    Duplicate,
    /// No such message is known.
    Unknown,
}

impl Ledger {
    /// Room for at least `capacity` messages, of which every `every`th wants an answer.
    pub fn new(capacity: usize, every: u64) -> Ledger {
        let size = capacity.next_power_of_two();
        Ledger { slots: (0..size).map(|_| Slot::default()).collect(), mask: size as u64 - 1, every }
    }

    #[inline]
    fn slot(&self, seq: u64) -> &Slot {
        let index = if self.every == 1 { seq } else { seq / self.every };
        &self.slots[(index & self.mask) as usize]
    }

    /// Message `seq` is about to be sent.
    #[inline]
    pub fn sent(&self, seq: u64, tx: u64, intended: u64) {
        let slot = self.slot(seq);
        slot.seq.store(0, Ordering::Relaxed);
        slot.tx.store(tx, Ordering::Relaxed);
        slot.intended.store(intended, Ordering::Relaxed);
        slot.answered.store(0, Ordering::Relaxed);
        slot.seq.store(seq, Ordering::Release);
    }

    /// Message `seq` was not sent after all.
    pub fn withdrawn(&self, seq: u64) {
        self.slot(seq).seq.store(0, Ordering::Release);
    }

    /// An answer to `seq` came from server number `server` (below 64).
    #[inline]
    pub fn answer(&self, seq: u64, server: usize) -> Answer {
        let slot = self.slot(seq);
        if seq == 0 || slot.seq.load(Ordering::Acquire) != seq {
            return Answer::Unknown;
        }
        let answered = slot.answered.load(Ordering::Relaxed);
        let bit = 1 << (server & 63);
        if answered & bit != 0 {
            return Answer::Duplicate;
        }
        slot.answered.store(answered | bit, Ordering::Relaxed);
        Answer::First { tx: slot.tx.load(Ordering::Relaxed), intended: slot.intended.load(Ordering::Relaxed) }
    }

    /// Messages still in the ring that `server` has not answered: send time and scheduled time of each.
    pub fn unanswered(&self, server: usize) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.slots.iter().filter_map(move |slot| {
            let seq = slot.seq.load(Ordering::Acquire);
            let open = seq != 0 && slot.answered.load(Ordering::Relaxed) & (1 << (server & 63)) == 0;
            open.then(|| (seq, slot.tx.load(Ordering::Relaxed), slot.intended.load(Ordering::Relaxed)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_first_once_for_each_server() {
        let ledger = Ledger::new(8, 1);
        ledger.sent(5, 100, 90);
        assert_eq!(ledger.answer(5, 0), Answer::First { tx: 100, intended: 90 });
        assert_eq!(ledger.answer(5, 0), Answer::Duplicate);
        assert_eq!(ledger.answer(5, 1), Answer::First { tx: 100, intended: 90 });
    }

    #[test]
    fn answers_to_messages_never_sent_or_forgotten_are_unknown() {
        let ledger = Ledger::new(8, 1);
        assert_eq!(ledger.answer(0, 0), Answer::Unknown);
        assert_eq!(ledger.answer(u64::MAX, 0), Answer::Unknown);
        ledger.sent(1, 1, 1);
        ledger.sent(9, 2, 2);
        assert_eq!(ledger.answer(1, 0), Answer::Unknown);
        ledger.withdrawn(9);
        assert_eq!(ledger.answer(9, 0), Answer::Unknown);
    }

    #[test]
    fn unanswered_messages_are_listed_with_their_times() {
        let ledger = Ledger::new(8, 100);
        ledger.sent(100, 1, 1);
        ledger.sent(200, 2, 3);
        ledger.answer(100, 0);
        assert_eq!(ledger.unanswered(0).collect::<Vec<_>>(), [(200, 2, 3)]);
    }
}
