//! Under load: one thread sends by the schedule and never waits, another receives. Playback is the same with a
//! schedule from a file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::inbox::Inbox;
use crate::client::ledger::Ledger;
use crate::client::outbox::{Outbox, Sent};
use crate::client::pacer::Pacer;
use crate::client::recorder::{Recorder, Window};
use crate::client::{Outcome, Tally, Test};
use crate::cpu;
use crate::exit::Result;
use crate::report::progress::SENT;
use crate::settings::{Mode, Pace};
use crate::signals;

/// How long a read of the receiving thread lasts, and how often it sees that sending has ended.
const READ_MS: u32 = 20;
/// Without an answer for so long after the last message, the rest is lost.
const QUIET_SEC: f64 = 0.1;
/// Outstanding messages kept: two seconds of the rate, within these bounds.
const LEDGER: std::ops::RangeInclusive<usize> = 4096..=1 << 20;

/// What the sender tells the receiver.
struct Shared {
    done: AtomicBool,
    failed: AtomicBool,
    requested: AtomicU64,
}

/// Runs both threads and gives back what they measured.
pub fn run(test: &Test) -> Result<Outcome> {
    let s = test.s;
    let inbox = Inbox::new(test, READ_MS, false)?;
    let per_second = match s.pace {
        Pace::Max => usize::MAX,
        Pace::PerSecond(rate) => (rate as usize / s.reply_every as usize).saturating_mul(2),
    };
    let ledger = Ledger::new(per_second.clamp(*LEDGER.start(), *LEDGER.end()), s.reply_every);
    let shared =
        Shared { done: AtomicBool::new(false), failed: AtomicBool::new(false), requested: AtomicU64::new(0) };
    let start = test.clock.now() + test.ticks(0.001);
    let window = Window::of(test, start);
    let recorder = Recorder::new(test, window, start);
    std::thread::scope(|scope| {
        let receiver = std::thread::Builder::new()
            .name(String::from("receiver"))
            .spawn_scoped(scope, || receive(test, inbox, recorder, &ledger, &shared))
            .map_err(|e| {
                crate::exit::Failure::new(crate::exit::Code::Fatal, format!("cannot start a thread: {e}"))
            })?;
        let sent = send(test, &ledger, &shared, window, start);
        shared.done.store(true, Ordering::Release);
        let received = match receiver.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let (out, last_tx, late) = sent?;
        let (mut recorder, malformed) = received?;
        recorder.close(&ledger, out.requested_valid, test.clock.now());
        Ok(out.outcome(recorder, start, last_tx, late, malformed))
    })
}

fn send(
    test: &Test,
    ledger: &Ledger,
    shared: &Shared,
    window: Window,
    start: u64,
) -> Result<(Tally, u64, u64)> {
    let s = test.s;
    // Not before the receiver was started, which would inherit it.
    cpu::pin("--sender-affinity", &s.sender_cpus)?;
    let mut outbox = Outbox::new(test);
    let mut pacer = Pacer::new(test, start);
    let mut out = Tally::default();
    let mut last_tx = start;
    let mut seq = 0;
    let mut records = s.playback.iter();
    while !signals::stopped() && !shared.failed.load(Ordering::Relaxed) {
        let scheduled = if s.mode == Mode::Playback {
            let Some((seconds, size)) = records.next() else { break };
            let intended = start + test.ticks(*seconds);
            outbox.set_size(*size);
            pacer.wait_until(intended, &mut outbox);
            Some(intended)
        } else {
            pacer.next(&mut outbox)
        };
        let mut tx = test.clock.now();
        if tx >= window.finish || signals::stopped() {
            break;
        }
        for _ in 0..s.burst {
            seq += 1;
            last_tx = tx;
            let wanted = seq % s.reply_every == 0;
            if wanted {
                ledger.sent(seq, tx, scheduled.unwrap_or(tx));
            }
            match outbox.send(seq, wanted)? {
                Sent::Whole(bytes) => {
                    let valid = window.holds(seq, tx);
                    out.count(1, bytes, tx, valid);
                    out.requested_valid += u64::from(wanted && valid);
                    if wanted {
                        out.requested += 1;
                        shared.requested.store(out.requested, Ordering::Relaxed);
                    }
                }
                Sent::Skipped => {
                    if wanted {
                        ledger.withdrawn(seq);
                    }
                    seq -= 1;
                    out.skipped += 1;
                }
            }
            if s.burst > 1 {
                tx = test.clock.now();
            }
        }
        SENT.set(seq);
    }
    Ok((out, last_tx, pacer.late))
}

fn receive(
    test: &Test,
    mut inbox: Inbox,
    mut recorder: Recorder,
    ledger: &Ledger,
    shared: &Shared,
) -> Result<(Recorder, u64)> {
    if let Err(failure) = cpu::pin("--receiver-affinity", &test.s.receiver_cpus) {
        shared.failed.store(true, Ordering::Relaxed);
        return Err(failure);
    }
    let quiet = test.ticks(QUIET_SEC);
    let mut last_news = test.clock.now();
    loop {
        let before = recorder.received;
        let outcome = inbox.receive(&mut |arrival| {
            recorder.take(arrival, ledger);
        });
        if let Err(failure) = outcome {
            shared.failed.store(true, Ordering::Relaxed);
            return Err(failure);
        }
        let done = shared.done.load(Ordering::Acquire);
        if recorder.received != before || !done {
            if !done {
                last_news = test.clock.now();
            }
            if recorder.received == before {
                continue;
            }
            last_news = test.clock.now();
        }
        if done {
            let expected = shared.requested.load(Ordering::Relaxed) * test.s.servers as u64;
            if recorder.received >= expected || test.clock.now().saturating_sub(last_news) > quiet {
                return Ok((recorder, inbox.malformed));
            }
        }
    }
}
