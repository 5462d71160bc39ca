//! What closed sockets may cost, and for how long (37 of the checklist).

use super::*;
use crate::SocketError;
use crate::icmp::{IcmpError, Kind};
use crate::tcp::icmp;

#[test]
fn a_peer_that_closes_its_window_for_ever_does_not_keep_a_closed_socket_for_ever() {
    // 19, 37
    let mut world = World::with(|c| c.tcp.retries2 = 6);
    let (a, b) = world.pair();
    let mut sent = 0;
    while let Ok(n) = world.send(0, a, &vec![7; 300_000][sent..]) {
        sent += n;
        world.run(MS * 3);
    }
    world.close(0, a);
    assert!(world.hosts[0].stack.tcp_closing(a));
    world.run(Duration::from_secs(1500));
    assert!(!world.hosts[0].stack.tcp_closing(a));
    assert_eq!(world.state(1, b), Some(State::Closed), "it was told");
}

/// Sockets of host 0 that were closed with data that cannot leave; answers the ids at host 1.
fn orphans(world: &mut World, count: u16) -> Vec<SocketId> {
    let listener = world.listen(1, 80, 64);
    let options = world.options();
    let mut pairs = Vec::new();
    for port in 0..count {
        let a = world.connect(0, 5000 + port, 80, &options);
        world.run(MS);
        pairs.push((a, world.hosts[1].stack.tcp_accept(listener).unwrap()));
    }
    world.fault = Box::new(|_, _, frame| if payload_len(frame) > 0 { Fault::Lose } else { Fault::Deliver });
    for (a, _) in &pairs {
        world.send(0, *a, b"unacknowledged").unwrap();
        world.close(0, *a);
    }
    pairs.into_iter().map(|(_, b)| b).collect()
}

#[test]
fn closed_sockets_beyond_tcp_max_orphans_are_reset() {
    // 37
    let mut world = World::with(|c| c.tcp.orphans_max = 10);
    let theirs = orphans(&mut world, 13);
    let stack = &world.hosts[0].stack;
    assert_eq!((stack.census().orphans, stack.tcp_refused().orphans), (10, 3));
    world.run(MS);
    let ends = theirs.iter().filter(|b| world.state(1, **b) == Some(State::Closed)).count();
    assert_eq!(ends, 3, "they were told");
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(3));
    for b in theirs {
        world.close(1, b);
    }
    world.run(Duration::from_secs(100));
    let stack = &world.hosts[0].stack;
    assert_eq!((stack.census().orphans, stack.tcp_refused().orphans), (0, 3), "the others delivered");
}

#[test]
fn of_too_many_closed_sockets_those_that_icmp_speaks_against_go_first() {
    // 37
    let mut world = World::with(|c| c.tcp.orphans_max = 10);
    orphans(&mut world, 7);
    let id = world.hosts[0].stack.demux.tcp.flow(World::endpoint(0, 5003), World::endpoint(1, 80)).unwrap();
    let seq = numbers(&world, id).snd_nxt.wrapping_sub(5);
    let kind = Kind::Unreachable { why: SocketError::HostUnreachable, hard: false };
    let (now, host) = (world.now, &mut world.hosts[0]);
    icmp::on_error(&mut host.stack, now, id, IcmpError { kind, seq }, &mut host.out);
    world.run(Duration::from_secs(2));
    assert!(!world.hosts[0].stack.tcp_closing(id));
    assert_eq!(world.hosts[0].stack.census().orphans, 6);
}

#[test]
fn a_closed_socket_is_given_up_after_tcp_orphan_retries() {
    // 37
    for (retries, seconds) in [(2, 4), (0, 300)] {
        let mut world = World::with(|c| c.tcp.orphan_retries = retries);
        orphans(&mut world, 1);
        world.run(Duration::from_secs(1));
        assert_eq!(world.hosts[0].stack.census().orphans, 1);
        if retries == 0 {
            world.run(Duration::from_secs(80));
            assert_eq!(world.hosts[0].stack.census().orphans, 1, "eight retries take longer");
        }
        world.run(Duration::from_secs(seconds));
        assert_eq!(world.hosts[0].stack.census().orphans, 0, "{retries}");
    }
}

#[test]
fn time_wait_has_a_bound_and_the_oldest_goes() {
    // 37
    let mut world = World::with(|c| c.tcp.time_wait_max = 10);
    let listener = world.listen(1, 80, 64);
    let options = world.options();
    for port in 0..30 {
        let a = world.connect(0, 5000 + port, 80, &options);
        world.run(MS);
        let b = world.hosts[1].stack.tcp_accept(listener).unwrap();
        world.close(0, a);
        world.run(MS);
        world.close(1, b);
        world.run(MS);
    }
    assert_eq!(world.hosts[0].stack.sockets.len(), 10);
}
