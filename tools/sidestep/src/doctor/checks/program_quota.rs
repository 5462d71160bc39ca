//! A running program: is it stopped when it has used its processor time up?

use super::{Check, Outcome, one, quota};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "program-quota",
    title: "the program: is it throttled?",
    why: "a thread that polls uses its quota up and then stands still for the rest of the period: up to 100 ms at a time",
    weight: [89, 81],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    one(quota::of(view, &view.program())?)
}
