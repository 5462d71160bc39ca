//! Which processors send by which of the card's queues.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;

pub(super) const CHECK: Check = Check {
    id: "xps",
    title: "transmit queues of the processors (XPS)",
    why: "sockets that stay with the kernel send by a queue that a hash chooses: processors wait for each other's locks, and \
          completions come to another one than sent: some hundred nanoseconds a packet",
    weight: [18, 34],
    look,
};

/// So many commands fit the page.
const SHOWN: usize = 4;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let queues = view.host.list(&interface.path("queues")).unwrap_or_default();
        let mut numbers: Vec<usize> = queues.iter().filter_map(|name| name.strip_prefix("tx-")?.parse().ok()).collect();
        numbers.sort_unstable();
        let path = |number: usize| interface.path(&format!("queues/tx-{number}/xps_cpus"));
        if numbers.len() < 2 || view.online.len() < 2 {
            return Ok(Finding::good("nothing to choose: one queue, or one processor"));
        }
        let mut chosen = 0;
        for number in &numbers {
            // A queue may be chosen by the processor, or by the queue that the flow was received by.
            let by_queue = view.read(&interface.path(&format!("queues/tx-{number}/xps_rxqs"))).unwrap_or_default();
            let is_set = |mask: &str| Cpus::parse_mask(mask).is_some_and(|set| !set.is_empty());
            let by_processor = match view.read(&path(*number)) {
                Ok(mask) => mask,
                Err(unread) if unread.is_missing() => {
                    return Ok(Finding::not_applicable("the driver or the kernel has no XPS"));
                }
                Err(unread) => return Err(unread),
            };
            chosen += usize::from(is_set(&by_processor) || is_set(&by_queue));
        }
        if chosen > 0 {
            return Ok(Finding::good(format!("{chosen} of {} queues have their processors", numbers.len())));
        }
        let of = |at: usize| view.online.iter().skip(at).step_by(numbers.len()).collect::<Cpus>();
        let shares = numbers.iter().enumerate().filter(|(at, _)| !of(*at).is_empty());
        let write = |(at, number): (usize, &usize)| Action::Write { path: path(*number), value: of(at).mask() };
        let actions: Vec<Action> = shares.map(write).collect();
        let keep = "a udev rule or the interface's configuration that runs the same commands";
        let whole = Mend::actions(actions, keep);
        let count = whole.actions.len();
        let mend = if count <= SHOWN {
            whole
        } else {
            let first = whole.actions.first().map(Action::command).unwrap_or_default();
            whole.shown_as(format!("sidestep doctor --only xps --interface {} --fix: {first}, and so on for {count} queues", interface.name))
        };
        Ok(Finding::advice(format!("none of {} queues has its processors", numbers.len()), mend))
    })
}
