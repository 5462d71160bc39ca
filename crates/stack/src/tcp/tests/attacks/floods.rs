//! More segments than anybody honest sends: at listeners, and at ports where nobody listens (class D).

use super::*;
use crate::SocketError;
use crate::census::Census;
use crate::tcp::seq::Seq;

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

/// A segment that belongs to nothing, in the name of one of 62 000 addresses: to the listener at port 80 or to a closed
/// port, and each fourth looks like the proof of a cookie.
fn stray(random: &mut Random) -> Vec<u8> {
    let src = [10, 9, random.below(250) as u8, random.below(250) as u8].into();
    let flags = [Flags::ACK, Flags::RST, Flags::RST | Flags::ACK, Flags::FIN, Flags::FIN | Flags::ACK];
    let flags = flags[random.below(5) as usize];
    let bits = if random.below(4) == 0 { 27 } else { 32 };
    let fields = Fields {
        src: 1024 + random.below(60_000) as u16,
        dst: if random.below(4) == 0 { 81 } else { 80 },
        seq: random.below(1 << 32) as u32,
        ack: random.below(1 << bits) as u32,
        flags,
        ..Fields::default()
    };
    let data = if random.below(3) == 0 { &[7; 100][..] } else { &[] };
    forge_as(src, 0, &fields, &OptionsWriter::new(), data)
}

#[test]
fn a_flood_of_stray_segments_delays_no_connection_and_leaves_nothing_behind() {
    // 34: more than a million a second, of which the answers fill the transmit ring each time before the connection
    // sends.
    const TOTAL: usize = 4_000_000;
    let [quiet, flooded] = [0, 120].map(|strays| {
        let mut world = World::new();
        world.delay = MS * 5;
        let listener = world.listen(1, 80, 16);
        let options = world.options();
        let a = world.connect(0, 5000, 80, &options);
        world.run(MS * 20);
        let b = world.hosts[1].stack.tcp_accept(listener).unwrap();
        world.hosts[1].stack.cookies_are_out(world.now);
        world.hosts[1].out.room = 32;
        let (before, held, begun) = (world.hosts[1].stack.census(), world.log.len(), world.now);
        let mut random = Random(5);
        let (mut sent, mut got, mut count) = (0, 0, 0u64);
        while got < TOTAL {
            for _ in 0..strays {
                let now = world.now;
                world.hosts[1].receive(now, stray(&mut random));
                count += 1;
            }
            while let Ok(n) = world.send(1, b, &vec![3; TOTAL - sent]) {
                sent += n;
                if sent == TOTAL {
                    break;
                }
            }
            got += world.recv(0, a, 1 << 20).map_or(0, |bytes| bytes.len());
            let end = world.now + MS / 10;
            world.step(end);
        }
        let span = world.now.since(begun);
        world.run(MS * 500);
        assert_eq!(world.hosts[1].stack.tcp_accept(listener), None, "{count} strays opened nothing");
        assert_eq!(world.hosts[1].stack.census(), Census { has_timers: false, ..before });
        let resets = world.log[held..].iter().filter(|entry| seen(entry).flags.has(Flags::RST)).count();
        assert!(resets as u64 <= count / 2, "{resets} answers to {count}");
        assert!(strays == 0 || resets > 1000, "{resets} answers: the flood was one");
        span
    });
    assert!(flooded <= quiet * 3 / 2, "{quiet:?} without it, {flooded:?} with it");
}

#[test]
fn resets_are_limited_for_each_address_and_for_all_together() {
    // 34, 27: an address learns nothing from its own resets about what another was not told.
    let mut world = World::new();
    let now = world.now;
    let mut resets_to = |address: u32, count: u32| {
        let src = core::net::Ipv4Addr::from_bits(0x0a09_0000 + address);
        let fields = Fields { src: 7, dst: 9, seq: 1, ack: 1, flags: Flags::ACK, ..Fields::default() };
        let frame = forge_as(src, 0, &fields, &OptionsWriter::new(), &[]);
        (0..count).for_each(|_| world.hosts[1].receive(now, frame.clone()));
        world.hosts[1].out.frames.drain(..).count()
    };
    assert_eq!(resets_to(1, 5000), 1000);
    let others = (2..12).map(|address| resets_to(address, 10)).filter(|count| *count == 10).count();
    assert!(others >= 8, "{others} of 10 addresses are answered as if there were no flood");
    let all: usize = (100..200).map(|address| resets_to(address, 1000)).sum();
    assert!((30_000..=64_000).contains(&all), "{all} answers to 100 000 segments of 100 addresses");
}
