//! Can AF_XDP of this interface do without copies?

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::XdpFeatures;

pub(super) const CHECK: Check = Check {
    id: "zero-copy",
    title: "AF_XDP of the driver",
    why: "with zero-copy the card writes packets where the program reads them; with copies little is won over the kernel",
    weight: [95, 95],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let told: Option<XdpFeatures> = match view.fact(&interface.name) {
            Ok(features) => Some(features),
            Err(unread) if unread.is_missing() => None,
            Err(unread) => return Err(unread),
        };
        let driver = if interface.driver.is_empty() { "no driver" } else { &interface.driver };
        if xdp::caps::is_worth_it(&interface.driver) {
            return Ok(Finding::good(format!("{driver}: chosen by itself; its peer is on this host")));
        }
        let features = told.clone().unwrap_or_default();
        // A card that can: whether to use it is the user's choice, not something wrong with the host.
        if features.zero_copy && interface.driver != "virtio_net" {
            return Ok(Finding::good(format!(
                "{driver} announces zero-copy; SIDESTEP_INTERFACES={} SIDESTEP_XDP_MODE=native uses it",
                interface.name
            )));
        }
        let (what, mode) = match (told.is_some(), features.zero_copy, features.redirect) {
            (false, ..) => ("cannot say what it can do: Linux before 6.3 does not ask", Some("to try the driver's own hook")),
            (_, true, _) => ("announces zero-copy, but the hypervisor copies behind it", Some("for zero-copy")),
            (_, false, true) => ("runs XDP programs in the driver, but AF_XDP copies", Some("for the driver's own hook")),
            (_, false, false) => ("knows nothing of XDP: the kernel's generic hook is left, which copies", None),
        };
        let name = &interface.name;
        let mut how = format!("SIDESTEP_INTERFACES={name} chooses it; measure whether it pays");
        if let Some(what_for) = mode {
            how += &format!(
                ". Beside it SIDESTEP_XDP_MODE=native {what_for}, which takes the link down for seconds with some drivers (igb), \
                 at the start and at the end of each program"
            );
        }
        Ok(Finding::advice(format!("{driver} {what}; not chosen by itself"), Mend::by_hand(how)))
    })
}
