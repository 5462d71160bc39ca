//! `sidestep completions SHELL`: what a shell completes behind `sidestep`, for packages to install.

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use std::process::ExitCode;

pub(crate) fn command() -> Command {
    Command::new("completions")
        .about("Print what a shell completes (bash, zsh, fish)")
        .arg(Arg::new("shell").required(true).value_parser(["bash", "zsh", "fish"]))
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let name = options.get_one::<String>("shell").map_or("", String::as_str);
    let shell: Shell = name.parse()?;
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::program(), "sidestep", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
