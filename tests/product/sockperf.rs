//! Debian's sockperf, both ends accelerated and mixed with a plain kernel peer, UDP and TCP.
//!
//! What is asserted is that it works and that the packets went past the kernel, never how fast: `cargo x bench`
//! measures that.

use rig::sockperf::{Run, Side, ping_pong, throughput};
use rig::{Options, Protocol};
use tests::{assert_bypassed, assert_host_bypassed, world};

const SECONDS: u32 = 1;

#[test]
fn udp_ping_pong_accelerated_at_both_ends_bypasses_the_kernel() {
    both_ends(Protocol::Udp, 14);
}

#[test]
fn tcp_ping_pong_accelerated_at_both_ends_bypasses_the_kernel() {
    both_ends(Protocol::Tcp, 14);
}

#[test]
fn udp_ping_pong_of_full_frames_bypasses_the_kernel() {
    both_ends(Protocol::Udp, 1400);
}

#[test]
fn tcp_messages_of_many_segments_bypass_the_kernel() {
    both_ends(Protocol::Tcp, 60_000);
}

fn both_ends(protocol: Protocol, size: u32) {
    let Some(world) = world(&Options::default()) else { return };
    let side = Side::Accelerated(&world.library);
    let run = Run { protocol, size, seconds: SECONDS, client: side, server: side };
    let (latency, witness) = ping_pong(&world.hosts, &run).unwrap();
    assert!(latency.observations > 0);
    assert_eq!((latency.dropped, latency.duplicated), (0, 0));
    assert_bypassed(&witness);
}

#[test]
fn accelerated_client_talks_to_kernel_server_with_offloads_on() {
    mixed(true);
}

#[test]
fn kernel_client_talks_to_accelerated_server_with_offloads_on() {
    mixed(false);
}

fn mixed(client_accelerated: bool) {
    let Some(world) = world(&Options { offloads: true, ..Options::default() }) else { return };
    let accelerated = Side::Accelerated(&world.library);
    let (client, server) =
        if client_accelerated { (accelerated, Side::Kernel) } else { (Side::Kernel, accelerated) };
    for (protocol, size) in
        [(Protocol::Udp, 14), (Protocol::Udp, 1400), (Protocol::Tcp, 14), (Protocol::Tcp, 60_000)]
    {
        let run = Run { protocol, size, seconds: SECONDS, client, server };
        let (latency, witness) = ping_pong(&world.hosts, &run).unwrap_or_else(|e| panic!("{run:?}: {e}"));
        assert!(latency.observations > 0, "{run:?}");
        assert_eq!((latency.dropped, latency.duplicated), (0, 0), "{run:?}");
        let counters = if client_accelerated { &witness.client } else { &witness.server };
        assert_host_bypassed(&format!("{run:?}"), counters);
    }
}

#[test]
fn tcp_throughput_delivers_every_message_that_was_sent() {
    let Some(world) = world(&Options::default()) else { return };
    let side = Side::Accelerated(&world.library);
    let run = Run { protocol: Protocol::Tcp, size: 64, seconds: SECONDS, client: side, server: side };
    let (result, witness) = throughput(&world.hosts, &run).unwrap();
    assert!(result.sent > 0);
    // The alarm ends the client between a send and its count: one message may be counted by the server only.
    assert!(result.received.abs_diff(result.sent) <= 1, "{result:?}");
    assert_bypassed(&witness);
}

#[test]
fn udp_throughput_arrives_past_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let side = Side::Accelerated(&world.library);
    let run = Run { protocol: Protocol::Udp, size: 64, seconds: SECONDS, client: side, server: side };
    let (result, witness) = throughput(&world.hosts, &run).unwrap();
    assert!(result.received > 0 && result.received <= result.sent + 1, "{result:?}");
    assert_bypassed(&witness);
}
