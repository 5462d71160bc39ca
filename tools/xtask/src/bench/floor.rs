//! The floor of the substrate: raw frames bounced between two AF_XDP sockets, no protocol above Ethernet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::{Context, Error, Host, Result, TwoHosts};
use serde_json::Value;

use crate::build;

const ROUND_TRIPS: u32 = 50_000;
const DEADLINE: Duration = Duration::from_secs(30);

/// Builds the example `pingpong` of crate `xdp`; `None`, said aloud, where it does not exist.
pub(super) fn program() -> Result<Option<PathBuf>> {
    if !build::root().join("crates/xdp/examples/pingpong.rs").exists() {
        eprintln!("no crates/xdp/examples/pingpong.rs: the AF_XDP floor is not measured");
        return Ok(None);
    }
    build::run_cargo("build --quiet --release -p xdp --example pingpong")?;
    Ok(Some(build::target().join("release/examples/pingpong")))
}

/// Half a round trip, median, in microseconds, of frames with `size` bytes where UDP would have its payload: floor and
/// UDP move equal frames.
pub(super) fn one_way_us(hosts: &TwoHosts, program: &Path, size: u32) -> Result<f64> {
    let at = |host: &Host, role: &str| {
        let words = format!(
            "--role {role} --interface {} --size {size} --count {ROUND_TRIPS} --cpu {} --json",
            host.interface, host.cpu
        );
        host.program(program).words(&words)
    };
    let server = at(&hosts.right, "server").start()?;
    let client = at(&hosts.left, "client").run(DEADLINE)?.success()?;
    drop(server);
    let value: Value = serde_json::from_str(client.stdout.trim()).context("the floor's JSON")?;
    value["p50_us"].as_f64().ok_or_else(|| Error::new(format!("no p50_us in {}", client.stdout)))
}
