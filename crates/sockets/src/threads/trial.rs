//! A trial: by which carrier a process gets more done. Windows of the one and of the other follow each other, and what
//! connections carried in each is compared. Pure: time and work in, whose window it is out (`threads.rs` measures, and
//! `carrier/judge.rs` moves connections).
//!
//! The kernel is measured alone first, before anything is steered: with the program on the interface its packets pay
//! for that, and it would be found slower than it is without us. What that costs is remembered for the windows of
//! later trials.
//!
//! A window begins with a time that is not counted, in which connections move, each at its next call. Two windows of a
//! side are the least that is judged by, as one of a few milliseconds may be somebody else's. A process that does
//! little has nothing to compare: what its connections carry is judged one by one, as ever.

/// Who carries the connections of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
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
/// Between two looks whether an interface is open, nanoseconds.
const LOOK_NS: u64 = 5_000_000;
/// Calls of a window, at the least: below, they are too few to compare.
const CALLS_LEAST: u32 = 24;
/// Windows of a trial that are not worth comparing, before it is given up.
const VOID_MOST: u32 = 4;
/// Windows of the kernel alone.
const ALONE: u64 = 3;
/// Windows of each side.
const PAIRS_LEAST: u32 = 2;
const PAIRS_MOST: u32 = 5;
/// In percent of the other's work: a side that is so far ahead in each pair has won.
const CLEAR: u64 = 115;
/// In percent: without an earlier trial the kernel is ahead by so much, or it is the wire's, as without any: where both
/// carry all that there is to carry, the wire answers sooner.
const DRAW: u64 = 103;
/// In percent: who carries by an earlier trial is behind by so much, or stays.
const AHEAD: u64 = 110;
/// In percent of the kernel's rate beside the program: what it has alone, at the most. More is another load.
const ALONE_MOST: u64 = 125;
/// Before the first trial and between two, nanoseconds: twice as long each time.
const REST_NS: u64 = 4_000_000_000;
const REST_MOST_NS: u64 = 512_000_000_000;

/// What was carried in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub calls: u32,
    pub bytes: u64,
    /// The time that it took: of the clock, or of the processor. Nanoseconds.
    pub time: u64,
}

impl Work {
    /// Bytes a second.
    fn rate(self) -> u64 {
        self.bytes.saturating_mul(1_000_000) / (self.time / 1000).max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The kernel is counted before the wire is there.
    Alone,
    /// Whoever is due for the wire makes the interface open.
    Opening,
    Settling,
    Counting,
    Resting,
}

/// See the module's page.
pub(crate) struct Trial {
    side: Side,
    phase: Phase,
    /// When the phase ends.
    until: u64,
    rest: u64,
    /// By an earlier trial.
    winner: Option<Side>,
    /// What the kernel carried alone in this trial, bytes a second, of so many windows.
    alone: u64,
    alones: u64,
    /// In percent of the kernel's rate beside the program: what it has alone.
    price: u64,
    /// Bytes a second, of the first window of a pair.
    first: Option<u64>,
    /// Of all pairs, by side.
    sums: [u64; 2],
    /// Of the kernel, as counted.
    counted: u64,
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
    pub(crate) const fn new() -> Trial {
        Trial {
            side: Side::Kernel,
            phase: Phase::Resting,
            until: u64::MAX,
            rest: REST_NS,
            winner: None,
            alone: 0,
            alones: 0,
            price: 100,
            first: None,
            sums: [0; 2],
            counted: 0,
            pairs: 0,
            void: 0,
            clear: [0; 2],
        }
    }

    /// Who carries, until [`Trial::until`].
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// When it goes on.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// What is carried now is compared.
    pub(crate) fn is_counting(&self) -> bool {
        matches!(self.phase, Phase::Alone | Phase::Counting)
    }

    /// Bytes a second, of the kernel's windows and of the wire's, all together.
    pub(crate) fn sums(&self) -> [u64; 2] {
        self.sums
    }

    /// Windows of each side that were compared.
    pub(crate) fn pairs(&self) -> u32 {
        self.pairs
    }

    /// There was a winner before.
    pub(crate) fn was_won(&self) -> bool {
        self.winner.is_some()
    }

    /// It is over, for now.
    pub(crate) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    /// It goes on when an interface is open.
    pub(crate) fn is_opening(&self) -> bool {
        self.phase == Phase::Opening
    }

    /// The kernel carries until the first trial, as long as between two.
    pub(crate) fn wait(&mut self, now: u64) {
        self.enter(Side::Kernel, Phase::Resting, now, REST_NS);
    }

    /// A trial begins. `is_alone`: the program is on no interface, and the kernel carries.
    pub(crate) fn begin(&mut self, is_alone: bool, now: u64) {
        (self.first, self.sums, self.clear) = (None, [0; 2], [0; 2]);
        (self.alone, self.alones, self.counted) = (0, 0, 0);
        (self.pairs, self.void) = (0, 0);
        if is_alone {
            self.enter(Side::Kernel, Phase::Alone, now, WINDOW_NS);
        } else {
            self.enter(Side::Wire, Phase::Settling, now, SETTLE_NS);
        }
    }

    fn enter(&mut self, side: Side, phase: Phase, now: u64, length: u64) {
        (self.side, self.phase, self.until) = (side, phase, now.saturating_add(length));
    }

    /// The time has come; `work`: what was carried since it was counted. `is_open`: the program is on an interface.
    pub(crate) fn go_on(&mut self, now: u64, work: Work, is_open: bool) {
        if now < self.until {
            return;
        }
        match self.phase {
            Phase::Resting => self.begin(!is_open, now),
            Phase::Opening if !is_open => self.until = now + LOOK_NS,
            Phase::Opening => self.enter(Side::Wire, Phase::Settling, now, SETTLE_NS),
            Phase::Settling => self.enter(self.side, Phase::Counting, now, WINDOW_NS),
            Phase::Alone | Phase::Counting if self.is_void(now, work) => self.again(now),
            Phase::Alone => self.counted_alone(now, work.rate()),
            Phase::Counting => self.counted(now, work.rate()),
        }
    }

    fn is_void(&self, now: u64, work: Work) -> bool {
        now - self.until > LATE_NS || work.calls < CALLS_LEAST
    }

    /// A window that was not worth comparing is begun anew, if it is not one too many.
    fn again(&mut self, now: u64) {
        self.void += 1;
        match (self.void, self.phase) {
            // Nothing to compare: as before, or as without a trial.
            (VOID_MOST.., _) => self.end(self.winner.unwrap_or(Side::Wire), now),
            (_, Phase::Alone) => self.enter(Side::Kernel, Phase::Alone, now, WINDOW_NS),
            _ => self.enter(self.side, Phase::Settling, now, SETTLE_NS),
        }
    }

    fn counted_alone(&mut self, now: u64, rate: u64) {
        self.alone += rate;
        self.alones += 1;
        match self.alones {
            ALONE.. => self.enter(Side::Wire, Phase::Opening, now, 0),
            _ => self.enter(Side::Kernel, Phase::Alone, now, WINDOW_NS),
        }
    }

    fn counted(&mut self, now: u64, rate: u64) {
        let rate = if self.side == Side::Kernel { self.kernels(rate) } else { rate };
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

    /// What the kernel would have carried alone in a window beside the program.
    fn kernels(&mut self, rate: u64) -> u64 {
        self.counted += rate;
        (rate.saturating_mul(self.price) / 100).max(self.alone / self.alones.max(1))
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
        if self.alones > 0 && self.pairs > 0 {
            let beside = self.counted / u64::from(self.pairs);
            self.price = (self.alone / self.alones * 100 / beside.max(1)).clamp(100, ALONE_MOST);
        }
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
        /// `is_alone`: before its interface is open.
        fn begin(is_alone: bool) -> Process {
            let (mut trial, now) = (Trial::new(), 1_000_000_000);
            trial.begin(is_alone, now);
            Process { trial, now, windows: 0 }
        }

        /// `rate` by side and number of the window. The interface is open as soon as somebody looks.
        fn play(&mut self, rate: impl Fn(Side, u32) -> u64) -> Side {
            loop {
                // The next call comes a little later.
                let began = self.now;
                self.now = self.trial.until() + 50_000;
                let time = self.now - began;
                let bytes = rate(self.trial.side(), self.windows) * time / 1_000_000_000;
                self.windows += u32::from(self.trial.is_counting());
                self.trial.go_on(self.now, Work { calls: (bytes / 100) as u32, bytes, time }, true);
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
        for (is_alone, alone) in [(false, 0), (true, ALONE as u32)] {
            let mut process = Process::begin(is_alone);
            assert_eq!(process.play(at(BUSY, BUSY / 2)), Side::Kernel);
            assert_eq!(process.windows, alone + 2 * PAIRS_LEAST);
            let mut process = Process::begin(is_alone);
            assert_eq!(process.play(at(BUSY, BUSY * 2)), Side::Wire);
            assert_eq!(process.windows, alone + 2 * PAIRS_LEAST);
        }
    }

    #[test]
    fn the_kernel_is_measured_without_what_the_wire_costs_it() {
        const ALONES: u32 = ALONE as u32;
        let alone_or_beside = |side, window| match (side, window) {
            (Side::Kernel, 0..ALONES) => BUSY,
            (Side::Kernel, _) => BUSY * 9 / 10,
            (Side::Wire, _) => BUSY * 93 / 100,
        };
        let mut process = Process::begin(true);
        assert_eq!(process.play(alone_or_beside), Side::Kernel);
        assert_eq!(process.play(at(BUSY * 9 / 10, BUSY * 108 / 100)), Side::Kernel, "it is remembered");
        assert_eq!(process.play(at(BUSY * 9 / 10, BUSY * 112 / 100)), Side::Wire);
    }

    #[test]
    fn nothing_is_compared_before_an_interface_is_open() {
        let mut trial = Trial::new();
        trial.begin(true, 0);
        let work = Work { calls: 1000, bytes: 1 << 20, time: WINDOW_NS };
        for _ in 0..ALONE {
            assert!(trial.side() == Side::Kernel && trial.is_counting());
            trial.go_on(trial.until(), work, false);
        }
        for _ in 0..10 {
            assert!(trial.is_opening() && !trial.is_counting());
            assert_eq!(trial.side(), Side::Wire, "whoever is due makes it open");
            trial.go_on(trial.until(), work, false);
        }
        trial.go_on(trial.until(), work, true);
        assert!(!trial.is_opening() && !trial.is_counting() && !trial.is_resting());
    }

    #[test]
    fn a_narrow_winner_needs_all_windows_and_one_stall_does_not_decide() {
        let mut process = Process::begin(false);
        assert_eq!(process.play(at(BUSY, BUSY * 9 / 10)), Side::Kernel);
        assert_eq!(process.windows, 2 * PAIRS_MOST);
        assert_eq!(Process::begin(false).play(at(BUSY, BUSY * 98 / 100)), Side::Wire, "a draw");
        let stalled = |side, window| match (side, window) {
            (Side::Kernel, 0) => BUSY / 3,
            (Side::Kernel, _) => BUSY,
            (Side::Wire, _) => BUSY / 2,
        };
        assert_eq!(Process::begin(false).play(stalled), Side::Kernel);
    }

    #[test]
    fn a_process_that_grows_faster_while_it_is_tried_favours_neither_side() {
        let growing = |side, window| {
            let rate = BUSY + u64::from(window) * BUSY / 4;
            if side == Side::Kernel { rate } else { rate * 9 / 10 }
        };
        for is_alone in [false, true] {
            assert_eq!(Process::begin(is_alone).play(growing), Side::Kernel);
        }
    }

    #[test]
    fn trials_come_half_as_often_each_time_and_a_draw_changes_nothing() {
        let mut process = Process::begin(false);
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
        let mut process = Process::begin(false);
        assert_eq!(process.play(at(50_000, 50_000)), Side::Wire, "as without a trial");
        assert_eq!(process.windows, VOID_MOST);
        let mut process = Process::begin(false);
        assert_eq!(process.play(at(BUSY, BUSY / 2)), Side::Kernel);
        assert_eq!(process.play(at(50_000, 50_000)), Side::Kernel, "as the trial before had it");
    }

    #[test]
    fn a_window_that_nobody_ended_is_not_compared() {
        let mut trial = Trial::new();
        trial.begin(false, 0);
        trial.go_on(SETTLE_NS, Work::default(), true);
        assert!(trial.is_counting());
        let work = Work { calls: 10_000, bytes: 1 << 20, time: WINDOW_NS + LATE_NS };
        trial.go_on(trial.until() + LATE_NS + 1, work, true);
        assert!(!trial.is_counting() && trial.side() == Side::Wire, "it is begun anew");
    }
}
