//! What a check says: a verdict on something, and how to mend it.

use super::action::Action;
use crate::host::{Cause, Unread};
use serde::Serialize;

/// How something is. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// It costs much, or nothing works.
    Bad,
    /// It costs something, for some.
    Advice,
    /// It could not be seen.
    CannotTell,
    Good,
    /// There is no such thing here.
    NotApplicable,
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    /// The interface, where the check is about each.
    pub(crate) subject: Option<String>,
    pub(crate) verdict: Verdict,
    /// What was found; where it could not be seen, why; where it does not apply, why not.
    pub(crate) found: String,
    pub(crate) mend: Option<Mend>,
    /// What was measured, for programs.
    pub(crate) values: Option<serde_json::Value>,
}

impl Finding {
    fn new(verdict: Verdict, found: impl Into<String>, mend: Option<Mend>) -> Finding {
        Finding { subject: None, verdict, found: found.into(), mend, values: None }
    }

    pub(crate) fn good(found: impl Into<String>) -> Finding {
        Finding::new(Verdict::Good, found, None)
    }

    pub(crate) fn bad(found: impl Into<String>, mend: Mend) -> Finding {
        Finding::new(Verdict::Bad, found, Some(mend))
    }

    pub(crate) fn advice(found: impl Into<String>, mend: Mend) -> Finding {
        Finding::new(Verdict::Advice, found, Some(mend))
    }

    pub(crate) fn cannot_tell(why: impl Into<String>) -> Finding {
        Finding::new(Verdict::CannotTell, why, None)
    }

    pub(crate) fn not_applicable(why: impl Into<String>) -> Finding {
        Finding::new(Verdict::NotApplicable, why, None)
    }

    /// With the numbers behind it.
    pub(crate) fn with(mut self, values: &impl Serialize) -> Finding {
        self.values = serde_json::to_value(values).ok();
        self
    }

    pub(crate) fn about(mut self, subject: &str) -> Finding {
        self.subject = Some(subject.to_owned());
        self
    }
}

impl From<Unread> for Finding {
    fn from(unread: Unread) -> Finding {
        let hint = if unread.cause == Cause::Denied { "; root sees more" } else { "" };
        Finding::cannot_tell(format!("{unread}{hint}"))
    }
}

/// How something is mended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mend {
    /// A command for a shell, or what a person has to do.
    pub(crate) command: String,
    /// How it is made to last where a reboot undoes it; `None`: it lasts.
    pub(crate) keep: Option<String>,
    /// What `--fix` does. Empty: it is not for a program to do.
    pub(crate) actions: Vec<Action>,
}

impl Mend {
    /// Something that `--fix` can do, until the next reboot.
    pub(crate) fn actions(actions: Vec<Action>, keep: impl Into<String>) -> Mend {
        let command = actions.iter().map(Action::command).collect::<Vec<_>>().join(" && ");
        Mend { command, keep: Some(keep.into()), actions }
    }

    /// The same with a shorter command.
    pub(crate) fn shown_as(mut self, command: impl Into<String>) -> Mend {
        self.command = command.into();
        self
    }

    /// A value of sysctl.
    pub(crate) fn sysctl(name: &str, value: &str) -> Mend {
        Mend::sysctls(&[(name, value)])
    }

    pub(crate) fn sysctls(all: &[(&str, &str)]) -> Mend {
        let write = |(name, value): &(&str, &str)| Action::Write {
            path: format!("/proc/sys/{}", name.replace('.', "/")),
            value: (*value).to_owned(),
        };
        let lines =
            all.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join("; ");
        Mend::actions(all.iter().map(write).collect(), format!("/etc/sysctl.d/90-sidestep.conf: {lines}"))
    }

    /// A file of sysfs.
    pub(crate) fn write(path: impl Into<String>, value: &str) -> Mend {
        let path = path.into();
        let keep = format!("/etc/tmpfiles.d/sidestep.conf: w {path} - - - - {value}");
        Mend::actions(vec![Action::Write { path, value: value.to_owned() }], keep)
    }

    /// Something that a person does, and that lasts.
    pub(crate) fn by_hand(command: impl Into<String>) -> Mend {
        Mend { command: command.into(), keep: None, actions: Vec::new() }
    }

    /// Something that a person does, until the next reboot.
    pub(crate) fn until_reboot(command: impl Into<String>, keep: impl Into<String>) -> Mend {
        Mend { command: command.into(), keep: Some(keep.into()), actions: Vec::new() }
    }

    /// Words for the kernel's command line.
    pub(crate) fn boot(words: &str) -> Mend {
        Mend::by_hand(format!(
            "add \"{words}\" to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, reboot"
        ))
    }
}
