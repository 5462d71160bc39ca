//! `sidestep doctor`: is this host ready to be fast, and if not, what to do? It looks, and changes nothing unless asked
//! to (`--fix`).
//!
//! Reading order: [`checks`] (the table), [`view`] (what checks ask), [`finding`] (what they say), [`report`] (what is
//! printed), [`action`] and [`fix`] (what `--fix` changes, and how it is undone).

mod action;
mod checks;
mod finding;
mod fix;
mod report;
mod view;

use crate::host::Host;
use crate::host::facts::Program;
use crate::host::live::Live;
use crate::host::recording::{Recorder, Recording};
use checks::Check;
use clap::{Arg, ArgAction, ArgMatches, Command};
use report::Report;
use std::process::ExitCode;
use view::{Aim, View};

pub(crate) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("doctor")
        .about("Is this host ready to be fast, and if not, what to do?")
        .arg(
            Arg::new("interface")
                .long("interface")
                .short('i')
                .value_name("IF")
                .action(ArgAction::Append)
                .help("Examine this interface (may be repeated); default: all that could be accelerated"),
        )
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("AIM")
                .value_parser(["latency", "throughput"])
                .default_value("latency")
                .help("What the host shall be good at"),
        )
        .arg(
            Arg::new("program")
                .long("program")
                .short('p')
                .value_name("PID")
                .value_parser(clap::value_parser!(u32))
                .help("Ask about this running program, too"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("CHECK")
                .action(ArgAction::Append)
                .value_parser(checks::all().map(|check| check.id).collect::<Vec<_>>())
                .hide_possible_values(true)
                .help("Make this check alone (may be repeated; --list names them)"),
        )
        .arg(
            Arg::new("recorded")
                .long("recorded")
                .value_name("FILE")
                .help("Examine the host in a recording (host.txt of a bug report) instead of this one"),
        )
        .arg(
            Arg::new("record")
                .long("record")
                .value_name("FILE")
                .help("Write down what was read, for --recorded"),
        )
        .arg(flag("fix", "Make the changes that it proposes, one by one"))
        .arg(flag("undo", "Put back what --fix has changed").conflicts_with("fix"))
        .arg(flag("dry-run", "Only say what --fix or --undo would do"))
        .arg(flag("yes", "Do not ask before each change").short('y'))
        .arg(
            Arg::new("journal")
                .long("journal")
                .value_name("FILE")
                .default_value(fix::JOURNAL)
                .help("Where --fix writes down what it changes"),
        )
        .arg(flag("quick", "Look, and do not measure"))
        .arg(
            flag("json", "Print JSON (/usr/share/sidestep/doctor.schema.json) instead of a page")
                .conflicts_with_all(["fix", "undo", "dry-run", "list"]),
        )
        .arg(flag("verbose", "Say of good things, too, what was found").short('v'))
        .arg(flag("list", "List the checks and end"))
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let program = options.get_one::<u32>("program").copied();
    let recording = options.get_one::<String>("recorded").map(|path| recording(path)).transpose()?;
    // What takes time is left out where nobody waits for numbers, and where nobody has taken them.
    let measure = !["quick", "fix"].iter().any(|name| options.get_flag(name))
        && recording.as_ref().is_none_or(|recording| recording.has("loopback"));
    let chosen = chosen(options, measure, program.is_some())?;
    if options.get_flag("list") {
        chosen.iter().for_each(|check| println!("{:16} {}", check.id, check.title));
        return Ok(ExitCode::SUCCESS);
    }
    let (journal, dry) = (
        options.get_one::<String>("journal").map_or(fix::JOURNAL, String::as_str),
        options.get_flag("dry-run"),
    );
    if options.get_flag("undo") {
        return Ok(status(fix::undo(journal, dry)?));
    }
    let host: &dyn Host = recording.as_ref().map_or(&Live as &dyn Host, |recording| recording);
    let recorder = Recorder::new(host);
    let aim = if options.get_one::<String>("for").is_some_and(|aim| aim == "throughput") {
        Aim::Throughput
    } else {
        Aim::Latency
    };
    let named: Vec<String> = options.get_many("interface").into_iter().flatten().cloned().collect();
    let mut view = View::new(&recorder, aim, &named)?;
    view.program = program;
    if let Some(pid) = program
        && let Err(unread) = view.fact::<Program>(&view.program())
        && unread.is_missing()
    {
        return Err(format!("there is no process {pid}"));
    }
    let report = Report::new(&view, &chosen);
    if let Some(path) = options.get_one::<String>("record") {
        std::fs::write(path, recorder.recording().text())
            .map_err(|error| format!("cannot write {path}: {error}"))?;
    }
    if options.get_flag("fix") {
        if recording.is_some() && !dry {
            return Err("a recorded host cannot be mended; --dry-run says what would be done".to_owned());
        }
        return Ok(status(fix::fix(&report, journal, dry, options.get_flag("yes"))?));
    }
    if options.get_flag("json") {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.page(options.get_flag("verbose")));
    }
    Ok(status(report.is_well()))
}

/// The checks that the options mean.
fn chosen(options: &ArgMatches, measure: bool, with_program: bool) -> Result<Vec<&'static Check>, String> {
    if options.get_flag("list") {
        return Ok(checks::all().collect());
    }
    let Some(only) = options.get_many::<String>("only") else { return Ok(kinds(measure, with_program)) };
    let only: Vec<&String> = only.collect();
    let is_among = |checks: &[Check], id: &str| checks.iter().any(|check| check.id == id);
    for id in &only {
        if options.get_flag("quick") && is_among(checks::MEASUREMENTS, id) {
            return Err(format!("--only {id} is a measurement, and --quick makes none"));
        }
        if !with_program && is_among(checks::OF_PROGRAMS, id) {
            return Err(format!("--only {id} looks at a program: name it by --program PID"));
        }
    }
    Ok(checks::all().filter(|check| only.iter().any(|id| *id == check.id)).collect())
}

fn kinds(measure: bool, with_program: bool) -> Vec<&'static Check> {
    let measured = checks::MEASUREMENTS.iter().filter(|_| measure);
    let of_program = checks::OF_PROGRAMS.iter().filter(|_| with_program);
    checks::LOOKS.iter().chain(measured).chain(of_program).collect()
}

fn status(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The page and the JSON of a host, for a bug report.
pub(crate) fn examine(host: &dyn Host) -> Result<(String, String), String> {
    let view = View::new(host, Aim::Latency, &[])?;
    let report = Report::new(&view, &checks::LOOKS.iter().collect::<Vec<_>>());
    Ok((report.page(true), format!("{:#}", report.json())))
}

fn recording(path: &str) -> Result<Recording, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let recording = Recording::parse(&text).map_err(|wrong| format!("{path}: {wrong}"))?;
    match recording.is_empty() {
        true => Err(format!("{path}: no recording: it has nothing of a host (host.txt of a bug report has)")),
        false => Ok(recording),
    }
}

#[cfg(test)]
mod tests;
