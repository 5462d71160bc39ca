//! Answers become distributions. One recorder for each receiving thread.

use crate::client::inbox::Arrival;
use crate::client::ledger::{Answer, Ledger};
use crate::client::{Distribution, Test};
use crate::histogram::Histogram;
use crate::message::{FROM_CLIENT, WARM_UP};
use crate::report::progress;
use crate::settings::{Mode, Settings, Span};
use crate::timeline::Timeline;

/// Seconds after the first message that are not measured: caches, connections and clocks settle.
pub const WARM_UP_SEC: f64 = 0.4;
/// Seconds before the last message that are not measured: the peer may already lose our load.
pub const COOL_DOWN_SEC: f64 = 0.05;
/// The same by count, for runs of a number of messages.
pub const WARM_UP_MESSAGES: u64 = 8000;
/// See [`WARM_UP_MESSAGES`].
pub const COOL_DOWN_MESSAGES: u64 = 1000;

/// Which messages are measured, and when the run ends.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First tick at which a message counts.
    pub begin: u64,
    /// First tick at which none counts any more.
    pub end: u64,
    /// First sequence number that counts.
    pub first: u64,
    /// First sequence number that does not any more.
    pub last: u64,
    /// The run's last tick.
    pub finish: u64,
    /// The run's last message.
    pub final_seq: u64,
}

impl Window {
    /// The window of a test that starts at `start`.
    pub fn of(test: &Test, start: u64) -> Window {
        let everything = Window {
            begin: 0,
            end: u64::MAX,
            first: 0,
            last: u64::MAX,
            finish: u64::MAX,
            final_seq: u64::MAX,
        };
        match test.s.span {
            _ if test.s.mode == Mode::Playback => everything,
            Span::Messages(n) => {
                let first = WARM_UP_MESSAGES + 1;
                let last = first + n;
                Window { first, last, final_seq: last + COOL_DOWN_MESSAGES - 1, ..everything }
            }
            Span::Seconds(seconds) => {
                // Versions 3.2 and later cut warm-up and cool-down out of the time asked for.
                let cut = if test.s.compat_timing { WARM_UP_SEC + COOL_DOWN_SEC } else { 0.0 };
                let measured = f64::from(seconds) - cut;
                let begin = start + test.ticks(WARM_UP_SEC);
                let end = begin + test.ticks(measured);
                Window { begin, end, finish: end + test.ticks(COOL_DOWN_SEC), ..everything }
            }
        }
    }

    /// True when the message counts.
    #[inline]
    pub fn holds(&self, seq: u64, tx: u64) -> bool {
        tx >= self.begin && tx < self.end && seq >= self.first && seq < self.last
    }
}

/// The receiving side's results.
pub struct Recorder {
    window: Window,
    /// By server, in order of first appearance.
    pub servers: Vec<Distribution>,
    keys: Vec<u64>,
    expected_servers: usize,
    paced: bool,
    /// All first answers.
    pub received: u64,
    /// Not answers of ours.
    pub stray: u64,
    highest: u64,
    /// Interim values.
    pub timeline: Timeline,
    /// Kept for the full log only.
    pub log: Option<Vec<(u64, u64)>>,
    activity: progress::Activity,
}

impl Recorder {
    /// A recorder for messages within `window`.
    pub fn new(test: &Test, window: Window, start: u64) -> Recorder {
        let distribution =
            || Distribution { schedule: test.is_paced().then(Histogram::default), ..Distribution::default() };
        let s: &Settings = test.s;
        Recorder {
            window,
            servers: (0..s.servers).map(|_| distribution()).collect(),
            keys: Vec::new(),
            expected_servers: s.servers,
            paced: test.is_paced(),
            received: 0,
            stray: 0,
            highest: 0,
            timeline: Timeline::new(test, start),
            log: s.full_log.is_some().then(Vec::new),
            activity: progress::Activity::new(s, test.clock, test.rate),
        }
    }

    /// Takes one arrival in; true when it is the first answer of a server to one of our messages.
    #[inline]
    pub fn take(&mut self, arrival: &Arrival, ledger: &Ledger) -> bool {
        let header = &arrival.header;
        if header.flags & (FROM_CLIENT | WARM_UP) != 0 {
            return false;
        }
        let server = if self.expected_servers == 1 { 0 } else { self.server_of(arrival.from) };
        match ledger.answer(header.seq, server) {
            Answer::First { tx, intended } => {
                self.received += 1;
                self.record(header.seq, server, tx, intended, arrival.rx);
                true
            }
            Answer::Duplicate => {
                self.servers[server].duplicates += 1;
                false
            }
            Answer::Unknown => {
                self.stray += 1;
                false
            }
        }
    }

    #[inline]
    fn record(&mut self, seq: u64, server: usize, tx: u64, intended: u64, rx: u64) {
        let to = &mut self.servers[server];
        let rtt = rx.saturating_sub(tx);
        if seq < self.highest {
            to.out_of_order += 1;
        } else {
            self.highest = seq;
        }
        self.timeline.answer(rx, rtt);
        self.activity.one();
        if !self.window.holds(seq, tx) {
            return;
        }
        to.received += 1;
        to.plain.record(rtt);
        if self.paced
            && let Some(schedule) = &mut to.schedule
        {
            schedule.record(rx.saturating_sub(intended));
        }
        if let Some(log) = &mut self.log {
            log.push((tx, rx));
        }
    }

    /// Responders are told apart by IP address; one more than expected counts as the last.
    #[cold]
    fn server_of(&mut self, key: u64) -> usize {
        let ip = key >> 16;
        if let Some(index) = self.keys.iter().position(|k| *k == ip) {
            return index;
        }
        if self.keys.len() < self.expected_servers {
            self.keys.push(ip);
        }
        self.keys.len() - 1
    }

    /// At the end of the run: what was never answered enters the schedule's distribution at its age, and
    /// `requested` messages of the window give the number lost.
    pub fn close(&mut self, ledger: &Ledger, requested: u64, now: u64) {
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.dropped = requested.saturating_sub(server.received);
            let Some(schedule) = &mut server.schedule else { continue };
            let mut oldest = 0;
            let mut open = 0;
            for (seq, tx, intended) in ledger.unanswered(index) {
                if self.window.holds(seq, tx) {
                    let age = now.saturating_sub(intended);
                    oldest = oldest.max(age);
                    open += 1;
                    schedule.record(age);
                }
            }
            // Those whose slots were reused are older than any that is left.
            for _ in open..server.dropped {
                schedule.record(oldest);
            }
        }
    }
}
