//! Explicit congestion notification (RFC 3168): who asks, which packets are marked, what a mark does.

use super::*;
use crate::tcp::{Congestion, Ecn};
use wire::tcp::Flags;

fn ecn_of(frame: &[u8]) -> u8 {
    frame[15] & 3
}

fn marks(flags: Flags) -> u8 {
    flags.0 & (Flags::ECE.0 | Flags::CWR.0)
}

/// Host 0 asks.
fn asking(change: impl Fn(&mut crate::Config)) -> World {
    World::with(|c| {
        c.tcp.ecn = if c.mac.0[5] == 1 { Ecn::Ask } else { Ecn::Passive };
        c.tcp.options.congestion = Congestion::NewReno;
        change(c);
    })
}

fn speaks(world: &World, host: usize, id: SocketId) -> bool {
    world.hosts[host].stack.tcp_info(world.now, id).unwrap().ecn
}

#[test]
fn nobody_asks_unless_told_so() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    assert!(!speaks(&world, 0, a) && !speaks(&world, 1, b));
    for entry in &world.log {
        assert_eq!(ecn_of(&entry.2), 0);
        if entry.2[12..14] == [8, 0] {
            assert_eq!(marks(seen(entry).flags), 0);
        }
    }
}

#[test]
fn a_listener_agrees_when_asked_and_only_new_data_is_marked_capable() {
    let mut world = asking(|_| {});
    let (a, b) = world.pair();
    let mut count = 0;
    world.fault = Box::new(move |from, _, frame| {
        count += u32::from(from == 0 && payload_len(frame) > 0);
        if from == 0 && count == 40 { Fault::Lose } else { Fault::Deliver }
    });
    world.transfer(0, a, b, 200_000);
    world.close(0, a);
    world.close(1, b);
    world.run(Duration::from_secs(1));
    let mut next = None;
    let mut resent = 0;
    for entry in &world.log {
        let segment = seen(entry);
        let expected = match (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK)) {
            (true, false) => Flags::ECE.0 | Flags::CWR.0,
            (true, true) => Flags::ECE.0,
            _ => marks(segment.flags) & Flags::CWR.0,
        };
        assert_eq!(marks(segment.flags), expected, "{:?}", segment.flags);
        let end = segment.seq.wrapping_add(segment.len as u32);
        let fresh = segment.len > 0
            && (segment.from == 1 || next.is_none_or(|n: u32| segment.seq.wrapping_sub(n) as i32 >= 0));
        if segment.from == 0 && segment.len > 0 {
            resent += u32::from(!fresh);
            next = Some(next.map_or(end, |n| if end.wrapping_sub(n) as i32 > 0 { end } else { n }));
        }
        assert_eq!(ecn_of(&entry.2), if fresh { 2 } else { 0 });
    }
    assert!(resent > 0, "the lost segment was sent again");
}

#[test]
fn nothing_is_agreed_if_either_side_is_off() {
    for off in [1, 2] {
        let mut world = asking(|c| {
            if c.mac.0[5] == off {
                c.tcp.ecn = Ecn::Off;
            }
        });
        let (a, b) = world.pair();
        world.transfer(0, a, b, 20_000);
        assert!(!speaks(&world, 0, a) && !speaks(&world, 1, b));
        assert!(world.log.iter().all(|entry| ecn_of(&entry.2) == 0));
    }
}

#[test]
fn both_sides_that_ask_at_once_agree() {
    let mut world = World::with(|c| c.tcp.ecn = Ecn::Ask);
    let options = world.options();
    let a = world.connect(0, 5000, 6000, &options);
    let b = world.connect(1, 6000, 5000, &options);
    world.run_until(Duration::from_secs(10), |w| {
        w.state(0, a) == Some(State::Established) && w.state(1, b) == Some(State::Established)
    });
    assert!(speaks(&world, 0, a) && speaks(&world, 1, b));
    world.transfer(0, a, b, 20_000);
}

#[test]
fn a_syn_that_gets_no_answer_asks_no_more() {
    let mut world = asking(|_| {});
    world.fault = Box::new(|_, _, frame| {
        let asks = payload_len(frame) == 0 && marks(seen(&(Instant::ZERO, 0, frame.to_vec())).flags) == 0xc0;
        if asks { Fault::Lose } else { Fault::Deliver }
    });
    let (a, b) = world.pair();
    assert!(!speaks(&world, 0, a) && !speaks(&world, 1, b));
    world.transfer(0, a, b, 20_000);
}

#[test]
fn a_mark_is_echoed_until_the_sender_says_that_it_slowed_down() {
    let mut world = asking(|_| {});
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    let window = |w: &World| w.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    let before = window(&world);
    let from = world.log.len();
    // The first two segments of one window are marked.
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        data += u32::from(from == 0 && payload_len(frame) > 0);
        if from == 0 && data <= 2 { Fault::Mark } else { Fault::Deliver }
    });
    world.transfer(0, a, b, 400_000);
    let segments: Vec<Seen> = world.log[from..].iter().map(seen).collect();
    let echo = segments.iter().position(|s| s.from == 1 && s.flags.has(Flags::ECE)).expect("an echo");
    let said: Vec<usize> = (0..segments.len()).filter(|i| segments[*i].flags.has(Flags::CWR)).collect();
    assert_eq!(said.len(), 1, "once for one window");
    assert!(said[0] > echo && segments[said[0]].len > 0);
    let end = segments[said[0]].seq.wrapping_add(segments[said[0]].len as u32);
    for (i, s) in segments.iter().enumerate().filter(|(_, s)| s.from == 1 && s.flags.has(Flags::ACK)) {
        let heard = s.ack.wrapping_sub(end) as i32 >= 0;
        assert_eq!(s.flags.has(Flags::ECE), i >= echo && !heard, "at {i}");
    }
    let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    let ssthresh = world.hosts[0].stack.tcb(a).unwrap().control.ssthresh;
    assert!(ssthresh >= before / 2 && ssthresh < before, "{ssthresh} of {before}: halved once");
    assert_eq!(info.total_retrans, 0);
    assert!(world.hosts[1].stack.tcp_info(world.now, b).unwrap().ecn_seen);
}

#[test]
fn marks_in_every_window_keep_the_window_small_and_lose_nothing() {
    let mut world = asking(|_| {});
    let (a, b) = world.pair();
    world.fault = Box::new(|from, n, _| if from == 0 && n % 3 == 0 { Fault::Mark } else { Fault::Deliver });
    world.transfer(0, a, b, 400_000);
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    assert!(tcb.control.cwnd <= 6 * 1460, "{}", tcb.control.cwnd);
    assert_eq!(tcb.counts.total_retrans, 0);
}

#[test]
fn a_loss_among_packets_that_were_marked_is_answered_once() {
    let mut world = asking(|_| {});
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        data += u32::from(from == 0 && payload_len(frame) > 0);
        match data {
            1 if from == 0 => Fault::Mark,
            8 if from == 0 => Fault::Lose,
            _ => Fault::Deliver,
        }
    });
    let before = world.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    world.transfer(0, a, b, 100_000);
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    assert!(tcb.counts.total_retrans > 0);
    assert!(tcb.control.ssthresh >= before / 2 - 1460, "{} of {before}", tcb.control.ssthresh);
}

#[test]
fn a_syn_in_a_packet_marked_capable_is_not_believed_unless_it_speaks_accurate_ecn() {
    for (tos, reserved, agreed) in [(0, 0, true), (0, 1, true), (2, 0, false), (3, 0, false), (2, 1, true)] {
        let mut world = World::new();
        world.listen(1, 80, 16);
        let fields = wire::tcp::Fields {
            src: 1234,
            dst: 80,
            seq: 5,
            flags: Flags(Flags::SYN.0 | 0xc0),
            window: 1000,
            ..Default::default()
        };
        let mut frame = forge(0, &fields, &wire::tcp::OptionsWriter::new(), &[]);
        set_ecn(&mut frame, tos);
        // The sum moves by as much as the bit is worth.
        frame[14 + 20 + 12] |= reserved;
        let sum = u16::from_be_bytes([frame[50], frame[51]]);
        let sum = if reserved == 1 { (!((!sum as u32 + 0x100) % 0xffff)) as u16 } else { sum };
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        let now = world.now;
        world.hosts[1].receive(now, frame);
        world.hosts[1].answer(now);
        let answer = world.hosts[1].out.frames.pop_front().expect("a SYN-ACK");
        assert_eq!(ecn_of(&answer), 0);
        let flags = seen(&(now, 1, answer)).flags;
        assert_eq!(marks(flags), if agreed { Flags::ECE.0 } else { 0 }, "{tos} {reserved}");
    }
}

#[test]
fn a_mark_on_packets_of_a_connection_that_did_not_agree_means_nothing() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.fault = Box::new(|_, _, _| Fault::MarkAnyway);
    world.transfer(0, a, b, 50_000);
    assert!(world.log.iter().all(|entry| marks(seen(entry).flags) == 0));
}

#[test]
fn a_cookie_remembers_the_agreement() {
    for timestamps in [true, false] {
        let mut world = asking(|c| c.tcp.timestamps = timestamps);
        let listener = world.listen(1, 80, 1);
        for port in 0..8u16 {
            let fields = wire::tcp::Fields {
                src: 1000 + port,
                dst: 80,
                flags: Flags::SYN,
                window: 1000,
                ..Default::default()
            };
            let now = world.now;
            world.hosts[1].receive(now, forge(0, &fields, &wire::tcp::OptionsWriter::new(), &[]));
        }
        // Host 0 would reset what it did not begin.
        world.hosts[1].answer(world.now);
        world.hosts[1].out.frames.clear();
        let options = world.options();
        let a = world.connect(0, 5000, 80, &options);
        let mut b = None;
        world.fault = Box::new(|from, _, frame| {
            let dst = u16::from_be_bytes([frame[36], frame[37]]);
            if from == 1 && dst != 5000 { Fault::Lose } else { Fault::Deliver }
        });
        world.run_until(Duration::from_secs(1), |w| {
            b = b.or(w.hosts[1].stack.tcp_accept(listener));
            b.is_some()
        });
        let b = b.unwrap();
        assert_eq!((speaks(&world, 0, a), speaks(&world, 1, b)), (timestamps, timestamps));
    }
}
