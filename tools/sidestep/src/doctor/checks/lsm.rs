//! Security modules that may say no.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "lsm",
    title: "security modules",
    why: "SELinux refuses bpf() and AF_XDP to confined services (httpd_t and the like): their sockets stay with the kernel",
    weight: [32, 28],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    if view.number("/sys/fs/selinux/enforce").is_ok_and(|enforce| enforce == 1) {
        let mend = Mend::by_hand(
            "ausearch -m avc -c PROGRAM shows what was refused; a policy module (audit2allow -M sidestep) with bpf { prog_load \
             map_create } and xdp_socket { create bind } allows it. Leave SELinux on",
        );
        return one(Finding::advice("SELinux enforces; services in domains of their own need a rule", mend));
    }
    if view.read("/sys/kernel/security/lockdown").is_ok_and(|text| text.contains("[confidentiality]")) {
        let mend = Mend::boot("lockdown=integrity");
        return one(Finding::advice("lockdown is at confidentiality, which forbids BPF programs to read memory", mend));
    }
    let all = match view.read("/sys/kernel/security/lsm") {
        Ok(all) => all,
        Err(unread) if unread.is_missing() => return one(Finding::good("none is shown")),
        Err(unread) => return Err(unread),
    };
    one(Finding::good(format!("none that is in the way ({all})")))
}
