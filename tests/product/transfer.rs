//! A stream of known content arrives whole, in each direction, on a clean wire and through a router that loses packets.
//!
//! `SIDESTEP_TRANSFER_MIB` sets the length: 8 MiB by default (2 through the lossy router), 1024 to show the promise.

use std::path::Path;
use std::time::Duration;

use rig::{Finished, Host, Options, Program, Protocol, TwoHosts};
use tests::{World, assert_host_bypassed, assert_opened_nothing, compile, world};

const PORT: u16 = 9000;

/// Which ends are accelerated: left, right.
const WAYS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

fn length_mib(default: u32) -> u32 {
    std::env::var("SIDESTEP_TRANSFER_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A minute, and the time of a transfer at 1 MiB/s, which is far below what even a lossy path gives.
fn deadline(mib: u32) -> Duration {
    Duration::from_secs(60 + u64::from(mib))
}

#[test]
fn stream_is_intact_in_each_direction() {
    let Some(world) = world(&Options::default()) else { return };
    every_way(&world, length_mib(8));
}

#[test]
fn stream_is_intact_without_offloads_and_with_small_frames() {
    let Some(world) = world(&Options { offloads: false, mtu: 576, ..Options::default() }) else { return };
    every_way(&world, 2);
}

#[test]
fn stream_is_intact_over_four_queues() {
    let Some(world) = world(&Options { queues: 4, ..Options::default() }) else { return };
    every_way(&world, 4);
}

#[test]
fn stream_is_intact_through_a_router_that_drops_one_percent() {
    let Some(world) = world(&Options { loss_permille: Some(10), ..Options::default() }) else { return };
    every_way(&world, length_mib(2));
    let dropped = world.hosts.router.as_ref().unwrap().dropped().unwrap();
    assert!(dropped > 0, "the router dropped nothing, so nothing was shown");
}

#[test]
fn short_connections_through_a_lossy_router_do_not_hang() {
    let Some(world) = world(&Options { loss_permille: Some(50), ..Options::default() }) else { return };
    let program = compile("apps/transfer.c").unwrap();
    let hosts = [&world.hosts.left, &world.hosts.right];
    let before = hosts.map(|host| host.counters().unwrap());
    for _ in 0..10 {
        one(&world, program.path(), (true, true), true, 0, 0);
    }
    for (host, before) in hosts.iter().zip(&before) {
        assert_opened_nothing(host, before);
    }
}

#[test]
fn stream_is_intact_while_its_connection_moves_between_kernel_and_wire() {
    let Some(world) = world(&Options::default()) else { return };
    moving(&world, length_mib(4), 5);
}

#[test]
fn stream_is_intact_while_its_connection_moves_and_packets_are_lost() {
    let Some(world) = world(&Options { loss_permille: Some(10), ..Options::default() }) else { return };
    moving(&world, length_mib(1), 5);
}

#[test]
fn bulk_that_began_on_the_wire_is_given_to_the_kernel_once_and_arrives_whole() {
    let Some(world) = world(&Options::default()) else { return };
    let rules = std::env::temp_dir().join(format!("rig-{}-bulk.conf", std::process::id()));
    std::fs::write(&rules, "use vma tcp_server *:*\nuse vma tcp_client *:*\n").unwrap();
    let program = compile("apps/transfer.c").unwrap();
    let mib = length_mib(64);
    let TwoHosts { left, right, .. } = &world.hosts;
    for way in WAYS {
        for to_right in [true, false] {
            let end = |host: &Host, yes: bool, role: &str, how: &str| {
                let words = format!("{role} {how} {} {PORT} {mib}", right.address);
                let program = host.program(program.path()).words(&words).may_fall_back();
                let program = program.preload(yes.then_some(world.library.as_path()));
                let program = program.environment("VMA_CONFIG_FILE", rules.to_str().unwrap());
                program.environment("SIDESTEP_CARRIER", "late").environment("VMA_TRACELEVEL", "debug")
            };
            let roles = if to_right { ["send", "receive"] } else { ["receive", "send"] };
            let server = end(right, way.1, roles[1], "listen");
            let client = end(left, way.0, roles[0], "connect");
            let (client, server) = finish_both(&client, &server, deadline(mib))
                .unwrap_or_else(|error| panic!("{way:?}, left {}s: {error}", roles[0]));
            for (finished, accelerated) in [(&client, way.0), (&server, way.1)] {
                assert_eq!(finished.stdout.trim(), format!("{mib} MiB intact"));
                let moves = finished.stderr.matches("moved from the wire to the kernel").count();
                assert_eq!(moves, usize::from(accelerated), "{way:?}: {}", finished.stderr);
            }
        }
    }
    std::fs::remove_file(&rules).unwrap();
}

/// Every so many calls the connection goes from one carrier to the other, at both ends or at one.
fn moving(world: &World, mib: u32, every: u32) {
    let program = compile("apps/transfer.c").unwrap();
    for way in WAYS {
        for to_right in [true, false] {
            one(world, program.path(), way, to_right, mib, every);
        }
    }
}

fn every_way(world: &World, mib: u32) {
    let program = compile("apps/transfer.c").unwrap();
    for way in WAYS {
        for to_right in [true, false] {
            one(world, program.path(), way, to_right, mib, 0);
        }
    }
}

/// The right host listens; data flows to it or from it.
fn one(world: &World, program: &Path, way: (bool, bool), to_right: bool, mib: u32, move_every: u32) {
    let TwoHosts { left, right, .. } = &world.hosts;
    let before = [left.counters().unwrap(), right.counters().unwrap()];
    let end = |host: &Host, yes: bool, role: &str, how: &str| {
        let words = format!("{role} {how} {} {PORT} {mib}", right.address);
        let program = host.program(program).words(&words).preload(yes.then_some(world.library.as_path()));
        match move_every {
            0 => program,
            every => {
                let program = program.may_fall_back().environment("VMA_TRACELEVEL", "debug");
                program.environment("SIDESTEP_MOVE_EVERY", every.to_string())
            }
        }
    };
    let roles = if to_right { ["send", "receive"] } else { ["receive", "send"] };
    let server = end(right, way.1, roles[1], "listen");
    let client = end(left, way.0, roles[0], "connect");
    let (client, server) = finish_both(&client, &server, deadline(mib))
        .unwrap_or_else(|error| panic!("(left, right) accelerated: {way:?}, left {}s: {error}", roles[0]));
    for (finished, accelerated) in [(&client, way.0), (&server, way.1)] {
        assert_eq!(finished.stdout.trim(), format!("{mib} MiB intact"));
        // Its own log is what tells: the kernel's counters see both carriers.
        let moved = finished.stderr.contains("moved from the kernel to the wire");
        assert_eq!(moved, accelerated && move_every > 0, "{way:?}: {}", finished.stderr);
        for to in ["wire", "kernel"].into_iter().filter(|_| moved) {
            println!("{way:?}: to the {to}: {}", moves(&finished.stderr, to));
        }
    }
    for ((host, before), yes) in [left, right].iter().zip(&before).zip([way.0, way.1]) {
        // A connection without data has hardly more packets than the kernel may answer.
        if yes && mib > 0 && move_every == 0 {
            assert_host_bypassed(&format!("{way:?}"), &host.counters().unwrap().since(before));
        }
    }
}

/// How often a connection moved by its program's log, and how long that took in the middle: for those who look.
fn moves(log: &str, to: &str) -> String {
    let said = format!("to the {to} in ");
    let mut times: Vec<u64> =
        log.lines().filter_map(|line| line.split_once(&said)?.1.strip_suffix(" us")?.parse().ok()).collect();
    times.sort_unstable();
    let p50 = times.get(times.len() / 2).copied().unwrap_or(0);
    format!("{} moves, p50 {p50} us", times.len())
}

fn finish_both(client: &Program, server: &Program, deadline: Duration) -> rig::Result<(Finished, Finished)> {
    let mut server = server.start()?;
    server.wait_for_port(Protocol::Tcp, PORT, deadline)?;
    let client = client.run(deadline)?.success()?;
    Ok((client, server.finish(deadline)?.success()?))
}
