//! `cargo x sim`: builds the simulator for speed and runs it with the arguments as they are.

use rig::{Error, Result};
use std::process::{Command, ExitCode};

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--profile", "sim", "-p", "sim", "--"])
        .args(words)
        .status()
        .map_err(|error| Error::new(format!("cargo run -p sim: {error}; is cargo in PATH?")))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
