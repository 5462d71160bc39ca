//! `sidestep top`: programs, their sockets, what carries each and why, live. It reads the files that programs keep for
//! `vma_stats`, and writes nothing: no program notices it.
//!
//! Reading order: `picture` (what there is), `choice` (what the user wants to see of it), `page` (the lines),
//! `terminal` (the screen and its keys).

mod choice;
mod page;
mod picture;
mod terminal;
#[cfg(test)]
mod tests;

use crate::host::live::statistics_folder;
use choice::{Choice, Order, Step};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use picture::Watcher;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::Screen;

/// Signals end it as a key does, so that the terminal is as it was: they are looked for this often.
const PATIENCE: Duration = Duration::from_millis(200);

/// Columns where nobody's window says it.
const COLUMNS: usize = 160;

pub(crate) fn command() -> Command {
    let orders = Order::ALL.map(|(_, name)| name);
    Command::new("top")
        .about("Watch programs: their sockets, what carries each, and why")
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Print one screen with all rows, and end"),
        )
        .arg(
            Arg::new("interval")
                .long("interval")
                .value_name("SECONDS")
                .default_value("1")
                .value_parser(value_parser!(f64))
                .help("Time between two looks, 0.1 to 60"),
        )
        .arg(
            Arg::new("sort")
                .long("sort")
                .value_name("COLUMN")
                .default_value("calls")
                .value_parser(clap::builder::PossibleValuesParser::new(orders))
                .help("Which rows come first"),
        )
        .arg(
            Arg::new("filter")
                .long("filter")
                .value_name("TEXT")
                .default_value("")
                .hide_default_value(true)
                .help("Rows that contain it: program, address, reason"),
        )
        .arg(
            Arg::new("pid")
                .long("pid")
                .value_name("PID")
                .value_parser(value_parser!(u32))
                .help("This program alone"),
        )
        .arg(
            Arg::new("directory")
                .long("directory")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where programs keep their statistics; default VMA_STATS_SHMEM_DIR or /tmp"),
        )
        .after_help(
            "The key ? lists the keys.\n\n\
             Exit status: 0 done; 1 with --once, when there is no program to show; 2 it could not be done.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let folder = options.get_one::<PathBuf>("directory").map(|folder| vma_stats::place::absolute(folder));
    let folder = folder.unwrap_or_else(|| PathBuf::from(statistics_folder()));
    let mut watcher = Watcher::new(folder, options.get_one::<u32>("pid").copied());
    let seconds = options.get_one::<f64>("interval").copied().unwrap_or(1.0);
    if !(0.1..=60.0).contains(&seconds) {
        return Err(format!("--interval {seconds}: from 0.1 to 60 seconds"));
    }
    let sort = options.get_one::<String>("sort").map_or("", String::as_str);
    let order = Order::ALL.iter().find(|(_, name)| *name == sort).map_or(Order::Calls, |(order, _)| *order);
    let filter = options.get_one::<String>("filter").cloned().unwrap_or_default();
    let mut choice = Choice::new(order, filter, (seconds * 1000.0) as u64);
    if options.get_flag("once") {
        return once(&mut watcher, &choice);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err("this is no terminal; --once prints one screen".to_owned());
    }
    watch(&mut watcher, &mut choice)
}

fn once(watcher: &mut Watcher, choice: &Choice) -> Result<ExitCode, String> {
    watcher.look()?;
    std::thread::sleep(Duration::from_millis(choice.interval_ms));
    let picture = watcher.look()?;
    let width = if std::io::stdout().is_terminal() {
        crossterm::terminal::size().map_or(COLUMNS, |(width, _)| usize::from(width))
    } else {
        COLUMNS
    };
    let text = page::whole(&picture, choice, width);
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(ExitCode::from(u8::from(picture.programs.is_empty())))
}

fn watch(watcher: &mut Watcher, choice: &mut Choice) -> Result<ExitCode, String> {
    let ended = Arc::new(AtomicBool::new(false));
    // Not SIGHUP: without a terminal there is nothing to restore, and nothing to wait for.
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, ended.clone()).map_err(|error| error.to_string())?;
    }
    let mut picture = watcher.look()?;
    let screen = Screen::begin().map_err(|error| format!("the terminal: {error}"))?;
    let mut looked = Instant::now();
    let mut shown = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let interval = Duration::from_millis(choice.interval_ms);
        if !choice.pauses && looked.elapsed() >= interval {
            picture = watcher.look()?;
            looked = Instant::now();
        }
        let (width, height) = screen.size();
        let lines = page::screen(&picture, choice, width, height);
        if lines != shown {
            // Who closed the window has seen enough.
            if screen.show(&lines).is_err() {
                break;
            }
            shown = lines;
        }
        let until = if choice.pauses { PATIENCE } else { interval.saturating_sub(looked.elapsed()) };
        match screen.key(until.min(PATIENCE)) {
            Ok(Some(key)) if choice.key(key, &picture) == Step::Leave => break,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}
