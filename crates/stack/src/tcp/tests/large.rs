//! Segments that leave together, to be cut on their way out.

use super::*;

/// A connection whose first host's outlet takes large packets.
fn cutting() -> (World, SocketId, SocketId) {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.hosts[0].out.large_max = 65_455;
    (world, a, b)
}

#[test]
fn a_backlog_leaves_in_large_packets_and_arrives_whole() {
    let (mut world, a, b) = cutting();
    world.transfer(0, a, b, 3_000_000);
    world.log.clear();
    world.hosts[0].out.large.clear();
    world.transfer(0, a, b, 3_000_000);
    let large = world.hosts[0].out.large.len();
    let data = world.log.iter().filter(|entry| entry.1 == 0 && payload_len(&entry.2) > 0).count();
    assert!(large > 0 && large * 5 < data, "{large} large packets for {data} segments");
    let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    assert_eq!(info.total_retrans, 0);
    assert!(info.data_segs_out as usize > data, "each segment counts");
}

#[test]
fn what_is_lost_of_a_large_packet_is_sent_again_alone() {
    let (mut world, a, b) = cutting();
    world.transfer(0, a, b, 300_000);
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        data += u32::from(from == 0 && payload_len(frame) > 1000);
        if from == 0 && payload_len(frame) > 1000 && data % 50 == 7 { Fault::Lose } else { Fault::Deliver }
    });
    world.hosts[0].out.large.clear();
    world.transfer(0, a, b, 1_000_000);
    assert!(!world.hosts[0].out.large.is_empty());
    let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    assert!((10..40).contains(&info.total_retrans), "{}", info.total_retrans);
}

#[test]
fn large_packet_waits_for_room_in_the_outlet() {
    let (mut world, a, b) = cutting();
    world.transfer(0, a, b, 300_000);
    world.hosts[0].out.room = 0;
    let _ = world.hosts[0].out.frames.drain(..);
    let sent = world.send(0, a, &vec![7; 100_000]).unwrap();
    assert!(world.hosts[0].out.frames.is_empty());
    world.hosts[0].out.room = usize::MAX;
    world.run(MS * 50);
    let mut got = 0;
    while let Ok(bytes) = world.recv(1, b, 65_536) {
        got += bytes.len();
        world.run(MS);
    }
    assert_eq!(got, sent);
}

#[test]
fn burst_is_what_the_connection_sends_in_a_millisecond() {
    let (mut world, a, b) = cutting();
    world.delay = MS * 10;
    world.transfer(0, a, b, 3_000_000);
    let window = world.hosts[0].stack.tcp_info(world.now, a).unwrap().snd_cwnd;
    let most = world.hosts[0].out.large.iter().max().unwrap() / 1448;
    assert!(most > 2 && most <= window as usize / 20, "{most} segments at once with a window of {window}");
}

#[test]
fn a_fin_goes_with_the_last_segment_of_what_leaves_together() {
    for segments in 1..6 {
        let (mut world, a, b) = cutting();
        world.transfer(0, a, b, 300_000);
        world.run(MS * 100);
        world.hosts[0].out.room = 0;
        world.send(0, a, &vec![7; 1448 * segments]).unwrap();
        world.shutdown(0, a).unwrap();
        world.hosts[0].out.room = usize::MAX;
        let (now, host) = (world.now, &mut world.hosts[0]);
        host.stack.flush(now, &mut host.out);
        let frames: Vec<Vec<u8>> = host.out.frames.drain(..).collect();
        assert_eq!(frames.len(), segments, "nothing waits, and nothing goes alone");
        let last = seen(&(now, 0, frames.last().unwrap().clone()));
        assert!(last.flags.has(wire::tcp::Flags::FIN) && last.len == 1448, "of {segments}");
    }
}
