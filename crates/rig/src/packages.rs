//! Installs Debian packages that a demonstration or a test needs, saying so.

use std::process::Command;

use crate::namespace::run_tool;
use crate::requirements::{installed, is_root};
use crate::{Context, Error, Result};

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name on the PATH.
    pub program: &'static str,
    /// Name for apt-get.
    pub package: &'static str,
}

/// What makes namespaces, links and rules: without these nothing here can run ([`crate::requirements`]).
pub const TOOLS: [Package; 4] = [
    Package { program: "ip", package: "iproute2" },
    Package { program: "ethtool", package: "ethtool" },
    Package { program: "nft", package: "nftables" },
    Package { program: "sysctl", package: "procps" },
];

/// Installs those whose program is missing. Needs root for that; without it, the error says what to type.
pub fn install(wanted: &[Package]) -> Result<()> {
    let missing: Vec<&str> =
        wanted.iter().filter(|one| !installed(one.program)).map(|one| one.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let by_hand = format!("install by hand: apt-get install {list}");
    if !is_root() || !installed("apt-get") {
        return Err(Error::new(format!("missing programs; {by_hand}")));
    }
    eprintln!("installing {list} (apt-get)");
    let apt = |words: &[&str]| {
        run_tool(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(words))
    };
    // Somebody else may be installing: waits for the lock, seconds.
    let mut words = vec!["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"];
    words.extend(&missing);
    // The package lists may be older than the archive; fetch them only when the first attempt fails.
    if apt(&words).is_err() {
        apt(&["update"]).and_then(|_| apt(&words)).context(&by_hand)?;
    }
    Ok(())
}
