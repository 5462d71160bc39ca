//! What routers say of the path's MTU, how long that counts, and paths that take less than is believed.

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

/// IP packets with payload that host 0 sent since: the largest, flags and offset, identifications.
fn sent(world: &mut World) -> (usize, Vec<u16>, Vec<u16>) {
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let frames: Vec<Vec<u8>> =
        world.log.drain(..).filter(|entry| entry.1 == 0).map(|entry| entry.2).collect();
    let data: Vec<&Vec<u8>> = frames.iter().filter(|frame| payload_len(frame) > 0).collect();
    let largest = data.iter().map(|frame| frame.len() - 14).max().unwrap_or(0);
    let of = |at| data.iter().map(|frame| word(frame, at)).collect();
    (largest, of(20), of(18))
}

const DONT_FRAGMENT: u16 = 0x4000;

#[test]
fn a_connection_gets_its_segments_back_when_a_routers_word_is_forgotten() {
    // RFC 1191, 6.3
    let mut world = World::new();
    let (a, b) = narrowed(&mut world, 1000);
    world.log.clear();
    world.transfer(0, a, b, 100_000);
    assert_eq!(sent(&mut world).0, 1000);
    world.run(Duration::from_secs(601));
    world.transfer(0, a, b, 100_000);
    assert_eq!(sent(&mut world).0, 1500);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().pmtu, 1500);
}

#[test]
fn a_connection_gets_larger_segments_when_the_interface_takes_more() {
    let mut world = World::new();
    world.hosts[0].stack.set_mtu(1000);
    let (a, b) = world.pair();
    world.transfer(0, a, b, 10_000);
    assert_eq!(sent(&mut world).0, 1000);
    world.hosts[0].stack.set_mtu(1500);
    world.transfer(0, a, b, 100_000);
    assert_eq!(sent(&mut world).0, 1500);
}

#[test]
fn what_a_path_of_less_than_552_bytes_is_sent_may_be_cut_on_its_way() {
    let mut world = World::new();
    world.hosts[0].out.large_max = 65_455;
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    world.send(0, a, &[1; 10_000]).unwrap();
    world.hosts[0].out.frames.clear();
    world.log.clear();
    world.hosts[0].out.large.clear();
    too_big(&mut world, a, 300);
    world.run(MS * 500);
    assert_eq!(world.recv(1, b, 20_000).unwrap().len(), 10_000);
    world.transfer(0, a, b, 20_000);
    let (largest, flags, mut idents) = sent(&mut world);
    assert_eq!(largest, 552);
    assert!(flags.iter().all(|flags| *flags == 0), "{flags:x?}");
    let count = idents.len();
    idents.sort_unstable();
    idents.dedup();
    assert_eq!(idents.len(), count, "identifications are told apart (RFC 6864, 4.1)");
    assert!(world.hosts[0].out.large.is_empty());
    world.run(Duration::from_secs(601));
    world.transfer(0, a, b, 100_000);
    let (largest, flags, _) = sent(&mut world);
    assert_eq!(largest, 1500);
    assert!(flags.iter().all(|flags| *flags == DONT_FRAGMENT), "{flags:x?}");
}

#[test]
fn a_path_that_is_known_to_take_552_bytes_may_still_turn_out_to_take_less() {
    let mut world = World::new();
    let (a, b) = narrowed(&mut world, 552);
    world.log.clear();
    world.send(0, a, &[1; 10_000]).unwrap();
    world.hosts[0].out.frames.clear();
    too_big(&mut world, a, 300);
    world.run(MS * 100);
    assert_eq!(world.recv(1, b, 20_000).unwrap().len(), 10_000, "sent again at once");
    assert!(sent(&mut world).1.iter().all(|flags| *flags == 0));
}
