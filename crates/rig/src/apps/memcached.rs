//! memcached with 1 and 4 threads, loaded by libmemcached's memcaslap in both of its protocols.

use super::{App, Figures, Stage, parse};
use crate::{Error, Package, Result};

const PORT: u16 = 11211;
pub(super) const NEEDS: &[Package] = &[
    Package { program: "memcached", package: "memcached" },
    Package { program: "memcaslap", package: "libmemcached-tools" },
];
const MEMCACHED: App = App {
    name: "memcached-1",
    what: "memcached -t 1, memcaslap ASCII",
    unit: "requests/s",
    needs: NEEDS,
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: Some(1.5),
    run: |stage| slap(stage, 1, "--threads=1"),
};

pub(super) const APPS: &[App] = &[
    MEMCACHED,
    App {
        name: "memcached-4",
        what: "memcached -t 4, memcaslap ASCII",
        run: |stage| slap(stage, 4, "--threads=1"),
        ..MEMCACHED
    },
    App {
        name: "memcached-threads",
        what: "memcached -t 4, memcaslap of 4 threads, ASCII",
        goal: None,
        run: |stage| slap(stage, 4, "--threads=4"),
        ..MEMCACHED
    },
    App {
        name: "memcached-binary",
        what: "memcached -t 4, memcaslap binary",
        run: |stage| slap(stage, 4, "--threads=1 --binary"),
        ..MEMCACHED
    },
];

fn slap(stage: &Stage<'_>, threads: u32, how: &str) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let server =
        stage.server("memcached").words(&format!("-u root -l {address} -p {PORT} -U 0 -t {threads}"));
    let _server = stage.serve(&server, PORT)?;
    let words = format!(
        "--servers={address}:{PORT} --concurrency=16 --time={}s --verify=0.2 --fixed_size=100 \
         --win_size=1k {how}",
        stage.seconds
    );
    let said = stage.ask(&stage.client("memcaslap").words(&words))?.stdout;
    Ok(Figures { rate: rate(&said)?, ..Figures::default() })
}

/// What memcaslap counted; an error if an answer was wrong or missing.
pub(super) fn rate(said: &str) -> Result<f64> {
    for label in ["verify_failed:", "verify_misses:", "packet_drop:", "packet_disorder:"] {
        if said.contains(label) && parse::number(said, label)? != 0.0 {
            return Err(Error::new(format!("memcaslap: {label} is not 0:\n{said}")));
        }
    }
    let rate = parse::number(said, "TPS:")?;
    if rate == 0.0 {
        return Err(Error::new(format!("memcaslap: no request was answered:\n{said}")));
    }
    Ok(rate)
}
