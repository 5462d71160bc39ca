//! Hostile peers, continued: rows of docs/security.md that no other test covers. The numbers are those of its table.

use super::*;
use wire::tcp::{Fields, Flags, OptionsWriter};

/// A SYN to port 80 of host 1.
fn syn(port: u16) -> Fields {
    Fields { src: port, dst: 80, seq: 5, flags: Flags::SYN, window: 1000, ..Fields::default() }
}

/// Hands host 1 a segment of host 0 and answers what host 1 says to it.
fn ask(world: &mut World, fields: &Fields, options: &OptionsWriter, payload: &[u8]) -> Vec<Vec<u8>> {
    let now = world.now;
    world.hosts[1].receive(now, forge(0, fields, options, payload));
    world.hosts[1].answer(now);
    world.hosts[1].out.frames.drain(..).collect()
}

fn read(frame: &[u8]) -> Seen {
    seen(&(Instant::ZERO, 1, frame.to_vec()))
}

/// Completes the handshake that `fields` and `options` began; the accepted connection.
fn accepted(world: &mut World, listener: SocketId, fields: &Fields, options: &OptionsWriter) -> SocketId {
    let answer = read(&ask(world, fields, options, &[])[0]);
    let third = Fields { seq: 6, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, ..*fields };
    ask(world, &third, &OptionsWriter::new(), &[]);
    world.hosts[1].stack.tcp_accept(listener).expect("a connection")
}

#[test]
fn options_of_a_handshake_mean_nothing_in_later_segments() {
    // 2
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let b = accepted(&mut world, listener, &syn(1234), &OptionsWriter::new());
    let now = world.now;
    let before = world.hosts[1].stack.tcp_info(now, b).unwrap();
    let mut options = OptionsWriter::new();
    options.mss(9000);
    options.window_scale(14);
    options.sack_permitted();
    options.timestamps(1, 1);
    let ack = world.hosts[1].stack.tcb(b).unwrap().snd_nxt.0;
    let data = Fields { seq: 6, ack, flags: Flags::ACK, ..syn(1234) };
    ask(&mut world, &data, &options, b"x");
    let after = world.hosts[1].stack.tcp_info(now, b).unwrap();
    assert_eq!(world.recv(1, b, 10), Ok(b"x".to_vec()));
    assert_eq!((after.snd_mss, after.snd_wscale), (before.snd_mss, before.snd_wscale));
    assert_eq!((after.sack, after.timestamps), (false, false));
}

#[test]
fn of_an_option_that_comes_twice_neither_breaks_the_handshake() {
    // 2
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let mut options = OptionsWriter::new();
    options.mss(1000);
    options.mss(1200);
    options.window_scale(2);
    options.window_scale(3);
    options.put(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    let b = accepted(&mut world, listener, &syn(1234), &options);
    let info = world.hosts[1].stack.tcp_info(world.now, b).unwrap();
    assert!((900..=1200).contains(&info.snd_mss), "{}", info.snd_mss);
}

#[test]
fn a_window_scale_above_14_counts_as_14() {
    // 4
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let mut options = OptionsWriter::new();
    options.window_scale(255);
    let b = accepted(&mut world, listener, &syn(1234), &options);
    let info = world.hosts[1].stack.tcp_info(world.now, b).unwrap();
    assert_eq!(info.snd_wscale, Some(14));
    assert_eq!(info.snd_wnd, 1000 << 14);
}

#[test]
fn a_window_scale_of_one_side_only_scales_nothing() {
    // 4
    let mut world = World::with(|c| c.tcp.window_scaling = false);
    let listener = world.listen(1, 80, 16);
    let mut options = OptionsWriter::new();
    options.window_scale(7);
    let b = accepted(&mut world, listener, &syn(1234), &options);
    let info = world.hosts[1].stack.tcp_info(world.now, b).unwrap();
    assert_eq!((info.snd_wscale, info.snd_wnd), (None, 1000));
}

#[test]
fn a_stream_goes_on_over_the_wrap_of_sequence_numbers() {
    // 11
    let mut world = World::new();
    let options = world.options();
    let listener = world.listen(1, 80, 16);
    // The initial number moves with the clock: 4 us a step, and a port whose number lies close below the wrap.
    let near = (5000..65_000).find_map(|port| {
        let a = world.connect(0, port, 80, &options);
        let left = world.hosts[0].stack.tcb(a).unwrap().iss.0.wrapping_neg();
        if left < 1 << 20 {
            return Some((a, left));
        }
        world.abort(0, a);
        world.hosts[0].out.frames.clear();
        None
    });
    let (a, left) = near.expect("one port of many");
    world.run(MS * 10);
    let b = world.hosts[1].stack.tcp_accept(listener).expect("a connection");
    world.transfer(0, a, b, left as usize + 100_000);
}

#[test]
fn duplicate_acknowledgments_that_are_invented_do_not_open_the_window() {
    // 20: Savage, 1999
    let mut world = World::with(|c| c.tcp.sack = false);
    let (a, _b) = world.pair();
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &vec![1; 4 * 1448]).unwrap();
    world.run(MS);
    let before = world.log.len();
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    let (cwnd, una, rcv_nxt) = (tcb.control.cwnd, tcb.snd_una.0, tcb.rcv_nxt.0);
    let stamps = (tcb.ts_recent, tcb.stamp(world.now));
    for _ in 0..1000 {
        let mut options = OptionsWriter::new();
        options.timestamps(stamps.0, stamps.1);
        let window = tcb_window(&world, a);
        let fields =
            Fields { src: 80, dst: 5000, seq: rcv_nxt, ack: una, flags: Flags::ACK, window, ..syn(80) };
        let now = world.now;
        world.hosts[0].receive(now, forge(1, &fields, &options, &[]));
    }
    world.run(MS);
    assert!(world.hosts[0].stack.tcb(a).unwrap().control.cwnd <= cwnd);
    assert!(world.log.len() - before <= 8, "{} segments for nothing", world.log.len() - before);
}

/// The window field that repeats what host 0 knows: an ACK with another is no duplicate.
fn tcb_window(world: &World, a: SocketId) -> u16 {
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    (tcb.snd_wnd >> tcb.snd_wscale) as u16
}

#[test]
fn timestamps_to_two_peers_share_no_clock() {
    // 24
    let mut world = World::new();
    let options = world.options();
    let a = world.connect(0, 5000, 80, &options);
    let other = Endpoint::new([10, 0, 0, 9].into(), 80);
    let (now, local) = (world.now, World::endpoint(0, 5001));
    let host = &mut world.hosts[0];
    let b = host.stack.tcp_connect(now, local, other, &options, 1, &mut host.out).unwrap();
    let stamp = |id| host.stack.tcb(id).unwrap().stamp(now);
    let apart = stamp(a).wrapping_sub(stamp(b)) as i32;
    assert!(apart.unsigned_abs() > 60_000, "{apart} ms apart");
    assert!(stamp(a).wrapping_sub((now.0 / 1_000_000) as u32) > 1000, "the time since start is told");
}

#[test]
fn a_reset_removes_a_half_open_connection_and_its_ghost_is_not_accepted() {
    // 31
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let answer = read(&ask(&mut world, &syn(1234), &OptionsWriter::new(), &[])[0]);
    let reset = Fields { seq: 6, flags: Flags::RST, ..syn(1234) };
    assert!(ask(&mut world, &reset, &OptionsWriter::new(), &[]).is_empty());
    assert_eq!(world.hosts[1].stack.census().sockets, 1);
    let third = Fields { seq: 6, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, ..syn(1234) };
    let said = ask(&mut world, &third, &OptionsWriter::new(), &[]);
    assert!(said.len() == 1 && read(&said[0]).flags.has(Flags::RST), "a ghost was believed");
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
}

#[test]
fn data_with_a_syn_waits_for_the_handshake_and_is_not_delivered_before() {
    // 32
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let answer = read(&ask(&mut world, &syn(1234), &OptionsWriter::new(), b"early")[0]);
    assert!(answer.ack == 6 || answer.ack == 11);
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
}

#[test]
fn a_segment_in_a_broadcast_frame_is_not_answered() {
    // 30
    let mut world = World::new();
    world.listen(1, 80, 16);
    let mut frame = forge(0, &syn(1234), &OptionsWriter::new(), &[]);
    frame[..6].fill(0xff);
    let now = world.now;
    world.hosts[1].receive(now, frame);
    assert!(world.hosts[1].out.frames.is_empty());
}

#[test]
fn a_flood_of_congestion_echoes_moves_the_window_once_at_most() {
    // 42
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let fields = Fields { flags: Flags(Flags::SYN.0 | 0xc0), ..syn(1234) };
    let answer = read(&ask(&mut world, &fields, &OptionsWriter::new(), &[])[0]);
    assert_eq!(answer.flags.0 & 0xc0, Flags::ECE.0);
    let third =
        Fields { seq: 6, ack: answer.seq.wrapping_add(1), flags: Flags(Flags::ACK.0 | 0xc0), ..syn(1234) };
    ask(&mut world, &third, &OptionsWriter::new(), b"data");
    let b = world.hosts[1].stack.tcp_accept(listener).expect("a connection");
    let window = |world: &World| {
        let control = &world.hosts[1].stack.tcb(b).unwrap().control;
        (control.cwnd, control.ssthresh)
    };
    let before = window(&world);
    assert_eq!(world.recv(1, b, 10), Ok(b"data".to_vec()));
    let echo = Fields { seq: 10, flags: Flags(Flags::ACK.0 | 0x40), ..third };
    let flood = |world: &mut World| {
        for _ in 0..100 {
            ask(world, &echo, &OptionsWriter::new(), &[]);
        }
        window(world)
    };
    assert_eq!(flood(&mut world), before, "with nothing in flight");
    world.send(1, b, &[0; 500]).unwrap();
    let after = flood(&mut world);
    assert!(after.0 < before.0 && after.0 >= before.0 / 2, "{after:?} of {before:?}");
}

#[test]
fn what_lies_beyond_the_fin_is_let_go_and_the_duplicate_is_reported_where_it_was() {
    // 17
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    let (rcv_nxt, ack) = (tcb.rcv_nxt.0, tcb.snd_nxt.0);
    let mut say = |offset: u32, flags: Flags, payload: &[u8]| {
        let mut options = OptionsWriter::new();
        let tcb = world.hosts[0].stack.tcb(a).unwrap();
        options.timestamps(tcb.ts_recent, tcb.stamp(world.now));
        let seq = rcv_nxt.wrapping_add(offset);
        let fields = Fields { src: 80, dst: 5000, seq, ack, flags, window: 1000, ..Fields::default() };
        let now = world.now;
        world.hosts[0].receive(now, forge(1, &fields, &options, payload));
        let frame = world.hosts[0].out.frames.drain(..).next_back().expect("an acknowledgment");
        let tcp = wire::tcp::Header::parse(&frame[34..]).unwrap();
        let mut blocks = Vec::new();
        for option in tcp.options() {
            if let wire::tcp::Opt::Sack(sacks) = option {
                blocks.extend(sacks.iter().map(|(l, r)| (l.wrapping_sub(rcv_nxt), r.wrapping_sub(rcv_nxt))));
            }
        }
        (tcp.ack().wrapping_sub(rcv_nxt), blocks)
    };
    assert_eq!(say(1000, Flags::ACK, &[9; 500]), (0, vec![(1000, 1500)]));
    assert_eq!(say(0, Flags::ACK, &[1; 10]), (10, vec![(1000, 1500)]));
    assert_eq!(say(5, Flags::ACK.with(Flags::FIN), &[1; 15]), (21, vec![(5, 10)]));
    assert!(!world.hosts[0].stack.tcb(a).unwrap().rx.has_holes());
}

#[test]
fn a_fin_in_its_place_ends_the_stream_whatever_an_earlier_one_beyond_it_said() {
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    let (rcv_nxt, ack) = (tcb.rcv_nxt.0, tcb.snd_nxt.0);
    for offset in [700, 0] {
        let mut options = OptionsWriter::new();
        let tcb = world.hosts[0].stack.tcb(a).unwrap();
        options.timestamps(tcb.ts_recent, tcb.stamp(world.now));
        let flags = Flags::ACK.with(Flags::FIN);
        let seq = rcv_nxt.wrapping_add(offset);
        let fields = Fields { src: 80, dst: 5000, seq, ack, flags, window: 1000, ..Fields::default() };
        let now = world.now;
        world.hosts[0].receive(now, forge(1, &fields, &options, &[]));
    }
    assert_eq!(world.hosts[0].stack.tcp_state(a), Some(State::CloseWait));
}
