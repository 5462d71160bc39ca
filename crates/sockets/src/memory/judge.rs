//! Which connections are better carried by the kernel.
//!
//! What memory saves is the system calls that move bytes; what it adds is the ring that wakes a sleeper, a system call
//! of who rings and another one of who hears. Where both ends sleep for each message, and have nothing else to do
//! meanwhile, a call costs a ring each time, and the kernel's loopback does both with one. Measured
//! (`docs/design/memory.md`): from 0.9 rings for a call on, sent and heard together, loopback has more done. Where many
//! threads take turns on one processor, each yield and each sleep costs a turn: there far fewer rings are too many, for
//! what nobody asked for.
//!
//! Each side judges by itself, and its direction parts when the peer has read everything; the peer follows. It is for
//! good, so that nobody goes to and fro.

use crate::object::room::{Inner, Way};
use crate::spin::sharing;
use crate::wait::in_memory::is_asked_for;
use stats::Verdict;

/// Calls that are judged together.
const WINDOW: u32 = 256;
/// Rings among so many calls, from which on the kernel carries them.
const RINGS: u32 = WINDOW * 9 / 10;
/// The same where nobody asked for memory, and the thread lends its processor so often meanwhile, or more.
const RINGS_IN_TURNS: u32 = WINDOW / 4;
const TURNS: u32 = WINDOW / 8;

impl Inner {
    /// A call has moved data. `move_every`: for tests, calls after which a connection parts; 1: it stays.
    #[inline]
    pub(super) fn judge(&mut self, move_every: u32) {
        self.served = self.served.wrapping_add(1);
        match move_every {
            0 if self.served.is_multiple_of(WINDOW) => self.judge_window(),
            2.. if self.served >= move_every => self.parts = Some(Verdict::Shaken),
            _ => {}
        }
    }

    #[cold]
    fn judge_window(&mut self) {
        let Way::Joined(joined) = &self.way else { return };
        let (rings, lent) = (joined.rings(), sharing::lent());
        let takes_turns = lent.wrapping_sub(self.lent_judged) >= TURNS;
        let most = if takes_turns && !is_asked_for() { RINGS_IN_TURNS } else { RINGS };
        if rings.wrapping_sub(self.rings_judged) >= most {
            self.parts = Some(Verdict::EachCallRings);
        }
        (self.rings_judged, self.lent_judged) = (rings, lent);
    }
}
