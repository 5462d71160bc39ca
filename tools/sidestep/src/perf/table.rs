//! TCP, SDP on one side, SDP on both, on this host: this program again as both ends, in interleaved rounds, with the
//! figures of the SDP manual beside. Its machines were others (two hosts, InfiniBand); what can be compared are the
//! ratios and the service demand. Its utilisation is of four processors.

use clap::ArgMatches;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Between them each program decides as the manual's `match shared *:*` lets it: SDP with who speaks it, TCP with all.
const RULES: &str = "use both server * *:*\nuse both client * *:*\n";
/// Shorter than for one measurement: there are six for each round.
const SECONDS_A_ROW: u64 = 1;

/// Which ends speak SDP.
struct Row {
    name: &'static str,
    server: bool,
    client: bool,
}

const ROWS: [Row; 3] = [
    Row { name: "TCP", server: false, client: false },
    Row { name: "SDP on one side", server: true, client: false },
    Row { name: "SDP on both", server: true, client: true },
];

/// What the manual prints: rate, utilisation and service demand of both sides.
struct Manual {
    row: &'static str,
    figures: [f64; 5],
}

struct Part {
    title: &'static str,
    test: &'static str,
    rate: &'static str,
    demand: &'static str,
    manual: &'static [Manual],
}

const PARTS: [Part; 2] = [
    Part {
        title: "TCP_STREAM",
        test: "stream",
        rate: "10^6bits/s",
        demand: "us/KB",
        manual: &[
            Manual { row: "TCP", figures: [2701.06, 46.93, 48.73, 5.694, 5.912] },
            Manual { row: "SDP on both", figures: [6601.82, 23.79, 21.37, 1.181, 1.061] },
        ],
    },
    Part {
        title: "TCP_RR",
        test: "rr",
        rate: "trans/s",
        demand: "us/Tr",
        manual: &[Manual { row: "SDP on both", figures: [27754.33, 6.26, 7.22, 9.029, 10.408] }],
    },
];

/// How it is run.
struct Plan {
    own: PathBuf,
    library: PathBuf,
    rules: PathBuf,
    seconds: u64,
    rounds: u32,
    /// Of a client: size, request, response.
    words: Vec<String>,
    spins: bool,
    /// The client's and the server's processor, where there are two.
    processors: Option<(usize, usize)>,
}

pub(super) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let own = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let library = match options.get_one::<String>("library") {
        Some(given) => Path::new(given).canonicalize().map_err(|error| format!("{given}: {error}"))?,
        None => crate::run::installed("libsdp.so")?,
    };
    let rules = std::env::temp_dir().join(format!("sidestep-perf-{}.conf", std::process::id()));
    std::fs::write(&rules, RULES).map_err(|error| format!("{}: {error}", rules.display()))?;
    let size = |name: &str| options.get_one::<u64>(name).copied().unwrap_or(1);
    let words = ["size", "request", "response"].map(|name| format!("--{name}={}", size(name)));
    let given = options.get_one::<u64>("seconds").copied();
    let plan = Plan {
        own,
        library,
        rules,
        seconds: given.unwrap_or(SECONDS_A_ROW),
        rounds: options.get_one::<u32>("rounds").copied().unwrap_or(1),
        words: words.to_vec(),
        spins: options.get_flag("spin"),
        processors: two_processors(),
    };
    let found = measure_all(&plan);
    let _ = std::fs::remove_file(&plan.rules);
    let found = found?;
    if options.get_flag("json") {
        println!("{}", as_json(&found));
    } else {
        print!("{}", page(&plan, &found));
    }
    Ok(ExitCode::SUCCESS)
}

/// The first two that this process may use.
fn two_processors() -> Option<(usize, usize)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut allowed = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap_or(0)..=last.parse::<usize>().unwrap_or(0)
    });
    Some((allowed.next()?, allowed.next()?))
}

/// For each part and row the rounds' figures, as the clients printed them.
fn measure_all(plan: &Plan) -> Result<Vec<Vec<Vec<Value>>>, String> {
    let mut found: Vec<Vec<Vec<Value>>> =
        PARTS.iter().map(|_| ROWS.iter().map(|_| Vec::new()).collect()).collect();
    for _ in 0..plan.rounds {
        for (part, rows) in PARTS.iter().zip(&mut found) {
            for (row, rounds) in ROWS.iter().zip(rows) {
                rounds.push(
                    once(plan, part, row)
                        .map_err(|reason| format!("{}, {}: {reason}", part.title, row.name))?,
                );
            }
        }
    }
    Ok(found)
}

/// A process of ours, ended with the measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn once(plan: &Plan, part: &Part, row: &Row) -> Result<Value, String> {
    let text = |error: std::io::Error| error.to_string();
    let (client_cpu, server_cpu) = plan.processors.unzip();
    let mut serve = end(plan, row.server, server_cpu, &["serve", "127.0.0.1:0", "--once"]);
    let mut server = Ended(serve.spawn().map_err(text)?);
    let mut line = String::new();
    if let Some(output) = server.0.stdout.as_mut() {
        BufReader::new(output).read_line(&mut line).map_err(text)?;
    }
    let address = line.trim().strip_prefix("serving at ").ok_or("the server did not start")?;
    let seconds = format!("--seconds={}", plan.seconds);
    let mut ask = end(plan, row.client, client_cpu, &[part.test, address, "--json", &seconds]);
    let done = ask.args(&plan.words).output().map_err(text)?;
    if !done.status.success() {
        return Err(format!("the client failed: {}", done.status));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| error.to_string())
}

/// This program, with or without the library.
fn end(plan: &Plan, speaks_sdp: bool, cpu: Option<usize>, words: &[&str]) -> Command {
    let mut command = Command::new(&plan.own);
    command.arg("perf").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).env_remove("LD_PRELOAD");
    if let Some(cpu) = cpu {
        command.arg(format!("--cpu={cpu}"));
    }
    if plan.spins {
        command.arg("--spin");
    }
    if speaks_sdp {
        let preload: OsString = plan.library.clone().into();
        command.env("LD_PRELOAD", preload).env("LIBSDP_CONFIG_FILE", &plan.rules);
    }
    command
}

/// Of the rounds: the middle one of each figure.
fn median(rounds: &[Value], path: &str) -> f64 {
    let mut values: Vec<f64> = rounds.iter().filter_map(|round| round.pointer(path)?.as_f64()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

const PATHS: [&str; 5] = [
    "/rate",
    "/local/utilisation_percent",
    "/remote/utilisation_percent",
    "/local/service_demand_us",
    "/remote/service_demand_us",
];

fn page(plan: &Plan, found: &[Vec<Vec<Value>>]) -> String {
    let mut page = format!(
        "127.0.0.1, median of {} interleaved rounds of {} s; {}.\nThe manual's utilisation is of four processors, \
         ours of one.\n",
        plan.rounds,
        plan.seconds,
        match plan.processors {
            Some((client, server)) => format!("client on processor {client}, server on {server}"),
            None => "both ends on one processor: what is measured is the scheduler".to_owned(),
        }
    );
    for (part, rows) in PARTS.iter().zip(found) {
        page += &format!(
            "\n{:<24}{:>12}   {:>15}   {:>17}   {:>7}\n{:<24}{:>12}   {:>7} {:>7}   {:>8} {:>8}   {:>7}\n\
             {:<24}{:>12}   {:>7} {:>7}   {:>8} {:>8}   {:>7}\n",
            part.title,
            "Rate",
            "Utilization",
            "Service demand",
            "Kernel",
            "",
            "",
            "local",
            "remote",
            "local",
            "remote",
            "carries",
            "",
            part.rate,
            "%",
            "%",
            part.demand,
            part.demand,
            "%",
        );
        for (row, rounds) in ROWS.iter().zip(rows) {
            let kernel = median(rounds, "/kernel_part") * 100.0;
            page += &format!("{}   {kernel:>7.1}\n", line(row.name, PATHS.map(|path| median(rounds, path))));
        }
        for manual in part.manual {
            page += &format!("{}\n", line(&format!("  the manual: {}", manual.row), manual.figures));
        }
    }
    page
}

fn line(name: &str, [rate, local, remote, local_demand, remote_demand]: [f64; 5]) -> String {
    format!("{name:<26}{rate:>10.2}   {local:>7.2} {remote:>7.2}   {local_demand:>8.3} {remote_demand:>8.3}")
}

fn as_json(found: &[Vec<Vec<Value>>]) -> Value {
    let parts = PARTS.iter().zip(found).map(|(part, rows)| {
        let rows = ROWS.iter().zip(rows).map(|(row, rounds)| {
            let manual = part.manual.iter().find(|manual| manual.row == row.name);
            json!({
                "row": row.name,
                "server_speaks_sdp": row.server,
                "client_speaks_sdp": row.client,
                "rate": median(rounds, PATHS[0]),
                "utilisation_percent": [median(rounds, PATHS[1]), median(rounds, PATHS[2])],
                "service_demand_us": [median(rounds, PATHS[3]), median(rounds, PATHS[4])],
                "kernel_part": median(rounds, "/kernel_part"),
                "manual": manual.map(|manual| manual.figures),
                "rounds": rounds,
            })
        });
        json!({"test": part.title, "unit": part.rate, "rows": rows.collect::<Vec<_>>()})
    });
    parts.collect()
}
