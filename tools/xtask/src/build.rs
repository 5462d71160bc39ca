//! Where things are, and the builds that the commands start from.

use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Context, Error, Result};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `cargo`, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs cargo to its end with its output on the terminal.
pub(crate) fn run_cargo(words: &str) -> Result<()> {
    let status = cargo().args(words.split_whitespace()).status().context("cargo")?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("cargo {words} failed"))) }
}

/// libvma.so to measure: the one given, or a fresh release build.
pub(crate) fn library(given: Option<String>) -> Result<PathBuf> {
    given_or_built(given, "preload", "libvma.so")
}

/// libsdp.so, likewise.
pub(crate) fn libsdp(given: Option<String>) -> Result<PathBuf> {
    given_or_built(given, "libsdp", "libsdp.so")
}

fn given_or_built(given: Option<String>, package: &str, name: &str) -> Result<PathBuf> {
    let path = match given {
        Some(path) => PathBuf::from(path),
        None => {
            eprintln!("building target/release/{name}");
            run_cargo(&format!("build --quiet --release -p {package}"))?;
            target().join("release").join(name)
        }
    };
    path.canonicalize().context(path.display())
}

/// A program of this workspace, built for measuring: its path.
pub(crate) fn release(package: &str) -> Result<PathBuf> {
    run_cargo(&format!("build --quiet --release -p {package}"))?;
    Ok(target().join("release").join(package))
}

/// This program as `release` builds it: benchmarks start its endpoints.
pub(crate) fn release_xtask() -> PathBuf {
    target().join("release/xtask")
}

/// Installs the tools that make namespaces; stops with one line when none can be made here.
pub(crate) fn require_namespaces() -> Result<()> {
    if rig::is_root() {
        rig::install(&rig::TOOLS)?;
    }
    match rig::requirements().reason() {
        Some(reason) => Err(Error::new(reason)),
        None => Ok(()),
    }
}

/// Says so when others use the CPUs, because latencies measured then are those of the scheduler.
pub(crate) fn warn_if_busy() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute: f64 = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    if minute > 1.0 {
        eprintln!("the machine is busy (load {minute}): figures will be rough");
    }
}
