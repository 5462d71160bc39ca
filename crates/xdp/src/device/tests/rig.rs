//! Two namespaces with a veth pair, called `veth` on both sides.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::{Device, Flow};

pub(super) const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(super) const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(super) const PORT: u16 = 7000;

/// How long something may take that must happen: longer than the busiest machine needs for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `ip`; a failure is a failure of the test.
pub(super) fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip of iproute2");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// One rig at a time: a test that forks would keep the devices of others open in its child.
static ALONE: Mutex<()> = Mutex::new(());

pub(super) struct Rig {
    a: String,
    b: String,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    /// `None` without the privilege, having said so.
    pub(super) fn new(queues: u32) -> Option<Rig> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if crate::caps::privilege().is_err() {
            ::rig::skip::skipped_here("needs root (namespaces, AF_XDP, BPF)");
            return None;
        }
        let name = format!("xdp-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let rig = Rig { a: format!("{name}-a"), b: format!("{name}-b"), _alone: alone };
        let queues = queues.to_string();
        ip(&["netns", "add", &rig.a]);
        ip(&["netns", "add", &rig.b]);
        let ends = [("numrxqueues", &queues), ("numtxqueues", &queues)];
        let count: Vec<&str> = ends.iter().flat_map(|(key, value)| [*key, value.as_str()]).collect();
        let mut add = vec!["-n", &rig.a, "link", "add", "veth"];
        add.extend(&count);
        add.extend(["type", "veth", "peer", "name", "veth"]);
        add.extend(&count);
        add.extend(["netns", &rig.b]);
        ip(&add);
        for (namespace, address) in [(&rig.a, "10.77.0.1/24"), (&rig.b, "10.77.0.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", "veth"]);
            ip(&["-n", namespace, "link", "set", "veth", "up"]);
        }
        Some(rig)
    }

    /// Runs `body` on a thread in the first namespace.
    pub(super) fn in_a<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.a, body)
    }

    /// Runs `body` on a thread in the second namespace. Sockets made there stay there.
    pub(super) fn in_b<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.b, body)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for namespace in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
    }
}

fn in_namespace<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{name}")).unwrap();
            let arguments = [file.as_raw_fd() as usize, libc::CLONE_NEWNET as usize, 0, 0, 0, 0];
            // SAFETY: setns takes no pointer, and changes this thread only.
            unsafe { sys::raw::syscall(libc::SYS_setns, arguments) }.unwrap();
            body()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn ip_header(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, length: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + length as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

fn ethernet(from: &[u8], to: &[u8]) -> Vec<u8> {
    [to, from, &[8, 0]].concat()
}

/// A datagram without checksum.
pub(super) fn udp_frame(
    from: &[u8],
    to: &[u8],
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = ethernet(from, to);
    frame.extend(ip_header(17, source.0, destination.0, 8 + payload.len()));
    frame.extend(source.1.to_be_bytes());
    frame.extend(destination.1.to_be_bytes());
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// Headers of `payload` bytes of TCP, whose checksum holds the pseudo header's sum only.
pub(super) fn tcp_headers(
    macs: [&[u8]; 2],
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    sequence: u32,
    payload: usize,
) -> Vec<u8> {
    let mut frame = ethernet(macs[0], macs[1]);
    frame.extend(ip_header(6, source.0, destination.0, 20 + payload));
    frame.extend(source.1.to_be_bytes());
    frame.extend(destination.1.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 1, 5 << 4, 16, 255, 255]);
    let length = (20 + payload as u16).to_be_bytes();
    let pseudo = [&source.0.octets()[..], &destination.0.octets(), &[0, 6], &length].concat();
    frame.extend((!checksum(&pseudo)).to_be_bytes());
    frame.extend([0, 0]);
    frame
}

/// Connects to a kernel listener over the device, with just enough of TCP, and says how large the largest packet is
/// that the kernel sends when it is asked for a megabyte.
pub(super) fn largest_tcp_packet(rig: &Rig, device: &mut Device) -> usize {
    let flow =
        Flow { protocol: 6, local: SocketAddrV4::new(A, PORT), remote: Some(SocketAddrV4::new(B, PORT)) };
    device.steer(flow).unwrap();
    let (listener, to) = rig.in_b(|| {
        (TcpListener::bind((B, PORT)).unwrap(), crate::interface::Interface::named("veth").unwrap().mac)
    });
    let writer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.write_all(&vec![7; 1 << 20]);
    });
    let from = device.mac();
    let send = |device: &mut Device, sequence: u32, acknowledge: u32, flags: u8| {
        // A window scale of 7 and a window of 65535: eight megabytes.
        let options: &[u8] = if flags & 2 != 0 { &[2, 4, 5, 180, 1, 3, 3, 7] } else { &[] };
        let mut tcp = Vec::from(PORT.to_be_bytes());
        tcp.extend(PORT.to_be_bytes());
        tcp.extend(sequence.to_be_bytes());
        tcp.extend(acknowledge.to_be_bytes());
        tcp.extend([(20 + options.len() as u8) << 2, flags, 255, 255, 0, 0, 0, 0]);
        tcp.extend(options);
        let pseudo = [&A.octets()[..], &B.octets(), &[0, 6, 0, tcp.len() as u8], &tcp].concat();
        let sum = checksum(&pseudo);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let frame = [ethernet(&from, &to), ip_header(6, A, B, tcp.len()), tcp].concat();
        device.reserve(frame.len()).unwrap().copy_from_slice(&frame);
        device.commit(frame.len());
        device.kick();
    };
    // What came too early is kept, by its distance from the peer's first number: the peer sends from two CPUs, so
    // packets overtake each other, and without time stamps each timeout of it would be twice as long as the one before.
    let (mut largest, mut got, mut first, mut early) = (0, 0, None, BTreeMap::new());
    send(device, 1000, 0, 2);
    let end = Instant::now() + PATIENCE;
    while got < 1 << 20 && Instant::now() < end {
        let mut answer = None;
        device.receive(64, |head, tail| {
            let tcp = &head.bytes()[34..];
            let sequence = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
            let whole = head.bytes().len() + tail.iter().map(|chunk| chunk.bytes().len()).sum::<usize>();
            let stated = u16::from_be_bytes([head.bytes()[16], head.bytes()[17]]) as usize + 14;
            assert!(whole >= stated, "{whole} bytes of {stated}");
            let length = stated - 34 - usize::from(tcp[12] >> 4) * 4 + usize::from(tcp[13] & 2 != 0);
            let first = *first.get_or_insert(sequence);
            early.insert(sequence.wrapping_sub(first) as usize, length);
            while let Some(entry) = early.first_entry().filter(|entry| *entry.key() <= got) {
                got = got.max(entry.key() + entry.get());
                entry.remove();
            }
            assert!(tail.iter().all(|chunk| chunk.bytes().iter().all(|&byte| byte == 7)));
            largest = largest.max(whole);
            answer = Some(first.wrapping_add(got as u32));
        });
        if let Some(next) = answer {
            send(device, 1001, next, 16);
        }
    }
    assert!(got >= 1 << 20, "only {got} bytes came");
    writer.join().unwrap();
    largest
}
