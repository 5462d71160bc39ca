//! SO_MAX_PACING_RATE in virtual time: the rate is kept, whatever the segments look like and whatever gets lost.

use super::*;

/// A connection whose first host sends at `rate`, in segments that leave together if `large`.
fn paced(rate: u64, large: bool) -> (World, SocketId, SocketId) {
    let mut world = World::new();
    let options = Options { max_pacing_rate: rate, ..world.options() };
    let (a, b) = world.pair_with(&options);
    if large {
        world.hosts[0].out.large_max = 65_455;
    }
    (world, a, b)
}

/// When each segment with data left the first host, and how much.
fn departures(world: &World) -> Vec<(Instant, usize)> {
    let data = world.log.iter().filter(|entry| entry.1 == 0).map(|entry| (entry.0, payload_len(&entry.2)));
    data.filter(|(_, len)| *len > 0).collect()
}

#[test]
fn rate_is_kept_within_a_hundredth_with_and_without_large_packets() {
    for rate in [100_000, 1_000_000, 50_000_000] {
        for large in [false, true] {
            let (mut world, a, b) = paced(rate, large);
            let total = (rate as usize * 4).min(4_000_000);
            let took = world.transfer(0, a, b, total);
            let seconds = total as f64 / rate as f64;
            let ratio = took.as_secs_f64() / seconds;
            // What may go ahead of the rate (2 ms) goes.
            let ahead = 0.003 / seconds;
            assert!((0.99 - ahead..1.01 + ahead).contains(&ratio), "{rate} {large}: {ratio}");
        }
    }
}

#[test]
fn no_stretch_of_time_sees_more_than_the_rate_and_two_milliseconds_of_it() {
    let rate = 10_000_000;
    for large in [false, true] {
        let (mut world, a, b) = paced(rate, large);
        world.transfer(0, a, b, 1_000_000);
        // Silence does not save up.
        world.run(Duration::from_secs(5));
        world.log.clear();
        world.transfer(0, a, b, 1_000_000);
        let sent = departures(&world);
        for (first, &(begin, _)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for &(at, len) in &sent[first..] {
                bytes += len;
                let allowed = (at.since(begin) + MS * 2).as_secs_f64() * rate as f64 + 1448.0;
                assert!(bytes as f64 <= allowed, "{large}: {bytes} in {:?}", at.since(begin));
            }
        }
    }
}

#[test]
fn a_timer_that_is_late_costs_no_rate() {
    let rate = 20_000_000;
    let (mut world, a, b) = paced(rate, true);
    let mut got = 0;
    for _ in 0..400 {
        // Nobody looks for five milliseconds.
        world.now = world.now + MS * 5;
        while world.step(world.now) {}
        while world.send(0, a, &[1; 65_536]).is_ok() {}
        while let Ok(bytes) = world.recv(1, b, 65_536) {
            got += bytes.len();
        }
    }
    assert!(got as u64 > rate * 2 * 97 / 100, "{got} in two seconds");
}

#[test]
fn what_is_sent_again_counts_and_waits_too() {
    let rate = 1_000_000;
    let (mut world, a, b) = paced(rate, false);
    let mut number = 0;
    world.fault = Box::new(move |from, _, frame| {
        number += u64::from(from == 0 && payload_len(frame) > 0);
        if from == 0 && payload_len(frame) > 0 && number % 20 == 7 { Fault::Lose } else { Fault::Deliver }
    });
    let begin = world.now;
    world.transfer(0, a, b, 3_000_000);
    let bytes: usize = departures(&world).iter().map(|(_, len)| len).sum();
    assert!(bytes > 3_100_000, "{bytes}: some were sent twice");
    let allowed = (world.now.since(begin).as_secs_f64() + 0.003) * rate as f64;
    assert!(bytes as f64 <= allowed, "{bytes} of {allowed}");
}

#[test]
fn a_very_slow_rate_is_no_closed_window_and_a_fin_follows_the_last_byte() {
    let (mut world, a, b) = paced(1000, false);
    world.send(0, a, &vec![7; 4000]).unwrap();
    world.close(0, a);
    world.run(Duration::from_secs(1));
    world.log.clear();
    world.run(Duration::from_secs(9));
    // The FIN goes with the second of them, and nobody probes between them.
    assert_eq!(world.log.iter().filter(|entry| entry.1 == 0).count(), 2);
    let mut got = 0;
    loop {
        match world.recv(1, b, 65_536).unwrap().len() {
            0 => break,
            len => got += len,
        }
    }
    assert_eq!(got, 4000);
}

#[test]
fn a_limit_that_is_lifted_lets_go_at_once() {
    let (mut world, a, b) = paced(1000, false);
    world.send(0, a, &vec![7; 8000]).unwrap();
    world.run(MS * 10);
    let now = world.now;
    let host = &mut world.hosts[0];
    host.stack.tcp_configure(now, a, |options| options.max_pacing_rate = 0, &mut host.out);
    world.run(MS * 10);
    assert_eq!(world.recv(1, b, 65_536).unwrap().len(), 8000);
}

#[test]
fn a_connection_is_told_of_its_rate() {
    let (world, a, _) = paced(1234, false);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().max_pacing_rate, 1234);
}
