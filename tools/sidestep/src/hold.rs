//! `sidestep hold`: keeps processors from deep sleep for as long as a program lives.
//!
//! The kernel keeps the promise written into /dev/cpu_dma_latency while the file is open. So a process of ours holds it
//! open and ends with the program; the program itself is the process that was started, with its number, its signals and
//! its exit status, and may close whatever it likes.

use crate::host::system;
use clap::{Arg, ArgMatches, Command, value_parser};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};

const DEVICE: &str = "/dev/cpu_dma_latency";

pub(crate) fn command() -> Command {
    Command::new("hold")
        .about("Keep processors from deep sleep while a program lives")
        .after_help(
            "/dev/cpu_dma_latency is held, for all processors. The limit of a single one, \
             /sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us, is not touched: nothing would put it back \
             after a kill -9; the manual page has more.",
        )
        .arg(
            Arg::new("latency")
                .long("latency")
                .value_name("US")
                .value_parser(value_parser!(i32).range(0..))
                .default_value("0")
                .help("Allow idle states that take this long to leave, microseconds"),
        )
        .arg(
            Arg::new("pid")
                .long("pid")
                .value_name("PID")
                .value_parser(value_parser!(i32).range(1..))
                .conflicts_with("program")
                .help("As long as this process lives"),
        )
        .arg(
            Arg::new("program")
                .value_name("PROGRAM")
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .help("Run this program, and hold while it lives; without one, until interrupted"),
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let latency = options.get_one::<i32>("latency").copied().unwrap_or(0);
    if let Some(words) = options.get_many::<String>("program") {
        return start(latency, &words.cloned().collect::<Vec<_>>());
    }
    let mut device = std::fs::OpenOptions::new().write(true).open(DEVICE).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; only root may, unless a udev rule gives the device to a group"
            }
            std::io::ErrorKind::NotFound => {
                "; this kernel or container has none (docker: --device=/dev/cpu_dma_latency)"
            }
            _ => "",
        };
        format!("cannot open {DEVICE}: {error}{hint}")
    })?;
    device.write_all(&latency.to_ne_bytes()).map_err(|error| format!("cannot write {DEVICE}: {error}"))?;
    match options.get_one::<i32>("pid") {
        Some(pid) => {
            let gone = system::process_end(*pid).map_err(|error| format!("process {pid}: {error}"))?;
            // Who started us waits for this line.
            println!("held");
            gone().map_err(|error| format!("process {pid}: {error}"))?;
        }
        None => {
            println!("{DEVICE} is held at {latency} us until this is interrupted");
            loop {
                std::thread::park();
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A process of ours that holds the device for as long as this one lives, whatever this one becomes. It has said why if
/// there is none.
pub(crate) fn holder(latency: i32) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let mut holder = std::process::Command::new(own)
        .args(["hold", "--latency", &latency.to_string(), "--pid", &std::process::id().to_string()])
        // The library is for the program alone.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the holder: {error}"))?;
    let mut line = String::new();
    if let Some(output) = holder.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut line);
    }
    if line.trim() != "held" {
        let _ = holder.wait();
        return Err(format!("{DEVICE} is not held"));
    }
    Ok(holder)
}

/// Starts the holder, and becomes the program.
fn start(latency: i32, words: &[String]) -> Result<ExitCode, String> {
    let mut holder = holder(latency).map_err(|error| format!("the program was not started: {error}"))?;
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let error = std::process::Command::new(program).args(arguments).exec();
    let _ = holder.kill();
    let _ = holder.wait();
    Err(format!("cannot run {program}: {error}"))
}
