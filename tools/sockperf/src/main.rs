//! Socket benchmark, compatible with the original sockperf on the wire, on the command line and in its result lines.
//!
//! Reading order: `message` (the wire), `cli` (the options), `client` and `server` (the two roles), `report` (what
//! is shown). docs/sockperf.md says how results are to be read and where we differ from the original.

#![allow(unreachable_pub, reason = "in a program nothing is reachable from outside")]

mod address;
mod calls;
mod cli;
mod client;
mod clock;
mod cpu;
mod exit;
mod extra_api;
mod feed;
mod histogram;
mod iomux;
mod message;
mod peer;
mod playback_file;
mod report;
mod runs;
mod server;
mod settings;
mod signals;
mod sockets;
mod statistics;
mod stream;
mod timeline;
mod tls;

use std::process::ExitCode;

use cli::{Misuse, Request};
use clock::Clock;
use exit::{Code, Result};
use settings::{Mode, Settings};

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let settings = match cli::parse(&arguments) {
        Ok(Request::Run(settings)) => settings,
        Ok(Request::Show(text)) => {
            report::say(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(Misuse { failure, mode }) => {
            let command = mode.map_or("sockperf help", |m| cli::help::hint(m));
            eprintln!("sockperf: {failure}\nsockperf: '{command}' shows what is possible");
            return ExitCode::from(failure.code as u8);
        }
    };
    match run(&settings) {
        Ok(()) if report::is_cut() => {
            eprintln!("sockperf: standard output cannot be written: the result above is not whole");
            ExitCode::from(Code::NotFound as u8)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                eprintln!("sockperf: {failure}");
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(s: &Settings) -> Result<()> {
    let clock = Clock::new(s.no_rdtsc);
    let first = clock.reading();
    report::set_up(s.color, [&s.json, &s.csv].iter().any(|f| f.as_deref() == Some("-")));
    raise_descriptor_limit();
    if s.daemonize {
        // SAFETY: no other thread runs yet; directory and output stay as they are, like on the original.
        if unsafe { libc::daemon(1, 1) } != 0 {
            return Err(exit::Failure::new(Code::Fatal, "cannot go into the background"));
        }
    }
    if let Some(library) = &s.load {
        calls::load(library)?;
    }
    signals::install();
    if s.debug {
        report::say(&format!("sockperf: +INFO: {}", text_of(s)));
    }
    report::say(&report::text::version_line());
    if s.mode == Mode::Server { server::run(s, clock, first) } else { runs::run(s, clock, first) }
}

/// Feed files name thousands of sockets; the soft limit is for programs that use select.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn text_of(s: &Settings) -> String {
    let endpoints: Vec<String> = s.endpoints.iter().map(|e| e.address.to_string()).collect();
    format!(
        "mode = {:?}, sockets = {}, iomux = {}, msg_size = {}, range = {}, burst = {}, pace = {:?}, span = {:?}, \
         reply_every = {}, tcp_nodelay = {}, nonblocked = {}, timeout = {} ms, threads = {}, \
         clock = {}, accelerator API = {}",
        s.mode,
        endpoints.join(" "),
        s.mux.name(),
        s.msg_size,
        s.range,
        s.burst,
        s.pace,
        s.span,
        s.reply_every,
        s.no_delay(),
        s.nonblocked,
        s.mux_timeout_ms,
        s.threads,
        if Clock::new(s.no_rdtsc).is_tsc() { "TSC" } else { "CLOCK_MONOTONIC" },
        extra_api::is_present()
    )
}
