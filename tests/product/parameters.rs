//! Parameters by what a peer of the kernel's sees of them, and by what sockets answer.

use rig::{Finished, Options, Program, Running};
use tests::{DEADLINE, World, world};

const PORT: u16 = 9790;

/// Accepts connection after connection; prints of each what the peer offered: timestamps, a window scale (-1: none),
/// MSS.
const PEER: &str = "\
import socket,struct,sys
listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
print('ready', flush=True)
while True:
    sock, _ = listener.accept()
    sock.recv(1)
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    offered = info[5]
    scale = info[6] & 15 if offered & 4 else -1
    mss = struct.unpack_from('I', info, 16)[0] + 12 * (offered & 1)
    print('offered %d %d %d' % (offered & 1, scale, mss), flush=True)
    sock.close()
";

/// Connects, and prints what its own socket says.
const CONNECTS: &str = "\
import socket,sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
algorithm = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode()
sock.sendall(b'x')
assert sock.recv(1) == b''
print('control', algorithm)
";

/// Sends fifty pairs of small segments, each when all before it is acknowledged; how many segments came back.
const PAIRS: &str = "\
import fcntl,socket,struct,sys,termios
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
segments_in = lambda: struct.unpack_from('I', sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232), 140)[0]
before = segments_in()
for i in range(50):
    sock.send(b'x')
    sock.send(b'x')
    while struct.unpack('i', fcntl.ioctl(sock, termios.TIOCOUTQ, b'    '))[0]:
        pass
print('acknowledged', segments_in() - before)
";

/// Accepts a connection and reads nothing of it, which would acknowledge it, until its peer ends it.
const STANDS: &str = "\
import select,socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
sock, _ = listener.accept()
poll = select.poll()
poll.register(sock, select.POLLRDHUP)
poll.poll()
";

/// A socket that asked for a small receive buffer, or for none: how many datagrams of a thousand bytes stay, of those
/// that came.
const KEEPS: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if int(sys.argv[3]):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[3]))
sock.bind((sys.argv[1], int(sys.argv[2])))
last = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
last.bind((sys.argv[1], int(sys.argv[2]) + 1))
print('ready', flush=True)
last.recv(1)
kept = 0
try:
    while sock.recv(2000, socket.MSG_DONTWAIT):
        kept += 1
except BlockingIOError:
    print('kept', kept)
";

/// Two hundred datagrams to the first port, and one to the second when they are out.
const SENDS: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(200):
    sock.sendto(bytes(1000), (sys.argv[1], int(sys.argv[2])))
sock.sendto(b'x', (sys.argv[1], int(sys.argv[2]) + 1))
";

fn python(host: &rig::Host, script: &str, address: std::net::Ipv4Addr) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(address.to_string()).argument(PORT.to_string())
}

/// What the peer saw of a connection that was made with these variables, and what its own socket said.
fn connects(
    world: &World,
    peer: &mut Running,
    seen: &mut usize,
    variables: &[(&str, &str)],
) -> (String, String) {
    let to = world.hosts.right.address;
    let mut program = python(&world.hosts.left, CONNECTS, to).preload(Some(&world.library));
    for (name, value) in variables {
        program = program.environment(name, value);
    }
    let said = program.run(DEADLINE).and_then(Finished::success).unwrap().stdout;
    *seen += 1;
    let line =
        || peer.stdout().lines().filter(|line| line.starts_with("offered")).nth(*seen - 1).map(str::to_owned);
    (rig::eventually_some("the peer saw the connection", line), said.trim().to_owned())
}

#[test]
fn a_peer_sees_what_parameters_of_tcp_say() {
    let Some(world) = world(&Options::default()) else { return };
    let mut peer = python(&world.hosts.right, PEER, world.hosts.right.address).start().unwrap();
    peer.wait_for_output("ready", DEADLINE).unwrap();
    let mut seen = 0;
    let mut offers = |variables: &[(&str, &str)]| connects(&world, &mut peer, &mut seen, variables);
    let field = |line: &str, at: usize| line.split(' ').nth(at).unwrap().parse::<i32>().unwrap();

    let (usual, control) = offers(&[]);
    assert_eq!((field(&usual, 1), control.as_str()), (1, "control cubic"));
    assert!(field(&usual, 2) > 0 && field(&usual, 3) == 1460, "{usual}");
    assert_eq!(field(&offers(&[("VMA_TCP_TIMESTAMP_OPTION", "0")]).0, 1), 0);
    assert_eq!(field(&offers(&[("VMA_TCP_TIMESTAMP_OPTION", "1")]).0, 1), 1);
    for scale in ["-1", "0", "5", "14"] {
        assert_eq!(field(&offers(&[("VMA_WINDOW_SCALING", scale)]).0, 2).to_string(), scale);
    }
    assert_eq!(field(&offers(&[("VMA_MSS", "500")]).0, 3), 500);
    assert_eq!(field(&offers(&[("VMA_MTU", "1000")]).0, 3), 960);
    for (value, name) in [("0", "reno"), ("1", "cubic"), ("2", "none")] {
        assert_eq!(offers(&[("VMA_TCP_CC_ALGO", value)]).1, format!("control {name}"));
    }
    peer.kill().unwrap();
}

#[test]
fn a_socket_keeps_as_many_bytes_as_a_parameter_says_whatever_it_asked_for() {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address;
    let keeps = |asked: &str, least: &str| {
        let program =
            python(&world.hosts.right, KEEPS, address).argument(asked).preload(Some(&world.library));
        let mut keeps = program.environment("VMA_RX_BYTES_MIN", least).start().unwrap();
        keeps.wait_for_output("ready", DEADLINE).unwrap();
        python(&world.hosts.left, SENDS, address).run(DEADLINE).and_then(Finished::success).unwrap();
        let said = keeps.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
        said.split("kept ").nth(1).unwrap().trim().parse::<u32>().unwrap()
    };
    let (few, some, all) = (keeps("2304", "0"), keeps("2304", "65536"), keeps("2304", "10000000"));
    assert!(few < some && some < all && all == 200, "{few} {some} {all}");
    assert_eq!(keeps("0", "10000000"), 200, "also where it asked for nothing");
}

#[test]
fn each_segment_is_acknowledged_at_once_where_a_parameter_says_so() {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address;
    let acknowledged = |quick: &str| {
        let server = python(&world.hosts.right, STANDS, address).preload(Some(&world.library));
        let mut server = server.environment("VMA_TCP_QUICKACK", quick).start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let said =
            python(&world.hosts.left, PAIRS, address).run(DEADLINE).and_then(Finished::success).unwrap();
        server.finish(DEADLINE).and_then(Finished::success).unwrap();
        tests::wait_for_no_program(&world.hosts.right);
        said.stdout.split("acknowledged ").nth(1).unwrap().trim().parse::<u32>().unwrap()
    };
    let (delayed, quick) = (acknowledged("0"), acknowledged("1"));
    assert!(quick > delayed && quick >= 90, "{delayed} and {quick}");
}
