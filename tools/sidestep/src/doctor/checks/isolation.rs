//! Processors that the scheduler, the tick and RCU leave alone.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;

pub(super) const CHECK: Check = Check {
    id: "isolation",
    title: "processors kept free for the program",
    why: "a polling thread that shares its processor loses it for a scheduler's slice now and then: milliseconds in the \
          tail",
    weight: [80, 10],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let tickless = view.read("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let (isolated, tickless) = (view.isolated(), Cpus::parse(&tickless).unwrap_or_default());
    if view.is_container {
        let own = view.read("/sys/fs/cgroup/cpuset.cpus.effective");
        let own = own.ok().and_then(|text| Cpus::parse(&text)).filter(|cpus| cpus.len() < view.online.len());
        if let Some(own) = own {
            return one(Finding::good(format!("this container has processors {own} of {}", view.online)));
        }
    }
    let last = view.online.iter().last().unwrap_or(0);
    if last == 0 {
        return one(Finding::not_applicable("there is one processor"));
    }
    let some = view.online.iter().skip(view.online.len() / 2).collect::<Cpus>();
    let words = |cpus: &Cpus| format!("isolcpus={cpus} nohz_full={cpus} rcu_nocbs={cpus}");
    if isolated.is_empty() {
        let mend = Mend::boot(&words(&some));
        let found = "no processor is isolated";
        return one(if view.aim == crate::doctor::view::Aim::Latency {
            Finding::advice(found, mend)
        } else {
            Finding::good("none, which throughput does not need")
        });
    }
    let ticking: Cpus = isolated.iter().filter(|cpu| !tickless.contains(*cpu)).collect();
    if !ticking.is_empty() {
        let found = format!("{isolated} are isolated, but {ticking} still take the scheduler's tick");
        return one(Finding::advice(found, Mend::boot(&words(&isolated))));
    }
    one(Finding::good(format!("{isolated} are isolated and without tick")))
}
