//! Hostile peers and strangers. The numbers in comments are those of the checklist of attack classes.

use super::*;
use crate::SocketError;
use crate::tcp::seq::Seq;
use wire::tcp::{Fields, Flags, OptionsWriter};

/// Numbers of a connection as host 1 would have to know them to speak to host 0.
struct Numbers {
    /// What host 0 expects next, and what it sent last.
    rcv_nxt: u32,
    snd_nxt: u32,
    stamp: u32,
    echo: u32,
}

fn numbers(world: &World, a: SocketId) -> Numbers {
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    Numbers {
        rcv_nxt: tcb.rcv_nxt.0,
        snd_nxt: tcb.snd_nxt.0,
        stamp: tcb.ts_recent,
        echo: tcb.stamp(world.now),
    }
}

/// Sends host 0 a segment that claims to be of host 1's side of the pair, with valid timestamps.
fn inject(
    world: &mut World,
    n: &Numbers,
    seq: u32,
    ack: u32,
    flags: Flags,
    sacks: &[(u32, u32)],
    payload: &[u8],
) {
    let mut options = OptionsWriter::new();
    options.timestamps(n.stamp, n.echo);
    options.sack(sacks);
    let fields = Fields { src: 80, dst: 5000, seq, ack, flags, window: 1000, ..Fields::default() };
    let frame = forge(1, &fields, &options, payload);
    let now = world.now;
    world.hosts[0].receive(now, frame);
}

/// What host 0 has sent since and the wire has not yet taken.
fn answers(world: &mut World) -> Vec<Seen> {
    world.hosts[0].out.frames.drain(..).map(|f| seen(&(Instant::ZERO, 0, f))).collect()
}

#[test]
fn blind_reset_in_the_window_is_challenged_and_only_the_exact_number_resets() {
    // 26
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for offset in [1, 100, 60_000] {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add(offset), 0, Flags::RST, &[], &[]);
        assert_eq!(answers(&mut world).len(), 1, "offset {offset}");
        world.run(MS * 600);
    }
    for offset in [-1i32, -5000, 10_000_000] {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add_signed(offset), 0, Flags::RST, &[], &[]);
        assert_eq!(answers(&mut world).len(), 0, "offset {offset}");
    }
    assert_eq!(world.state(0, a), Some(State::Established));
    inject(&mut world, &n, n.rcv_nxt, 0, Flags::RST, &[], &[]);
    assert_eq!(world.state(0, a), Some(State::Closed));
}

#[test]
fn syn_in_an_established_connection_is_challenged_and_changes_nothing() {
    // 26
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for seq in [n.rcv_nxt, n.rcv_nxt.wrapping_add(50), n.rcv_nxt.wrapping_sub(999_999)] {
        inject(&mut world, &n, seq, n.snd_nxt, Flags::SYN, &[], &[]);
        let answers = answers(&mut world);
        assert_eq!((answers.len(), answers[0].flags, answers[0].ack), (1, Flags::ACK, n.rcv_nxt));
        world.run(MS * 600);
    }
    world.transfer(1, b, a, 10_000);
}

#[test]
fn challenges_come_twice_a_second_at_most_for_each_connection() {
    // 27, 39
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for _ in 0..1000 {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add(7), 0, Flags::RST, &[], &[]);
    }
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn acknowledgment_of_what_was_never_sent_is_not_believed() {
    // 20, 21
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    let before = world.hosts[0].stack.tcp_info(world.now, a).unwrap().snd_cwnd;
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt.wrapping_add(1000), Flags::ACK, &[], b"evil");
    assert_eq!(answers(&mut world).len(), 1);
    assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().snd_cwnd, before);
    world.transfer(0, a, b, 10_000);
}

#[test]
fn data_with_an_acknowledgment_far_in_the_past_is_not_taken() {
    // 26: blind data injection needs both numbers.
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for ack in [n.snd_nxt.wrapping_sub(100_000_000), n.snd_nxt ^ 0x8000_0000] {
        inject(&mut world, &n, n.rcv_nxt, ack, Flags::ACK, &[], b"evil");
        assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    }
}

#[test]
fn an_old_timestamp_is_an_old_duplicate() {
    // 24: PAWS
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(1, b, a, 1000);
    world.run(MS * 100);
    let mut n = numbers(&world, a);
    n.stamp = n.stamp.wrapping_sub(1);
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt, Flags::ACK, &[], b"old");
    assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    n.stamp = n.stamp.wrapping_add(1);
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt, Flags::ACK, &[], b"new");
    assert_eq!(world.recv(0, a, 10).unwrap(), b"new");
}

#[test]
fn sack_blocks_that_cannot_be_are_ignored() {
    // 16, 17: reversed, outside, empty, below, wrapping.
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[5; 10_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(10_000);
    let bad = [
        (una + 3000, una + 2000),
        (n.snd_nxt.wrapping_add(10), n.snd_nxt.wrapping_add(20)),
        (una + 5000, una + 5000),
        (una.wrapping_sub(0x8000_0000), n.snd_nxt),
        (una + 9000, n.snd_nxt.wrapping_add(1)),
        (una.wrapping_sub(2000), una + 1448),
    ];
    for block in bad {
        inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[block], &[]);
        let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
        assert_eq!((info.sacked, info.lost, info.retrans), (0, 0, 0), "{block:?}");
    }
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(2));
    assert_eq!(world.recv(1, b, 20_000).unwrap(), vec![5; 10_000]);
}

#[test]
fn thousands_of_alternating_sack_blocks_split_nothing() {
    // 16, 17: CVE-2019-11478 made the retransmission queue long by pieces.
    let mut world = World::new();
    let mut options = world.options();
    options.send_buffer = Some(1_000_000);
    let (a, b) = world.pair_with(&options);
    world.transfer(0, a, b, 1_000_000);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &vec![5; 60_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = world.hosts[0].stack.tcb(a).unwrap().snd_una.0;
    let before = world.hosts[0].stack.tcb(a).unwrap().board.count();
    for i in 0..5000u32 {
        let at = una.wrapping_add(1 + (i * 16) % 50_000);
        inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[(at, at + 8)], &[]);
        world.hosts[0].out.frames.clear();
    }
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    assert!(tcb.board.count() <= before + 50, "{} segments of {before}", tcb.board.count());
    assert_eq!(tcb.board.sacked(), 0);
}

#[test]
fn a_peer_that_takes_back_what_it_sacked_still_gets_it() {
    // 17: reneging
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|from, _, _| if from == 0 { Fault::Lose } else { Fault::Deliver });
    world.send(0, a, &[5; 10_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(10_000);
    inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[(una + 1448, n.snd_nxt)], &[]);
    assert!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().sacked > 0);
    world.run(MS * 50);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(10));
    assert_eq!(world.recv(1, b, 20_000).unwrap(), vec![5; 10_000]);
}

#[test]
fn acknowledgments_in_many_small_pieces_grow_the_window_by_bytes() {
    // 20: ACK splitting
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[5; 14_480]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(14_480);
    let before = world.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    for i in 1..=100 {
        inject(&mut world, &n, n.rcv_nxt, una.wrapping_add(14 * i), Flags::ACK, &[], &[]);
    }
    let after = world.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    assert!(after <= before + 1448, "{before} -> {after}");
}

#[test]
fn syn_flood_leaves_the_listener_usable_by_cookies() {
    // 32
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    for i in 0..2000u32 {
        let fields = Fields {
            src: 1000 + (i % 60_000) as u16,
            dst: 80,
            seq: i * 7919,
            flags: Flags::SYN,
            window: 1000,
            ..Fields::default()
        };
        let mut options = OptionsWriter::new();
        options.mss(1460);
        let now = world.now;
        world.hosts[1].receive(now, forge(0, &fields, &options, &[]));
        world.hosts[1].out.frames.clear();
    }
    assert!(world.hosts[1].stack.sockets.len() <= 17);
    let options = world.options();
    let a = world.connect(0, 777, 80, &options);
    world.run(MS * 5);
    let b = world.hosts[1].stack.tcp_accept(listener).expect("by a cookie");
    let info = world.hosts[1].stack.tcp_info(world.now, b).unwrap();
    assert!(info.sack && info.timestamps);
    assert_eq!((info.snd_mss, info.snd_wscale), (1448, Some(7)));
    world.transfer(0, a, b, 100_000);
    world.transfer(1, b, a, 100_000);
}

#[test]
fn a_client_whose_last_ack_to_a_cookie_was_lost_is_believed_by_its_data_or_told_by_keepalive() {
    // 32: the server remembers nothing, so nobody else can repair it (RFC 4987, 3.6).
    for talks in [true, false] {
        let mut world = World::new();
        let listener = world.listen(1, 80, 1);
        let now = world.now;
        for i in 0..20u16 {
            let fields = Fields { src: 1000 + i, dst: 80, seq: 1, flags: Flags::SYN, ..Fields::default() };
            world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
        }
        world.hosts[1].out.frames.clear();
        let mut options = world.options();
        options.keepalive = true;
        options.keepalive_idle = Duration::from_secs(100);
        let a = world.connect(0, 777, 80, &options);
        world.fault = Box::new(|from, _, frame| {
            let ack = seen(&(Instant::ZERO, 0, frame.to_vec())).flags == Flags::ACK;
            if from == 0 && ack { Fault::Lose } else { Fault::Deliver }
        });
        world.run(MS * 5);
        world.fault = Box::new(|_, _, _| Fault::Deliver);
        assert_eq!(world.state(0, a), Some(State::Established));
        assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
        if talks {
            world.send(0, a, b"proof").unwrap();
            world.run(MS * 5);
            let b = world.hosts[1].stack.tcp_accept(listener).expect("by its data");
            assert_eq!(world.recv(1, b, 10).unwrap(), b"proof");
        } else {
            // Not by the first probe: while cookies are out, what might be behind a lost proof gets no answer.
            world.run(Duration::from_secs(200));
            assert_eq!(world.hosts[0].stack.take_error(a), Some(SocketError::Reset));
        }
    }
}

#[test]
fn an_acknowledgment_without_cookie_or_handshake_is_reset() {
    // 31
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let fields =
        Fields { src: 1234, dst: 80, seq: 5, ack: 6, flags: Flags::ACK, window: 99, ..Fields::default() };
    let now = world.now;
    world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), b"data"));
    let answer = seen(&(now, 1, world.hosts[1].out.frames.pop_front().unwrap()));
    assert_eq!((answer.flags, answer.seq), (Flags::RST, 6));
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
}

#[test]
fn guessed_cookies_are_not_believed() {
    // 32: with the SYN queue full, an ACK must match 24 bits of keyed hash.
    let mut world = World::new();
    let listener = world.listen(1, 80, 1);
    let now = world.now;
    for i in 0..20u16 {
        let fields = Fields { src: 1000 + i, dst: 80, seq: 1, flags: Flags::SYN, ..Fields::default() };
        world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
    }
    let mut random = Random(99);
    for _ in 0..5000 {
        let ack = random.below(1 << 32) as u32;
        let fields = Fields { src: 2000, dst: 80, seq: 2, ack, flags: Flags::ACK, ..Fields::default() };
        world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
        world.hosts[1].out.frames.clear();
    }
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
}

/// A cookie that somebody else with the key of host 1 gives host 0's port 2000.
fn cookie_of_another(world: &World, irs: u32) -> u32 {
    let (local, remote) = (World::endpoint(1, 80), World::endpoint(0, 2000));
    let shared = &world.hosts[0].stack.tcp;
    crate::tcp::cookie::make(shared, world.now, local, remote, Seq(irs), Some(1400)).0
}

/// Host 0 sends `data` behind the proof of a cookie; the answers.
fn prove(world: &mut World, irs: u32, cookie: u32, data: &[u8]) -> Vec<Seen> {
    let ack = cookie.wrapping_add(1);
    let fields = Fields {
        src: 2000,
        dst: 80,
        seq: irs.wrapping_add(1),
        ack,
        flags: Flags::ACK,
        window: 900,
        ..Fields::default()
    };
    let now = world.now;
    world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), data));
    world.hosts[1].out.frames.drain(..).map(|frame| seen(&(now, 1, frame))).collect()
}

#[test]
fn cookies_that_others_give_for_us_are_believed_for_two_minutes_after_they_say_so() {
    // 32: the program on the interface answers what is too much for the receive ring.
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let cookie = cookie_of_another(&world, 4);
    assert_eq!(prove(&mut world, 4, cookie, b"hello")[0].flags, Flags::RST, "nobody said so");
    world.hosts[1].stack.cookies_are_out(world.now);
    assert!(prove(&mut world, 4, cookie ^ 1, b"hello").is_empty(), "it may be behind a lost proof");
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
    prove(&mut world, 4, cookie, b"hello");
    let b = world.hosts[1].stack.tcp_accept(listener).expect("by the cookie");
    assert_eq!(world.recv(1, b, 10).unwrap(), b"hello");
    let info = world.hosts[1].stack.tcp_info(world.now, b).unwrap();
    assert_eq!((info.snd_mss, info.sack, info.snd_wscale), (1400, false, None));
    world.abort(1, b);
    world.run(Duration::from_secs(121));
    world.hosts[1].stack.cookies_are_out(world.now);
    assert!(prove(&mut world, 4, cookie, b"hello").iter().all(|answer| !answer.flags.has(Flags::SYN)));
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None, "it is too old");
    world.run(Duration::from_secs(121));
    let cookie = cookie_of_another(&world, 4);
    assert_eq!(prove(&mut world, 4, cookie, b"hello")[0].flags, Flags::RST, "no news for two minutes");
}

#[test]
fn the_proof_of_a_cookie_replaces_a_connection_in_time_wait() {
    // 32: whoever answers for us does not know of it.
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let options = world.options();
    let a = world.connect(0, 2000, 80, &options);
    world.run(MS);
    let b = world.hosts[1].stack.tcp_accept(listener).unwrap();
    let next = numbers(&world, a).snd_nxt;
    world.close(1, b);
    world.run(MS);
    world.close(0, a);
    world.run(MS);
    let (old, new) = (next.wrapping_sub(1), next.wrapping_add(1000));
    let cookie = cookie_of_another(&world, new);
    prove(&mut world, new, cookie, b"not yet");
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None, "nobody said so");
    world.hosts[1].stack.cookies_are_out(world.now);
    prove(&mut world, new, cookie ^ 1, b"no");
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
    let late = cookie_of_another(&world, old);
    prove(&mut world, old, late, b"late");
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None, "of the old connection");
    prove(&mut world, new, cookie, b"again");
    let b = world.hosts[1].stack.tcp_accept(listener).expect("by the cookie");
    assert_eq!(world.recv(1, b, 10).unwrap(), b"again");
}

#[test]
fn strange_flag_combinations_open_nothing() {
    // 32: SYN with FIN, everything, nothing.
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let now = world.now;
    for flags in [0u8, 0x3, 0x3f, 0xff, 0x29, 0x1, 0x20, 0x6] {
        let fields = Fields { src: 1234, dst: 80, seq: 5, flags: Flags(flags), ..Fields::default() };
        world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
    }
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
    assert_eq!(world.hosts[1].stack.sockets.len(), 1);
    let synacks =
        world.hosts[1].out.frames.drain(..).filter(|f| seen(&(now, 1, f.clone())).flags.has(Flags::SYN));
    assert_eq!(synacks.count(), 0);
}

#[test]
fn strangers_get_resets_at_a_limited_rate_and_never_for_a_reset() {
    // 34
    let mut world = World::new();
    let now = world.now;
    for i in 0..5000u32 {
        let fields = Fields { src: 7, dst: 9, seq: i, flags: Flags::SYN, ..Fields::default() };
        world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
    }
    assert_eq!(world.hosts[1].out.frames.len(), 1000);
    world.hosts[1].out.frames.clear();
    let later = now + Duration::from_secs(2);
    let fields = Fields { src: 7, dst: 9, seq: 1, flags: Flags::RST, ..Fields::default() };
    world.hosts[1].receive(later, forge(0, &fields, &OptionsWriter::new(), &[]));
    assert_eq!(world.hosts[1].out.frames.len(), 0);
}

#[test]
fn initial_numbers_of_many_connections_share_no_visible_order() {
    // 22
    let mut world = World::new();
    let options = world.options();
    let mut bits = [0u32; 32];
    let mut last = 0u32;
    let count = 2000;
    for port in 0..count {
        let a = world.connect(0, 10_000 + port, 80, &options);
        let iss = world.hosts[0].stack.tcb(a).unwrap().iss.0;
        for (i, ones) in bits.iter_mut().enumerate() {
            *ones += ((iss ^ last) >> i) & 1;
        }
        last = iss;
        world.abort(0, a);
    }
    for ones in bits {
        assert!((800..1200).contains(&ones), "{bits:?}");
    }
}

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

#[test]
fn a_listener_takes_no_more_requests_a_second_than_its_rate_and_the_rest_succeed_later() {
    // 32
    let mut world = World::with(|c| c.tcp.syn_rate_max = 5);
    let listener = world.listen(1, 80, 64);
    let options = world.options();
    let ours: Vec<SocketId> = (0..12).map(|n| world.connect(0, 5000 + n, 80, &options)).collect();
    let mut accepted = 0;
    for (second, refused) in [(0, 7), (1, 9), (2, 9)] {
        world.run(MS * 500);
        while world.hosts[1].stack.tcp_accept(listener).is_some() {
            accepted += 1;
        }
        assert_eq!(accepted, (5 * (second + 1)).min(12), "in second {second}");
        assert_eq!(world.hosts[1].stack.tcp_refused().syns, refused);
        world.run(MS * 520);
    }
    assert!(ours.iter().all(|a| world.state(0, *a) == Some(State::Established)));
}

#[test]
fn the_rate_of_one_listener_is_not_anothers() {
    let mut world = World::with(|c| c.tcp.syn_rate_max = 1);
    let listeners = [80, 81].map(|port| world.listen(1, port, 64));
    let options = world.options();
    world.connect(0, 5000, 80, &options);
    world.connect(0, 5001, 81, &options);
    world.run(MS);
    assert!(listeners.iter().all(|l| world.hosts[1].stack.tcp_accept(*l).is_some()));
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
    use crate::icmp::{IcmpError, Kind};
    let mut world = World::with(|c| c.tcp.orphans_max = 10);
    orphans(&mut world, 7);
    let id = world.hosts[0].stack.demux.tcp.flow(World::endpoint(0, 5003), World::endpoint(1, 80)).unwrap();
    let seq = numbers(&world, id).snd_nxt.wrapping_sub(5);
    let kind = Kind::Unreachable { why: SocketError::HostUnreachable, hard: false };
    let (now, host) = (world.now, &mut world.hosts[0]);
    super::super::icmp::on_error(&mut host.stack, now, id, IcmpError { kind, seq }, &mut host.out);
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

#[test]
fn two_confused_peers_fall_silent() {
    // 39: each side sees the other's numbers as old duplicates.
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    if let Some(crate::stack::Socket::Tcp(tcb)) = world.hosts[0].stack.sockets.get_mut(a) {
        tcb.rcv_nxt += 900_000;
        tcb.rcv_adv += 900_000;
        tcb.last_ack_sent += 900_000;
        tcb.snd_una += 700_000;
        tcb.snd_nxt += 700_000;
        tcb.board.reset(tcb.snd_nxt);
    }
    world.log.clear();
    world.send(0, a, b"x").unwrap();
    let _ = b;
    world.run(Duration::from_secs(2));
    assert!(world.log.len() < 60, "{} packets in two seconds", world.log.len());
}

#[test]
fn icmp_errors_are_hints_for_a_connection_and_final_for_a_connect() {
    // 28
    use crate::icmp::{IcmpError, Kind};
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[0; 100]).unwrap();
    let n = numbers(&world, a);
    let now = world.now;
    let hard = Kind::Unreachable { why: SocketError::Refused, hard: true };
    let host = &mut world.hosts[0];
    for seq in [n.snd_nxt.wrapping_sub(50), n.snd_nxt.wrapping_add(5000)] {
        super::super::icmp::on_error(&mut host.stack, now, a, IcmpError { kind: hard, seq }, &mut host.out);
    }
    assert_eq!(world.state(0, a), Some(State::Established));
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(1));
    world.transfer(0, a, b, 1000 - 1000);
    let options = world.options();
    world.fault = Box::new(|_, _, _| Fault::Lose);
    let c = world.connect(0, 6000, 81, &options);
    let iss = world.hosts[0].stack.tcb(c).unwrap().iss.0;
    let now = world.now;
    let host = &mut world.hosts[0];
    let blind = IcmpError { kind: hard, seq: iss.wrapping_add(77) };
    super::super::icmp::on_error(&mut host.stack, now, c, blind, &mut host.out);
    assert_eq!(world.state(0, c), Some(State::SynSent));
    let host = &mut world.hosts[0];
    super::super::icmp::on_error(&mut host.stack, now, c, IcmpError { kind: hard, seq: iss }, &mut host.out);
    assert_eq!(world.hosts[0].stack.take_error(c), Some(SocketError::Refused));
}

#[test]
fn path_mtu_by_icmp_is_believed_only_for_what_is_in_flight() {
    // 28
    use crate::icmp::{IcmpError, Kind};
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 10_000);
    world.run(MS * 100);
    let now = world.now;
    let n = numbers(&world, a);
    let too_big = |seq| IcmpError { kind: Kind::TooBig(1000), seq };
    let host = &mut world.hosts[0];
    super::super::icmp::on_error(&mut host.stack, now, a, too_big(n.snd_nxt), &mut host.out);
    assert_eq!(world.hosts[0].stack.tcp_info(now, a).unwrap().snd_mss, 1448);
    world.fault = Box::new(|_, _, frame| if frame.len() > 1014 { Fault::Lose } else { Fault::Deliver });
    world.send(0, a, &[9; 5000]).unwrap();
    world.run(MS / 100);
    let now = world.now;
    let host = &mut world.hosts[0];
    super::super::icmp::on_error(&mut host.stack, now, a, too_big(n.snd_nxt), &mut host.out);
    assert_eq!(world.hosts[0].stack.tcp_info(now, a).unwrap().snd_mss, 948);
    world.run(MS * 100);
    assert_eq!(world.recv(1, b, 10_000).unwrap(), vec![9; 5000]);
}

#[test]
fn path_mtu_that_one_connection_learned_shrinks_what_another_has_in_flight() {
    use crate::icmp::{IcmpError, Kind};
    let mut world = World::new();
    let options = world.options();
    let listener = world.listen(1, 80, 16);
    let ours = [5000, 5001].map(|port| world.connect(0, port, 80, &options));
    world.run(MS * 100);
    let theirs = [(); 2].map(|()| world.hosts[1].stack.tcp_accept(listener).unwrap());
    world.fault = Box::new(|_, _, frame| if frame.len() > 1014 { Fault::Lose } else { Fault::Deliver });
    for id in ours {
        world.send(0, id, &[9; 5000]).unwrap();
    }
    world.run(MS / 100);
    let now = world.now;
    for id in ours {
        let error =
            IcmpError { kind: Kind::TooBig(1000), seq: world.hosts[0].stack.tcb(id).unwrap().snd_una.0 };
        let host = &mut world.hosts[0];
        super::super::icmp::on_error(&mut host.stack, now, id, error, &mut host.out);
        assert_eq!(world.hosts[0].stack.tcp_info(now, id).unwrap().snd_mss, 948);
    }
    // Well before any retransmission timeout.
    world.run(MS * 20);
    for id in theirs {
        assert_eq!(world.recv(1, id, 10_000).unwrap(), vec![9; 5000]);
    }
}

#[test]
fn urgent_pointers_beyond_and_behind_do_no_harm() {
    // 5
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for urgent in [0u16, 1, 5, 6, 100, 65_535] {
        let n = numbers(&world, a);
        let mut options = OptionsWriter::new();
        options.timestamps(n.stamp, n.echo);
        let fields = Fields {
            src: 80,
            dst: 5000,
            seq: n.rcv_nxt,
            ack: n.snd_nxt,
            flags: Flags::ACK | Flags::URG,
            window: 1000,
            urgent,
            ..Fields::default()
        };
        let now = world.now;
        world.hosts[0].receive(now, forge(1, &fields, &options, b"hello"));
        let _ = world.recv_as(0, a, 1, Take::Urgent);
        while world.recv(0, a, 3).is_ok() {}
    }
    let _ = n;
    assert_eq!(world.state(0, a), Some(State::Established));
}

#[test]
fn tiny_mss_of_a_peer_is_not_believed() {
    // 3: CVE-2019-11479
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let now = world.now;
    let mut options = OptionsWriter::new();
    options.mss(1);
    let syn = Fields { src: 1234, dst: 80, seq: 5, flags: Flags::SYN, window: 60_000, ..Fields::default() };
    world.hosts[1].receive(now, forge(0, &syn, &options, &[]));
    world.hosts[1].answer(now);
    let answer = seen(&(now, 1, world.hosts[1].out.frames.pop_front().unwrap()));
    let ack = Fields { seq: 6, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, ..syn };
    world.hosts[1].receive(now, forge(0, &ack, &OptionsWriter::new(), &[]));
    let b = world.hosts[1].stack.tcp_accept(listener).unwrap();
    assert!(world.hosts[1].stack.tcp_info(now, b).unwrap().snd_mss >= 88);
}
