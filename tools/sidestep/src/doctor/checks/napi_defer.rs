//! Deferred interrupts: while a program polls, the card shall not interrupt it.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "napi-defer",
    title: "deferred interrupts of the interface",
    why: "a program that polls (SO_PREFER_BUSY_POLL) is interrupted for packets that it would have taken in anyway, unless \
          the kernel defers interrupts: several percent of its processor",
    weight: [42, 42],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card that interrupts"));
        }
        let (defer, flush) =
            (view.number(&interface.path("napi_defer_hard_irqs"))?, view.number(&interface.path("gro_flush_timeout"))?);
        let found = format!("napi_defer_hard_irqs {defer}, gro_flush_timeout {flush} ns");
        if defer > 0 && flush > 0 {
            return Ok(Finding::good(found));
        }
        let write = |name: &str, value: &str| Action::Write { path: interface.path(name), value: value.to_owned() };
        let actions = vec![write("napi_defer_hard_irqs", "2"), write("gro_flush_timeout", "200000")];
        let mend = Mend::actions(actions, "a udev rule: ATTR{napi_defer_hard_irqs}=\"2\", ATTR{gro_flush_timeout}=\"200000\"");
        Ok(Finding::advice(found, mend))
    })
}
