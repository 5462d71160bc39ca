//! What this machine lacks for tests in namespaces, in one line each.

use std::fmt;
use std::process::{Command, Stdio};

use crate::packages::TOOLS;

/// One thing that is missing; its `Display` says what and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Effective user id is not 0.
    Root,
    /// `ip netns` cannot make a namespace.
    Namespaces,
    /// The kernel has no AF_XDP sockets.
    AfXdp,
    /// A program is not installed.
    Tool(&'static str),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Root => f.write_str("not root: namespaces and AF_XDP need it; run under sudo"),
            Missing::Namespaces => {
                f.write_str("no network namespaces (ip netns add fails): needs CONFIG_NET_NS, CAP_SYS_ADMIN")
            }
            Missing::AfXdp => f.write_str("no AF_XDP sockets: needs a kernel with CONFIG_XDP_SOCKETS"),
            Missing::Tool(name) => write!(f, "{name} is not installed"),
        }
    }
}

/// What was found missing.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// Empty on a machine that can do everything.
    pub missing: Vec<Missing>,
}

impl Requirements {
    /// All that is missing, in one line; `None` if nothing is.
    pub fn reason(&self) -> Option<String> {
        let lines: Vec<String> = self.missing.iter().map(Missing::to_string).collect();
        if lines.is_empty() { None } else { Some(lines.join("; ")) }
    }
}

/// Looks at the machine. Makes one namespace and removes it again.
pub fn requirements() -> Requirements {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push(Missing::Root);
        return Requirements { missing };
    }
    for tool in TOOLS.iter().filter(|tool| !installed(tool.program)) {
        missing.push(Missing::Tool(tool.program));
    }
    if installed("ip") && crate::Namespace::create("probe").is_err() {
        missing.push(Missing::Namespaces);
    }
    if !has_af_xdp() {
        missing.push(Missing::AfXdp);
    }
    Requirements { missing }
}

/// Whether the effective user is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Whether a program of this name is on the PATH.
pub(crate) fn installed(tool: &str) -> bool {
    if tool.starts_with('/') {
        return std::path::Path::new(tool).exists();
    }
    let found = Command::new("sh").arg("-c").arg(format!("command -v {tool}")).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn has_af_xdp() -> bool {
    // SAFETY: socket takes values; the descriptor is closed here and nowhere else.
    unsafe {
        let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        fd >= 0 && libc::close(fd) == 0
    }
}
