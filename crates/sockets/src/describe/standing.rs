//! Why what the kernel carries has not moved, for those who read statistics.

use crate::object::Object;
use crate::object::holders;
use crate::object::traffic::{CALLS, is_small};
use crate::runtime::Runtime;
use crate::threads::THREADS;
use config::Carrier;
use core::sync::atomic::Ordering;
use stats::Verdict;

/// Why a connection that the kernel carries has not moved, as far as that may change by the next call; `None`: what was
/// found when it was to move, or did, is the reason.
pub(crate) fn standing(runtime: &Runtime, object: &Object) -> Option<(Verdict, (u32, u64))> {
    use Verdict::*;
    let known = Verdict::from_number(object.counts().verdict.value())?;
    if !matches!(
        known,
        TooFewCalls | Between | Opening | Listener | ByParameter | OthersHaveIt | Threads | Untried
    ) {
        return None;
    }
    let (calls, bytes) = object.traffic.seen();
    let verdict = if object.control.try_lock()?.queue.is_some() {
        Listener
    } else if THREADS.is_kernels() {
        THREADS.verdict()
    } else if runtime.parameters.carrier == Carrier::Kernel {
        ByParameter
    } else if !holders::is_alone(object) {
        OthersHaveIt
    } else if calls < object.price.load(Ordering::Relaxed).max(CALLS) {
        if known == Opening { Opening } else { TooFewCalls }
    } else if !is_small(calls, bytes) {
        Between
    } else {
        Opening
    };
    Some((verdict, (calls, bytes)))
}
