//! What routers say of the path's MTU, and how long that counts.

use super::*;
use crate::icmp::{IcmpError, Kind};

/// A router says to host 0 that what is in flight of `a` is too big for `mtu`.
fn too_big(world: &mut World, a: SocketId, mtu: u32) {
    let seq = world.hosts[0].stack.tcb(a).unwrap().snd_una.0;
    let (now, host) = (world.now, &mut world.hosts[0]);
    let error = IcmpError { kind: Kind::TooBig(mtu), seq };
    crate::tcp::icmp::on_error(&mut host.stack, now, a, error, &mut host.out);
}

/// A connection whose first flight was too big for `mtu`.
fn narrowed(world: &mut World, mtu: u32) -> (SocketId, SocketId) {
    let (a, b) = world.pair();
    world.send(0, a, &[1; 10_000]).unwrap();
    world.hosts[0].out.frames.clear();
    too_big(world, a, mtu);
    world.run(MS * 500);
    assert_eq!(world.recv(1, b, 20_000).unwrap().len(), 10_000);
    (a, b)
}

/// The largest IP packet with payload that host 0 sent since.
fn largest_sent(world: &mut World) -> usize {
    let frames = world.log.drain(..).filter(|entry| entry.1 == 0).map(|entry| entry.2);
    frames.filter(|frame| payload_len(frame) > 0).map(|frame| frame.len() - 14).max().unwrap_or(0)
}

#[test]
fn a_connection_gets_its_segments_back_when_a_routers_word_is_forgotten() {
    // RFC 1191, 6.3
    let mut world = World::new();
    let (a, b) = narrowed(&mut world, 1000);
    world.log.clear();
    world.transfer(0, a, b, 100_000);
    assert_eq!(largest_sent(&mut world), 1000);
    world.run(Duration::from_secs(601));
    world.transfer(0, a, b, 100_000);
    assert_eq!(largest_sent(&mut world), 1500);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().pmtu, 1500);
}

#[test]
fn a_connection_gets_larger_segments_when_the_interface_takes_more() {
    let mut world = World::new();
    world.hosts[0].stack.set_mtu(1000);
    let (a, b) = world.pair();
    world.transfer(0, a, b, 10_000);
    assert_eq!(largest_sent(&mut world), 1000);
    world.hosts[0].stack.set_mtu(1500);
    world.transfer(0, a, b, 100_000);
    assert_eq!(largest_sent(&mut world), 1500);
}
