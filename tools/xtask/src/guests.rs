//! `cargo x test --guests`: the product between virtual machines, with Debian's kernels and emulated network cards. For
//! what veth cannot show: real drivers, other kernels, and whether others on the host are disturbed.
//!
//! Emulation is slow, so times are shown and never judged. Judged are: how packets came (kernel, generic, copying, zero
//! copy), whether every answer was right, and whether the card lost its carrier.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rig::{Error, Package, Result};

use crate::build;
use crate::progress::Progress;
use crate::table::Table;
use cache::Cache;
use cases::{Case, During, Run, Wanted};
use machine::{ADDRESSES, Machine, Pair};

mod cache;
mod cases;
mod doctor;
mod image;
pub(crate) mod inside;
mod machine;

/// What runs in the guests is the host's.
const PACKAGES: [Package; 4] = [
    Package { program: "ethtool", package: "ethtool" },
    Package { program: "ip", package: "iproute2" },
    Package { program: "tc", package: "iproute2" },
    Package { program: "xz", package: "xz-utils" },
];

/// For one command in a guest.
const PATIENCE: Duration = Duration::from_secs(180);

/// The short form begins nothing any more after this, so that it ends within five minutes.
const SHORT: Duration = Duration::from_secs(210);

/// What one run had.
struct Seen {
    had: String,
    /// What went wrong, if anything.
    wrong: Vec<String>,
    /// The longest times in which somebody else had no answer: at the start, while it ran, at the end. Milliseconds.
    gaps: [u64; 3],
    carrier_lost: u64,
}

pub(crate) fn run(short: bool, filter: Option<&str>) -> Result<ExitCode> {
    let mut cases: Vec<Case> =
        cases::all().into_iter().filter(|case| case.is_chosen(short, filter)).collect();
    // "virtio_net 6.1" is the beginning of others' names.
    if cases.iter().any(|case| Some(case.name().as_str()) == filter) {
        cases.retain(|case| Some(case.name().as_str()) == filter);
    }
    if cases.is_empty() {
        return Err(Error::new("no such guests; the table of cargo x test --guests names them"));
    }
    if let Err(reason) = able() {
        println!("SKIPPED guests: {reason}");
        println!("0 right, 0 wrong, {} skipped", cases.len());
        return Ok(ExitCode::SUCCESS);
    }
    rig::on_signals();
    rig::remove_leftovers();
    let library = build::library(None)?;
    build::release("xtask")?;
    let sidestep = build::release("sidestep")?.display().to_string();
    let cache = Cache::open()?;
    println!("kernels and qemu are kept in {}", cache.folder().display());
    let mut table =
        Table::new(&["guests", "asked", "had", "answers", "carrier lost", "start ms", "run ms", "end ms"]);
    let (mut right, mut wrong, mut skipped) = (0, Vec::new(), Vec::new());
    let (mut progress, begun) = (Progress::new(cases.len()), Instant::now());
    for case in &cases {
        let name = case.name();
        progress.step(&name);
        if short && begun.elapsed() > SHORT {
            skipped.push(format!("{name}: the machine is too busy for it to end in time"));
            continue;
        }
        let mut pair = match boot(&cache, case) {
            Ok(pair) => pair,
            Err(Trouble::Missing(reason)) => {
                skipped.push(format!("{name}: {reason}"));
                continue;
            }
            Err(Trouble::Broken(error)) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let (said, mistakes) = doctor::examine(&mut pair.a, case, &sidestep)
            .unwrap_or_else(|error| ("?".to_owned(), vec![error.to_string()]));
        let mut row = vec![name.clone(), "the doctor".to_owned(), said, rightness(&mistakes)];
        row.resize(8, String::new());
        table.row(row);
        right += usize::from(mistakes.is_empty());
        wrong.extend(mistakes.iter().map(|what| format!("{name}: {what}")));
        for run in case.runs.iter().filter(|run| !short || run.short) {
            if short && begun.elapsed() > SHORT {
                skipped
                    .push(format!("{name}, {}: the machine is too busy for it to end in time", run.label()));
                continue;
            }
            let seen = go(&mut pair, run, &library.display().to_string());
            let seen = seen.unwrap_or_else(|error| Seen {
                had: "?".to_owned(),
                wrong: vec![error.to_string()],
                gaps: [0; 3],
                carrier_lost: 0,
            });
            let [start, during, end] = seen.gaps.map(|gap| gap.to_string());
            table.row(vec![
                name.clone(),
                run.label(),
                seen.had,
                rightness(&seen.wrong),
                seen.carrier_lost.to_string(),
                start,
                during,
                end,
            ]);
            right += usize::from(seen.wrong.is_empty());
            wrong.extend(seen.wrong.iter().map(|what| format!("{name}, {}: {what}", run.label())));
        }
        table.rule();
    }
    drop(progress);
    table.print();
    println!("(start, run, end: the longest time in which a connection of somebody else's had no answer)");
    skipped.iter().for_each(|line| println!("SKIPPED  {line}"));
    wrong.iter().for_each(|line| println!("FAILED   {line}"));
    println!("{right} right, {} wrong, {} skipped", wrong.len(), skipped.len());
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rightness(wrong: &[String]) -> String {
    if wrong.is_empty() { "right" } else { "WRONG" }.to_owned()
}

/// Whether virtual machines can be had here at all.
fn able() -> Result<()> {
    build::require_namespaces()?;
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Err(Error::new("no /dev/net/tun"));
    }
    rig::install(&PACKAGES)
}

enum Trouble {
    /// What is needed cannot be had: no network, no such package.
    Missing(Error),
    Broken(Error),
}

fn boot(cache: &Cache, case: &Case) -> std::result::Result<Pair, Trouble> {
    let kernel = cache.kernel(case.kernel).map_err(Trouble::Missing)?;
    let qemu = cache.qemu().map_err(Trouble::Missing)?;
    cache.busybox().map_err(Trouble::Missing)?;
    let mut pair = Pair::boot(cache, &qemu, &kernel, case.plan).map_err(Trouble::Broken)?;
    prepare(&mut pair).map_err(Trouble::Broken)?;
    Ok(pair)
}

fn program() -> String {
    build::release_xtask().display().to_string()
}

/// A server of the kernel's on B, and a wire that carries.
fn prepare(pair: &mut Pair) -> Result<()> {
    serve(&mut pair.b, &format!("{}:7000", ADDRESSES[1]), "")?;
    let reach = format!(
        "for i in $(seq 40); do (echo x >/dev/tcp/{}/7000) 2>/dev/null && exit 0; sleep 0.5; done; exit 1",
        ADDRESSES[1]
    );
    pair.a.must(&format!("bash -c '{reach}'"), PATIENCE)?;
    Ok(())
}

/// Starts a server in the background, and waits until it serves.
fn serve(machine: &mut Machine, address: &str, environment: &str) -> Result<()> {
    let serve = format!(
        "rm -f /run/served; {environment} setsid {} guest serve {address} >/run/served 2>&1 & echo $! >/run/server; \
         for i in $(seq 300); do grep -q serving /run/served && exit 0; sleep 0.2; done; cat /run/served; exit 1",
        program()
    );
    machine.must(&serve, PATIENCE).map(drop)
}

/// One run: the library on A as a client of B's kernel, then as its server; beside it somebody else's connection from A
/// to B.
fn go(pair: &mut Pair, run: &Run, library: &str) -> Result<Seen> {
    let program = program();
    let carrier = "cat /sys/class/net/eth0/carrier_down_count";
    if let During::MoreQueues(before, _) = run.during {
        pair.a.must(&format!("ethtool -L eth0 combined {before}; sleep 5"), PATIENCE)?;
    }
    if run.during == During::Loss {
        let netem = "tc qdisc add dev eth0 root netem delay 20ms loss 2% reorder 5% 50%";
        pair.b.must(netem, PATIENCE)?;
    }
    let before: u64 = number(&pair.a.must(carrier, PATIENCE)?);
    let environment = format!(
        "LD_PRELOAD={library} SIDESTEP_CARRIER=wire VMA_TRACELEVEL=debug VMA_LOG_FILE=/run/log {}",
        run.asked.environment()
    );
    let watch = format!(
        "rm -f /run/stop /run/log; setsid {program} guest watch {}:7000 /run/stop >/run/watched 2>&1 & \
         for i in $(seq 200); do grep -q watching /run/watched && exit 0; sleep 0.1; done; cat /run/watched; exit 1",
        ADDRESSES[1]
    );
    pair.a.must(&watch, PATIENCE)?;
    let (seconds, bulk) = match run.during {
        During::MoreQueues(..) => (20, 500_000),
        During::Loss => (2, 300_000),
        During::Nothing => (2, 2_000_000),
    };
    let more = match run.during {
        During::MoreQueues(_, after) => format!("(sleep 8; ethtool -L eth0 combined {after}) &"),
        _ => String::new(),
    };
    let talk = format!("{more} {environment} {program} guest talk {}:7000 {seconds} {bulk}", ADDRESSES[1]);
    let mut wrong = Vec::new();
    let (fine, talked) = pair.a.run(&talk, PATIENCE)?;
    if !fine {
        wrong.push(format!("as a client: {}", talked.trim()));
    }
    let (_, watched) = pair.a.run("sleep 3; touch /run/stop; sleep 0.3; cat /run/watched", PATIENCE)?;
    let carrier_lost = number(&pair.a.must(carrier, PATIENCE)?).saturating_sub(before);
    let (_, log) = pair.a.run("cat /run/log", PATIENCE)?;
    let had = Wanted::of_log(&log);

    if !matches!(run.during, During::MoreQueues(..)) {
        serve(&mut pair.a, &format!("{}:7100", ADDRESSES[0]), &environment)?;
        let ask = format!("{program} guest talk {}:7100 1 300000", ADDRESSES[0]);
        let (fine, talked) = pair.b.run(&ask, PATIENCE)?;
        if !fine {
            wrong.push(format!("as a server: {}", talked.trim()));
        }
        pair.a.run("kill $(cat /run/server); sleep 2", PATIENCE)?;
    }
    if run.during == During::Loss {
        pair.b.must("tc qdisc del dev eth0 root", PATIENCE)?;
    }
    if had != run.wanted {
        wrong.push(format!(
            "had {}, wanted {}; its log ends: {}",
            had.label(),
            run.wanted.label(),
            tail(&log)
        ));
    }
    if carrier_lost > 0 && !run.asked.may_disturb() && !matches!(run.during, During::MoreQueues(..)) {
        wrong.push("the card lost its carrier, though nobody asked for its driver's hook".to_owned());
    }
    Ok(Seen { had: had.label().to_owned(), wrong, gaps: gaps(&talked, &watched), carrier_lost })
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("eth0") || line.contains("WARNING")).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

/// The longest gaps until the first connection stood, until the end began, and from then on.
fn gaps(talked: &str, watched: &str) -> [u64; 3] {
    let at = |what: &str| {
        let line = talked.lines().find_map(|line| line.strip_prefix(what));
        line.and_then(|time| time.trim().parse::<f64>().ok())
    };
    let (started, connected) = (at("started").unwrap_or(0.0), at("connected").unwrap_or(f64::MAX));
    let closing = at("closing").unwrap_or(f64::MAX);
    let mut longest = [0; 3];
    for line in watched.lines() {
        let Some((from, to)) = line.strip_prefix("gap ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let (Ok(from), Ok(to)) = (from.parse::<f64>(), to.trim().parse::<f64>()) else { continue };
        if to < started {
            continue;
        }
        let phase = if from < connected { 0 } else { usize::from(from >= closing) + 1 };
        longest[phase] = longest[phase].max(((to - from) * 1000.0).round() as u64);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_told_by_what_the_program_did_then() {
        let talked = "started 10.00\nconnected 12.50\nclosing 15.00\n";
        let watched = "watching 8.00\ngap 8.50 9.00\ngap 10.10 12.60\ngap 13.00 13.10\ngap 15.20 15.90\n";
        assert_eq!(gaps(talked, watched), [2500, 100, 700]);
        assert_eq!(gaps("started 10.00\n", "gap 11.00 31.00\n"), [20_000, 0, 0]);
        assert_eq!(gaps("", ""), [0; 3]);
    }
}
