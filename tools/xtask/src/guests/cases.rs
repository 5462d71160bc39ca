//! Which guests, and what must come of each.

use super::machine::Plan;

/// A pair of machines and what runs on it.
pub(super) struct Case {
    pub(super) kernel: &'static str,
    pub(super) plan: Plan,
    pub(super) runs: Vec<Run>,
    /// More about the card, for the table.
    note: &'static str,
}

/// One run of the product.
pub(super) struct Run {
    pub(super) asked: Asked,
    pub(super) wanted: Wanted,
    pub(super) during: During,
    /// It is part of the short form.
    pub(super) short: bool,
}

/// What the user says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Interface,
    Native,
}

/// How packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Kernel,
    Generic,
    Copying,
    ZeroCopy,
}

/// What happens meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Nothing,
    /// The wire delays, loses and reorders.
    Loss,
    /// `ethtool -L`: from so many queues to so many.
    MoreQueues(u32, u32),
}

impl Asked {
    pub(super) fn environment(self) -> &'static str {
        match self {
            Asked::Nothing => "",
            Asked::Interface => "SIDESTEP_INTERFACES=eth0",
            Asked::Native => "SIDESTEP_INTERFACES=eth0 SIDESTEP_XDP_MODE=native",
        }
    }

    /// The user has been told that it takes the link down.
    pub(super) fn may_disturb(self) -> bool {
        self == Asked::Native
    }
}

impl Wanted {
    pub(super) fn label(self) -> &'static str {
        match self {
            Wanted::Kernel => "kernel",
            Wanted::Generic => "generic",
            Wanted::Copying => "native, copying",
            Wanted::ZeroCopy => "native, zero copy",
        }
    }

    /// What the library told in its log.
    pub(super) fn of_log(log: &str) -> Wanted {
        let Some(line) = log.lines().find(|line| line.contains("eth0: accelerated, ")) else {
            return Wanted::Kernel;
        };
        match (line.contains("Native mode"), line.contains("zero copy")) {
            (true, true) => Wanted::ZeroCopy,
            (true, false) => Wanted::Copying,
            (false, _) => Wanted::Generic,
        }
    }
}

impl Run {
    pub(super) fn label(&self) -> String {
        let asked = match self.asked {
            Asked::Nothing => "nothing",
            Asked::Interface => "eth0",
            Asked::Native => "eth0, native",
        };
        match self.during {
            During::Nothing => asked.to_owned(),
            During::Loss => format!("{asked}; loss"),
            During::MoreQueues(from, to) => format!("{asked}; {from} -> {to} queues"),
        }
    }
}

impl Case {
    /// `virtio_net 6.1`
    pub(super) fn name(&self) -> String {
        let name = format!("{} {}", self.plan.driver, self.kernel);
        if self.note.is_empty() { name } else { format!("{name}, {}", self.note) }
    }

    /// Major and minor number of the kernel.
    pub(super) fn release(&self) -> (u32, u32) {
        let number = |text: &str| text.parse().unwrap_or(0);
        self.kernel.split_once('.').map_or((0, 0), |(major, minor)| (number(major), number(minor)))
    }

    pub(super) fn is_chosen(&self, short: bool, filter: Option<&str>) -> bool {
        filter.is_none_or(|filter| self.name().contains(filter))
            && (!short || self.runs.iter().any(|run| run.short))
    }
}

fn run(asked: Asked, wanted: Wanted) -> Run {
    Run { asked, wanted, during: During::Nothing, short: false }
}

impl Run {
    fn in_short(self) -> Run {
        Run { short: true, ..self }
    }

    fn during(self, during: During) -> Run {
        Run { during, ..self }
    }
}

/// All guests.
pub(super) fn all() -> Vec<Case> {
    use Asked::{Interface, Native, Nothing};
    use Wanted::{Copying, Generic, Kernel, ZeroCopy};
    let virtio =
        Plan { device: "virtio-net-pci", options: "", driver: "virtio_net", queues: 2, processors: 2 };
    let card = |device, driver| Plan { device, options: "", driver, queues: 1, processors: 2 };
    vec![
        // The oldest that is promised.
        Case {
            kernel: "5.10",
            plan: virtio,
            note: "",
            runs: vec![
                run(Nothing, Kernel),
                run(Interface, Generic),
                run(Native, Copying),
                run(Interface, Generic).during(During::Loss),
            ],
        },
        Case {
            kernel: "6.1",
            plan: virtio,
            note: "",
            runs: vec![
                run(Nothing, Kernel),
                run(Interface, Generic).in_short(),
                run(Native, Copying).in_short(),
                run(Interface, Generic).during(During::Loss).in_short(),
            ],
        },
        Case {
            kernel: "6.12",
            plan: Plan { queues: 4, processors: 4, ..virtio },
            note: "4 queues",
            runs: vec![
                run(Nothing, Kernel),
                run(Interface, Generic),
                run(Native, Copying),
                run(Interface, Generic).during(During::MoreQueues(2, 4)),
            ],
        },
        Case {
            kernel: "6.12",
            plan: Plan { options: "mrg_rxbuf=off", ..virtio },
            note: "no merged buffers",
            // The driver takes the program and does not run it: noticed after some seconds.
            runs: vec![run(Interface, Generic), run(Native, Copying)],
        },
        Case {
            kernel: "6.18",
            plan: Plan { options: "iommu_platform=on,disable-legacy=on", ..virtio },
            note: "premapped",
            runs: vec![run(Interface, Generic), run(Native, ZeroCopy)],
        },
        Case {
            kernel: "6.12",
            plan: card("vmxnet3", "vmxnet3"),
            note: "",
            runs: vec![run(Interface, Generic), run(Native, Copying)],
        },
        Case {
            kernel: "6.12",
            plan: card("e1000e", "e1000e"),
            note: "",
            runs: vec![run(Interface, Generic), run(Native, Kernel)],
        },
        Case {
            kernel: "6.1",
            plan: card("igb", "igb"),
            note: "",
            runs: vec![run(Interface, Generic), run(Native, Copying)],
        },
        Case {
            kernel: "6.18",
            plan: Plan { processors: 4, ..card("igb", "igb") },
            note: "",
            runs: vec![
                run(Nothing, Kernel),
                run(Interface, Generic).in_short(),
                run(Native, ZeroCopy).in_short(),
                run(Interface, Generic).during(During::MoreQueues(5, 8)),
                run(Native, ZeroCopy).during(During::MoreQueues(5, 8)),
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_had_is_in_the_log_and_a_library_that_does_nothing_has_the_kernel() {
        let line = |words: &str| format!(" Pid: 1 VMA DEBUG: eth0: accelerated, {words}, 2 queues\n");
        assert_eq!(Wanted::of_log(&line("Generic mode, copying")), Wanted::Generic);
        assert_eq!(Wanted::of_log(&line("Native mode, copying")), Wanted::Copying);
        assert_eq!(Wanted::of_log(&line("Native mode, zero copy")), Wanted::ZeroCopy);
        assert_eq!(Wanted::of_log(""), Wanted::Kernel);
    }

    #[test]
    fn the_short_form_has_an_old_kernel_and_a_card_with_zero_copy() {
        let short: Vec<Case> = all().into_iter().filter(|case| case.is_chosen(true, None)).collect();
        assert!(short.len() <= 2, "each takes a minute or two");
        assert!(short.iter().any(|case| case.kernel == "6.1"));
        let runs = || short.iter().flat_map(|case| &case.runs).filter(|run| run.short);
        assert!(
            runs().any(|run| run.wanted == Wanted::ZeroCopy) && runs().any(|run| run.during == During::Loss)
        );
    }
}
