//! Opening a connection.

use super::*;
use crate::{Ready, SocketError};

#[test]
fn connect_and_accept_make_an_established_pair() {
    let mut world = World::new();
    let (a, b) = world.pair();
    assert_eq!(world.state(1, b), Some(State::Established));
    let (x, y) = (
        world.hosts[0].stack.tcp_info(world.now, a).unwrap(),
        world.hosts[1].stack.tcp_info(world.now, b).unwrap(),
    );
    for info in [x, y] {
        assert!(info.timestamps && info.sack);
        assert_eq!((info.snd_wscale, info.rcv_wscale), (Some(7), Some(7)));
        assert_eq!(info.snd_mss, 1448);
    }
    assert_eq!(world.hosts[1].stack.remote(b), Some(World::endpoint(0, 5000)));
}

#[test]
fn connecting_socket_is_neither_readable_nor_writable_then_writable() {
    let mut world = World::new();
    world.listen(1, 80, 4);
    let options = world.options();
    let a = world.connect(0, 5000, 80, &options);
    assert_eq!(world.hosts[0].stack.ready(a), Ready::default());
    world.run(MS * 10);
    assert_eq!(world.hosts[0].stack.ready(a), Ready::OUT);
    assert!(world.edges(0, a).has(Ready::OUT));
}

#[test]
fn refused_connection_is_ready_for_everything_and_tells_econnrefused() {
    let mut world = World::new();
    let options = world.options();
    let a = world.connect(0, 5000, 81, &options);
    world.run(MS * 10);
    let all = Ready::IN | Ready::OUT | Ready::ERR | Ready::HUP | Ready::RDHUP;
    assert_eq!(world.hosts[0].stack.ready(a), all);
    assert_eq!(world.edges(0, a), all);
    assert_eq!(world.hosts[0].stack.take_error(a), Some(SocketError::Refused));
    assert_eq!(world.hosts[0].stack.take_error(a), None);
}

#[test]
fn rest_of_an_older_connection_costs_milliseconds_not_a_second() {
    let mut world = World::new();
    let (a, _) = world.pair();
    world.listen(1, 80, 4);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.abort(0, a);
    world.run(MS);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    let options = world.options();
    let again = world.connect(0, 5000, 80, &options);
    world.run(MS * 10);
    assert_eq!(world.state(0, again), Some(State::Established));
}

#[test]
fn ports_at_rest_are_chosen_and_used_when_linux_would() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let (local, remote) = (World::endpoint(0, 5000), World::endpoint(1, 80));
    assert!(!world.hosts[0].stack.tcp_can_connect(local, remote));
    world.close(0, a);
    world.close(1, b);
    world.run(MS * 100);
    assert!(world.hosts[0].stack.tcp_has_time_wait());
    assert!(!world.hosts[0].stack.tcp_can_choose(world.now, local, remote));
    assert!(world.hosts[0].stack.tcp_can_connect(local, remote), "the program wants this port");
    world.run(Duration::from_secs(2));
    assert!(world.hosts[0].stack.tcp_can_choose(world.now, local, remote));
    world.listen(1, 80, 4);
    let again = world.connect(0, 5000, 80, &world.options());
    world.run(MS * 10);
    assert_eq!(world.state(0, again), Some(State::Established));
}

#[test]
fn call_with_an_earlier_time_than_the_last_does_not_send_an_older_timestamp() {
    let mut world = World::new();
    let listener = world.listen(1, 80, 4);
    let options = world.options();
    world.connect(0, 5000, 80, &options);
    let now = world.now;
    let [client, server] = &mut world.hosts;
    client.answer(now);
    server.receive(now, client.out.frames.pop_front().expect("the SYN"));
    server.answer(now);
    let syn_ack = server.out.frames.pop_front().expect("the SYN-ACK");
    // Taken in by a thread that read the clock before the other one connected.
    client.receive(Instant(now.0 - 5_000_000), syn_ack);
    server.receive(now, client.out.frames.pop_front().expect("the third segment"));
    assert!(server.stack.tcp_accept(listener).is_some());
}

#[test]
fn lost_syn_syn_ack_and_third_ack_are_recovered() {
    for lost in 0..3 {
        let mut world = World::new();
        world.fault = Box::new(move |_, n, _| if n == lost { Fault::Lose } else { Fault::Deliver });
        let (a, b) = world.pair();
        world.transfer(0, a, b, 5000);
        world.transfer(1, b, a, 5000);
    }
}

#[test]
fn syn_goes_each_second_at_first_and_is_given_up_when_doubled_timeouts_would_be() {
    let mut world = World::with(|c| c.tcp.syn_retries = 3);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    let options = world.options();
    let a = world.connect(0, 5000, 80, &options);
    let start = world.now;
    world.run(Duration::from_secs(60));
    let times: Vec<u64> = world.log.iter().map(|e| e.0.since(start).as_secs_f64().round() as u64).collect();
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 7, 11]);
    assert_eq!(world.hosts[0].stack.take_error(a), Some(SocketError::TimedOut));
}

#[test]
fn simultaneous_open_makes_one_connection() {
    let mut world = World::new();
    let options = world.options();
    let a = world.connect(0, 5000, 6000, &options);
    let b = world.connect(1, 6000, 5000, &options);
    world.run(MS * 50);
    assert_eq!((world.state(0, a), world.state(1, b)), (Some(State::Established), Some(State::Established)));
    world.transfer(0, a, b, 100_000);
    world.transfer(1, b, a, 100_000);
}

#[test]
fn closing_in_the_middle_of_a_simultaneous_open_sends_the_fin_after_it() {
    let mut w = World::new();
    w.fault = Box::new(|_, _, frame| {
        // The SYN-ACKs get lost for a while, so that both ends stay in SYN-RECEIVED.
        let flags = frame[47];
        if flags & 0x12 == 0x12 { Fault::Lose } else { Fault::Deliver }
    });
    let options = w.options();
    let (a, b) = (w.connect(0, 80, 80, &options), w.connect(1, 80, 80, &options));
    w.run_until(MS * 10, |w| w.state(0, a) == Some(State::SynReceived));
    assert_eq!(w.shutdown(0, a), Ok(()));
    w.run(MS * 100);
    assert!(
        w.log.iter().all(|entry| !seen(entry).flags.has(wire::tcp::Flags::FIN)),
        "a FIN before the handshake"
    );
    w.fault = Box::new(|_, _, _| Fault::Deliver);
    w.run(Duration::from_secs(10));
    assert_eq!(w.state(0, a), Some(State::FinWait2));
    assert_eq!(w.state(1, b), Some(State::CloseWait));
    assert_eq!(w.recv(1, b, 10), Ok(vec![]));
}

#[test]
fn accept_queue_takes_one_more_than_the_backlog_and_the_rest_wait() {
    let mut world = World::new();
    let listener = world.listen(1, 80, 2);
    let options = world.options();
    for port in 0..6 {
        world.connect(0, 5000 + port, 80, &options);
    }
    world.run(MS * 20);
    let mut accepted = 0;
    while world.hosts[1].stack.tcp_accept(listener).is_some() {
        accepted += 1;
    }
    assert_eq!(accepted, 3);
    world.run(Duration::from_secs(10));
    while world.hosts[1].stack.tcp_accept(listener).is_some() {
        accepted += 1;
    }
    assert_eq!(accepted, 6);
}

#[test]
fn peer_without_options_still_gets_its_data() {
    let mut world = World::with(|c| {
        c.tcp.sack = false;
        c.tcp.timestamps = false;
        c.tcp.window_scaling = false;
    });
    let (a, b) = world.pair();
    let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    assert!(!info.timestamps && !info.sack && info.snd_wscale.is_none());
    assert_eq!(info.snd_mss, 1460);
    world.transfer(0, a, b, 300_000);
}

#[test]
fn four_tuple_in_use_cannot_be_connected_again() {
    let mut world = World::new();
    let (_a, _b) = world.pair();
    let options = world.options();
    let (local, remote) = (World::endpoint(0, 5000), World::endpoint(1, 80));
    let now = world.now;
    let host = &mut world.hosts[0];
    let again = host.stack.tcp_connect(now, local, remote, &options, 1, &mut host.out);
    assert_eq!(again, Err(crate::tcp::ConnectError::InUse));
}
