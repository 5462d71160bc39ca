//! How long a test waits for what must come. No test says "by now it has happened": it waits for the thing itself, with
//! this limit, which only matters when the test fails.

use std::time::{Duration, Instant};

use crate::POLL_INTERVAL;

/// For whatever must happen, on a machine that is busy with other things, too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Under a library that does nothing (`cargo x test --inert`) most waits are for what never comes.
const INERT: Duration = Duration::from_secs(4);

/// Likewise, for the end or the words of a program, of which some have long work to do with any library.
const INERT_PROGRAM: Duration = Duration::from_secs(15);

/// Whether the library under test does nothing.
fn is_inert() -> bool {
    std::env::var_os("SIDESTEP_INERT").is_some()
}

/// How long to wait for a program that a test gives `deadline`.
pub(crate) fn for_program(deadline: Duration) -> Duration {
    if is_inert() { deadline.min(INERT_PROGRAM) } else { deadline }
}

/// Waits until `holds` says true. Panics after [`PATIENCE`], at the caller, with what was waited for.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// Waits until `look` finds something, which it returns; otherwise as [`eventually`].
#[track_caller]
pub fn eventually_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = if is_inert() { INERT } else { PATIENCE };
    let end = Instant::now() + patience;
    loop {
        // The last look begins after the end: whoever was kept from looking all the time looks once.
        let is_last = Instant::now() > end;
        if let Some(found) = look() {
            return found;
        }
        assert!(!is_last, "after {patience:?} still not: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
