//! `cargo x soak`: the test of the same name for as long as wanted, from a seed, with all it says.

use std::process::ExitCode;

use rig::{Context, Result};

use crate::arguments::Arguments;
use crate::build;

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let minutes = arguments.number("--minutes", 60)?;
    let seed = arguments.value("--seed")?;
    let library = arguments.value("--library")?;
    arguments.end()?;
    build::require_namespaces()?;
    let mut command = build::cargo();
    command.args(["test", "--quiet", "-p", "tests", "--test", "soak", "--", "--nocapture"]);
    command.env("SIDESTEP_LIBRARY", build::library(library)?);
    command.env("SIDESTEP_SOAK_SECONDS", (u64::from(minutes) * 60).to_string());
    if let Some(seed) = seed {
        command.env("SIDESTEP_SOAK_SEED", seed);
    }
    let status = command.status().context("cargo test")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
