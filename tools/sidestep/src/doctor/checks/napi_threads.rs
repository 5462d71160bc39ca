//! Threads of the kernel that take packets in, instead of the interrupt that announces them.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};

pub(super) const CHECK: Check = Check {
    id: "napi-threads",
    title: "kernel threads that take packets in",
    why: "whoever sleeps for a packet waits until the scheduler has run napi/IF-N as well: some microseconds, more on a busy \
          processor; for bulk the threads spread the work",
    weight: [41, 8],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let path = interface.path("threaded");
        let threaded = match view.number(&path) {
            Ok(threaded) => threaded,
            Err(unread) if unread.is_missing() => return Ok(Finding::good("none: this kernel has no such threads")),
            Err(unread) => return Err(unread),
        };
        Ok(match (threaded, view.aim) {
            (0, _) => Finding::good("none"),
            (_, Aim::Throughput) => Finding::good(format!("threaded {threaded}")),
            _ => Finding::advice(
                format!("threaded {threaded}"),
                Mend::actions(
                    vec![Action::Write { path, value: "0".to_owned() }],
                    "a udev rule: ATTR{threaded}=\"0\"; where the threads are wanted, taskset and chrt for each napi/IF-N",
                ),
            ),
        })
    })
}
