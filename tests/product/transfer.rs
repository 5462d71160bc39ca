//! A stream of known content arrives whole, in each direction, on a clean wire and through a router that loses packets.
//!
//! `SIDESTEP_TRANSFER_MIB` sets the length: 8 MiB by default (2 through the lossy router), 1024 to show the promise.

use std::path::Path;
use std::time::Duration;

use rig::{Finished, Host, Options, Program, Protocol, TwoHosts};
use tests::{World, assert_host_bypassed, compile, world};

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
    for _ in 0..10 {
        one(&world, program.path(), (true, true), true, 0);
    }
}

fn every_way(world: &World, mib: u32) {
    let program = compile("apps/transfer.c").unwrap();
    for way in WAYS {
        for to_right in [true, false] {
            one(world, program.path(), way, to_right, mib);
        }
    }
}

/// The right host listens; data flows to it or from it.
fn one(world: &World, program: &Path, way: (bool, bool), to_right: bool, mib: u32) {
    let TwoHosts { left, right, .. } = &world.hosts;
    let before = [left.counters().unwrap(), right.counters().unwrap()];
    let end = |host: &Host, yes: bool, role: &str, how: &str| {
        let words = format!("{role} {how} {} {PORT} {mib}", right.address);
        host.program(program).words(&words).preload(yes.then_some(world.library.as_path()))
    };
    let roles = if to_right { ["send", "receive"] } else { ["receive", "send"] };
    let server = end(right, way.1, roles[1], "listen");
    let client = end(left, way.0, roles[0], "connect");
    let (client, server) = finish_both(&client, &server, deadline(mib))
        .unwrap_or_else(|error| panic!("(left, right) accelerated: {way:?}, left {}s: {error}", roles[0]));
    for finished in [client, server] {
        assert_eq!(finished.stdout.trim(), format!("{mib} MiB intact"));
    }
    for ((host, before), yes) in [left, right].iter().zip(&before).zip([way.0, way.1]) {
        if yes && mib > 0 {
            assert_host_bypassed(&format!("{way:?}"), &host.counters().unwrap().since(before));
        }
    }
}

fn finish_both(client: &Program, server: &Program, deadline: Duration) -> rig::Result<(Finished, Finished)> {
    let mut server = server.start()?;
    server.wait_for_port(Protocol::Tcp, PORT, deadline)?;
    let client = client.run(deadline)?.success()?;
    Ok((client, server.finish(deadline)?.success()?))
}
