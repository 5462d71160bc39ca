//! Is the XDP program compiled?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::KernelConfig;

pub(super) const CHECK: Check = Check {
    id: "bpf-jit",
    title: "compilation of BPF programs",
    why: "the program that steers packets runs for each of them: interpreted it takes 5 to 10 times as long",
    weight: [63, 63],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    match view.sysctl_number("net.core.bpf_jit_enable") {
        Ok(0) => one(Finding::bad("off: programs are interpreted", Mend::sysctl("net.core.bpf_jit_enable", "1"))),
        Ok(_) => one(Finding::good("on")),
        // The file belongs to the first network namespace, and to root.
        Err(unread) => {
            let config: KernelConfig = view.fact("").map_err(|_| unread)?;
            let always = config.on.iter().any(|option| option == "CONFIG_BPF_JIT_ALWAYS_ON");
            one(if always {
                Finding::good("always (the kernel has no interpreter)")
            } else {
                Finding::cannot_tell("net.core.bpf_jit_enable is for root in the first network namespace")
            })
        }
    }
}
