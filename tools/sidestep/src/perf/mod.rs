//! `sidestep perf`: what a stream carries and how fast requests are answered, and what that costs the processors, in
//! the form in which netperf tells it.
//!
//! ```text
//!   words.rs        what the two ends tell each other
//!   connection.rs   TCP or AF_UNIX, blocking or spinning
//!   serve.rs        the end that answers
//!   ask.rs          the end that measures
//!   figures.rs      what was measured, as a page and as JSON
//!   times.rs        the distribution of round trips
//!   table.rs        TCP, SDP on one side, SDP on both: this program again, as both ends
//! ```

mod ask;
mod connection;
mod figures;
mod serve;
mod table;
mod times;
mod words;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use connection::Address;
use std::process::ExitCode;
use std::time::Duration;
use words::{Asked, MESSAGE_MAX, Test};

/// netperf's.
const PORT: u16 = 12865;
const SECONDS: u64 = 10;

pub(crate) fn command() -> Command {
    let value = |name: &'static str, of: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(of).help(help)
    };
    let number = |name: &'static str, of: &'static str, help: &'static str| {
        value(name, of, help).value_parser(value_parser!(u64).range(1..=MESSAGE_MAX))
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("perf")
        .about("Measure streams and requests as netperf does: rate, processor time, service demand")
        .arg(
            Arg::new("test")
                .required(true)
                .value_parser(["serve", "stream", "rr", "crr", "table"])
                .help("The end that answers; a stream; requests; a connection for each request; a table of TCP and SDP"),
        )
        .arg(Arg::new("address").help("IP address with or without :PORT (12865), or the path of an AF_UNIX socket"))
        .arg(
            value("seconds", "N", "How long to measure (10; each row of the table 1)")
                .value_parser(value_parser!(u64).range(1..=86_400)),
        )
        .arg(number("size", "BYTES", "Of each send of a stream").default_value("65536"))
        .arg(number("request", "BYTES", "Of a request").default_value("1"))
        .arg(number("response", "BYTES", "Of an answer").default_value("1"))
        .arg(flag("spin", "Use calls that do not block, again and again"))
        .arg(value("cpu", "N", "Stay on this processor").value_parser(value_parser!(usize)))
        .arg(flag("once", "serve: end after one measurement"))
        .arg(
            value("rounds", "N", "table: the median of so many")
                .value_parser(value_parser!(u32).range(1..=1000))
                .default_value("3"),
        )
        .arg(value("library", "PATH", "table: another libsdp.so than the installed one"))
        .arg(flag("json", "Print one JSON object"))
        .after_help(
            "Examples, the first beside one of the others:\n  \
             LD_PRELOAD=libsdp.so sidestep perf serve 127.0.0.1\n  \
             LD_PRELOAD=libsdp.so sidestep perf stream 127.0.0.1\n  \
             sidestep perf rr 127.0.0.1 --request 64 --response 64\n  \
             sidestep perf table\n\n\
             Utilisation is of one processor, and of this process alone; service demand is the processor time for a KB or a \
             transaction.\n\
             Exit status: 0 measured; 2 it could not be, with the reason.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    if let Some(cpu) = options.get_one::<usize>("cpu") {
        sys::thread::pin(*cpu)
            .map_err(|errno| format!("--cpu {cpu}: {}", std::io::Error::from_raw_os_error(errno)))?;
    }
    let number = |name: &str| options.get_one::<u64>(name).copied();
    let (spins, json) = (options.get_flag("spin"), options.get_flag("json"));
    let address = options.get_one::<String>("address");
    let name = options.get_one::<String>("test").map_or("", String::as_str);
    let test = match Test::named(name) {
        Some(test) => test,
        None if name == "table" => return table::run(options),
        None => {
            let address = Address::parse(address.map_or("0.0.0.0", String::as_str))?;
            return serve::run(&address, spins, options.get_flag("once"));
        }
    };
    let address = address
        .ok_or_else(|| format!("whom? sidestep perf {name} ADDRESS, where `sidestep perf serve` runs"))?;
    let size = |name: &str| number(name).unwrap_or(1) as usize;
    let asked = match test {
        Test::Stream => Asked { test, request: size("size"), response: 0 },
        Test::Requests | Test::Connections => {
            Asked { test, request: size("request"), response: size("response") }
        }
    };
    let seconds = Duration::from_secs(number("seconds").unwrap_or(SECONDS));
    let figures = ask::measure(&Address::parse(address)?, asked, seconds, spins)?;
    if json {
        println!("{}", figures.json());
    } else {
        print!("{}", figures.page());
    }
    Ok(ExitCode::SUCCESS)
}
