//! `cargo x check`: format, lints, the structure of the house, and the licences of what is built in.

use std::process::ExitCode;

use rig::Result;

use crate::arguments::Arguments;
use crate::build;

mod floors;
pub(crate) mod licences;
mod rooms;
mod tidy;

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let only_structure = arguments.flag("--structure");
    arguments.end()?;
    let mut failed = Vec::new();
    let compiles: &[(&str, &str)] = &[
        ("format", "fmt --all --check"),
        ("lints", "clippy --quiet --workspace --all-targets -- -D warnings"),
        ("manuals", "test --quiet -p config -p stats -p vma-stats -p middlebox -p sidestep the_manual"),
    ];
    for (title, words) in compiles.iter().filter(|_| !only_structure) {
        println!("== {title}");
        if build::run_cargo(words).is_err() {
            failed.push(*title);
        }
    }
    println!("== structure");
    let mut findings = tidy::findings(&build::root())?;
    findings.extend(floors::findings(&build::root())?);
    findings.extend(rooms::findings(&build::root())?);
    findings.extend(licences::findings()?);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.iter().any(|finding| finding.fatal) {
        failed.push("structure");
    }
    if failed.is_empty() {
        println!("check passed");
        return Ok(ExitCode::SUCCESS);
    }
    println!("check failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Something that is not as the house wants it.
pub(crate) struct Finding {
    /// File, or file and line, or crate.
    pub(crate) place: String,
    pub(crate) what: String,
    /// Fails the check; otherwise it is a warning.
    pub(crate) fatal: bool,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.fatal { "error" } else { "warning" };
        write!(f, "{kind}: {}: {}", self.place, self.what)
    }
}
