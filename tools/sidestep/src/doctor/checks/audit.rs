//! The audit system: rules that look at system calls.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Audit;

pub(super) const CHECK: Check = Check {
    id: "audit",
    title: "auditing of system calls",
    why: "with a rule for system calls, each one is recorded or at least matched: 5 to 30 percent of a busy server",
    weight: [45, 45],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    if view.boot_word("audit").is_some_and(|value| value == "0" || value == "off") {
        return one(Finding::good("off (audit=0)"));
    }
    let audit: Audit = match view.fact("") {
        Ok(audit) => audit,
        // 93: the kernel has no such protocol.
        Err(unread) if unread.is_missing() || unread.cause == crate::host::Cause::Failed(libc::EPROTONOSUPPORT) => {
            return one(Finding::good("the kernel has no audit system"));
        }
        Err(unread) if unread.cause == crate::host::Cause::Failed(libc::ECONNREFUSED) => {
            return one(Finding::cannot_tell("the audit system answers the host alone, not a container"));
        }
        Err(unread) => return Err(unread),
    };
    let keep = "audit=0 on the kernel's command line, or no rules in /etc/audit/rules.d";
    one(match audit {
        Audit { enabled: false, .. } => Finding::good("off"),
        Audit { rules: Some(0), .. } => Finding::good("on, without rules: what it costs is not felt"),
        Audit { rules: Some(rules), .. } => {
            Finding::advice(format!("on, with {rules} rules"), Mend::until_reboot("auditctl -e 0", keep))
        }
        Audit { rules: None, .. } => {
            Finding::advice("on; its rules could not be read", Mend::until_reboot("auditctl -l; auditctl -e 0", keep))
        }
    })
}
