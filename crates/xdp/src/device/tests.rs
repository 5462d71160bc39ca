//! Devices on veth pairs between namespaces. Needs root; says so and passes where it cannot.

mod bell;
mod beside;
mod fork;
mod hook;
mod large;
mod offloads;
mod rig;
mod watch;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::arena::{FRAME, Posting};
use crate::caps::{self, Way};
use crate::interface::Interface;
use crate::owner::Owner;
use crate::{Refusal, bpf};
use rig::{A, B, PORT, Rig, udp_frame};

fn udp_flow() -> Flow {
    Flow { protocol: 17, local: SocketAddrV4::new(A, PORT), remote: None }
}

fn small() -> Options {
    Options { frames: 1024, rx_ring: 256, tx_ring: 256, answer_mss: 1460, ..Options::default() }
}

fn owner(interface: &Interface) -> Arc<Owner> {
    Arc::new(Owner::claim(interface.index).unwrap())
}

/// For what must come, on a machine that is busy with other things, too: it only matters when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Receives until `enough` or, for a failure, until nobody has patience any more.
fn receive_until(device: &mut Device, mut enough: impl FnMut(&[u8], &[RxFrame]) -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    let mut done = false;
    while !done && Instant::now() < end {
        device.receive(64, |head, tail| done |= enough(head.bytes(), tail));
    }
    done
}

/// Runs a test in A's namespace, with a device that is steered [`udp_flow`] and a peer of it in B's.
fn with_device_and_peer(test: impl FnOnce(Device, UdpSocket) + Send) {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let device = Device::open("veth", &small()).unwrap();
        device.steer(udp_flow()).unwrap();
        test(device, rig.in_b(|| UdpSocket::bind((B, 5000)).unwrap()));
    });
}

/// Frames of the arena that are free or posted for receiving, each counted once.
fn frames_at_hand(device: &mut Device) -> usize {
    device.transmit.reserved.take().inspect(|&frame| device.free.push(frame));
    device.reap();
    let posted = device.queues[0].fill.waiting() as usize;
    device.gather(usize::MAX >> 1);
    device.free.sort_unstable();
    device.free.dedup();
    device.free.len() + posted
}

fn kernel_peer_and_device_exchange_datagrams(mode: Mode) {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let mut device = Device::open("veth", &Options { mode, ..small() }).unwrap();
        assert_eq!(device.mode(), mode);
        device.steer(udp_flow()).unwrap();
        let peer = rig.in_b(|| UdpSocket::bind((B, 5000)).unwrap());
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        for round in 0..500u32 {
            peer.send_to(&round.to_be_bytes(), (A, PORT)).unwrap();
            let mut reply = None;
            assert!(receive_until(&mut device, |head, tail| {
                assert!(tail.is_empty());
                assert_eq!(&head[42..46], round.to_be_bytes());
                reply = Some(head[..14].to_vec());
                true
            }));
            let ethernet = reply.unwrap();
            let frame =
                udp_frame(&ethernet[..6], &ethernet[6..12], (A, PORT), (B, 5000), &round.to_be_bytes());
            device.reserve(frame.len()).unwrap().copy_from_slice(&frame);
            device.commit(frame.len());
            assert_eq!(device.unkicked(), 1);
            device.kick();
            assert_eq!(device.unkicked(), 0);
            let mut buffer = [0; 64];
            assert_eq!(peer.recv_from(&mut buffer).unwrap().0, 4);
            assert_eq!(&buffer[..4], round.to_be_bytes());
        }
        assert_eq!(device.flow_counters(udp_flow()).unwrap().0, 500);
        assert_eq!(
            device.statistics(),
            Statistics {
                tx_ring_empty_descs: device.statistics().tx_ring_empty_descs,
                ..Statistics::default()
            }
        );
    });
}

#[test]
fn a_kernel_peer_and_a_generic_device_exchange_datagrams() {
    kernel_peer_and_device_exchange_datagrams(Mode::Generic);
}

#[test]
fn a_kernel_peer_and_a_native_device_exchange_datagrams() {
    kernel_peer_and_device_exchange_datagrams(Mode::Native);
}

/// Whether the kernel connects to where nobody takes packets from the device, and how many SYNs the program answered
/// and dropped: half of a ring of one entry is none, so each is too many.
fn connects_to_the_program(mode: Mode, patience: Duration) -> Option<(bool, u64, u64)> {
    let rig = Rig::new(1)?;
    let mut outcome = None;
    rig.in_a(|| {
        let device = Device::open("veth", &Options { mode, rx_ring: 1, ..small() }).unwrap();
        device.steer(Flow { protocol: 6, local: SocketAddrV4::new(A, PORT), remote: None }).unwrap();
        let connected = rig.in_b(|| TcpStream::connect_timeout(&(A, PORT).into(), patience).is_ok());
        outcome = Some((connected, device.answered(), device.refused()));
    });
    outcome
}

#[test]
fn a_kernel_peer_believes_the_programs_answer() {
    let Some(outcome) = connects_to_the_program(Mode::Generic, PATIENCE) else { return };
    assert_eq!(outcome, (true, 1, 0));
}

#[test]
fn veths_native_hook_which_sends_to_polling_peers_only_is_given_no_answers() {
    let Some(outcome) = connects_to_the_program(Mode::Native, Duration::from_millis(100)) else { return };
    assert!(matches!(outcome, (false, 0, 1..)), "{outcome:?}");
}

#[test]
fn what_is_not_steered_reaches_the_kernel_and_after_unsteer_all_does() {
    with_device_and_peer(|mut device, peer| {
        let kernel = UdpSocket::bind((A, PORT)).unwrap();
        let other = UdpSocket::bind((A, PORT + 1)).unwrap();
        for socket in [&kernel, &other] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let mut buffer = [0; 16];

        peer.send_to(b"other", (A, PORT + 1)).unwrap();
        assert_eq!(other.recv(&mut buffer).unwrap(), 5);
        peer.send_to(b"ours", (A, PORT)).unwrap();
        assert!(receive_until(&mut device, |head, _| &head[42..46] == b"ours"));

        device.unsteer(udp_flow());
        peer.send_to(b"kernel's", (A, PORT)).unwrap();
        assert_eq!(kernel.recv(&mut buffer).unwrap(), 8);
        device.steer(udp_flow()).unwrap();
        drop(device);
        peer.send_to(b"detached", (A, PORT)).unwrap();
        assert_eq!(kernel.recv(&mut buffer).unwrap(), 8);
        assert_eq!(&buffer[..8], b"detached");
    });
}

#[test]
fn all_frames_arrive_in_order_and_no_memory_is_lost() {
    const COUNT: u32 = 20_000;
    let Some(rig) = Rig::new(1) else { return };
    let mut sender = rig.in_a(|| Device::open("veth", &small()).unwrap());
    let mut receiver = rig.in_b(|| Device::open("veth", &small()).unwrap());
    receiver.steer(Flow { protocol: 17, local: SocketAddrV4::new(B, PORT), remote: None }).unwrap();
    let (from, to) = (sender.mac(), receiver.mac());
    let (mut next, mut held) = (0u32, Vec::new());
    for number in 0..COUNT {
        let frame = udp_frame(&from, &to, (A, PORT), (B, PORT), &number.to_be_bytes());
        sender.reserve(frame.len()).expect("room, because each kick sends all").copy_from_slice(&frame);
        sender.commit(frame.len());
        if number % 50 == 49 {
            sender.kick();
            receiver.receive(usize::MAX, |head, _| {
                assert_eq!(&head.bytes()[42..46], next.to_be_bytes());
                next += 1;
                // An application that reads late: up to 200 frames are out at a time.
                held.push(head);
            });
            if held.len() > 200 {
                held.drain(..150);
            }
        }
    }
    assert_eq!(next, COUNT);
    held.clear();
    for device in [&mut sender, &mut receiver] {
        assert_eq!(frames_at_hand(device), 1024);
    }
}

#[test]
fn a_reader_that_holds_everything_starves_receiving_but_not_sending_and_recovers() {
    with_device_and_peer(|mut device, peer| {
        let mut held = Vec::new();
        for _ in 0..3000 {
            peer.send_to(b"flood", (A, PORT)).unwrap();
            device.receive(64, |head, _| held.push(head));
        }
        assert!(held.len() >= 800 && held.len() <= 1024, "{}", held.len());
        assert!(device.statistics().rx_fill_ring_empty_descs > 0);
        assert!(device.reserve(100).is_some());
        held.clear();
        assert!(device.has_received(), "memory came back: a turn is due");
        device.receive(64, |_, _| {});
        peer.send_to(b"again", (A, PORT)).unwrap();
        assert!(receive_until(&mut device, |head, _| &head[42..47] == b"again"));
    });
}

#[test]
fn what_a_killed_process_was_about_to_post_is_free_again_and_what_the_kernel_has_is_not() {
    with_device_and_peer(|mut device, _| {
        let arena = device.pool.arena.clone();
        let posted = arena.count_frames().posted;
        let mut frames = Vec::new();
        arena.take(9, 64, &mut frames);
        let start = {
            let _lock = arena.lock_rings();
            let ring = &mut device.queues[0].fill;
            ring.reload(false);
            let start = ring.position();
            frames.iter().for_each(|frame| ring.put(u64::from(*frame) * FRAME as u64));
            arena.begin_posting(Posting { queue: 0, start, count: 64 }, &frames);
            start
        };
        assert_eq!(arena.count_frames().posted, posted + 64);
        device.fill_all();
        assert_eq!((arena.count_frames().posted, arena.left_posting()), (posted, None));
        {
            let _lock = arena.lock_rings();
            arena.begin_posting(Posting { queue: 0, start: start.wrapping_sub(64), count: 64 }, &[]);
        }
        device.fill_all();
        assert_eq!((arena.count_frames().posted, arena.left_posting()), (posted, None));
    });
}

#[test]
fn all_queues_are_received_from() {
    let Some(rig) = Rig::new(2) else { return };
    rig.in_a(|| {
        let mut device = Device::open("veth", &small()).unwrap();
        assert_eq!(device.descriptors().len(), 2);
        device.steer(udp_flow()).unwrap();
        for round in 0..20 {
            // The peer's transmit queue, and so our receive queue, depends on the processor and the socket.
            sys::thread::pin(round % 2).unwrap();
            let peer = rig.in_b(|| UdpSocket::bind((B, 0)).unwrap());
            peer.send_to(b"hello", (A, PORT)).unwrap();
            assert!(receive_until(&mut device, |_, _| true), "round {round}");
        }
    });
}

#[test]
fn a_second_owner_is_refused_with_the_queue_and_a_foreign_program_with_its_id() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let device = Device::open("veth", &small()).unwrap();
        assert_eq!(Device::open("veth", &small()).err(), Some(Refusal::Owned { pid: sys::process::pid() }));
        drop(device);

        let index = Interface::named("veth").unwrap().index;
        let program = {
            let flood = crate::flood::Flood::create(2048, crate::flood::Answers::default()).unwrap();
            crate::steering::Steering::create(1, 1, flood).unwrap().load_program(true).unwrap()
        };
        let foreign = bpf::link_create(&program, index, bpf::FLAG_NATIVE).unwrap();
        match Device::open("veth", &small()) {
            Err(Refusal::ForeignProgram { id }) => assert_ne!(id, 0),
            other => panic!("{:?}", other.err()),
        }
        drop(foreign);
        Device::open("veth", &small()).unwrap();
        assert_eq!(Device::open("no-such-0", &small()).err(), Some(Refusal::NoSuchInterface));
        assert_eq!(Device::open("lo", &small()).err(), Some(Refusal::NotEthernet));
    });
}

#[test]
fn veth_is_worth_it_and_an_ifb_is_not() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        rig::ip(&["link", "add", "other", "type", "ifb"]);
        assert_eq!(caps::worth_it("veth"), Ok(()));
        let other = caps::worth_it("other");
        assert!(matches!(other, Err(caps::NotWorth::Driver { .. })), "{other:?}");
        assert_eq!(caps::worth_it("lo"), Err(caps::NotWorth::Refused(Refusal::NotEthernet)));
        assert_eq!(caps::privilege(), Ok(()));
    });
}

#[test]
fn the_descriptor_is_readable_while_a_packet_waits() {
    with_device_and_peer(|mut device, peer| {
        let fd = device.descriptors()[0];
        assert!(!sys::poll::readable(fd) && !device.has_received());
        peer.send_to(b"hello", (A, PORT)).unwrap();
        let mut waiting = [sys::poll::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        assert_eq!(sys::poll::poll(&mut waiting, Some(PATIENCE.as_nanos() as u64), None), Ok(1));
        assert!(device.has_received());
        assert_eq!(device.receive(1, |_, _| {}), 1);
        assert!(!sys::poll::readable(fd));
    });
}

/// The largest packet that a local kernel peer with segmentation offload sends to a device.
fn largest_packet(way: Way) -> Option<usize> {
    let rig = Rig::new(1)?;
    Some(rig.in_a(|| {
        let veth = Interface::named("veth").unwrap();
        let mut device = Device::open_by(&veth, &Options::default(), way, &owner(&veth)).unwrap();
        let largest = rig::largest_tcp_packet(&rig, &mut device);
        assert_eq!(device.statistics().rx_dropped, 0);
        println!("{way:?}: {largest} bytes");
        largest
    }))
}

#[test]
fn super_frames_of_a_local_peer_arrive_whole_by_the_generic_hook() {
    let Some(largest) = largest_packet(Way { native: false, zero_copy: false, multi_buffer: true }) else {
        return;
    };
    assert!(largest > 60_000, "{largest}");
}

#[test]
fn the_native_hook_makes_a_local_peer_send_single_frames() {
    for multi_buffer in [true, false] {
        let way = Way { native: true, zero_copy: false, multi_buffer };
        let Some(largest) = largest_packet(way) else { return };
        assert!((1000..=1514).contains(&largest), "{largest}");
    }
}

#[test]
fn device_and_frames_may_move_between_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Device>();
    is_send::<RxFrame>();
    is_sync::<Device>();
}

/// Not a test: what opening costs.
#[test]
#[ignore = "a measurement"]
fn cost_of_opening() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        for mode in [Mode::Generic, Mode::Native] {
            for (frames, huge_pages) in [(16_384, true), (16_384, false), (4096, true), (4096, false)] {
                let options = Options { mode, frames, huge_pages, ..Options::default() };
                let (start, before) = (Instant::now(), processor());
                let device = Device::open("veth", &options).unwrap();
                let (opened, spent) = (start.elapsed(), processor() - before);
                drop(device);
                let closed = start.elapsed() - opened;
                println!("{mode:?}, {frames} frames, huge pages {huge_pages}: open {opened:?}, {spent:?} of the processor; close {closed:?}");
            }
            let flow = udp_flow();
            let device = Device::open("veth", &Options { mode, ..Options::default() }).unwrap();
            let start = Instant::now();
            for _ in 0..1000 {
                device.steer(flow).unwrap();
                device.unsteer(flow);
            }
            println!("steer and unsteer: {:?}", start.elapsed() / 1000);
        }
    });
}

/// What this process has had of the processors.
fn processor() -> Duration {
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in what is passed.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut spent) }, 0);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

#[test]
fn addresses_are_those_of_the_rig() {
    assert_eq!((A, B), (Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)));
}
