//! `sidestep status`: what the keeper of this network namespace holds, for whom, and whom it refused. It is asked, and
//! answers everybody.

use clap::{Arg, ArgAction, ArgMatches, Command};
use keeper::place::Place;
use std::process::ExitCode;
use vma_stats::keeper as told;

pub(crate) fn command() -> Command {
    Command::new("status")
        .about("Show the keeper: interfaces it holds, programs that have them, who was refused and why")
        .arg(
            Arg::new("socket").long("socket").value_name("PATH").help(
                "Where the keeper listens [default: SIDESTEP_KEEPER, else that of this network namespace]",
            ),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object"))
        .after_help(
            "Exit status: 0 done; 1 no keeper runs in this network namespace; 2 it could not be asked.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let place = match options.get_one::<String>("socket") {
        Some(path) => Place::Path(path.clone()),
        None => Place::of(&crate::params::in_force().0.keeper),
    };
    let Some(text) = told::ask(place)? else {
        eprintln!("sidestep status: {}", keeper::client::Error::Absent);
        return Ok(ExitCode::from(1));
    };
    match options.get_flag("json") {
        true => println!("{text}"),
        false => print!("{}", told::page(&text)?),
    }
    Ok(ExitCode::SUCCESS)
}
