//! What `--fix` can change, and nothing else: a value in procfs or sysfs, and three settings of ethtool. Each knows its
//! command, what is there before, and how to put that back.

use crate::host::facts::Coalesce;
use crate::host::{Cause, Unread, ethtool};
use serde::{Deserialize, Serialize};

/// One change. Doing it twice is doing it once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// A file of procfs or sysfs.
    Write { path: String, value: String },
    /// Ring sizes.
    Rings { interface: String, rx: u32, tx: u32 },
    /// Interrupt coalescing.
    Coalesce { interface: String, to: Coalesce },
    /// An offload, by the kernel's name.
    Feature { interface: String, name: String, on: bool },
}

impl Action {
    /// The same as a command for a shell.
    pub(crate) fn command(&self) -> String {
        match self {
            Action::Write { path, value } => match path.strip_prefix("/proc/sys/") {
                Some(name) => {
                    let value = if value.contains(' ') { format!("'{value}'") } else { value.clone() };
                    format!("sysctl -w {}={value}", name.replace('/', "."))
                }
                None => format!("echo {value} > {path}"),
            },
            Action::Rings { interface, rx, tx } => format!("ethtool -G {interface} rx {rx} tx {tx}"),
            Action::Coalesce { interface, to } => format!(
                "ethtool -C {interface} adaptive-rx {} rx-usecs {}",
                if to.adaptive_rx { "on" } else { "off" },
                to.rx_usecs
            ),
            Action::Feature { interface, name, on } => {
                format!("ethtool -K {interface} {name} {}", if *on { "on" } else { "off" })
            }
        }
    }

    /// The action that restores what is there now.
    pub(crate) fn former(&self) -> Result<Action, Unread> {
        let unread = |what: &str, errno| Unread::new(what, Cause::from_errno(errno));
        Ok(match self {
            Action::Write { path, .. } => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| unread(path, error.raw_os_error().unwrap_or(libc::EIO)))?;
                Action::Write { path: path.clone(), value: chosen(&text) }
            }
            Action::Rings { interface, .. } => {
                let now = ethtool::rings(interface).map_err(|errno| unread(&self.command(), errno))?;
                Action::Rings { interface: interface.clone(), rx: now.rx, tx: now.tx }
            }
            Action::Coalesce { interface, .. } => {
                let to = ethtool::coalesce(interface).map_err(|errno| unread(&self.command(), errno))?;
                Action::Coalesce { interface: interface.clone(), to }
            }
            Action::Feature { interface, name, .. } => {
                let all = ethtool::features(interface).map_err(|errno| unread(&self.command(), errno))?.all;
                let now = all.get(name).ok_or_else(|| Unread::new(name, Cause::Missing))?;
                Action::Feature { interface: interface.clone(), name: name.clone(), on: now.on }
            }
        })
    }

    /// Makes the change.
    pub(crate) fn apply(&self) -> Result<(), Unread> {
        let outcome = match self {
            Action::Write { path, value } => {
                std::fs::write(path, value).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
            }
            Action::Rings { interface, rx, tx } => ethtool::set_rings(interface, *rx, *tx),
            Action::Coalesce { interface, to } => ethtool::set_coalesce(interface, to),
            Action::Feature { interface, name, on } => ethtool::set_feature(interface, name, *on),
        };
        outcome.map_err(|errno| Unread::new(self.command(), Cause::from_errno(errno)))
    }
}

/// The value that a file of settings stands at: `always [madvise] never` stands at madvise.
pub(crate) fn chosen(text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\0']);
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(word, _)| word).split('\t').collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracketed_word_is_the_value() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("4096\t87380\t6291456\n"), "4096 87380 6291456");
    }

    #[test]
    fn commands_are_those_that_people_type() {
        let write = |path: &str, value: &str| {
            Action::Write { path: path.to_owned(), value: value.to_owned() }.command()
        };
        assert_eq!(write("/proc/sys/net/core/busy_poll", "50"), "sysctl -w net.core.busy_poll=50");
        assert_eq!(write("/proc/sys/net/ipv4/tcp_rmem", "1 2 3"), "sysctl -w net.ipv4.tcp_rmem='1 2 3'");
        assert_eq!(write("/sys/a", "never"), "echo never > /sys/a");
    }
}
