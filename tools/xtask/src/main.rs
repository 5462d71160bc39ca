//! `cargo x`: the only entry to building, showing, testing, measuring and checking. One file per command.

use std::process::ExitCode;

use rig::{Error, Result};

mod arguments;
mod bench;
mod build;
mod check;
mod demo;
mod dist;
mod endpoint;
mod fuzz;
mod guests;
mod inert;
mod instructions;
mod long;
mod progress;
#[cfg(test)]
mod security;
mod sim;
mod soak;
mod table;
mod test;

const USAGE: &str = "\
cargo x <command> [options]

  demo                 two hosts, Debian's sockperf, without and with acceleration: one table (about a minute, root)
      --json           the same as JSON
      --seconds N      length of each run (default 2)
      --library PATH   measure this library instead of building target/release/libvma.so
  test                 everything: unit tests and whole products between namespaces (root for the latter)
      --verbose        show all output; otherwise only failures, and all of it in target/x-test.log
      --steady         what fails once and passes when it runs again fails the run as well
      --inert          whole products under a library that does nothing: every test must notice
      [FILTER]         only tests whose name contains it
      --guests         instead: between virtual machines with Debian's kernels and emulated cards (root, about 15 minutes)
      --short          of those only what takes less than five minutes
      --long           instead: event loops and what hung once, ten times each, and 10 000 rounds of kill -9 under libsdp.so
                       (root, about 25 minutes); [FILTER] as above
      --runs N         of those so many runs each
  bench latency        raw AF_XDP floor, kernel blocking and spinning, accelerated, mixed; table, and JSON in target/bench
  bench throughput     messages per second counted at the receiver; table, and JSON in target/bench
  bench apps [NAME..]  servers and commands that people run (see crates/rig/src/apps): kernel, accelerated, mixed
  bench extra          VMA's extra API: CPU of receives without a copy, an echo by completions against epoll
  bench profiles [NAME..]  what each profile of VMA_SPEC is for: kernel, accelerated without and with it (NAME=VALUE tries settings)
  bench together       sockperf, redis, memcached, nginx and PostgreSQL all at once on one interface, against each alone on it
  bench vma-tables     the tables of VMA's manuals, beside the manuals' own figures
  bench loss           goodput over a wire with 20 ms round trip that loses 0.1, 1 and 5 %: against the kernel's CUBIC
      --mib N          transfer N MiB in each run instead of N seconds' worth
  bench connections    memory and cost of a request with 10 and with 100 000 connections
      --connections N  with N instead of 100 000: as many as RLIMIT_NOFILE allows both ends
  bench syn-flood      200 000 SYNs from invented sources: memory, and how long others wait for a connection
  bench sdp            two processes of one host: SDP, loopback, AF_UNIX, what memory allows; latency, streams, connections, CPU
      --programs [NAME..]  instead: redis, memcached, nginx, PostgreSQL on 127.0.0.1, loopback against SDP
      --rounds N       interleaved rounds (default 3), --seconds N, --library PATH, --quick
  bench instructions   instructions per packet through the engine (callgrind), beside those of the last release
      --check          fail when a count grew by more than --tolerance N percent (default 3)
      --save           make these the counts of the release: tests/perf/instructions.json
  sim                  whole networks in virtual time, from seeds (10 s of them; --help tells the rest)
      --seconds N, --seeds A..B, --seed N [--log] [--trace FILE.pcap]
  soak                 parties that talk while links, addresses, routes and processes come and go; nothing may grow
      --minutes N      how long (default 60); --seed N, --library PATH
  fuzz TARGET          coverage-guided: feeds one of fuzz/corpus/* with what a fuzzer makes up, until a find or the end
      --seconds N      how long (default 60); --all instead of TARGET: every target for so long
  check                format, lints, structure of the house
      --structure      the last only: seconds
  dist                 target/dist: a tarball and a Debian package
      --target T       for an older glibc, as x86_64-unknown-linux-gnu.2.28 (needs cargo-zigbuild)
  help                 this text
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    let (command, rest) = match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    // The simulator has help of its own; what an endpoint is told is no option.
    if !matches!(command, "sim" | "endpoint" | "guest")
        && rest.iter().any(|word| matches!(word.as_str(), "--help" | "-h"))
    {
        print!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    match command {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "bench" if rest.first().is_some_and(|what| what == "instructions") => instructions::run(&rest[1..]),
        "bench" => bench::run(rest),
        "sim" => sim::run(rest),
        "soak" => soak::run(rest),
        "fuzz" => fuzz::run(rest),
        "check" => check::run(rest),
        "dist" => dist::run(rest),
        // What the benchmarks start between namespaces; not for people.
        "endpoint" => endpoint::run(rest),
        "guest" => guests::inside::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(Error::new(format!("no command {other:?}; cargo x help lists them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_takes_help_for_an_option() {
        for command in ["demo", "test", "bench", "soak", "fuzz", "check", "dist", "help"] {
            for option in ["--help", "-h"] {
                let words = [command.to_owned(), option.to_owned()];
                assert!(run(&words).is_ok(), "{command} {option}");
            }
        }
        assert!(run(&["bench".into(), "latency".into(), "--help".into()]).is_ok());
        assert!(run(&["walk".into()]).is_err());
    }
}
