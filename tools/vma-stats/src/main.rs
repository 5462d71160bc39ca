//! `vma_stats`: shows what the sockets of running programs do, from the statistics that every accelerated program keeps
//! in a file of its own. Reading costs the program nothing.
//!
//! Reading order: `cli` (options), `attach` (which program; its file is the library's, `programs`), `watch` (the loop),
//! `prometheus` (the same over HTTP), `view` (what is printed).

mod attach;
mod cli;
mod prometheus;
mod view;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use vma_stats::Failure;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let outcome = match cli::parse(&arguments) {
        Ok(cli::Command::Help) => print(&cli::help()),
        Ok(cli::Command::Version) => {
            print(&format!("vmastat: Linked with VMA version: {}\n", env!("CARGO_PKG_VERSION")))
        }
        Ok(cli::Command::Run(options)) => match options.prometheus {
            Some(address) => prometheus::serve(&options, address),
            None => watch::run(&options),
        },
        Err(wrong) => {
            eprintln!("vmastat: {wrong}\n\n{}", cli::usage());
            return ExitCode::from(1);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Our output was a pager or `head`, and it has enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            eprintln!("vmastat: cannot write the output: {error}");
            ExitCode::from(1)
        }
        Err(Failure::Told(text)) => {
            eprintln!("vmastat: {text}");
            ExitCode::from(1)
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
