//! Sockets begin in the kernel, and move when they have shown that they gain; what is demanded is on the wire at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::{Finished, Host, Options, Program, Protocol, Running, eventually};
use stats::{Carrier, Snapshot, Socket, Verdict, flag, report};
use tests::talk::{CLIENT, SERVER};
use tests::{DEADLINE, World, world};

const PORT: u16 = 9850;
/// What the log says of a move.
const MOVED: &str = "moved from the kernel to the wire";

fn late(world: &World, host: &Host, text: &str) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(text);
    let program = program.preload(Some(&world.library)).may_fall_back().any_cpu();
    program.environment("SIDESTEP_CARRIER", "late").environment("VMA_TRACELEVEL", "debug")
}

fn serve(world: &World, port: u16, how: &str) -> Running {
    let right = &world.hosts.right;
    let program = late(world, right, SERVER);
    let mut server = program.words(&format!("{} {port} {how}", right.address)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    server
}

fn client(world: &World, port: u16, most: u32) -> Program {
    let World { hosts, .. } = world;
    late(world, &hosts.left, CLIENT).words(&format!("{} {port} {most}", hosts.right.address)).piped()
}

fn wait_until_moved(running: &Running, who: &str) {
    eventually(&format!("the {who} moved"), || running.stderr().contains(MOVED));
}

#[test]
fn a_question_or_two_are_the_kernels_and_open_nothing() {
    let Some(world) = world(&Options::default()) else { return };
    let server = serve(&world, PORT, "one");
    for _ in 0..3 {
        let said = client(&world, PORT, 20).run(DEADLINE).and_then(Finished::success).unwrap();
        assert!(said.stdout.starts_with("20 answers"), "{}", said.stdout);
        assert!(!said.stderr.contains(MOVED), "{}", said.stderr);
    }
    assert!(!world.hosts.right.has_xdp_program().unwrap(), "the interface was opened for a few questions");
    server.kill().unwrap();
}

#[test]
fn a_conversation_moves_to_the_wire_at_both_ends_and_goes_on_there() {
    let Some(world) = world(&Options::default()) else { return };
    let server = serve(&world, PORT + 1, "one");
    let mut client = client(&world, PORT + 1, u32::MAX).start().unwrap();
    wait_until_moved(&client, "client");
    wait_until_moved(&server, "server");
    assert!(world.hosts.left.has_xdp_program().unwrap() && world.hosts.right.has_xdp_program().unwrap());
    let before = world.hosts.right.counters().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let since = world.hosts.right.counters().unwrap().since(&before);
    assert!(since.wire_packets() > 0, "it goes on");
    assert!(since.transport_packets() * 10 <= since.wire_packets(), "past the kernel");
    client.tell("enough\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
    server.kill().unwrap();
}

/// An exchange of the size that each line asks for, until one says that it is enough.
const MIXED: &str = "\
import socket,sys
host, port, _ = sys.argv[1], int(sys.argv[2]), sys.argv[3]
peer = socket.create_connection((host, port), timeout=30)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def exchange(data):
    peer.sendall(data)
    left = len(data)
    while left:
        piece = peer.recv(65536)
        assert piece, 'the end'
        left -= len(piece)
def word():
    return sys.stdin.readline().strip()
exchange(b'x')
print('begun', flush=True)
while (what := word()) != 'enough':
    if what == 'mss':
        info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        print('mss', int.from_bytes(info[16:20], sys.byteorder), flush=True)
        continue
    exchange(b'x' * (100 if what == 'small' else 1 << 16))
    print('done', flush=True)
";

fn realtime() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The connection to `port` in the statistics of a program.
fn connection(running: &Running, port: u16) -> Option<(Snapshot, Socket)> {
    let path = format!("/tmp/{}", stats::segment::file_name(running.pid()));
    let snapshot = Snapshot::parse(&std::fs::read(path).ok()?).ok()?;
    let found = snapshot
        .sockets
        .iter()
        .find(|socket| report::end(socket.remote.value()).ends_with(&format!(":{port}")));
    let found = Socket::from_words(&found?.words());
    Some((snapshot, found))
}

#[test]
fn the_program_is_on_the_interface_only_while_something_is_steered() {
    let Some(world) = world(&Options::default()) else { return };
    let port = PORT + 20;
    let server = serve(&world, port, "one");
    let left = &world.hosts.left;
    let program = late(&world, left, MIXED).words(&format!("{} {port} 0", world.hosts.right.address));
    let mut client = program.environment("VMA_STATS_SHMEM_DIR", "/tmp").piped().start().unwrap();
    client.wait_for_output("begun", DEADLINE).unwrap();
    let mut until = |what: &str, carrier: Carrier| {
        eventually(&format!("{what}: {carrier:?}"), || {
            client.tell(&format!("{what}\n")).unwrap();
            connection(&client, port).is_some_and(|(_, socket)| report::carrier(&socket) == carrier)
        });
    };
    for _ in 0..2 {
        until("small", Carrier::Wire);
        assert!(left.has_xdp_program().unwrap());
        until("bulk", Carrier::Kernel);
        eventually("the program is off", || !left.has_xdp_program().unwrap());
    }
    client.tell("enough\n").unwrap();
    let ended = client.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(ended.stderr.contains("the program is on again"), "{}", ended.stderr);
    server.kill().unwrap();
}

#[test]
fn each_socket_says_what_carries_it_since_when_and_why() {
    let Some(world) = world(&Options::default()) else { return };
    let server = serve(&world, PORT + 3, "one");
    let World { hosts, .. } = &world;
    let program = late(&world, &hosts.left, MIXED).words(&format!("{} {} 0", hosts.right.address, PORT + 3));
    let mut client = program.environment("VMA_STATS_SHMEM_DIR", "/tmp").piped().start().unwrap();
    client.wait_for_output("begun", DEADLINE).unwrap();
    let began = realtime();
    let mut until = |what: &str, carrier: Carrier, verdict: Verdict| {
        let is =
            |socket: &Socket| (report::carrier(socket), socket.verdict.value()) == (carrier, verdict as u64);
        eventually(&format!("{what}: {carrier:?} by {verdict:?}"), || {
            client.tell(&format!("{what}\n")).unwrap();
            connection(&client, PORT + 3).is_some_and(|(_, socket)| is(&socket))
        });
        connection(&client, PORT + 3).unwrap()
    };
    let (told, socket) = until("small", Carrier::Wire, Verdict::SmallCalls);
    assert!(report::has(&socket, flag::ACCELERATED));
    assert_eq!((socket.carrier_moves.value(), told.process.sockets_open.value()), (1, 1));
    assert!(socket.verdict_calls.value() >= 16 && socket.rx_os_packets.value() > 0, "{socket:?}");
    assert!((began..=realtime()).contains(&socket.carrier_since_ns.value()));
    let (told, socket) = until("bulk", Carrier::Kernel, Verdict::Bulk);
    assert!(!report::has(&socket, flag::ACCELERATED), "it moved, and still shows as accelerated");
    assert_eq!((socket.carrier_moves.value(), told.process.sockets_open.value()), (2, 0));
    assert_eq!(told.process.sockets_accelerated.value(), 1);
    assert!(socket.verdict_bytes.value() / socket.verdict_calls.value() >= 8192, "{socket:?}");
    client.tell("mss\n").unwrap();
    client.wait_for_output("mss 1448", DEADLINE).unwrap();
    client.tell("enough\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
    server.kill().unwrap();
}

#[test]
fn a_child_that_has_a_connection_alone_takes_it_to_the_wire() {
    let Some(world) = world(&Options::default()) else { return };
    let server = serve(&world, PORT + 2, "fork");
    // The first one is served in the kernel while the second one's child comes.
    let mut clients: Vec<Running> =
        (0..2).map(|_| client(&world, PORT + 2, u32::MAX).start().unwrap()).collect();
    // Both children write into their parent's log.
    eventually("both children moved", || server.stderr().matches(MOVED).count() >= 2);
    for client in &mut clients {
        client.tell("enough\n").unwrap();
    }
    for client in clients {
        client.finish(DEADLINE).and_then(Finished::success).unwrap();
    }
    server.kill().unwrap();
}

/// As many datagrams as are asked for, each with its number, while the receiver sleeps; then the same, answered.
const DATAGRAMS: &str = "\
import socket,sys,time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.settimeout(30)
here.bind((sys.argv[1], int(sys.argv[2])))
if len(sys.argv) == 3:
    print('ready', flush=True)
    last = -1
    while last < 20000:
        data, peer = here.recvfrom(2048)
        number = int(data)
        assert number == last + 1, (number, last)
        last = number
        if number % 64 == 0:
            here.sendto(data, peer)
    print(last + 1, 'in order')
else:
    here.connect((sys.argv[3], int(sys.argv[2])))
    for number in range(20001):
        here.send(b'%d' % number)
        if number % 64 == 0:
            assert int(here.recv(2048)) == number
        if number == 2000:
            # Long enough for both ends to have opened their interfaces.
            time.sleep(1)
";

#[test]
fn datagrams_move_at_both_ends_and_none_is_lost_or_overtaken() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let (left, right) = (&hosts.left, &hosts.right);
    let words = format!("{} {}", right.address, PORT + 3);
    let mut server = late(&world, right, DATAGRAMS).words(&words).start().unwrap();
    server.wait_for_output("ready\n", DEADLINE).unwrap();
    let words = format!("{} {} {}", left.address, PORT + 3, right.address);
    let client =
        late(&world, left, DATAGRAMS).words(&words).run(DEADLINE).and_then(Finished::success).unwrap();
    let server = server.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(server.stdout.contains("20001 in order"), "{}", server.stdout);
    for (end, who) in [(&client, "client"), (&server, "server")] {
        assert!(end.stderr.contains(MOVED), "the {who} did not move: {}", end.stderr);
    }
}

/// Datagrams with their numbers, as fast as a window allows that fits every buffer on the way, so that one that does
/// not come was lost by a move. How far one was overtaken is told.
const WINDOW: &str = "\
import socket,sys
length, window = 100000, 96
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.settimeout(10)
here.bind((sys.argv[1], int(sys.argv[2])))
if len(sys.argv) == 3:
    print('ready', flush=True)
    got, furthest, late, worst = bytearray(length), -1, 0, 0
    try:
        for count in range(1, length + 1):
            data, peer = here.recvfrom(2048)
            number = int(data)
            assert not got[number], f'{number} came twice'
            got[number] = 1
            late, worst = late + (number < furthest), max(worst, furthest - number)
            furthest = max(furthest, number)
            if count % 32 == 0:
                here.sendto(b'%d' % count, peer)
    except TimeoutError:
        sys.exit(f'lost: {[number for number in range(furthest + 1) if not got[number]]} of {furthest + 1}')
    print(f'all; {late} overtaken, by {worst} at the most')
else:
    here.connect((sys.argv[3], int(sys.argv[2])))
    heard = 0
    for number in range(length):
        while number - heard >= window:
            heard = max(heard, int(here.recv(2048)))
        here.send(b'%d' % number)
";

#[test]
fn no_datagram_is_lost_by_moves_at_every_so_manieth_call() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let (left, right) = (&hosts.left, &hosts.right);
    let moving = |host: &Host, words: &str| {
        late(&world, host, WINDOW).words(words).environment("SIDESTEP_MOVE_EVERY", "97")
    };
    let mut receiver = moving(right, &format!("{} {}", right.address, PORT + 9)).start().unwrap();
    receiver.wait_for_output("ready\n", DEADLINE).unwrap();
    let sender = moving(left, &format!("{} {} {}", left.address, PORT + 9, right.address));
    let sender = sender.run(DEADLINE).unwrap();
    let received = receiver.finish(DEADLINE).unwrap();
    assert!(received.stdout.contains("all; "), "{}\n{}\n{}", received.stderr, received.stdout, sender.stderr);
    // Each 97th call, of 100 000 and more at each end, in turn there and back.
    for (end, who) in [(&sender, "sender"), (&received, "receiver")] {
        let moves = end.stderr.matches(MOVED).count();
        assert!(moves > 400, "the {who} moved to the wire {moves} times");
        println!("{who}: {moves} moves to the wire {}", end.stdout.trim());
    }
}

#[test]
fn a_few_datagrams_are_the_kernels_and_open_nothing() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let text = "\
import socket,sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind((sys.argv[1], 0))
one.connect((sys.argv[2], 9))
for _ in range(10):
    try:
        one.send(b'?')
    except ConnectionRefusedError:
        pass
";
    let words = format!("{} {}", hosts.left.address, hosts.right.address);
    let ended =
        late(&world, &hosts.left, text).words(&words).run(DEADLINE).and_then(Finished::success).unwrap();
    assert!(!ended.stderr.contains("accelerated,"), "an interface was opened: {}", ended.stderr);
}

#[test]
fn what_a_rule_demands_is_on_the_wire_at_once() {
    let Some(world) = world(&Options::default()) else { return };
    let rules = std::env::temp_dir().join(format!("rig-{}-demanded.conf", std::process::id()));
    std::fs::write(&rules, "use vma tcp_server *:*\nuse vma tcp_client *:*\n").unwrap();
    let World { hosts, .. } = &world;
    let right = &hosts.right;
    let with_rules = |program: Program| program.environment("VMA_CONFIG_FILE", rules.to_str().unwrap());
    let server =
        with_rules(late(&world, right, SERVER)).words(&format!("{} {} one", right.address, PORT + 4));
    let mut server = server.start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 4, DEADLINE).unwrap();
    let before = right.counters().unwrap();
    let said = with_rules(client(&world, PORT + 4, 10)).run(DEADLINE).and_then(Finished::success).unwrap();
    let since = right.counters().unwrap().since(&before);
    std::fs::remove_file(&rules).unwrap();
    assert!(said.stdout.starts_with("10 answers"), "{}", said.stdout);
    assert!(!said.stderr.contains(MOVED), "it was there from the beginning: {}", said.stderr);
    assert_eq!(since.transport_packets(), 0, "past the kernel from the first packet on");
    eventually("the listener is shown on the wire, where it has been from its beginning", || {
        let path = format!("/tmp/{}", stats::segment::file_name(server.pid()));
        let snapshot = std::fs::read(path).ok().and_then(|bytes| Snapshot::parse(&bytes).ok());
        snapshot.is_some_and(|snapshot| {
            snapshot.sockets.iter().any(|socket| {
                report::end(socket.local.value()).ends_with(&format!(":{}", PORT + 4))
                    && socket.carrier.value() == Carrier::Wire as u64
                    && (socket.carrier_moves.value(), socket.verdict.value())
                        == (0, stats::Verdict::AtOnce as u64)
            })
        })
    });
    server.kill().unwrap();
}

/// Content that both ends know, both ways at once by two threads; then how large the kernel's buffers have become. An
/// end that gets nothing for so long says how far it came, and what TCP_INFO and the kernel's queues say.
const BUFFERS: &str = "\
import os,socket,sys,threading
if sys.argv[3] == 'listen':
    peer, _ = socket.create_server((sys.argv[1], int(sys.argv[2]))).accept()
else:
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
peer.settimeout(20)
period = 65521
content = bytes(i * i // 7 % 256 for i in range(period)) * 3
length = 512 * period
sent = got = 0
def fail(what):
    info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    words = ' '.join(info[at:at + 4].hex() for at in range(0, len(info), 4))
    print(f'{what}: sent {sent}, got {got} of {length}; TCP_INFO {words}', file=sys.stderr)
    ends = [end.split()[1:6] for end in open('/proc/net/tcp').readlines()]
    print(f'the kernel has {ends}', file=sys.stderr, flush=True)
    os._exit(1)
def send():
    global sent
    try:
        while sent < length:
            at = sent % period
            sent += peer.send(content[at:at + min(65536, length - sent)])
    except OSError as error:
        fail(f'sending: {error}')
sender = threading.Thread(target=send)
sender.start()
try:
    while got < length:
        data = peer.recv(65536)
        if not data or data != content[got % period:got % period + len(data)]:
            fail(f'receiving: {len(data)} bytes that are not the next ones')
        got += len(data)
except OSError as error:
    fail(f'receiving: {error}')
sender.join()
most = [int(open('/proc/sys/net/ipv4/tcp_' + one).read().split()[2]) for one in ('rmem', 'wmem')]
has = [peer.getsockopt(socket.SOL_SOCKET, one) for one in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
assert has[0] <= most[0] and has[1] <= most[1], (has, most)
print('bounded')
";

#[test]
fn buffers_do_not_grow_with_the_moves_of_a_connection() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let end = |host: &Host, how: &str| {
        let program = late(&world, host, BUFFERS).environment("SIDESTEP_MOVE_EVERY", "7");
        program.words(&format!("{} {} {how}", hosts.right.address, PORT + 5))
    };
    let mut server = end(&hosts.right, "listen").start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 5, DEADLINE).unwrap();
    let client = end(&hosts.left, "connect").run(DEADLINE).unwrap();
    let server = server.finish(DEADLINE).unwrap();
    for ended in [&client, &server] {
        // 512 sends and as many receives at least: a seventh of them could move, and every other of those to the wire.
        let moves = ended.stderr.matches(MOVED).count();
        assert!(
            ended.stdout.contains("bounded") && moves >= 20,
            "{moves} moves\nclient:\n{}\nserver:\n{}",
            client.stderr,
            server.stderr
        );
    }
}

/// Datagrams with their numbers, of which 200 wait in the engine when the socket becomes the kernel's, which IP_MINTTL
/// makes it; the others come while they are read.
const LEAVING: &str = "\
import socket,sys
if len(sys.argv) == 3:
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.settimeout(30)
    here.bind((sys.argv[1], int(sys.argv[2])))
    print('ready', flush=True)
    numbers = [here.recv(2048)]
    for turn in range(4):
        sys.stdin.readline()
        if turn == 0:
            here.setsockopt(socket.IPPROTO_IP, 21, 1)  # IP_MINTTL
        numbers += [here.recv(2048) for _ in range(200)]
        print('read', turn, flush=True)
    assert numbers == [b'%d' % number for number in range(801)], numbers
    print('in order')
else:
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.connect((sys.argv[3], int(sys.argv[2])))
    here.send(b'0')
    for turn in range(4):
        sys.stdin.readline()
        for number in range(200):
            here.send(b'%d' % (1 + 200 * turn + number))
        print('sent', turn, flush=True)
";

#[test]
fn what_waits_in_the_engine_is_the_kernels_when_the_socket_is() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let (left, right) = (&hosts.left, &hosts.right);
    let receiver = late(&world, right, LEAVING).environment("SIDESTEP_CARRIER", "wire");
    let receiver = receiver.words(&format!("{} {}", right.address, PORT + 6)).piped();
    let mut receiver = receiver.start().unwrap();
    receiver.wait_for_output("ready\n", DEADLINE).unwrap();
    let sender = left.program("/usr/bin/python3").words("-u -c").argument(LEAVING).any_cpu();
    let sender = sender.words(&format!("{} {} {}", left.address, PORT + 6, right.address)).piped();
    let mut sender = sender.start().unwrap();
    for turn in 0..4 {
        sender.tell("go\n").unwrap();
        sender.wait_for_output(&format!("sent {turn}\n"), DEADLINE).unwrap();
        receiver.tell("go\n").unwrap();
        receiver.wait_for_output(&format!("read {turn}\n"), DEADLINE).unwrap();
    }
    sender.finish(DEADLINE).and_then(Finished::success).unwrap();
    let said = receiver.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(said.stdout.contains("in order"), "{}", said.stdout);
    assert!(said.stderr.contains("only the kernel can do it"), "it was the kernel's before: {}", said.stderr);
}

/// A second connection, when the interface is open, that stops the process as soon as it has moved.
const STOPS: &str = "\
import os,select,signal,socket,sys
def talk(port, until):
    peer = socket.create_connection((sys.argv[1], port), timeout=60)
    while not until():
        peer.sendall(b'?')
        assert peer.recv(1) == b'?'
    return peer
first, left = int(sys.argv[2]), list(range(100))
one = talk(first, lambda: select.select([sys.stdin], [], [], 0)[0])
two = talk(first + 1, lambda: left.pop() == 0)
os.kill(os.getpid(), signal.SIGSTOP)
";

#[test]
fn a_connection_that_has_just_moved_has_its_names_in_the_statistics() {
    let Some(world) = world(&Options::default()) else { return };
    let servers = [serve(&world, PORT + 7, "one"), serve(&world, PORT + 8, "one")];
    let program = late(&world, &world.hosts.left, STOPS);
    let program = program.words(&format!("{} {}", world.hosts.right.address, PORT + 7)).piped();
    let mut client = program.start().unwrap();
    wait_until_moved(&client, "client's first");
    client.tell("enough\n").unwrap();
    eventually("its second connection is on the wire, by name", || {
        connection(&client, PORT + 8)
            .is_some_and(|(_, socket)| socket.carrier.value() == Carrier::Wire as u64)
    });
    client.kill().unwrap();
    servers.into_iter().for_each(|server| drop(server.kill()));
}
