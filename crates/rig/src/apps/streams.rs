//! iperf3 in its ways, socat as someone typing, stress-ng's socket tests.

use super::{App, Figures, Stage, parse};
use crate::{Error, Package, Result};

const IPERF3: App = App {
    name: "iperf3-8",
    what: "iperf3, 8 streams",
    unit: "Mbit/s",
    needs: &[Package { program: "iperf3", package: "iperf3" }],
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: None,
    run: |stage| iperf3(stage, "-P 8"),
};

const STRESS: App = App {
    name: "stress-sock",
    what: "stress-ng --sock, on the host's own addresses",
    unit: "operations/s",
    needs: &[Package { program: "stress-ng", package: "stress-ng" }],
    bypasses: false,
    run: |stage| stress(stage, "sock"),
    ..IPERF3
};

const SOCAT: App = App {
    name: "socat",
    what: "lines typed into socat, echoed by socat",
    unit: "lines/s",
    needs: &[Package { program: "socat", package: "socat" }],
    run: |stage| socat(stage, ""),
    ..IPERF3
};

pub(super) const APPS: &[App] = &[
    IPERF3,
    App { name: "iperf3-reverse", what: "iperf3 -R, 1 stream", run: |stage| iperf3(stage, "-R"), ..IPERF3 },
    App {
        name: "iperf3-udp",
        what: "iperf3 -u, 100 Mbit/s offered",
        run: |stage| iperf3(stage, "-u -b 100M -l 1400"),
        ..IPERF3
    },
    SOCAT,
    App {
        name: "socat-fork",
        what: "the same, a child of socat per connection",
        bypasses: false,
        run: |stage| socat(stage, ",fork"),
        ..SOCAT
    },
    STRESS,
    App {
        name: "stress-udp",
        what: "stress-ng --udp, likewise",
        run: |stage| stress(stage, "udp"),
        ..STRESS
    },
];

fn iperf3(stage: &Stage<'_>, words: &str) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let server = stage.serve(&stage.server("iperf3").words(&format!("-s -1 -B {address}")), 5201)?;
    let client = stage.client("iperf3").words(&format!("-c {address} -f m -t {} {words}", stage.seconds));
    let figures = parse::iperf3(&stage.ask(&client)?.stdout)?;
    server.finish(super::GRACE)?.success()?;
    Ok(figures)
}

fn socat(stage: &Stage<'_>, how: &str) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let listen = format!("TCP4-LISTEN:7000,bind={address},reuseaddr,nodelay{how}");
    let _server = stage.serve(&stage.server("socat").argument(listen).argument("PIPE"), 7000)?;
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/apps/typist.py");
    let typist =
        stage.client("/usr/bin/python3").argument(driver).argument((stage.seconds * 2000).to_string());
    let said = stage.ask(&typist.words(&format!("socat - TCP4:{address}:7000,nodelay")))?.stdout;
    Ok(Figures {
        rate: parse::number(&said, "lines/s")?,
        p50_us: Some(parse::number(&said, "p50")?),
        p99_us: Some(parse::number(&said, "p99")?),
    })
}

fn stress(stage: &Stage<'_>, kind: &str) -> Result<Figures> {
    let words = format!(
        "--{kind} 2 --{kind}-if {} --timeout {}s --verify --metrics-brief",
        stage.hosts.right.interface, stage.seconds
    );
    let finished = stage.ask(&stage.server("stress-ng").may_fall_back().words(&words))?;
    let said = format!("{}{}", finished.stdout, finished.stderr);
    if !said.contains("successful run completed") || said.contains("fail:") {
        return Err(Error::new(format!("stress-ng --{kind}:\n{said}")));
    }
    let line = said.lines().rfind(|line| line.contains(&format!("] {kind} ")));
    let operations = line.and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    let rate = operations.ok_or_else(|| Error::new(format!("stress-ng: no metrics in:\n{said}")))?;
    Ok(Figures { rate, ..Figures::default() })
}
