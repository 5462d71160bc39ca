//! Ping-pong: a message or burst out, its answers back, the next. A lost message is given up after a time.

use crate::client::inbox::Inbox;
use crate::client::ledger::Ledger;
use crate::client::outbox::{Outbox, Sent};
use crate::client::pacer::Pacer;
use crate::client::recorder::{Recorder, Window};
use crate::client::{Outcome, Test};
use crate::exit::{Code, Failure, Result};
use crate::message::HEADER;
use crate::report::progress::SENT;
use crate::{client, signals};

/// Answers within this many messages are still known when they come late.
const MEMORY: usize = 1024;

/// Runs the loop and gives back what it measured.
pub fn run(test: &Test) -> Result<Outcome> {
    let s = test.s;
    let clock = test.clock;
    let mut outbox = Outbox::new(test);
    let by_signal = client::is_direct(s) && signals::are_reliable();
    let mut inbox = Inbox::new(test, s.reply_timeout_ms.min(100), by_signal)?;
    if by_signal {
        // Few enough not to show in the tail: each costs a microsecond or two.
        signals::interrupt_every((f64::from(s.reply_timeout_ms) / 4e3).clamp(0.005, 0.25));
    }
    let burst = u64::from(s.burst);
    let ledger = Ledger::new((4 * s.burst as usize).max(MEMORY), 1);
    let patience = test.ticks(f64::from(s.reply_timeout_ms) / 1e3);
    let brief = patience.min(test.ticks(0.1));
    let payload = if s.data_integrity { outbox.payload().to_vec() } else { Vec::new() };
    let mut corrupt = None;

    let start = clock.now();
    let window = Window::of(test, start);
    let mut recorder = Recorder::new(test, window, start);
    let mut pacer = Pacer::new(test, start);
    let mut out = client::Tally::default();
    let mut seq = 0;
    let mut last_tx = start;
    while !signals::stopped() {
        let scheduled = pacer.next(&mut outbox);
        let first = seq + 1;
        let mut tx = clock.now();
        if tx >= window.finish || seq >= window.final_seq {
            break;
        }
        last_tx = tx;
        let mut waiting = 0;
        for _ in 0..burst {
            seq += 1;
            match outbox.send(seq, true)? {
                Sent::Whole(bytes) => {
                    ledger.sent(seq, tx, scheduled.unwrap_or(tx));
                    waiting += s.servers as u64;
                    out.count(1, bytes, tx, window.holds(seq, tx));
                }
                Sent::Skipped => {
                    seq -= 1;
                    out.skipped += 1;
                }
            }
            if burst > 1 {
                tx = clock.now();
            }
        }
        SENT.set(seq);
        while waiting > 0 {
            inbox.receive(&mut |arrival| {
                if !recorder.take(arrival, &ledger) {
                    return;
                }
                if arrival.header.seq >= first {
                    waiting -= 1;
                } else {
                    out.late_answers += 1;
                }
                if s.data_integrity && !is_intact(arrival.message, &payload) {
                    corrupt = Some(arrival.header.seq);
                }
            })?;
            // Strays and duplicates must not keep the loop from noticing that the answer is overdue.
            if waiting > 0
                && clock.now().saturating_sub(last_tx) >= if signals::stopped() { brief } else { patience }
            {
                break;
            }
        }
        if let Some(seq) = corrupt {
            return Err(Failure::new(
                Code::Malformed,
                format!("data integrity: the answer to message {seq} differs"),
            ));
        }
    }
    let now = clock.now();
    recorder.close(&ledger, out.sent_valid, now);
    Ok(out.outcome(recorder, start, last_tx, pacer.late, inbox.malformed))
}

fn is_intact(message: &[u8], payload: &[u8]) -> bool {
    let body = &message[HEADER..];
    payload.get(..body.len()) == Some(body)
}
