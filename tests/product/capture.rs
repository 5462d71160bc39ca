//! `sidestep capture`: what it writes of an accelerated program is, packet by packet, what tcpdump saw at the
//! kernel's end of the same wire.

use rig::{Finished, Host, Options, Package, Program, Protocol, Running, eventually, eventually_some};
use stats::Snapshot;
use std::path::{Path, PathBuf};
use tests::{DEADLINE, World, built, world};

const PORT: u16 = 9970;
/// Messages a second: so few that a ring has room for all, however long the reader is away.
const MPS: u32 = 200;

/// Connects when it is told to, sends a megabyte in large pieces, and waits for the other side's end.
const SENDER: &str = "\
import socket,sys
sock = socket.socket()
print('ready', flush=True)
sys.stdin.readline()
sock.connect((sys.argv[1], int(sys.argv[2])))
for _ in range(16):
    sock.sendall(bytes(range(256)) * 256)
sock.shutdown(socket.SHUT_WR)
sock.recv(1)
";

const SINK: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
peer, _ = listener.accept()
while peer.recv(1 << 20):
    pass
";

/// A packet of a capture.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    /// Seen from who captured it; tcpdump does not say.
    is_inbound: Option<bool>,
    comment: String,
    bytes: Vec<u8>,
}

/// A folder for statistics and captures, gone with the test. In memory: a ring on a busy disk may take its time.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = Path::new("/dev/shm").join(format!("sidestep-capture-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn wish(&self, pid: u32) -> u64 {
        let file = std::fs::read(self.file(&stats::segment::file_name(pid))).unwrap_or_default();
        Snapshot::parse(&file).map_or(0, |snapshot| snapshot.capture)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The packets of a pcapng file, whose last block may not be there yet.
fn pcapng(path: &Path) -> Vec<Packet> {
    let file = std::fs::read(path).unwrap_or_default();
    let (mut rest, mut packets) = (file.as_slice(), Vec::new());
    while rest.len() >= 12 && rest.len() >= word(rest, 4) as usize {
        let (block, after) = rest.split_at(word(rest, 4) as usize);
        rest = after;
        if word(block, 0) != 6 {
            continue;
        }
        let length = word(block, 20) as usize;
        let mut packet =
            Packet { is_inbound: None, comment: String::new(), bytes: block[28..28 + length].to_vec() };
        let mut at = 28 + length.next_multiple_of(4);
        loop {
            let (code, length) = (word(block, at) & 0xffff, (word(block, at) >> 16) as usize);
            match code {
                0 => break,
                1 => packet.comment = String::from_utf8(block[at + 4..at + 4 + length].to_vec()).unwrap(),
                2 => packet.is_inbound = Some(word(block, at + 4) & 3 == 1),
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        packets.push(packet);
    }
    packets
}

/// The packets of a pcap file, likewise.
fn pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_default();
    let (mut rest, mut packets) = (file.get(24..).unwrap_or_default(), Vec::new());
    while rest.len() >= 16 && rest.len() >= 16 + word(rest, 8) as usize {
        let (packet, after) = rest.split_at(16 + word(rest, 8) as usize);
        packets.push(packet[16..].to_vec());
        rest = after;
    }
    packets
}

/// tcpdump at the kernel's end.
fn tcpdump(host: &Host, to: &Path, filter: &str) -> Running {
    let words = format!("-Z root -n -U -B 65536 -i {} -w", host.interface);
    let program = host.program("tcpdump").words(&words).argument(to).argument(filter).any_cpu();
    let running = program.start().unwrap();
    eventually("tcpdump listens", || running.stderr().contains("listening on"));
    running
}

fn capture(folder: &Folder, host: &Host, options: &str, to: &Path, filter: &str) -> Running {
    let program = host.program(built("sidestep", "sidestep")).argument("capture").words(options).any_cpu();
    let program = program.argument("--directory").argument(&folder.0).argument("-w").argument(to);
    program.argument(filter).start().unwrap()
}

fn accelerated(program: Program, world: &World, folder: &Folder) -> Program {
    program.preload(Some(&world.library)).environment("VMA_STATS_SHMEM_DIR", &folder.0)
}

fn end(running: Running) -> Finished {
    running.signal(libc::SIGINT).unwrap();
    running.finish(DEADLINE).and_then(Finished::success).unwrap()
}

/// Each direction is compared by itself: packets that cross each other on the wire have another order at each end.
fn assert_equal(captured: &[Packet], seen: &[Vec<u8>], kernels_mac: &[u8]) {
    for is_inbound in [true, false] {
        let ours = captured.iter().filter(|packet| packet.is_inbound == Some(is_inbound));
        let ours: Vec<&Vec<u8>> = ours.map(|packet| &packet.bytes).collect();
        let theirs: Vec<&Vec<u8>> =
            seen.iter().filter(|packet| (packet[6..12] == *kernels_mac) == is_inbound).collect();
        assert_eq!(ours.len(), theirs.len(), "inbound: {is_inbound}");
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(ours == theirs, "packet {number}, inbound: {is_inbound}\n{ours:02x?}\n{theirs:02x?}");
        }
    }
}

fn mac(host: &Host) -> Vec<u8> {
    let told = host.program("ip").words(&format!("-o link show {}", host.interface)).run(DEADLINE).unwrap();
    let text = told.stdout.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Both captures end when they have the same; who has more or other packets is told by the comparison.
fn both(ours: Running, to: &Path, theirs: Running, saw: &Path) -> (Vec<Packet>, Vec<Vec<u8>>) {
    let told = end(ours).stderr;
    assert!(told.contains("\n0 packets dropped"), "{told}");
    let captured = pcapng(to);
    eventually("tcpdump has written as many", || pcap(saw).len() >= captured.len());
    let told = end(theirs).stderr;
    assert!(told.contains("\n0 packets dropped by kernel"), "{told}");
    (captured, pcap(saw))
}

fn ready(label: &str) -> Option<(World, Folder)> {
    let world = world(&Options { offloads: true, ..Options::default() })?;
    rig::install(&[Package { program: "tcpdump", package: "tcpdump" }]).unwrap();
    Some((world, Folder::new(label)))
}

/// An accelerated sockperf server, and its client on the kernel.
fn sockperf(protocol: Protocol, size: u32) {
    let Some((world, folder)) = ready(&format!("{protocol:?}-{size}")) else { return };
    let World { hosts, .. } = &world;
    let name = if protocol == Protocol::Tcp { "tcp" } else { "udp" };
    let filter = format!("{name} port {PORT}");
    let (to, saw) = (folder.file("ours.pcapng"), folder.file("theirs.pcap"));
    let words = |mode: &str| {
        let address = hosts.right.address;
        format!("{mode} -i {address} -p {PORT} {}", if protocol == Protocol::Tcp { "--tcp" } else { "" })
    };
    let ours =
        capture(&folder, &hosts.right, &format!("-B 65536 -i {}", hosts.right.interface), &to, &filter);
    let server = accelerated(hosts.right.program("sockperf").words(&words("server")), &world, &folder);
    let mut server = server.start().unwrap();
    server.wait_for_port(protocol, PORT, DEADLINE).unwrap();
    let is_captured = || ours.stderr().contains(&format!("sockperf ({}) on", server.pid()));
    eventually("the server's frames are captured", || {
        is_captured()
            || ours.stderr().lines().any(|line| line.contains("cannot") || line.contains("could make"))
    });
    assert!(is_captured(), "{}\n{}", ours.stderr(), server.stderr());
    let theirs = tcpdump(&hosts.left, &saw, &filter);
    let client = hosts
        .left
        .program("sockperf")
        .words(&words("ping-pong"))
        .words(&format!("-m {size} -t 1 --mps {MPS}"));
    client.run(DEADLINE).and_then(Finished::success).unwrap();
    let pid = server.pid();
    let _ = server.signal(libc::SIGINT);
    server.finish(DEADLINE).unwrap();
    let (captured, seen) = both(ours, &to, theirs, &saw);
    assert!(captured.len() > 100, "{} packets", captured.len());
    assert_equal(&captured, &seen, &mac(&hosts.left));
    let whose = format!("sockperf[{pid}]");
    assert!(captured.iter().all(|packet| packet.comment.starts_with(&whose)), "{:?}", captured[0].comment);
    let with_socket = captured.iter().filter(|packet| packet.comment.contains(" fd ")).count();
    assert!(with_socket * 2 > captured.len(), "{with_socket} of {} packets have a socket", captured.len());
    let count = hosts.left.program("tcpdump").words("-n -r").argument(&to).run(DEADLINE).unwrap();
    assert_eq!(count.stdout.lines().count(), captured.len(), "{}", count.stderr);
}

#[test]
fn a_capture_of_sockperf_over_udp_is_what_the_peer_saw() {
    sockperf(Protocol::Udp, 14);
}

#[test]
fn a_capture_of_sockperf_over_tcp_is_what_the_peer_saw() {
    sockperf(Protocol::Tcp, 60_000);
}

#[test]
fn a_capture_of_packets_that_the_kernel_cuts_is_what_the_peer_saw() {
    let Some((world, folder)) = ready("large") else { return };
    let World { hosts, .. } = &world;
    let filter = format!("tcp port {PORT}");
    let (to, saw) = (folder.file("ours.pcapng"), folder.file("theirs.pcap"));
    let python = |host: &Host, script: &str| {
        let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
        program.argument(hosts.right.address.to_string()).argument(PORT.to_string())
    };
    let mut sink = python(&hosts.right, SINK).start().unwrap();
    sink.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let theirs = tcpdump(&hosts.right, &saw, &filter);
    let mut sender = accelerated(python(&hosts.left, SENDER), &world, &folder).piped().start().unwrap();
    sender.wait_for_output("ready", DEADLINE).unwrap();
    let ours = capture(&folder, &hosts.left, &format!("-B 65536 -p {}", sender.pid()), &to, &filter);
    eventually("the capture is wished for", || folder.wish(sender.pid()) != 0);
    sender.tell("\n").unwrap();
    sender.finish(DEADLINE).and_then(Finished::success).unwrap();
    sink.finish(DEADLINE).and_then(Finished::success).unwrap();
    // The program that it was asked for has ended, and so does it.
    let told = ours.finish(DEADLINE).and_then(Finished::success).unwrap().stderr;
    assert!(told.contains("\n0 packets dropped"), "{told}");
    let captured = pcapng(&to);
    eventually("tcpdump has written as many", || pcap(&saw).len() >= captured.len());
    end(theirs);
    assert_equal(&captured, &pcap(&saw), &mac(&hosts.right));
    let large = captured.iter().filter(|packet| packet.bytes.len() > 1514).count();
    assert!(large > 0, "{} packets, none of them large", captured.len());
}

/// Sends a datagram that nobody wants, again and again.
const TALKER: &str = "\
import socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], int(sys.argv[2])))
while True:
    try:
        sock.send(b'again')
    except ConnectionRefusedError:
        pass
    time.sleep(0.001)
";

fn talker(world: &World, folder: &Folder) -> Running {
    let hosts = &world.hosts;
    let program = hosts.left.program("/usr/bin/python3").words("-u -c").argument(TALKER);
    let program = program.argument(hosts.right.address.to_string()).argument(PORT.to_string());
    accelerated(program, world, folder).start().unwrap()
}

#[test]
fn a_live_capture_flows_into_tcpdump_and_ends_with_its_reader() {
    let Some((world, folder)) = ready("live") else { return };
    let talker = talker(&world, &folder);
    let line = format!(
        "{} capture --directory {} -w - udp port {PORT} | tcpdump -n -c 20 -r -",
        built("sidestep", "sidestep").display(),
        folder.0.display()
    );
    let shown = world.hosts.left.program("sh").words("-c").argument(line).run(DEADLINE).unwrap();
    assert_eq!(shown.stdout.matches("UDP, length 5").count(), 20, "{}\n{}", shown.stdout, shown.stderr);
    eventually("nothing is copied any more", || folder.wish(talker.pid()) == 0);
}

#[test]
fn a_reader_that_was_killed_leaves_nothing_and_another_one_is_served() {
    let Some((world, folder)) = ready("killed") else { return };
    let talker = talker(&world, &folder);
    let to = folder.file("ours.pcapng");
    let first = capture(&folder, &world.hosts.left, "", &to, "");
    eventually("packets come", || pcapng(&to).len() > 10);
    let second = capture(&folder, &world.hosts.left, "-c 10", &folder.file("second.pcapng"), "");
    eventually("the second one is told", || second.stderr().contains("somebody captures it already"));
    first.kill().unwrap();
    second.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert_eq!(pcapng(&folder.file("second.pcapng")).len(), 10);
    let names = eventually_some("no ring is left", || {
        let names = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        (!names.iter().any(|name| name.starts_with("vmacap"))).then_some(names)
    });
    assert!(names.contains(&stats::segment::file_name(talker.pid())), "{names:?}");
}
