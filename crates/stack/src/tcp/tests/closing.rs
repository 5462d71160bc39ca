//! Closing a connection.

use super::*;
use crate::tcp::Close;
use crate::{Ready, SocketError};
use wire::tcp::Flags;

#[test]
fn orderly_close_goes_through_fin_wait_and_close_wait_to_time_wait() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.edges(1, b);
    world.shutdown(0, a).unwrap();
    assert_eq!(world.state(0, a), Some(State::FinWait1));
    world.run(MS);
    assert_eq!((world.state(0, a), world.state(1, b)), (Some(State::FinWait2), Some(State::CloseWait)));
    assert_eq!(world.edges(1, b), Ready::IN | Ready::RDHUP);
    assert_eq!(world.hosts[1].stack.ready(b), Ready::IN | Ready::RDHUP | Ready::OUT);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"");
    world.send(1, b, b"last words").unwrap();
    world.run(MS);
    assert_eq!(world.recv(0, a, 50).unwrap(), b"last words");
    world.close(1, b);
    world.run(MS);
    // As the kernel has it: the descriptor's socket is CLOSED, TIME-WAIT is an entry of its own.
    assert_eq!(world.state(0, a), Some(State::Closed));
    assert_eq!(world.state(1, b), None);
    assert!(world.hosts[0].stack.ready(a).has(Ready::HUP | Ready::IN | Ready::OUT));
    assert_eq!(world.recv(0, a, 50).unwrap(), b"");
    world.close(0, a);
    assert_eq!(world.state(0, a), None);
}

#[test]
fn data_before_the_fin_is_delivered_after_close() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let bytes: Vec<u8> = (0..60_000).map(byte).collect();
    assert_eq!(world.send(0, a, &bytes), Ok(60_000));
    world.close(0, a);
    assert!(world.hosts[0].stack.tcp_closing(a));
    world.run(MS * 50);
    assert_eq!(world.recv(1, b, 100_000).unwrap(), bytes);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"");
    world.close(1, b);
    world.run(MS * 50);
    assert!(!world.hosts[0].stack.tcp_closing(a));
}

#[test]
fn close_with_unread_data_resets() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(0, a, b"unread").unwrap();
    world.run(MS);
    world.close(1, b);
    world.run(MS);
    assert_eq!(world.state(1, b), None);
    assert_eq!(world.hosts[0].stack.take_error(a), Some(SocketError::Reset));
    assert!(world.hosts[0].stack.ready(a).has(Ready::HUP));
}

#[test]
fn abort_sends_a_reset_that_the_peer_learns_as_econnreset() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.edges(1, b);
    world.abort(0, a);
    world.run(MS);
    assert_eq!(world.edges(1, b), Ready::IN | Ready::OUT | Ready::ERR | Ready::HUP | Ready::RDHUP);
    assert_eq!(world.recv(1, b, 10), Err(RecvError::Failed(SocketError::Reset)));
    assert_eq!(world.recv(1, b, 10).unwrap(), b"");
    assert_eq!(world.send(1, b, b"x"), Err(SendError::Closed));
}

#[test]
fn received_data_stays_readable_after_a_reset() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(0, a, b"kept").unwrap();
    world.run(MS);
    world.abort(0, a);
    world.run(MS);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"kept");
    assert_eq!(world.recv(1, b, 10), Err(RecvError::Failed(SocketError::Reset)));
}

#[test]
fn data_to_a_closed_socket_is_answered_by_reset() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.close(0, a);
    world.run(MS);
    world.send(1, b, b"anybody?").unwrap();
    world.run(MS);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"", "the stream had ended before: readers are not told");
    assert_eq!(world.hosts[1].stack.take_error(b), Some(SocketError::BrokenPipe));
}

#[test]
fn simultaneous_close_ends_both_sides() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.close(0, a);
    world.close(1, b);
    world.run(MS * 10);
    assert_eq!((world.state(0, a), world.state(1, b)), (None, None));
    assert_eq!(world.hosts[0].stack.sockets.len(), 1);
    world.run(Duration::from_secs(70));
    assert_eq!((world.hosts[0].stack.sockets.len(), world.hosts[1].stack.sockets.len()), (0, 0));
}

#[test]
fn lost_fin_and_lost_last_ack_are_repeated() {
    for lost in 0..2 {
        let mut world = World::new();
        let (a, b) = world.pair();
        world.run(MS * 100);
        let mut fins = 0;
        world.fault = Box::new(move |from, _, frame| {
            let fin = seen(&(Instant::ZERO, 0, frame.to_vec())).flags.has(Flags::FIN);
            if (lost == 0 && fin && from == 0) || (lost == 1 && from == 0 && !fin && fins > 0) {
                fins += 1;
                if fins < 3 {
                    return Fault::Lose;
                }
            }
            if fin {
                fins += 1;
            }
            Fault::Deliver
        });
        world.close(0, a);
        world.run(MS * 10);
        world.close(1, b);
        world.run(Duration::from_secs(20));
        assert_eq!(world.state(1, b), None);
        assert!(!world.hosts[0].stack.tcp_closing(a));
    }
}

#[test]
fn fin_wait_2_of_a_closed_socket_ends_by_time() {
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.close(0, a);
    world.run(Duration::from_secs(59));
    assert!(world.hosts[0].stack.tcp_closing(a));
    world.run(Duration::from_secs(3));
    assert!(!world.hosts[0].stack.tcp_closing(a));
}

#[test]
fn time_wait_is_reused_by_a_newer_connection_from_either_side() {
    for again_from in [0, 1] {
        let mut world = World::new();
        let (a, b) = world.pair();
        world.close(0, a);
        world.run(MS * 5);
        world.close(1, b);
        world.run(Duration::from_secs(2));
        let options = world.options();
        let port = if again_from == 0 { 80 } else { 5000 };
        let from = if again_from == 0 { 5000 } else { 80 };
        let listener = world.listen(1 - again_from, port, 4);
        let c = world.connect(again_from, from, port, &options);
        world.run(MS * 10);
        let d = world.hosts[1 - again_from].stack.tcp_accept(listener).expect("a connection");
        world.transfer(again_from, c, d, 10_000);
    }
}

#[test]
fn reset_in_time_wait_is_ignored() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.close(0, a);
    world.run(MS * 5);
    world.close(1, b);
    world.run(MS * 5);
    let last = world.log.iter().map(seen).rfind(|s| s.from == 1).unwrap();
    let fields = wire::tcp::Fields {
        src: 80,
        dst: 5000,
        seq: last.seq.wrapping_add(1),
        flags: Flags::RST,
        ..Default::default()
    };
    let now = world.now;
    world.hosts[0].receive(now, forge(1, &fields, &wire::tcp::OptionsWriter::new(), &[]));
    assert_eq!(world.hosts[0].stack.sockets.len(), 1);
}

#[test]
fn closing_a_listener_resets_what_was_not_accepted() {
    let mut world = World::new();
    let listener = world.listen(1, 80, 4);
    let options = world.options();
    let a = world.connect(0, 5000, 80, &options);
    world.run(MS * 5);
    let host = &mut world.hosts[1];
    host.stack.tcp_close(world.now, listener, Close::Orderly, &mut host.out);
    world.run(MS * 5);
    assert_eq!(world.hosts[0].stack.take_error(a), Some(SocketError::Reset));
    assert_eq!(world.hosts[1].stack.sockets.len(), 0);
}

#[test]
fn a_connection_is_described_with_what_is_unread_on_its_way_and_unsent() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(1, b, b"unread").unwrap();
    world.run(MS);
    let quiet = world.hosts[0].stack.tcp_describe(world.now, a).unwrap();
    assert_eq!(
        (quiet.unread.as_slice(), quiet.sent.len(), quiet.state),
        (&b"unread"[..], 0, State::Established)
    );
    // More than the initial window.
    let bytes: Vec<u8> = (0..40_000).map(byte).collect();
    assert_eq!(world.send(0, a, &bytes), Ok(40_000));
    world.shutdown(0, a).unwrap();
    let busy = world.hosts[0].stack.tcp_describe(world.now, a).unwrap();
    assert!(!busy.sent.is_empty() && !busy.unsent.is_empty() && busy.is_write_ended());
    assert_eq!([busy.sent, busy.unsent].concat(), bytes);
    assert_eq!(busy.send_seq, quiet.send_seq);
    while world.state(0, a) != Some(State::FinWait2) {
        world.run(MS);
    }
    let ended = world.hosts[0].stack.tcp_describe(world.now, a).unwrap();
    assert_eq!((ended.state, ended.send_seq), (State::FinWait2, quiet.send_seq.wrapping_add(40_001)));
    let peer = world.hosts[1].stack.tcp_describe(world.now, b).unwrap();
    assert!(peer.is_fin_received() && peer.unread == bytes);
    assert_eq!(peer.receive_seq.wrapping_add(40_001), ended.send_seq);
}

#[test]
fn what_comes_for_a_connection_that_was_handed_over_is_the_kernels_until_its_flow_is_forgotten() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let (local, remote) = (world.hosts[0].stack.local(a).unwrap(), world.hosts[0].stack.remote(a).unwrap());
    world.hosts[0].stack.tcp_handed_over(a);
    let before = world.log.len();
    world.send(1, b, b"anybody?").unwrap();
    world.run(MS * 50);
    assert!(world.log.len() > before);
    assert!(world.log[before..].iter().all(|(_, sender, _)| *sender == 1), "the engine answered");
    let passed = world.hosts[0].stack.take_for_kernel().expect("the kernel is to have it");
    assert!(passed.ends_with(b"anybody?"));
    world.hosts[0].stack.tcp_forget_flow(a, local, remote);
    world.run(MS * 5000);
    assert_eq!(world.state(1, b), Some(State::Closed));
}

#[test]
fn the_window_of_time_wait_is_no_smaller_than_was_told() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let scale = world.hosts[0].stack.tcp_info(world.now, a).and_then(|info| info.rcv_wscale).unwrap();
    world.shutdown(0, a).unwrap();
    world.run(MS * 50);
    let told = world.log.iter().map(seen).rfind(|s| s.from == 0).unwrap();
    // The last bytes leave the window at no multiple of its unit, and their acknowledgment finds no room.
    world.hosts[0].out.room = 0;
    world.send(1, b, b"odd").unwrap();
    world.close(1, b);
    world.run(MS * 10);
    world.hosts[0].out.room = usize::MAX;
    let before = world.log.len();
    world.run(MS * 3000);
    let last = world.log[before..].iter().map(seen).find(|s| s.from == 0).expect("the FIN came again");
    assert_eq!(world.state(0, a), Some(State::Closed));
    let edge = |s: &Seen| s.ack.wrapping_add(u32::from(s.window) << scale);
    assert_eq!(last.ack, told.ack.wrapping_add(4));
    assert!(edge(&last).wrapping_sub(edge(&told)) as i32 >= 0, "{} after {}", edge(&last), edge(&told));
}
