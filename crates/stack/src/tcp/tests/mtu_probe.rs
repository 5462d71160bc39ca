//! Paths whose routers drop what is too big without a word (RFC 4821).

use super::*;
use crate::icmp::{IcmpError, Kind};
use crate::tcp::{MtuProbes, MtuProbing};

const ETHERNET: usize = 14;

fn world(when: MtuProbes) -> World {
    World::with(|c| c.tcp.mtu_probing = MtuProbing { when, ..MtuProbing::default() })
}

/// What host 0 sends is swallowed if it is larger than `mtu`.
fn swallow_above(world: &mut World, mtu: usize) {
    world.fault =
        Box::new(
            move |from, _, frame| {
                if from == 0 && frame.len() > mtu + ETHERNET { Fault::Lose } else { Fault::Deliver }
            },
        );
}

/// Bytes of the full-sized packets that host 0 sends now.
fn size(world: &World, id: SocketId) -> u32 {
    world.hosts[0].stack.tcb(id).unwrap().mss + 40
}

/// The slow start threshold, which every loss by congestion lowers.
fn threshold(world: &World, id: SocketId) -> u32 {
    world.hosts[0].stack.tcb(id).unwrap().control.ssthresh
}

fn largest_sent(world: &World) -> usize {
    world.log.iter().filter(|(_, from, _)| *from == 0).map(|(_, _, f)| f.len() - ETHERNET).max().unwrap_or(0)
}

#[test]
fn without_probing_a_black_hole_swallows_the_stream() {
    let mut world = world(MtuProbes::Never);
    let (a, b) = world.pair();
    swallow_above(&mut world, 1200);
    world.send(0, a, &[1; 10_000]).unwrap();
    world.run(Duration::from_secs(300));
    assert_eq!(world.recv(1, b, 10_000), Err(RecvError::WouldBlock));
}

#[test]
fn a_black_hole_is_suspected_after_tcp_retries1_and_the_stream_goes_on() {
    let mut world = world(MtuProbes::AfterBlackHole);
    world.delay = MS * 5;
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    assert_eq!((largest_sent(&world), size(&world, a)), (1500, 1500), "nothing is suspected yet");
    swallow_above(&mut world, 1200);
    let took = world.transfer(0, a, b, 100_000);
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(10), "{took:?}");
    world.transfer(0, a, b, 3_000_000);
    let found = size(&world, a);
    assert!((1192..=1200).contains(&found), "{found}");
    // Once found it stays: nothing is lost any more.
    world.log.clear();
    let resent = world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans;
    world.transfer(0, a, b, 1_000_000);
    assert_eq!(largest_sent(&world), found as usize);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans, resent);
}

#[test]
fn a_black_hole_below_tcp_base_mss_is_found_by_halves() {
    let mut world = world(MtuProbes::AfterBlackHole);
    let (a, b) = world.pair();
    swallow_above(&mut world, 600);
    world.transfer(0, a, b, 1_000_000);
    let found = size(&world, a);
    assert!((592..=600).contains(&found), "{found}");
}

#[test]
fn what_is_small_and_stuck_tells_nothing_about_the_path() {
    let mut world = world(MtuProbes::AfterBlackHole);
    let (a, b) = world.pair();
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[1; 80]).unwrap();
    world.run(Duration::from_secs(60));
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(60));
    assert_eq!(world.recv(1, b, 100).unwrap(), [1; 80]);
    assert_eq!(size(&world, a), 1500);
}

#[test]
fn probing_from_the_beginning_starts_with_tcp_base_mss_and_climbs() {
    for (path, least) in [(1500, 1493), (1280, 1273)] {
        let mut world = world(MtuProbes::Always);
        world.delay = MS * 5;
        let (a, b) = world.pair();
        assert_eq!(size(&world, a), 1024 + 52);
        swallow_above(&mut world, path);
        let before = threshold(&world, a);
        world.transfer(0, a, b, 3_000_000);
        let found = size(&world, a);
        assert!((least..=path as u32).contains(&found), "{found} of {path}");
        // Probes that were lost are no congestion.
        assert_eq!(threshold(&world, a), before);
        let resent = world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans;
        assert!(resent <= 12, "{resent} segments again");
    }
}

#[test]
fn a_loss_beside_a_probe_is_one_of_congestion() {
    let mut world = world(MtuProbes::Always);
    world.delay = MS * 5;
    let (a, b) = world.pair();
    let before = threshold(&world, a);
    let mut behind = 0;
    world.fault = Box::new(move |from, _, frame| {
        if from == 0 && frame.len() > 1076 + ETHERNET {
            behind = 3;
        }
        behind -= i32::from(from == 0 && behind > 0);
        if behind > 0 { Fault::Lose } else { Fault::Deliver }
    });
    world.transfer(0, a, b, 300_000);
    assert!(threshold(&world, a) < before);
}

#[test]
fn what_a_router_says_bounds_the_search() {
    let mut world = world(MtuProbes::Always);
    world.delay = MS * 5;
    let (a, b) = world.pair();
    world.send(0, a, &[1; 20_000]).unwrap();
    let seq = world.hosts[0].stack.tcb(a).unwrap().snd_una.0;
    let (now, host) = (world.now, &mut world.hosts[0]);
    let error = IcmpError { kind: Kind::TooBig(1300), seq };
    crate::tcp::icmp::on_error(&mut host.stack, now, a, error, &mut host.out);
    world.run(MS * 100);
    world.recv(1, b, 20_000).unwrap();
    world.transfer(0, a, b, 1_000_000);
    assert!((1293..=1300).contains(&largest_sent(&world)), "{}", largest_sent(&world));
}

#[test]
fn the_search_begins_anew_after_tcp_probe_interval() {
    let mut world = world(MtuProbes::Always);
    world.delay = MS * 5;
    let (a, b) = world.pair();
    swallow_above(&mut world, 1280);
    world.transfer(0, a, b, 3_000_000);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.transfer(0, a, b, 1_000_000);
    assert!(size(&world, a) <= 1280);
    world.run(Duration::from_secs(600));
    world.transfer(0, a, b, 3_000_000);
    assert!(size(&world, a) >= 1492, "{}", size(&world, a));
}

#[test]
fn a_path_is_not_probed_by_packets_that_routers_may_cut_or_without_sack() {
    let mut world = world(MtuProbes::Always);
    let mut options = world.options();
    options.discover_mtu = false;
    let (a, _) = world.pair_with(&options);
    assert_eq!(size(&world, a), 1500);
    let mut world = World::with(|c| {
        c.tcp.sack = false;
        c.tcp.mtu_probing.when = MtuProbes::Always;
    });
    let (a, _) = world.pair();
    assert_eq!(size(&world, a), 1500);
}
