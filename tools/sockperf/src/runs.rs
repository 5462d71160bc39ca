//! One test or several: each is printed as it ends; several are summed up with confidence intervals.

use crate::client::{self, Outcome};
use crate::clock::{Clock, Reading};
use crate::exit::{Code, Failure, Result};
use crate::report::{self, csv, full_log, html, json, text};
use crate::settings::{Mode, Settings};
use crate::{signals, statistics};

/// Level of the intervals when `--ci_sig_level` names none.
const LEVEL: u32 = 95;

/// Runs all tests of the command line.
pub fn run(s: &Settings, clock: Clock, first: Reading) -> Result<()> {
    // Before the test: a mistyped file name must not cost a long run.
    report::outputs::check(s)?;
    let mut earlier = Vec::new();
    for path in &s.compare {
        earlier.extend(json::read(path)?);
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut valid = true;
    for number in 1..=s.repeat {
        if s.repeat > 1 {
            report::say(&format!("sockperf: [Run {number} of {}]", s.repeat));
        }
        let outcome = client::run(s, clock, first)?;
        valid &= text::print(s, &outcome);
        if let Some(path) = &s.full_log {
            full_log::write(path, s, &outcome)?;
        }
        if let Some(path) = &s.csv {
            csv::append(path, s, &outcome)?;
        }
        outcomes.push(outcome);
        if signals::stopped() {
            break;
        }
    }
    if outcomes.len() > 1 {
        summary(s, &outcomes);
    }
    let documents: Vec<json::Value> =
        outcomes.iter().zip(1..).map(|(o, number)| json::of(s, o, number)).collect();
    if let Some(path) = &s.json {
        write_json(path, &documents)?;
    }
    if let Some(path) = &s.report {
        let mut all = earlier;
        all.extend(documents);
        html::write(path, &all)?;
    }
    if valid { Ok(()) } else { Err(Failure::new(Code::Timeout, "")) }
}

fn write_json(path: &str, runs: &[json::Value]) -> Result<()> {
    let text = format!("{}\n", json::document(runs));
    let written = match path {
        "-" => std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()),
        _ => std::fs::write(path, text),
    };
    written.map_err(|e| Failure::new(Code::NotFound, format!("cannot write {path}: {e}")))
}

/// A named value of each run.
pub fn key_figures(s: &Settings, o: &Outcome) -> Vec<(&'static str, f64)> {
    let seconds = o.rate.sec(o.total_ticks).max(1e-9);
    if s.mode == Mode::Throughput {
        let mut figures = vec![("sent msg/s", o.sent as f64 / seconds)];
        if let Some(peer) = &o.peer {
            figures.push(("delivered msg/s", peer.messages as f64 / seconds));
        }
        return figures;
    }
    let Some(server) = o.servers.first() else { return Vec::new() };
    let us = |ticks: u64| o.rate.us(ticks) * text::factor(s);
    let percentile = |p| us(server.plain.percentile(p).unwrap_or(0));
    vec![
        ("mean usec", o.rate.us(1) * server.plain.mean() * text::factor(s)),
        ("p50 usec", percentile(50.0)),
        ("p99 usec", percentile(99.0)),
        ("p99.9 usec", percentile(99.9)),
        ("answers/s", server.received as f64 / o.rate.sec(o.valid_ticks).max(1e-9)),
    ]
}

fn summary(s: &Settings, outcomes: &[Outcome]) {
    let level = s.confidence.unwrap_or(LEVEL);
    report::say(&format!(
        "sockperf: [Runs] mean of {} runs and {level}% confidence interval:",
        outcomes.len()
    ));
    let runs: Vec<Vec<(&str, f64)>> = outcomes.iter().map(|o| key_figures(s, o)).collect();
    for (index, (name, _)) in runs[0].iter().enumerate() {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(index)).map(|figure| figure.1).collect();
        let (mean, half) = statistics::mean_with_confidence(&values, f64::from(level) / 100.0);
        let percent = if mean > 0.0 { half * 100.0 / mean } else { 0.0 };
        report::say(&format!("sockperf: [Runs] {name:<16} {mean:14.3} +- {half:.3} ({percent:.1}%)"));
    }
}
