//! The program on packets, by BPF_PROG_TEST_RUN (needs CAP_BPF), and the committed object against its source.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use super::*;
use crate::Flow;
use crate::flood::{Answers, Flood};
use crate::steering::Steering;

#[path = "tests/cookies.rs"]
mod cookies;

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

struct Loaded {
    steering: Steering,
    program: Fd,
    _socket: Fd,
}

/// The program with a socket in slot 0, and steered: UDP and TCP 10.0.0.1:7 from anywhere, TCP :8 from PEER:9 only.
fn loaded() -> Option<Loaded> {
    // No test sends as many SYNs in a millisecond as such a ring allows.
    loaded_with_ring(1 << 20, 0)
}

/// With a receive ring of so many entries, and answers that announce an MSS.
fn loaded_with_ring(rx_ring: u32, mss: u16) -> Option<Loaded> {
    let flood = Flood::create(rx_ring, Answers { mss, mac: OUR_MAC });
    let steering = match flood.and_then(|flood| Steering::create(4, 1, flood)) {
        Ok(steering) => steering,
        Err(errno) => {
            rig::skip::skipped_here(&format!("no BPF maps here (errno {errno}); run as root"));
            return None;
        }
    };
    let program = steering.load_program(true).expect("the verifier accepts the program");
    let socket = sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0).unwrap();
    sys::socket::set_option(socket.raw(), 283, 2, &64u32).unwrap();
    steering.insert_socket(0, 0, &socket).unwrap();
    for protocol in [6, 17] {
        steering.steer(&Flow { protocol, local: SocketAddrV4::new(OURS, 7), remote: None }, 0).unwrap();
    }
    let remote = Some(SocketAddrV4::new(PEER, 9));
    steering.steer(&Flow { protocol: 6, local: SocketAddrV4::new(OURS, 8), remote }, 0).unwrap();
    Some(Loaded { steering, program, _socket: socket })
}

impl Loaded {
    fn answer(&self, packet: &[u8]) -> u32 {
        // Some kernels refuse less than a minimal frame for the test run.
        let mut padded = packet.to_vec();
        padded.resize(padded.len().max(64), 0);
        bpf::program_run(&self.program, &mut padded, 1).unwrap().0
    }
}

fn ip(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 1, 0, 0, 64, protocol, 0, 0];
    header.extend(source.octets());
    header.extend(destination.octets());
    header.extend(payload);
    header
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [OUR_MAC, PEER_MAC].concat();
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = Vec::from(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.resize(20, 0);
    bytes
}

fn packet(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    ethernet(0x0800, &ip(protocol, PEER, OURS, &ports(source, destination)))
}

/// A segment to our listener.
fn tcp(source: u16, flags: u8) -> Vec<u8> {
    let mut header = ports(source, 7);
    header[12] = 0x50;
    header[13] = flags;
    ethernet(0x0800, &ip(6, PEER, OURS, &header))
}

#[test]
fn flows_by_three_and_five_tuple_are_redirected_and_all_else_passes() {
    let Some(loaded) = loaded() else { return };
    assert_eq!(loaded.answer(&packet(17, 1234, 7)), REDIRECT);
    assert_eq!(loaded.answer(&packet(6, 1234, 7)), REDIRECT);
    assert_eq!(loaded.answer(&packet(6, 9, 8)), REDIRECT);
    assert_eq!(loaded.answer(&packet(6, 10, 8)), PASS, "another remote port");
    assert_eq!(loaded.answer(&packet(17, 9, 8)), PASS, "another protocol");
    assert_eq!(loaded.answer(&packet(1, 1234, 7)), PASS, "ICMP that is no error");
    assert_eq!(loaded.answer(&packet(47, 1234, 7)), PASS, "GRE");
    assert_eq!(loaded.answer(&ethernet(0x0806, &[0; 28])), PASS, "ARP");
    assert_eq!(loaded.answer(&ethernet(0x86dd, &[0x60; 60])), PASS, "IPv6");
    let elsewhere = ethernet(0x0800, &ip(17, PEER, PEER, &ports(1234, 7)));
    assert_eq!(loaded.answer(&elsewhere), PASS, "another local address");
}

#[test]
fn an_unsteered_flow_and_an_empty_slot_pass() {
    let Some(loaded) = loaded() else { return };
    let flow = Flow { protocol: 17, local: SocketAddrV4::new(OURS, 7), remote: None };
    loaded.steering.unsteer(&flow);
    assert_eq!(loaded.answer(&packet(17, 1234, 7)), PASS);
    loaded.steering.steer(&flow, 3).unwrap();
    assert_eq!(loaded.answer(&packet(17, 1234, 7)), PASS, "lane 3 has no socket");
}

#[test]
fn a_group_of_lanes_is_spread_by_the_remote_side_and_stays_put_for_one_remote() {
    let Some(loaded) = loaded() else { return };
    // Lane 0 has a socket, lane 1 has none: about half of the remote ports are redirected.
    let flow = Flow { protocol: 17, local: SocketAddrV4::new(OURS, 7), remote: None };
    loaded.steering.join(&flow, 1).unwrap();
    let answers = |_| (1000..1200).map(|port| loaded.answer(&packet(17, port, 7))).collect::<Vec<_>>();
    let first = answers(());
    let redirected = first.iter().filter(|&&answer| answer == REDIRECT).count();
    assert!((60..140).contains(&redirected), "{redirected} of 200");
    assert_eq!(first, answers(()));
    loaded.steering.bury(1 << 1, 0);
    assert_eq!(
        answers(()).iter().filter(|&&answer| answer == REDIRECT).count(),
        200,
        "the dead one's are the other's"
    );
    loaded.steering.leave(&flow, 0);
    assert_eq!(loaded.answer(&packet(17, 1234, 7)), PASS, "with the last lane the flow is the kernel's");
    assert_eq!(loaded.steering.counters(&flow), None);
}

#[test]
fn connections_that_the_kernel_has_on_a_steered_port_are_left_to_it() {
    let Some(loaded) = loaded() else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let from = client.local_addr().unwrap().port();
    let accepted = listener.accept().unwrap().0;
    let local = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    loaded.steering.steer(&Flow { protocol: 6, local, remote: None }, 0).unwrap();
    let answer = |from: u16, flags: u8| {
        let mut header = ports(from, port);
        header[13] = flags;
        loaded.answer(&ethernet(0x0800, &ip(6, Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, &header)))
    };
    let (syn, ack) = (0x02, 0x10);
    assert_eq!([answer(from, ack), answer(from, syn)], [PASS, PASS], "established");
    assert_eq!([answer(port, ack), answer(port, syn)], [REDIRECT, REDIRECT], "the kernel only listens");
    drop(accepted);
    drop(client);
    assert_eq!(answer(from, syn), PASS, "TIME-WAIT");
}

#[test]
fn a_listener_that_is_left_to_the_kernel_hears_of_those_on_their_way_until_it_leaves() {
    let Some(loaded) = loaded() else { return };
    let flow = Flow { protocol: 6, local: SocketAddrV4::new(OURS, 7), remote: None };
    let answer = |flags: u8| {
        let mut header = ports(1000, 7);
        header[13] = flags;
        loaded.answer(&ethernet(0x0800, &ip(6, PEER, OURS, &header)))
    };
    let (syn, ack) = (0x02, 0x10);
    loaded.steering.join(&flow, 0).unwrap();
    loaded.steering.leave_new_to_kernel(&flow);
    assert_eq!([answer(syn), answer(ack)], [PASS, REDIRECT]);
    loaded.steering.leave(&flow, 0);
    assert_eq!([answer(syn), answer(ack)], [PASS, PASS]);
}

#[test]
fn too_many_first_segments_are_refused_and_known_addresses_have_room_of_their_own() {
    // A ring this small allows two at once, three with those of known addresses.
    let Some(loaded) = loaded_with_ring(4, 0) else { return };
    let tcp = |source: Ipv4Addr, from: u16, to: u16, flags: u8| {
        let mut header = ports(from, to);
        header[13] = flags;
        loaded.answer(&ethernet(0x0800, &ip(6, source, OURS, &header)))
    };
    let (syn, ack, stranger) = (0x02, 0x10, Ipv4Addr::new(10, 0, 0, 3));
    assert_eq!([1, 2, 3].map(|port| tcp(stranger, port, 7, syn)), [REDIRECT, REDIRECT, DROP]);
    assert_eq!(tcp(stranger, 1, 7, ack), REDIRECT, "only first segments are bounded");
    assert_eq!(tcp(stranger, 1, 7, syn), DROP, "what a listener was sent proves nothing");
    assert_eq!(tcp(PEER, 1, 7, syn), DROP, "not known yet");
    assert_eq!(tcp(PEER, 9, 8, ack), REDIRECT, "the entry of a connection");
    assert_eq!([1, 2].map(|port| tcp(PEER, port, 7, syn)), [REDIRECT, DROP]);
    assert_eq!(tcp(stranger, 1, 7, syn), DROP);
    assert_eq!(loaded.steering.flood.refused(), 5);
    loaded.steering.flood.caught_up(1);
    assert_eq!(tcp(stranger, 1, 7, syn), DROP, "another lane has taken its packets");
    loaded.steering.flood.caught_up(0);
    assert_eq!([1, 2, 3].map(|port| tcp(stranger, port, 7, syn)), [REDIRECT, REDIRECT, DROP]);
}

#[test]
fn fragments_of_udp_pass_and_those_of_tcp_follow_their_first() {
    let Some(loaded) = loaded() else { return };
    let fragment = |protocol, identification, flags: [u8; 2]| {
        let mut packet = packet(protocol, 1234, 7);
        packet[19] = identification;
        packet[20..22].copy_from_slice(&flags);
        loaded.answer(&packet)
    };
    assert_eq!(fragment(17, 1, [0x20, 0]), PASS, "first");
    assert_eq!(fragment(17, 1, [0x20, 100]), PASS, "middle");
    assert_eq!(fragment(17, 1, [0, 100]), PASS, "last");
    assert_eq!(fragment(17, 1, [0x40, 0]), REDIRECT, "don't fragment");
    assert_eq!(fragment(6, 1, [0, 100]), PASS, "nobody knows whose it is");
    assert_eq!(fragment(6, 1, [0x20, 0]), REDIRECT, "the kernel would answer TCP with a reset");
    assert_eq!(fragment(6, 1, [0x20, 50]), REDIRECT);
    assert_eq!(fragment(6, 1, [0, 100]), REDIRECT);
    assert_eq!(fragment(6, 2, [0, 100]), PASS, "another packet's");
    assert_eq!(fragment(17, 1, [0, 100]), PASS, "another protocol's");
}

#[test]
fn ip_options_pass_for_udp_and_reach_us_for_tcp() {
    let Some(loaded) = loaded() else { return };
    let with_options = |protocol| {
        let mut header = ip(protocol, PEER, OURS, &[1, 1, 1, 1]);
        header[0] = 0x46;
        header.extend(ports(9, 7));
        loaded.answer(&ethernet(0x0800, &header))
    };
    assert_eq!(with_options(17), PASS);
    assert_eq!(with_options(6), REDIRECT);
}

#[test]
fn tagged_frames_pass() {
    let Some(loaded) = loaded() else { return };
    for tag in [0x8100, 0x88a8] {
        let mut inner = vec![0, 5];
        inner.extend(&packet(17, 1234, 7)[12..]);
        assert_eq!(loaded.answer(&ethernet(tag, &inner)), PASS);
    }
}

#[test]
fn icmp_errors_that_quote_our_flow_are_redirected_and_others_pass() {
    let Some(loaded) = loaded() else { return };
    let router = Ipv4Addr::new(10, 0, 0, 254);
    let error = |kind: u8, protocol: u8, source: u16, destination: u16, offset: u8| {
        let mut quoted = ip(protocol, OURS, PEER, &ports(source, destination)[..8]);
        quoted[7] = offset;
        let mut icmp = vec![kind, 4, 0, 0, 0, 0, 5, 0];
        icmp.extend(quoted);
        loaded.answer(&ethernet(0x0800, &ip(1, router, OURS, &icmp)))
    };
    assert_eq!(error(3, 6, 8, 9, 0), REDIRECT, "unreachable, of the connection");
    assert_eq!(error(11, 17, 7, 5000, 0), REDIRECT, "time exceeded, of the unconnected socket");
    assert_eq!(error(12, 6, 7, 5000, 0), REDIRECT, "parameter problem, of the listener's port");
    assert_eq!(error(3, 6, 8, 10, 0), PASS, "of somebody else's connection");
    assert_eq!(error(3, 6, 9, 8, 0), PASS, "the quoted packet is not one that we sent");
    assert_eq!(error(5, 6, 8, 9, 0), PASS, "a redirect is the kernel's");
    assert_eq!(error(3, 47, 8, 9, 0), PASS, "another protocol");
    assert_eq!(error(3, 6, 8, 9, 7), PASS, "a quoted later fragment has no ports");
}

#[test]
fn a_packet_cut_anywhere_is_answered_without_harm() {
    let Some(loaded) = loaded() else { return };
    let mut quoted = vec![3, 1, 0, 0, 0, 0, 0, 0];
    quoted.extend(ip(6, OURS, PEER, &ports(8, 9)));
    let error = ethernet(0x0800, &ip(1, PEER, OURS, &quoted));
    for whole in [packet(17, 1234, 7), packet(6, 9, 8), error] {
        for length in 14..whole.len() {
            // Kernels refuse to run on less than an Ethernet header.
            let Ok((answer, _)) = bpf::program_run(&loaded.program, &mut whole[..length].to_vec(), 1) else {
                continue;
            };
            let complete =
                if whole[23] == 1 { length >= 14 + 20 + 8 + 20 + 4 } else { length >= 14 + 20 + 4 };
            assert_eq!(answer == REDIRECT, complete, "{length} bytes");
        }
    }
    let mut bad = packet(17, 1234, 7);
    bad[14] = 0x44;
    assert_eq!(loaded.answer(&bad), PASS, "a header of 16 bytes");
    bad[14] = 0x65;
    assert_eq!(loaded.answer(&bad), PASS, "version 6 under an IPv4 type");
}

#[test]
fn redirected_packets_are_counted_per_flow() {
    let Some(loaded) = loaded() else { return };
    let flow = Flow { protocol: 17, local: SocketAddrV4::new(OURS, 7), remote: None };
    assert_eq!(loaded.steering.counters(&flow), Some((0, 0)));
    loaded.answer(&packet(17, 1, 7));
    loaded.answer(&packet(17, 2, 7));
    assert_eq!(loaded.steering.counters(&flow), Some((2, 108)));
    loaded.steering.unsteer(&flow);
    assert_eq!(loaded.steering.counters(&flow), None);
}

/// Not a test: `cargo test -p xdp --release -- --ignored --nocapture cost` prints what the program costs.
#[test]
#[ignore = "a measurement"]
fn cost_of_the_program() {
    let Some(loaded) = loaded() else { return };
    let cases = [
        ("five-tuple hit", packet(6, 9, 8)),
        ("three-tuple hit", packet(17, 1234, 7)),
        ("three-tuple hit of TCP, the kernel asked", packet(6, 1234, 7)),
        ("SYN to a listener", tcp(1234, 0x02)),
        ("miss", packet(17, 1234, 99)),
        ("ARP", ethernet(0x0806, &[0; 50])),
    ];
    for (name, mut packet) in cases {
        println!("{name}: {} ns", bpf::program_run(&loaded.program, &mut packet, 2_000_000).unwrap().1);
    }
}

#[test]
fn an_object_that_is_not_ours_is_an_error_and_no_crash() {
    let map = |_: &[u8]| Some(5);
    assert!(link(OBJECT, map).is_some());
    assert!(link(OBJECT, |_| None).is_none(), "a map that nobody knows");
    assert!(link(b"", map).is_none());
    for length in 0..OBJECT.len() {
        let _ = link(&OBJECT[..length], map);
    }
    for byte in 0..OBJECT.len() {
        let mut broken = OBJECT.to_vec();
        broken[byte] ^= 0xff;
        let _ = link(&broken, map);
    }
}

/// Linux 5.10 and 5.11 do not know the helper.
#[test]
fn a_program_that_does_not_ask_for_the_mtu_is_the_same_without_that_call() {
    let asks = link(OBJECT, |_| Some(3)).unwrap();
    let mut other = asks.clone();
    without_mtu(&mut other);
    let differ: Vec<_> = asks.iter().zip(&other).filter(|(one, other)| one != other).collect();
    assert_eq!(differ, [(&CALL_CHECK_MTU, &RESULT_IS_0)]);
    assert!(asks.iter().all(|one| one & 0xff != 0x85 || one >> 32 < 164), "helpers of Linux 5.12 at most");
}

#[test]
fn the_committed_object_is_what_the_source_compiles_to() {
    let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
    // Other versions of the compiler choose other instructions.
    let version = Command::new("clang").arg("--version").output();
    if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("version 14.")) {
        return rig::skip::skipped_here("no clang 14 here, the compiler of the committed object");
    }
    let out = std::env::temp_dir().join(format!("steer-{}.o", std::process::id()));
    let status = Command::new(format!("{bpf}/build.sh")).arg(&out).status().unwrap();
    assert!(status.success(), "bpf/build.sh failed: {status}");
    let built = std::fs::read(&out).unwrap();
    let _ = std::fs::remove_file(&out);
    assert!(built == OBJECT, "bpf/steer.o is stale: run bpf/build.sh and commit it");
}
