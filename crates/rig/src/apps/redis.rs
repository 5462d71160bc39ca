//! redis: the benchmark with 1 and 50 connections, a snapshot in the middle of it, and two servers that replicate.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::{App, Figures, GRACE, Stage, parse};
use crate::{Error, Host, Package, Program, Result, Running};

const PORT: u16 = 6379;
pub(super) const NEEDS: &[Package] = &[
    Package { program: "redis-server", package: "redis-server" },
    Package { program: "redis-benchmark", package: "redis-tools" },
];
const REDIS: App = App {
    name: "redis-1",
    what: "redis-benchmark, 1 connection, no pipelining",
    unit: "requests/s",
    needs: NEEDS,
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: Some(2.0),
    run: |stage| benchmark(stage, 1, ""),
};

pub(super) const APPS: &[App] = &[
    REDIS,
    App {
        name: "redis-50",
        what: "redis-benchmark, 50 connections",
        goal: None,
        run: |stage| benchmark(stage, 50, ""),
        ..REDIS
    },
    App {
        name: "redis-pipeline",
        what: "redis-benchmark, 50 connections, 16 requests at a time",
        goal: None,
        run: |stage| benchmark(stage, 50, "-P 16"),
        ..REDIS
    },
    App {
        name: "redis-bgsave",
        what: "10 connections, BGSAVE meanwhile",
        goal: None,
        run: snapshot,
        ..REDIS
    },
    App {
        name: "redis-replication",
        what: "two servers, full and partial replication",
        unit: "keys/s",
        goal: None,
        run: replication,
        // redis-cli fills and asks; the keys themselves are ten thousand packets.
        beside: 1000,
        ..REDIS
    },
];

fn server(stage: &Stage<'_>, program: Program, address: Ipv4Addr, more: &str) -> Result<Running> {
    let words = format!(
        "--bind {address} --port {PORT} --protected-mode no --appendonly no --enable-debug-command yes {more} --save"
    );
    let folder = stage.file(&format!("redis-{address}"));
    std::fs::create_dir_all(&folder).map_err(|error| Error::new(error.to_string()))?;
    stage.serve(&program.words(&words).argument("").directory(&folder), PORT)
}

/// As many requests as take about the run's seconds at the kernel's usual rate.
fn load(stage: &Stage<'_>, connections: u32, more: &str) -> Program {
    let pipelined = if more.is_empty() { 1 } else { 10 };
    let requests = if connections == 1 { 10_000 } else { 20_000 } * stage.seconds * pipelined;
    let words = format!(
        "-h {} -p {PORT} -n {requests} -c {connections} -t set,get -r 1000 --csv {more}",
        stage.hosts.right.address
    );
    stage.client("redis-benchmark").words(&words)
}

fn benchmark(stage: &Stage<'_>, connections: u32, more: &str) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let _server = server(stage, stage.server("redis-server"), address, "")?;
    let said = stage.ask(&load(stage, connections, more))?.stdout;
    let figures = parse::redis(&said, "GET")?;
    parse::redis(&said, "SET")?;
    large_value_comes_back(stage)?;
    Ok(figures)
}

/// More than a window's worth, in both directions.
fn large_value_comes_back(stage: &Stage<'_>) -> Result<()> {
    let value = "v".repeat(100_000);
    let ask = |words: &str| {
        let cli =
            stage.client("redis-cli").words(&format!("-h {} -p {PORT} {words}", stage.hosts.right.address));
        Ok::<String, Error>(stage.ask(&cli)?.stdout.trim().to_owned())
    };
    let set = ask(&format!("set large {value}"))?;
    if set != "OK" || ask("get large")? != value {
        return Err(Error::new(format!("redis: the large value did not come back; SET said {set:?}")));
    }
    Ok(())
}

fn snapshot(stage: &Stage<'_>) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let server = server(stage, stage.server("redis-server"), address, "")?;
    let load = load(stage, 10, "").start()?;
    // A second process of the host: on the kernel, while the first holds the interface's queue.
    let saved = cli(&stage.hosts.left, address, &["bgsave"])?;
    let said = load.finish(Duration::from_secs(stage.seconds.into()) + GRACE)?.success()?.stdout;
    let figures = parse::redis(&said, "GET")?;
    until("the snapshot", || {
        let info = cli(&stage.hosts.left, address, &["info", "persistence"])?;
        Ok(info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:ok"))
    })?;
    let written = std::fs::metadata(stage.file(&format!("redis-{address}")).join("dump.rdb"));
    if !saved.contains("Background saving started") || written.is_err() {
        return Err(Error::new(format!("redis: no snapshot was written: {saved}\n{}", server.stdout())));
    }
    large_value_comes_back(stage)?;
    Ok(figures)
}

/// The master is the right host's; the replica is the left host's, and so the client of this connection.
fn replication(stage: &Stage<'_>) -> Result<Figures> {
    let (left, right) = (&stage.hosts.left, &stage.hosts.right);
    let _master = server(stage, stage.server("redis-server"), right.address, "--repl-diskless-sync-delay 0")?;
    let keys = 20_000 * stage.seconds;
    fill(left, right.address, "first", keys)?;
    let start = Instant::now();
    let _replica = server(
        stage,
        stage.client("redis-server"),
        left.address,
        &format!("--replicaof {} {PORT}", right.address),
    )?;
    until("the replica's first synchronisation", || {
        Ok(cli(right, left.address, &["info", "replication"])?.contains("master_link_status:up"))
    })?;
    fill(left, right.address, "second", keys)?;
    // On one connection: WAIT is for the writes of its own.
    let waited = cli(left, right.address, &["eval", "redis.call('set','last','1') return 1", "0"])?;
    until("the replica's last write", || Ok(cli(right, left.address, &["get", "last"])?.contains('1')))?;
    let seconds = start.elapsed().as_secs_f64();
    let master = cli(left, right.address, &["debug", "digest"])?;
    let replica = cli(right, left.address, &["debug", "digest"])?;
    if master != replica || master.trim().len() < 40 || master.contains("ERR") {
        return Err(Error::new(format!(
            "redis: master has {master}, replica has {replica} (last write: {waited})"
        )));
    }
    Ok(Figures { rate: f64::from(keys) * 2.0 / seconds, ..Figures::default() })
}

fn fill(from: &Host, address: Ipv4Addr, prefix: &str, keys: u32) -> Result<()> {
    let script = format!(
        "for i = 1, {keys} do redis.call('set', '{prefix}' .. i, string.rep('x', 200) .. i) end return 1"
    );
    cli(from, address, &["eval", &script, "0"]).map(drop)
}

/// On the kernel, whatever the servers run on.
fn cli(from: &Host, address: Ipv4Addr, arguments: &[&str]) -> Result<String> {
    let program = from.program("redis-cli").words(&format!("-h {address} -p {PORT}"));
    let program = arguments.iter().fold(program, Program::argument);
    Ok(program.run(GRACE)?.success()?.stdout)
}

fn until(what: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + GRACE;
    while !ready()? {
        if Instant::now() > end {
            return Err(Error::new(format!("redis: no end of {what} after {GRACE:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
