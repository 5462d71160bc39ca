//! Write combining on the card's memory.

use super::{Check, Outcome, each};
use crate::doctor::finding::Finding;
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "write-combining",
    title: "write combining on the card's memory",
    why: "a card whose doorbells are written byte by byte sends small packets later; drivers have asked for it by themselves \
          (PAT) since Linux 2.6.30",
    weight: [6, 6],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card"));
        }
        let list = match view.read("/sys/kernel/debug/x86/pat_memtype_list") {
            Ok(list) => list,
            Err(unread) if unread.is_missing() => {
                return Ok(Finding::cannot_tell("debugfs is not mounted, or the kernel has no PAT"));
            }
            Err(unread) => return Err(unread),
        };
        let resources = view.read(&format!("{}/resource", view.pci(interface)?))?;
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let ranges: Vec<(u64, u64)> = resources
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((number(words.next()?)?, number(words.next()?)?))
            })
            .filter(|(first, last)| first < last)
            .collect();
        let combined = list.lines().filter(|line| line.starts_with("write-combining")).any(|line| {
            let range = line.split("[mem ").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
            let start = range.split('-').next().and_then(number);
            start.is_some_and(|start| ranges.iter().any(|(first, last)| (*first..=*last).contains(&start)))
        });
        Ok(if combined {
            Finding::good("its driver uses it")
        } else {
            Finding::good("its driver does not use it (most modern drivers need none)")
        })
    })
}
