//! What a turn (`turn/`) remembers of a lane: when sends share a hand-over, and how frames are taken in.

use config::Parameters;

/// Of the sockets that a wait reported, so large a part shares a hand-over: the peers' next requests come while the
/// others are served, so that neither side waits for the other.
const ROUND_PART: u32 = 4;

/// What a round may take for each socket, from wait to wait, nanoseconds, if the next one is to gather.
const ROUND_QUICK_NS: u64 = 20_000;

/// When sends share a hand-over.
pub(crate) struct Gather {
    /// How long sends may gather, nanoseconds; 0: never.
    pub span: u64,
    /// When frames were handed over last.
    pub kicked: u64,
    /// Sends since the last turn.
    pub sends: u32,
    /// Frames that share a hand-over until the next wait; 0: no round is on.
    pub round: u32,
    /// When the last wait reported sockets, and how many; whether what followed the one before was quick.
    pub round_began: u64,
    pub round_of: u32,
    pub round_was_quick: bool,
}

impl Gather {
    /// By SIDESTEP_TX_COALESCE_USEC.
    pub(crate) fn new(parameters: &Parameters) -> Gather {
        Gather {
            span: u64::from(parameters.tx_coalesce_usec) * 1000,
            kicked: 0,
            sends: 0,
            round: 0,
            round_began: 0,
            round_of: 0,
            round_was_quick: false,
        }
    }

    /// A wait reported `count` sockets of the lane.
    pub(crate) fn begin_round(&mut self, count: u32, now: u64) {
        (self.round_began, self.round_of) = (now, count);
        self.round = if self.round_was_quick && self.span > 0 { count / ROUND_PART } else { 0 };
    }

    /// The application waits again, or does what ends a round anyway.
    #[inline]
    pub(crate) fn end_round(&mut self, now: u64) {
        if self.round_began != 0 {
            let spent = now.saturating_sub(self.round_began);
            self.round_was_quick = spent <= u64::from(self.round_of) * ROUND_QUICK_NS;
            (self.round_began, self.round) = (0, 0);
        }
    }

    /// How a send at `now` should treat a partial segment.
    #[inline]
    pub(crate) fn is_open(&self, now: u64) -> bool {
        self.sends >= 1 && now.wrapping_sub(self.kicked) < self.span
    }
}

/// How frames are taken in.
pub(crate) struct Intake {
    /// Packets that one turn takes at the most, so that a flood cannot hold the lock for ever (VMA_CQ_POLL_BATCH_MAX).
    pub batch: usize,
    /// See [`Inner::drain`]; 0: never.
    pub drain_rate: u64,
    pub drained_at: u64,
    /// Interrupts that were asked for when frames came last.
    pub interrupts_asked: u64,
}

impl Intake {
    pub(crate) fn new(parameters: &Parameters) -> Intake {
        Intake {
            batch: parameters.cq_poll_batch_max as usize,
            drain_rate: u64::from(parameters.rx_cq_drain_rate_nsec),
            drained_at: 0,
            interrupts_asked: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_a_hand_over_after_a_quick_round_only() {
        let mut gather = Gather::new(&Parameters::default());
        let mut round = |began: u64, took: u64| {
            gather.begin_round(16, began);
            let frames = gather.round;
            gather.end_round(began + took);
            assert_eq!(gather.round, 0, "the wait ends it");
            frames
        };
        assert_eq!(round(1_000, 50_000), 0, "nothing is known yet");
        assert_eq!(round(100_000, 16 * ROUND_QUICK_NS + 1), 16 / ROUND_PART);
        assert_eq!(round(900_000, 1_000), 0, "the last one was slow");
        assert_eq!(round(901_000, 1_000), 16 / ROUND_PART);
    }

    #[test]
    fn without_coalescing_there_are_no_rounds() {
        let mut gather = Gather::new(&Parameters { tx_coalesce_usec: 0, ..Parameters::default() });
        gather.begin_round(16, 1);
        gather.end_round(2);
        gather.begin_round(16, 3);
        assert_eq!(gather.round, 0);
    }
}
