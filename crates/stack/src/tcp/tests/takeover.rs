//! Connections that leave an engine and come to one.

use super::*;
use crate::SocketError;
use crate::tcp::Handover;

impl World {
    /// Out of the engine and into it again, with what TCP_REPAIR can say between.
    fn take_over(&mut self, host: usize, id: SocketId) -> SocketId {
        self.take_over_as(host, id, |_| {})
    }

    fn take_over_as(&mut self, host: usize, id: SocketId, change: impl Fn(&mut Handover)) -> SocketId {
        let options = self.options();
        let now = self.now;
        let Host { stack, out, .. } = &mut self.hosts[host];
        let described = stack.tcp_describe(now, id).unwrap();
        let mut from = Handover { timestamp_recent: None, ..described };
        change(&mut from);
        stack.tcp_handed_over(id);
        stack.tcp_forget_flow(id, from.local, from.remote);
        stack.tcp_take_over(now, &from, &options, 1, out).unwrap()
    }

    fn read_all(&mut self, host: usize, id: SocketId) -> Vec<u8> {
        self.recv(host, id, 1 << 20).unwrap_or_default()
    }
}

#[test]
fn bytes_of_every_kind_survive() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(1, b, b"unread").unwrap();
    world.run(MS);
    // More than the initial window: some of it is on its way, the rest unsent.
    let bytes: Vec<u8> = (0..40_000).map(byte).collect();
    assert_eq!(world.send(0, a, &bytes), Ok(40_000));
    let a = world.take_over(0, a);
    assert_eq!(world.read_all(0, a), b"unread");
    let mut got = Vec::new();
    for _ in 0..100 {
        world.run(MS);
        got.extend(world.read_all(1, b));
    }
    assert_eq!(got, bytes);
}

#[test]
fn the_peer_hears_what_it_is_owed_before_the_move() {
    let mut world = World::new();
    let (a, b) = world.pair();
    // A conversation, in which acknowledgments wait for the answer.
    for _ in 0..20 {
        world.send(1, b, b"question").unwrap();
        world.run(MS);
        assert_eq!(world.read_all(0, a), b"question");
        world.send(0, a, b"answer").unwrap();
        world.run(MS);
        assert_eq!(world.read_all(1, b), b"answer");
    }
    world.send(1, b, b"question").unwrap();
    world.run(Duration::from_micros(100));
    assert_eq!(world.hosts[1].stack.tcp_queued(b).unwrap().send, 8, "the acknowledgment waits");
    let now = world.now;
    let Host { stack, out, .. } = &mut world.hosts[0];
    stack.tcp_tell_all(now, a, out);
    world.run(Duration::from_micros(100));
    assert_eq!(world.hosts[1].stack.tcp_queued(b).unwrap().send, 0);
}

#[test]
fn a_reset_right_after_a_move_finds_its_way() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let (now, options) = (world.now, world.options());
    let from = world.hosts[0].stack.tcp_describe(now, a).unwrap();
    // An engine that has said nothing to this peer yet.
    world.hosts[0] = Host::new(1);
    let Host { stack, out, .. } = &mut world.hosts[0];
    let a = stack.tcp_take_over(now, &from, &options, 1, out).unwrap();
    world.hosts[0].answer(now);
    world.abort(0, a);
    world.run(MS);
    assert_eq!(world.recv(1, b, 10), Err(RecvError::Failed(SocketError::Reset)));
}

#[test]
fn each_state_goes_on_to_its_end() {
    // Who shuts down first, and whether the other one has too, before the move.
    for (first, both) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut world = World::new();
        let (a, b) = world.pair();
        let ids = [a, b];
        world.shutdown(first, ids[first]).unwrap();
        world.run(MS);
        if both {
            world.shutdown(1 - first, ids[1 - first]).unwrap();
        }
        let Some(State::FinWait2 | State::CloseWait | State::LastAck | State::FinWait1) = world.state(0, a)
        else {
            panic!("{:?}", world.state(0, a))
        };
        let before = world.state(0, a);
        let a = world.take_over(0, a);
        assert_eq!(world.state(0, a), before);
        if !both {
            assert_eq!(world.send(1 - first, [a, b][1 - first], b"half"), Ok(4));
            world.run(MS);
            assert_eq!(world.read_all(first, [a, b][first]), b"half");
            world.shutdown(1 - first, [a, b][1 - first]).unwrap();
        }
        world.run(MS * 1000);
        assert_eq!(world.recv(0, a, 1), Ok(Vec::new()), "first {first}, both {both}");
        assert_eq!(world.recv(1, b, 1), Ok(Vec::new()), "first {first}, both {both}");
        assert_eq!(world.state(0, a), Some(State::Closed), "first {first}, both {both}");
    }
}

#[test]
fn a_timestamp_that_is_not_known_refuses_nobody_and_is_learned_from_the_first_segment() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let a = world.take_over(0, a);
    world.send(1, b, b"one").unwrap();
    world.run(MS);
    assert_eq!(world.read_all(0, a), b"one");
    let described = world.hosts[0].stack.tcp_describe(world.now, a).unwrap();
    assert!(described.timestamp_recent.is_some());
}

#[test]
fn a_pair_of_endpoints_that_is_in_use_is_not_taken_over() {
    let mut world = World::new();
    let (a, _) = world.pair();
    let (now, options) = (world.now, world.options());
    let Host { stack, out, .. } = &mut world.hosts[0];
    let from = stack.tcp_describe(now, a).unwrap();
    assert_eq!(stack.tcp_take_over(now, &from, &options, 1, out), Err(crate::tcp::ConnectError::InUse));
    assert_eq!(world.state(0, a), Some(State::Established));
}

#[test]
fn moves_do_not_put_off_what_is_to_be_sent_again() {
    let mut world = World::new();
    let (mut a, b) = world.pair();
    // So that a round trip is known.
    world.send(0, a, b"first").unwrap();
    world.run(MS * 10);
    assert_eq!(world.read_all(1, b), b"first");
    let mut lost = 0;
    world.fault = Box::new(move |from, _, frame| {
        let is_first = from == 0 && payload_len(frame) > 0 && lost == 0;
        lost += u32::from(is_first);
        if is_first { Fault::Lose } else { Fault::Deliver }
    });
    world.send(0, a, b"second").unwrap();
    let sent = world.now;
    world.run(MS);
    // Each of them sooner than a timer that began anew would expire, and a tail loss probe too.
    while world.now < sent + MS * 400 {
        a = world.take_over(0, a);
        world.run(MS / 2);
    }
    assert_eq!(world.read_all(1, b), b"second");
}

#[test]
fn what_comes_for_a_connection_that_stayed_in_the_kernel_is_passed_on_and_not_answered() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let (local, remote) = (world.hosts[0].stack.local(a).unwrap(), world.hosts[0].stack.remote(a).unwrap());
    world.hosts[0].stack.tcp_handed_over(a);
    world.hosts[0].stack.tcp_forget_flow(a, local, remote);
    let nobody = world.hosts[0].stack.tcp_leave_flow(local, remote);
    world.send(1, b, b"anybody?").unwrap();
    world.run(MS * 50);
    assert!(world.hosts[0].stack.take_for_kernel().is_some_and(|packet| packet.ends_with(b"anybody?")));
    assert_eq!(world.state(1, b), Some(State::Established));
    world.hosts[0].stack.tcp_forget_flow(nobody, local, remote);
    world.run(MS * 5000);
    assert_eq!(world.state(1, b), Some(State::Closed));
}

#[test]
fn the_next_tcp_is_told_the_round_trip_by_an_acknowledgment() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(1, b, b"unread").unwrap();
    world.run(MS * 100);
    world.send(0, a, b"sent").unwrap();
    let now = world.now;
    let mut from = world.hosts[0].stack.tcp_describe(now, a).unwrap();
    from.pace.as_mut().unwrap().srtt = MS * 7;
    let packet = from.acknowledgment(now).unwrap();
    let ip = wire::ipv4::Header::parse(&packet).unwrap();
    assert_eq!((ip.src(), ip.dst(), ip.total_len()), (*from.remote.ip(), *from.local.ip(), packet.len()));
    let tcp = wire::tcp::Header::parse(&packet[ip.len()..]).unwrap();
    assert_eq!((tcp.src(), tcp.dst()), (from.remote.port(), from.local.port()));
    assert_eq!((tcp.seq(), tcp.ack()), (from.receive_next(), from.send_seq));
    let (stamp, _) = from.timestamp.unwrap();
    assert_eq!(tcp.aligned_timestamps(), Some((from.timestamp_recent.unwrap(), stamp.wrapping_sub(7))));
    from.pace = None;
    assert_eq!(from.acknowledgment(now), None, "nobody knows it");
}

#[test]
fn what_was_lost_before_a_move_is_found_by_a_probe_though_queues_were_full_then() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(0, a, b"?").unwrap();
    world.run(MS);
    assert_eq!(world.read_all(1, b), b"?");
    world.fault = Box::new(|from, _, _| if from == 0 { Fault::Lose } else { Fault::Deliver });
    let bytes: Vec<u8> = (0..8000).map(byte).collect();
    assert_eq!(world.send(0, a, &bytes), Ok(8000));
    world.run(MS);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    // The answer to the probe comes sooner than the mean, as nothing is queued by then.
    world.take_over_as(0, a, |from| from.pace.as_mut().unwrap().srtt = MS * 20);
    world.run(MS * 100);
    assert!(world.read_all(1, b) == bytes, "sent again within less than a retransmission timeout");
}

#[test]
fn what_lost_something_on_its_way_is_reset_for_both_ends_behind_what_waits() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(1, b, b"unread").unwrap();
    world.run(MS);
    let a = world.take_over(0, a);
    let Host { stack, out, .. } = &mut world.hosts[0];
    stack.tcp_reset(world.now, a, out);
    world.run(MS);
    assert_eq!(world.read_all(0, a), b"unread");
    for (host, id) in [(0, a), (1, b)] {
        assert_eq!(world.hosts[host].stack.take_error(id), Some(SocketError::Reset));
    }
}
