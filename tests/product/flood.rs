//! An accelerated listener under a flood of SYNs from sources that do not exist.

use std::net::SocketAddrV4;

use rig::{Finished, Options, Protocol, Running};
use tests::{DEADLINE, world};

const PORT: u16 = 8000;
const SYNS: u64 = 20_000;
/// What 20 000 half-open connections without bound would exceed.
const GROWTH_MAX_KIB: u64 = 2048;

/// KiB of the process's memory.
fn resident(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_flood_of_syns_keeps_nobody_out_and_takes_no_memory() {
    let Some(world) = world(&Options::default()) else { return };
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    // Answers to the invented sources go back where they came from, and end there.
    right.namespace.ip(&format!("route add 198.18.0.0/15 via {}", left.address)).unwrap();
    let server = right.program("/usr/bin/python3").preload(Some(&world.library));
    let words = format!("-u -m http.server {PORT} --bind {}", right.address);
    let mut server = server.words(&words).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let visit = || {
        let words = format!("-sS --max-time 20 http://{}:{PORT}/", right.address);
        let said = left.program("curl").words(&words).run(DEADLINE).and_then(Finished::success).unwrap();
        assert!(said.stdout.contains("Directory listing"), "{}", said.stdout);
    };
    for _ in 0..5 {
        visit();
    }
    let before = resident(&server);
    let target = SocketAddrV4::new(right.address, PORT);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| left.namespace.inside(|| rig::syn_flood(target, SYNS)).unwrap().unwrap());
        for _ in 0..5 {
            visit();
        }
        assert_eq!(flood.join().unwrap(), SYNS);
    });
    visit();
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < GROWTH_MAX_KIB, "{SYNS} SYNs cost {grown} KiB");
    // What was served was ours: the kernel saw SYNs only of what was not steered.
    assert_eq!(right.counters().unwrap().get("Tcp.PassiveOpens"), 0);
}
