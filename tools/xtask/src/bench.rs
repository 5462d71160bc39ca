//! `cargo x bench`: every measurement is a ratio in one run, on the same two CPUs, in interleaved rounds, against the
//! kernel and against the floor of the substrate.

use std::path::PathBuf;
use std::process::ExitCode;

use rig::sockperf::{Latency, Side};
use rig::{Context, Error, Host, Program, Protocol, Result};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::{build, demo};

mod apps;
mod connections;
mod extra;
mod floor;
mod latency;
mod loss;
mod profiles;
mod rounds;
mod sdp;
mod syn_flood;
mod throughput;
mod together;
mod vma_tables;

/// What benchmarks are told.
pub(crate) struct Plan {
    library: PathBuf,
    rounds: u32,
    seconds: u32,
    quick: bool,
    /// Of `loss`: what each run transfers; 0: as much as goes in `seconds`.
    mib: u32,
    /// Of `connections`: how many.
    count: u32,
}

impl Plan {
    /// The sides of a measurement by the endpoints of this program.
    fn endpoint(&self, host: &Host, accelerated: bool) -> Result<Program> {
        let program = host.program(build::release_xtask()).argument("endpoint");
        Ok(program.preload(accelerated.then_some(self.library.as_path())))
    }
}

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let quick = arguments.flag("--quick");
    let rounds = arguments.number("--rounds", if quick { 1 } else { 3 })?;
    let seconds = arguments.number("--seconds", if quick { 1 } else { 2 })?;
    let mib = arguments.number_or("--mib", 0)?;
    let count = arguments.number("--connections", if quick { 2000 } else { 100_000 })?;
    let library = arguments.value("--library")?;
    let what = arguments.word().unwrap_or_default();
    let is_sdp = what == "sdp";
    let programs = is_sdp && arguments.flag("--programs");
    let takes_names = programs || ["apps", "profiles"].contains(&what.as_str());
    let names: Vec<String> =
        if takes_names { std::iter::from_fn(|| arguments.word()).collect() } else { Vec::new() };
    arguments.end()?;
    let chosen = if what == "apps" { apps::chosen(&names)? } else { Vec::new() };
    let measure: &dyn Fn(&Plan) -> Result<()> = match what.as_str() {
        "latency" => &latency::run,
        "throughput" => &throughput::run,
        "apps" => &|plan| apps::run(plan, &chosen),
        "vma-tables" => &vma_tables::run,
        "loss" => &loss::run,
        "connections" => &connections::run,
        "extra" => &extra::run,
        "profiles" => &|plan| profiles::run(plan, &names),
        "together" => &together::run,
        "syn-flood" => &syn_flood::run,
        "sdp" if programs => &|plan| sdp::run_programs(plan, &names),
        "sdp" => &sdp::run,
        other => {
            return Err(Error::new(format!("bench {other:?}: cargo x help lists them")));
        }
    };
    build::require_namespaces()?;
    build::warn_if_busy();
    rig::on_signals();
    rig::install(&[demo::SOCKPERF])?;
    let library = if is_sdp { build::libsdp(library)? } else { build::library(library)? };
    let plan = Plan { library, rounds, seconds, quick, mib, count };
    measure(&plan)?;
    Ok(ExitCode::SUCCESS)
}

/// The ways a pair of ends can take: kernel first, as what the others are compared with.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    client: End,
    server: End,
}

#[derive(Clone, Copy)]
enum End {
    Kernel,
    Spinning,
    Accelerated,
}

pub(crate) const KERNEL: Way = Way { name: "kernel", client: End::Kernel, server: End::Kernel };
pub(crate) const SPINNING: Way =
    Way { name: "kernel spinning", client: End::Spinning, server: End::Spinning };
pub(crate) const ACCELERATED: Way =
    Way { name: "accelerated - accelerated", client: End::Accelerated, server: End::Accelerated };
pub(crate) const TO_KERNEL: Way =
    Way { name: "accelerated - kernel", client: End::Accelerated, server: End::Kernel };
pub(crate) const FROM_KERNEL: Way =
    Way { name: "kernel - accelerated", client: End::Kernel, server: End::Accelerated };

impl Way {
    /// Client's and server's sides.
    pub(crate) fn sides<'p>(&self, plan: &'p Plan) -> (Side<'p>, Side<'p>) {
        let side = |end| match end {
            End::Kernel => Side::Kernel,
            End::Spinning => Side::Spinning,
            End::Accelerated => Side::Accelerated(&plan.library),
        };
        (side(self.client), side(self.server))
    }
}

pub(crate) fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Udp => "UDP",
        Protocol::Tcp => "TCP",
    }
}

pub(crate) fn latency_json(latency: &Latency) -> Value {
    json!({
        "p50": latency.p50, "p99": latency.p99, "p99.9": latency.p999, "max": latency.max,
        "average": latency.average, "observations": latency.observations,
        "dropped": latency.dropped, "duplicated": latency.duplicated,
    })
}

/// Of what the rounds gave: the middle one, which no single disturbed round can move.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Writes `target/bench/<name>.json` and says so.
fn save(name: &str, value: &Value) -> Result<()> {
    let directory = build::target().join("bench");
    std::fs::create_dir_all(&directory).context(directory.display())?;
    let path = directory.join(format!("{name}.json"));
    std::fs::write(&path, format!("{value:#}\n")).context(path.display())?;
    println!("\n{}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn median_ignores_one_disturbed_round() {
        assert_eq!(median([3.0, 900.0, 2.9].into_iter()), 3.0);
        assert_eq!(median([5.0].into_iter()), 5.0);
        assert!(median(std::iter::empty()).is_nan());
    }
}
