//! `sim`: runs worlds from seeds, and shows one of them.
#![allow(clippy::print_stdout)]

use sim::plan::{Plan, Scope};
use sim::swarm;
use sim::trace::Trace;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
sim: whole networks in virtual time, from seeds

  sim --seconds N          run random worlds for N seconds (default: 10)
  sim --seeds A..B         run the worlds A to B-1
  sim --seed N             run one world and tell about it
    --trace FILE.pcap      and write what its hosts sent, for wireshark or tcpdump
    --log                  and print every frame with its fate
    --lose N,N,...         and lose these frames too, as numbered in --log
  --only udp | tcp         worlds of one protocol
  --failures N             stop after N failing seeds (1)
  --keep DIR               write failing seeds there (tests/seeds)

A failing seed is printed with the command that replays it, byte for byte.
";

struct Options {
    seed: Option<u64>,
    seeds: (u64, u64),
    seconds: Option<u64>,
    trace: Option<String>,
    log: bool,
    lose: Vec<u64>,
    scope: Scope,
    failures: usize,
    keep: Option<String>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("sim: {error}; see sim --help");
            return ExitCode::from(2);
        }
    };
    match options.seed {
        Some(seed) => one(seed, &options),
        None => many(&options),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut o = Options {
        seed: None,
        seeds: (0, 0),
        seconds: None,
        trace: None,
        log: false,
        lose: Vec::new(),
        scope: Scope::Both,
        failures: 1,
        keep: None,
    };
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--help" | "-h" => return Ok(None),
            "--log" => {
                o.log = true;
                continue;
            }
            _ => {}
        }
        let value = arguments.next().ok_or(format!("{name} needs a value, or is no option"))?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("{name} {text}: expected a whole number"));
        match name.as_str() {
            "--seed" => o.seed = Some(number(&value)?),
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or(format!("--seeds {value}: expected A..B"))?;
                o.seeds = (number(from)?, number(to)?);
            }
            "--seconds" => o.seconds = Some(number(&value)?),
            "--trace" => o.trace = Some(value),
            "--lose" => o.lose = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--failures" => o.failures = number(&value)? as usize,
            "--keep" => o.keep = Some(value),
            "--only" => {
                o.scope = Scope::named(&value).ok_or(format!("--only {value}: expected udp or tcp"))?;
            }
            _ => return Err(format!("{name}: no such option")),
        }
    }
    Ok(Some(o))
}

fn one(seed: u64, o: &Options) -> ExitCode {
    let trace = if o.log || o.trace.is_some() { Trace::recording() } else { Trace::default() };
    let mut plan = Plan::from_seed(seed, o.scope);
    plan.lose_frames = o.lose.clone();
    println!(
        "seed {seed}: {} hosts, heals at {:.3} s, faults: {}",
        plan.hosts.len(),
        plan.heals_at as f64 / 1e9,
        plan.faults
    );
    // The trace is wanted most when the engine panics: no catching here.
    let (report, trace) = sim::world::run(plan, trace);
    if o.log {
        print!("{}", trace.text());
    }
    if let Some(path) = &o.trace
        && let Err(error) = trace.write_pcap(path)
    {
        eprintln!("sim: {path}: {error}");
        return ExitCode::FAILURE;
    }
    println!(
        "{} frames, {} bytes and {} datagrams read, {:.0} virtual seconds, digest {:016x}",
        report.frames,
        report.bytes_read,
        report.letters_read,
        report.span as f64 / 1e9,
        report.digest
    );
    match report.violation {
        None => ExitCode::SUCCESS,
        Some(v) => {
            println!("VIOLATION at {:.9} s, host {}: {}", v.at as f64 / 1e9, v.host as isize, v.what);
            ExitCode::FAILURE
        }
    }
}

fn many(o: &Options) -> ExitCode {
    let began = Instant::now();
    let (first, end) = o.seeds;
    let by_time = first == end;
    let (first, end, time) = if by_time {
        // Each run sees other worlds; the seeds it prints replay anywhere.
        let start =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis());
        (start as u64 * 1000, u64::MAX, Some(Duration::from_secs(o.seconds.unwrap_or(10))))
    } else {
        (first, end, o.seconds.map(Duration::from_secs))
    };
    // A panic is reported as the violation of its seed, once.
    std::panic::set_hook(Box::new(|_| {}));
    let sum = swarm::run_many(first, end, time, o.scope, o.failures);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s ({:.0}/s), {} frames, {} bytes and {} datagrams read, {} connections done, {:.0} \
         virtual hours",
        sum.seeds,
        sum.seeds as f64 / seconds,
        sum.frames,
        sum.bytes_read,
        sum.letters_read,
        sum.conversations_done,
        sum.virtual_seconds / 3600.0
    );
    for (seed, violation) in &sum.failures {
        let only = match o.scope {
            Scope::Both => "",
            Scope::Udp => " --only udp",
            Scope::Tcp => " --only tcp",
        };
        println!("seed {seed}: {}", violation.what);
        println!("  replay: cargo run -p sim --release -- --seed {seed}{only} --log --trace {seed}.pcap");
        let dir = o.keep.as_deref().unwrap_or("tests/seeds");
        if std::path::Path::new(dir).is_dir() {
            let text = format!("{}\n{}\n", only.trim(), violation.what);
            let _ = std::fs::write(format!("{dir}/sim-{seed}"), text);
        }
    }
    if sum.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
