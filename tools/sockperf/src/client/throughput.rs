//! Throughput: sends as fast as it can, or at a rate, and asks for no answers.

use crate::client::outbox::{Outbox, Sent};
use crate::client::pacer::Pacer;
use crate::client::recorder::{Recorder, Window};
use crate::client::{Outcome, Tally, Test};
use crate::exit::Result;
use crate::report::progress::{Activity, SENT};
use crate::settings::Span;
use crate::signals;
use crate::timeline::Timeline;

/// Messages between two looks at the clock and at the counts, when nothing waits for them.
const UNPACED_BATCH: u32 = 16;

/// Runs the loop and gives back what it measured.
pub fn run(test: &Test) -> Result<Outcome> {
    let s = test.s;
    let clock = test.clock;
    let mut outbox = Outbox::new(test);
    let mut out = Tally::default();
    let mut activity = Activity::new(s, test.clock, test.rate);
    let start = clock.now();
    let seconds = if let Span::Seconds(seconds) = s.span { f64::from(seconds) } else { 1.0 };
    let finish = start + test.ticks(seconds);
    // Everything counts: the rate of a sender needs no settling.
    let window = Window { begin: start, end: finish, first: 0, last: u64::MAX, finish, final_seq: u64::MAX };
    let mut pacer = Pacer::new(test, start);
    let mut timeline = Timeline::new(test, start);
    let batch = if test.is_paced() { s.burst } else { s.burst.max(UNPACED_BATCH) };
    let mut now = start;
    let mut seq = 0;
    while !signals::stopped() {
        pacer.next(&mut outbox);
        let (before, mut bytes) = (seq, 0);
        for _ in 0..batch {
            match outbox.send(seq + 1, false)? {
                Sent::Whole(count) => {
                    seq += 1;
                    bytes += count;
                }
                Sent::Skipped => out.skipped += 1,
            }
            activity.one();
        }
        out.count(seq - before, bytes, now, true);
        SENT.set(seq);
        now = clock.now();
        timeline.sends(now, u64::from(batch));
        if now >= finish {
            break;
        }
    }
    let mut recorder = Recorder::new(test, window, start);
    recorder.timeline = timeline;
    Ok(out.outcome(recorder, start, now, pacer.late, 0))
}
