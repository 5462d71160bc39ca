//! The card's PCI Express link against what the card could do.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "pcie",
    title: "PCI Express link of the card",
    why: "a card of x8 in a slot wired x4, or a link that trained at an older generation, has half of its bandwidth or less",
    weight: [58, 74],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card"));
        }
        let folder = view.pci(interface)?;
        let read = |name: &str| view.read(&format!("{folder}/{name}"));
        let values = (read("current_link_speed"), read("max_link_speed"), read("current_link_width"), read("max_link_width"));
        let (Ok(speed), Ok(speed_max), Ok(width), Ok(width_max)) = values else {
            return Ok(Finding::cannot_tell(if view.is_virtual {
                "the hypervisor shows no link behind the card"
            } else {
                "the card shows no link (it is part of the chipset, or the kernel does not say)"
            }));
        };
        let gigatransfers = |text: &str| text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let lanes = |text: &str| text.trim().parse::<u32>().unwrap_or(0);
        if lanes(&width) == 0 || gigatransfers(&speed) == 0.0 {
            return Ok(Finding::cannot_tell("the hypervisor shows no link behind the card"));
        }
        // The port above the card is the slot.
        let slot = (read("../max_link_speed"), read("../max_link_width"));
        let (slot, slot_is_enough) = match &slot {
            (Ok(slot_speed), Ok(slot_width)) if lanes(slot_width) > 0 => (
                format!(", its slot {slot_speed} x{slot_width}"),
                lanes(slot_width) >= lanes(&width_max) && gigatransfers(slot_speed) >= gigatransfers(&speed_max),
            ),
            _ => (String::new(), false),
        };
        let found = format!("{speed} x{width}; the card could {speed_max} x{width_max}{slot}");
        let full = lanes(&width) >= lanes(&width_max) && gigatransfers(&speed) >= gigatransfers(&speed_max);
        Ok(if full {
            Finding::good(format!("{speed} x{width}, all that the card has"))
        } else {
            Finding::bad(
                found,
                Mend::by_hand(if slot_is_enough {
                    "reseat the card; look for limits of the slot (generation, bifurcation) in the firmware; try another slot"
                } else {
                    "put the card into a slot of its generation and width (slots of x16 may be wired x8 or x4: the board's \
                     manual), reseat it, look for limits in the firmware"
                }),
            )
        })
    })
}
