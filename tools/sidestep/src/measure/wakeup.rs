//! How late a thread wakes: from a timer, and when another thread wakes it.

use super::percentile;
use crate::host::facts::Wakeup;
use crate::host::system;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_micros(100);
const NAPS: usize = 3000;
const CALLS: usize = 5000;
/// On a host that is busy there are fewer of them.
const AT_MOST: Duration = Duration::from_millis(700);

pub(crate) fn measure() -> std::io::Result<Wakeup> {
    let mut late = std::thread::spawn(naps).join().unwrap_or_default();
    let mut woken = calls();
    Ok(Wakeup {
        timer_us: percentile(&mut late, 50.0),
        timer_99_us: percentile(&mut late, 99.0),
        thread_us: percentile(&mut woken, 50.0),
        thread_99_us: percentile(&mut woken, 99.0),
    })
}

/// How much later than asked for a nap ended.
fn naps() -> Vec<Duration> {
    // The kernel may gather timers of 50 us; that is the program's choice and not the host's doing.
    system::timers_are_exact();
    let begun = Instant::now();
    let nap = |_| {
        let slept = Instant::now();
        std::thread::sleep(NAP);
        slept.elapsed().saturating_sub(NAP)
    };
    (0..NAPS).take_while(|_| begun.elapsed() < AT_MOST).map(nap).collect()
}

/// Half of the time that a question to a sleeping thread and its answer take.
fn calls() -> Vec<Duration> {
    let (ask, questions) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel::<()>();
    std::thread::spawn(move || while questions.recv().is_ok() && answer.send(()).is_ok() {});
    let begun = Instant::now();
    let call = |_| {
        // Long enough for the other to be asleep.
        std::thread::sleep(Duration::from_micros(50));
        let asked = Instant::now();
        let _ = ask.send(());
        let _ = answers.recv();
        asked.elapsed() / 2
    };
    (0..CALLS).take_while(|_| begun.elapsed() < AT_MOST).map(call).collect()
}
