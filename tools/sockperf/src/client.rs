//! The client side: opens the sockets, runs one test, gives back what was measured.
//!
//! `outbox` sends, `inbox` receives, `ledger` knows what is out, `recorder` turns answers into distributions;
//! `ping_pong`, `under_load` and `throughput` are the loops over them.

pub mod inbox;
pub mod ledger;
pub mod outbox;
pub mod pacer;
pub mod ping_pong;
pub mod recorder;
pub mod throughput;
pub mod under_load;

use crate::clock::{Clock, Rate, Reading};
use crate::cpu::{self, Usage};
use crate::exit::{Code, Failure, Result};
use crate::histogram::Histogram;
use crate::iomux::Kind;
use crate::peer::{self, PeerDelta};
use crate::report::{self, text};
use crate::settings::{Mode, Pace, Settings, Span};
use crate::signals;
use crate::sockets::{self, Socket};
use crate::timeline::Sample;

/// Latencies of one server.
#[derive(Clone, Default)]
pub struct Distribution {
    /// Round trips in ticks, from the moment of sending.
    pub plain: Histogram,
    /// Round trips in ticks, from the moment the schedule named; lost messages included. Paced runs only.
    pub schedule: Option<Histogram>,
    /// Answers that entered `plain`.
    pub received: u64,
    /// Messages of the window that were never answered.
    pub dropped: u64,
    /// Second and later answers to one message.
    pub duplicates: u64,
    /// Answers overtaken by an answer to a later message.
    pub out_of_order: u64,
}

/// What one test measured. Times are ticks of `rate`.
pub struct Outcome {
    /// Ticks per second over the whole run.
    pub rate: Rate,
    /// What was assumed for pacing, against `rate`.
    pub drift_ppm: f64,
    /// Whole run, from the first to the last message.
    pub total_ticks: u64,
    /// The measured window.
    pub valid_ticks: u64,
    /// All messages.
    pub sent: u64,
    /// All bytes.
    pub bytes: u64,
    /// All answers.
    pub received: u64,
    /// Messages within the window.
    pub sent_valid: u64,
    /// Answers that entered the statistics.
    pub received_valid: u64,
    /// Sends that would have blocked.
    pub skipped: u64,
    /// Sends more than 50 microseconds behind the schedule.
    pub late_sends: u64,
    /// Answers that came after the message was given up; they are in the statistics.
    pub late_answers: u64,
    /// Messages that were neither answers nor ours.
    pub stray: u64,
    /// By server, usually one.
    pub servers: Vec<Distribution>,
    /// Interim values.
    pub timeline: Vec<Sample>,
    /// Send and receive time of every measured message, for the full log.
    pub log: Vec<(u64, u64)>,
    /// Ticks of the clock when the program began.
    pub epoch: u64,
    /// Processor time of this process.
    pub cpu: Usage,
    /// What the server says, when it is ours.
    pub peer: Option<PeerDelta>,
    /// Ended by a signal.
    pub interrupted: bool,
}

/// One test: sockets, clock, calibration.
pub struct Test<'a> {
    /// The command line.
    pub s: &'a Settings,
    /// Source of time.
    pub clock: Clock,
    /// Ticks per second as known before the test.
    pub rate: Rate,
    /// One per endpoint, in order.
    pub sockets: Vec<Socket>,
    /// When a send that still blocks is given up: the peer has stopped reading.
    pub deadline: u64,
}

/// How much longer than planned a run may take before blocked sends are given up.
const GRACE_SEC: f64 = 2.0;

impl Test<'_> {
    /// Ticks of `seconds`.
    pub fn ticks(&self, seconds: f64) -> u64 {
        self.rate.ticks(seconds)
    }

    /// True when messages have a schedule.
    pub fn is_paced(&self) -> bool {
        self.s.mode == Mode::Playback || self.s.pace != Pace::Max
    }
}

/// Runs one test from opening the sockets to closing them. `first` is the reading of the program's start.
pub fn run(s: &Settings, clock: Clock, first: Reading) -> Result<Outcome> {
    crate::extra_api::check(s)?;
    // Before the test's own connections: an original TCP server serves one at a time.
    let peer_is_ours = s.ask_peer && peer::ask(s, &[]).is_some();
    let mut sockets = Vec::with_capacity(s.endpoints.len());
    for endpoint in &s.endpoints {
        sockets.push(sockets::client(s, endpoint)?);
    }
    banner(s, &sockets);
    let rate = clock.rate_since(first);
    if s.debug {
        report::say(&format!("sockperf: +INFO: taking time consumes {:.3} nsec", clock.cost_ns(rate)));
    }
    if s.dummy_send.is_some() && !crate::extra_api::is_present() {
        report::say(
            "sockperf: NOTE: no accelerator is loaded, so --dummy-send waits without sending dummies",
        );
    }
    let mut test = Test { s, clock, rate, sockets, deadline: u64::MAX };
    warm_up(&test)?;
    report::say("sockperf: Starting test...");
    if !matches!(s.mode, Mode::UnderLoad | Mode::Playback) {
        cpu::pin("--sender-affinity", &s.sender_cpus)?;
    }
    let peer_before = if peer_is_ours { peer::ask(s, &ports(&test)) } else { None };
    if let Some(seconds) = longest(s) {
        test.deadline = clock.now() + rate.ticks(seconds);
        signals::interrupt_after(seconds);
    }
    let usage = Usage::now();
    let begin = clock.now();
    let mut outcome = {
        let _progress = report::progress::Progress::start(s);
        match s.mode {
            Mode::PingPong => ping_pong::run(&test)?,
            Mode::UnderLoad | Mode::Playback => under_load::run(&test)?,
            _ => throughput::run(&test)?,
        }
    };
    outcome.cpu = usage.elapsed();
    signals::interrupt_after(0.0);
    if s.activity.is_some_and(|(_, table)| !table) {
        report::say("");
    }
    outcome.rate = Rate::between(first, clock.reading());
    outcome.drift_ppm = rate.ppm_from(outcome.rate);
    outcome.epoch = first.ticks.min(begin);
    outcome.interrupted = signals::stopped();
    text::ending(s, &outcome);
    if let Some(before) = peer_before {
        outcome.peer = peer::settle(s, &before, &ports(&test), outcome.sent);
    }
    Ok(outcome)
}

/// Seconds after which the run must be over; a run by count has no such time.
fn longest(s: &Settings) -> Option<f64> {
    let planned = match (s.playback.last(), s.span) {
        (Some(record), _) => record.0,
        (None, Span::Seconds(seconds)) => {
            f64::from(seconds) + recorder::WARM_UP_SEC + recorder::COOL_DOWN_SEC
        }
        (None, Span::Messages(_)) => return None,
    };
    Some(planned + GRACE_SEC)
}

/// Local ports, as far as they are bound: a datagram socket gets its port with its first message.
fn ports(test: &Test) -> Vec<u16> {
    let local = test.sockets.iter().filter_map(|socket| socket.local().ip());
    local.map(|address| address.port()).filter(|port| *port != 0).collect()
}

fn banner(s: &Settings, sockets: &[Socket]) {
    let mut line = String::from("sockperf[CLIENT] send on:");
    if s.mode != Mode::Throughput {
        line.push_str(&format!("sockperf: using {}() to block on socket(s)\n", s.mux.name()));
    }
    report::say(&line);
    for (index, endpoint) in s.endpoints.iter().enumerate() {
        report::say(&text::endpoint_line(index, endpoint));
    }
    if let Some(session) = sockets.iter().find_map(|socket| socket.session.as_ref()) {
        report::say(&format!("sockperf: TLS: {}", session.description()));
    }
}

fn warm_up(test: &Test) -> Result<()> {
    let s = test.s;
    if s.pre_warm_up_sec > 0 {
        report::say(&format!("sockperf: Waiting {} sec before the warm-up...", s.pre_warm_up_sec));
        signals::sleep(f64::from(s.pre_warm_up_sec));
    }
    if !s.warm_up {
        return Ok(());
    }
    report::say("sockperf: Warmup stage (sending a few dummy messages)...");
    let mut outbox = outbox::Outbox::new(test);
    for (index, endpoint) in s.endpoints.iter().enumerate() {
        if endpoint.address.is_multicast() {
            outbox.warm_up(index, if s.reply_every == 1 { crate::message::WANTS_REPLY } else { 0 })?;
        }
    }
    Ok(())
}

/// Refuses what the chosen way of receiving cannot do.
pub fn no_extra_api(what: &str) -> Failure {
    let hint = "start under an accelerator that has it, as in LD_PRELOAD=libvma.so";
    Failure::new(Code::Fatal, format!("ERROR: {what} needs the accelerator's extra API; {hint}"))
}

/// True when the single socket can be read directly.
pub fn is_direct(s: &Settings) -> bool {
    s.endpoints.len() == 1 && s.mux == Kind::Recvfrom
}

/// The sending side's counts.
#[derive(Default)]
pub struct Tally {
    sent: u64,
    bytes: u64,
    sent_valid: u64,
    first_valid: u64,
    last_valid: u64,
    /// Messages that wanted an answer.
    pub requested: u64,
    /// The same within the window.
    pub requested_valid: u64,
    /// Sends that would have blocked.
    pub skipped: u64,
    /// Answers to messages already given up.
    pub late_answers: u64,
}

impl Tally {
    /// So many messages of together `bytes` left at `tx`; `valid` when that is within the window.
    #[inline]
    pub fn count(&mut self, messages: u64, bytes: usize, tx: u64, valid: bool) {
        self.sent += messages;
        self.bytes += bytes as u64;
        if valid && messages > 0 {
            if self.sent_valid == 0 {
                self.first_valid = tx;
            }
            self.sent_valid += messages;
            self.last_valid = tx;
        }
    }

    /// Both sides' counts together; `last_tx` is the last send.
    pub fn outcome(
        self,
        recorder: recorder::Recorder,
        start: u64,
        last_tx: u64,
        late_sends: u64,
        malformed: u64,
    ) -> Outcome {
        Outcome {
            rate: Rate { per_sec: 1e9 },
            drift_ppm: 0.0,
            total_ticks: last_tx.saturating_sub(start),
            valid_ticks: self.last_valid - self.first_valid,
            sent: self.sent,
            bytes: self.bytes,
            received: recorder.received,
            sent_valid: self.sent_valid,
            received_valid: recorder.servers.iter().map(|s| s.received).sum(),
            skipped: self.skipped,
            late_sends,
            late_answers: self.late_answers,
            stray: recorder.stray + malformed,
            timeline: recorder.timeline.finish(last_tx),
            log: recorder.log.unwrap_or_default(),
            servers: recorder.servers,
            epoch: start,
            cpu: Usage::default(),
            peer: None,
            interrupted: false,
        }
    }
}
