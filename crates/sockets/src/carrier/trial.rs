//! A trial: by which carrier the threads of a process get more done. Windows of the one and of the other follow each
//! other, and what connections carried in each is compared. Pure: time and work in, whose window it is out
//! (`threads.rs` measures, and `judge.rs` moves connections).
//!
//! A window begins with a time that is not counted, in which connections move, each at its next call. Two windows of a
//! side are the least that is judged by, as one of a few milliseconds may be somebody else's. A process that does
//! little has nothing to compare: what its connections carry is judged one by one, as ever.

/// Who carries the connections of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Kernel,
    Wire,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Kernel => Side::Wire,
            Side::Wire => Side::Kernel,
        }
    }
}

/// What a window is not counted for while connections move, nanoseconds.
const SETTLE_NS: u64 = 3_000_000;
/// What is counted, nanoseconds: some hundred exchanges of a busy process.
const WINDOW_NS: u64 = 12_000_000;
/// A window that ends so late had no calls for a while, and is not worth comparing. Nanoseconds.
const LATE_NS: u64 = 8_000_000;
/// Calls of a window, at the least: below, they are too few to compare.
const CALLS_LEAST: u32 = 24;
/// Windows of a trial that are not worth comparing, before it is given up.
const VOID_MOST: u32 = 4;
/// Windows of each side.
const PAIRS_LEAST: u32 = 2;
const PAIRS_MOST: u32 = 5;
/// In percent of the other's work: a side that is so far ahead in each pair has won.
const CLEAR: u64 = 115;
/// In percent: without an earlier trial the kernel is ahead by so much, or it is the wire's, as without any: where both
/// carry all that there is to carry, the wire answers sooner.
const DRAW: u64 = 105;
/// In percent: who carries by an earlier trial is behind by so much, or stays.
const AHEAD: u64 = 110;
/// Between two trials, nanoseconds: twice as long each time.
const REST_NS: u64 = 4_000_000_000;
const REST_MOST_NS: u64 = 512_000_000_000;

/// What was carried in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub calls: u32,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Settling,
    Counting,
    Resting,
}

/// See the module's page.
pub(super) struct Trial {
    side: Side,
    phase: Phase,
    /// When the phase began, and when it ends.
    began: u64,
    until: u64,
    rest: u64,
    /// By an earlier trial.
    winner: Option<Side>,
    /// Bytes a second, of the first window of a pair.
    first: Option<u64>,
    /// Of all pairs, by side.
    sums: [u64; 2],
    pairs: u32,
    /// Windows that were not worth comparing.
    void: u32,
    /// Pairs in which this side was far ahead.
    clear: [u32; 2],
}

impl Default for Trial {
    fn default() -> Trial {
        Trial::new()
    }
}

impl Trial {
    pub(super) const fn new() -> Trial {
        Trial {
            side: Side::Kernel,
            phase: Phase::Resting,
            began: 0,
            until: u64::MAX,
            rest: REST_NS,
            winner: None,
            first: None,
            sums: [0; 2],
            pairs: 0,
            void: 0,
            clear: [0; 2],
        }
    }

    /// Who carries, until [`Trial::until`].
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// When it goes on.
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// What is carried now is compared.
    pub(super) fn is_counting(&self) -> bool {
        self.phase == Phase::Counting
    }

    /// Bytes a second, of the kernel's windows and of the wire's, all together.
    pub(super) fn sums(&self) -> [u64; 2] {
        self.sums
    }

    /// Windows of each side that were compared.
    pub(super) fn pairs(&self) -> u32 {
        self.pairs
    }

    /// It is over, for now.
    pub(super) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    /// A trial begins, with the side that carries at the moment.
    pub(super) fn begin(&mut self, side: Side, now: u64) {
        (self.first, self.sums, self.clear) = (None, [0; 2], [0; 2]);
        (self.pairs, self.void) = (0, 0);
        self.enter(side, Phase::Settling, now, SETTLE_NS);
    }

    fn enter(&mut self, side: Side, phase: Phase, now: u64, length: u64) {
        (self.side, self.phase, self.began, self.until) = (side, phase, now, now.saturating_add(length));
    }

    /// The time has come; `work`: what was carried since it was counted.
    pub(super) fn go_on(&mut self, now: u64, work: Work) {
        if now < self.until {
            return;
        }
        match self.phase {
            Phase::Resting => self.begin(self.side, now),
            Phase::Settling => self.enter(self.side, Phase::Counting, now, WINDOW_NS),
            Phase::Counting => self.counted(now, work),
        }
    }

    fn counted(&mut self, now: u64, work: Work) {
        if now - self.until > LATE_NS || work.calls < CALLS_LEAST {
            self.void += 1;
            return match self.void {
                // Nothing to compare: as before, or as without a trial.
                VOID_MOST.. => self.end(self.winner.unwrap_or(Side::Wire), now),
                _ => self.enter(self.side, Phase::Settling, now, SETTLE_NS),
            };
        }
        let rate = work.bytes.saturating_mul(1_000_000) / ((now - self.began) / 1000).max(1);
        self.sums[self.side as usize] += rate;
        let Some(first) = self.first.take() else {
            self.first = Some(rate);
            return self.enter(self.side.other(), Phase::Settling, now, SETTLE_NS);
        };
        self.pairs += 1;
        for (side, mine, others) in [(self.side, rate, first), (self.side.other(), first, rate)] {
            self.clear[side as usize] += u32::from(is_ahead(mine, others, CLEAR));
        }
        match self.outcome() {
            Some(winner) => self.end(winner, now),
            // Next the side that had the second window: fewer moves.
            None => self.enter(self.side, Phase::Settling, now, SETTLE_NS),
        }
    }

    fn outcome(&self) -> Option<Side> {
        let [kernel, wire] = self.sums;
        let winner = match self.winner {
            Some(Side::Kernel) if !is_ahead(wire, kernel, AHEAD) => Side::Kernel,
            Some(Side::Wire) if !is_ahead(kernel, wire, AHEAD) => Side::Wire,
            None if is_ahead(kernel, wire, DRAW) => Side::Kernel,
            _ => self.winner.map_or(Side::Wire, Side::other),
        };
        let is_clear = self.pairs >= PAIRS_LEAST && self.clear[winner as usize] == self.pairs;
        (is_clear || self.pairs >= PAIRS_MOST).then_some(winner)
    }

    fn end(&mut self, winner: Side, now: u64) {
        self.winner = Some(winner);
        self.enter(winner, Phase::Resting, now, self.rest);
        self.rest = (self.rest * 2).min(REST_MOST_NS);
    }
}

/// Whether `mine` is so many percent of `others` at least.
fn is_ahead(mine: u64, others: u64, percent: u64) -> bool {
    mine.saturating_mul(100) >= others.saturating_mul(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a process that gets so much done by each side, in bytes a second, until the trial rests.
    struct Process {
        trial: Trial,
        now: u64,
        windows: u32,
    }

    impl Process {
        fn begin(side: Side) -> Process {
            let (mut trial, now) = (Trial::new(), 1_000_000_000);
            trial.begin(side, now);
            Process { trial, now, windows: 0 }
        }

        /// `rate` by side and number of the window.
        fn play(&mut self, rate: impl Fn(Side, u32) -> u64) -> Side {
            loop {
                // The next call comes a little later.
                let began = self.now;
                self.now = self.trial.until() + 50_000;
                let bytes = rate(self.trial.side(), self.windows) * (self.now - began) / 1_000_000_000;
                let was_counting = self.trial.is_counting();
                self.windows += u32::from(was_counting);
                self.trial.go_on(self.now, Work { calls: (bytes / 100) as u32, bytes });
                if self.trial.is_resting() {
                    return self.trial.side();
                }
            }
        }

        fn rests_for(&self) -> u64 {
            self.trial.until() - self.now
        }
    }

    const BUSY: u64 = 4_000_000;

    fn at(kernel: u64, wire: u64) -> impl Fn(Side, u32) -> u64 {
        move |side, _| if side == Side::Kernel { kernel } else { wire }
    }

    #[test]
    fn a_clear_winner_needs_two_windows_of_each_side() {
        for begins in [Side::Kernel, Side::Wire] {
            let mut process = Process::begin(begins);
            assert_eq!(process.play(at(BUSY, BUSY / 2)), Side::Kernel);
            assert_eq!(process.windows, 2 * PAIRS_LEAST);
            let mut process = Process::begin(begins);
            assert_eq!(process.play(at(BUSY, BUSY * 2)), Side::Wire);
            assert_eq!(process.windows, 2 * PAIRS_LEAST);
        }
    }

    #[test]
    fn a_narrow_winner_needs_all_windows_and_one_stall_does_not_decide() {
        let mut process = Process::begin(Side::Kernel);
        assert_eq!(process.play(at(BUSY, BUSY * 9 / 10)), Side::Kernel);
        assert_eq!(process.windows, 2 * PAIRS_MOST);
        assert_eq!(Process::begin(Side::Kernel).play(at(BUSY, BUSY * 97 / 100)), Side::Wire, "a draw");
        let stalled = |side, window| match (side, window) {
            (Side::Kernel, 0) => BUSY / 3,
            (Side::Kernel, _) => BUSY,
            (Side::Wire, _) => BUSY / 2,
        };
        assert_eq!(Process::begin(Side::Kernel).play(stalled), Side::Kernel);
    }

    #[test]
    fn a_process_that_grows_faster_while_it_is_tried_favours_neither_side() {
        let growing = |side, window| {
            let rate = BUSY + u64::from(window) * BUSY / 4;
            if side == Side::Kernel { rate } else { rate * 9 / 10 }
        };
        for begins in [Side::Kernel, Side::Wire] {
            assert_eq!(Process::begin(begins).play(growing), Side::Kernel);
        }
    }

    #[test]
    fn trials_come_half_as_often_each_time_and_a_draw_changes_nothing() {
        let mut process = Process::begin(Side::Kernel);
        assert_eq!(process.play(at(BUSY, BUSY / 2)), Side::Kernel);
        assert_eq!(process.rests_for(), REST_NS);
        // Both are alike by now, and the wire a little better.
        assert_eq!(process.play(at(BUSY, BUSY * 106 / 100)), Side::Kernel);
        assert_eq!(process.rests_for(), 2 * REST_NS);
        assert_eq!(process.play(at(BUSY, BUSY * 3 / 2)), Side::Wire);
        assert_eq!(process.play(at(BUSY, BUSY * 97 / 100)), Side::Wire);
        for _ in 0..20 {
            process.play(at(BUSY, BUSY));
        }
        assert_eq!(process.rests_for(), REST_MOST_NS);
    }

    #[test]
    fn a_process_that_does_little_is_left_as_it_was() {
        let mut process = Process::begin(Side::Kernel);
        assert_eq!(process.play(at(50_000, 50_000)), Side::Wire, "as without a trial");
        assert_eq!(process.windows, VOID_MOST);
        let mut process = Process::begin(Side::Kernel);
        assert_eq!(process.play(at(BUSY, BUSY / 2)), Side::Kernel);
        assert_eq!(process.play(at(50_000, 50_000)), Side::Kernel, "as the trial before had it");
    }

    #[test]
    fn a_window_that_nobody_ended_is_not_compared() {
        let mut trial = Trial::new();
        trial.begin(Side::Kernel, 0);
        trial.go_on(SETTLE_NS, Work::default());
        assert!(trial.is_counting());
        trial.go_on(trial.until() + LATE_NS + 1, Work { calls: 10_000, bytes: 1 << 20 });
        assert!(!trial.is_counting() && trial.side() == Side::Kernel, "it is begun anew");
    }
}
