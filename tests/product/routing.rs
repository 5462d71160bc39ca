//! Routes and addresses are the kernel's: whatever way packets of a host take on the kernel, the program reaches its
//! peers accelerated, too, or through the kernel where it must. Each scenario is played on the kernel first, which says
//! what is right.

use std::path::Path;

use rig::{Finished, Host, KernelCounters, Options, Program, Protocol, Running, eventually};
use tests::{DEADLINE, World, assert_host_bypassed, wait_for_acceleration, world};

const PORT: u16 = 9600;
const PYTHON: &str = "/usr/bin/python3";

/// Answers over TCP and UDP with what it is sent, and says who asked.
const ECHO: &str = "\
import select, socket, sys
address, port = sys.argv[1], int(sys.argv[2])
listener = socket.create_server((address, port))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, port))
poll = select.poll()
known = {each.fileno(): each for each in (listener, datagrams)}
for fd in known:
    poll.register(fd, select.POLLIN)
print('ready', flush=True)
while True:
    for fd, _ in poll.poll():
        if fd == listener.fileno():
            peer, name = listener.accept()
            known[peer.fileno()] = peer
            poll.register(peer.fileno(), select.POLLIN)
            print('tcp from', name[0], flush=True)
        elif fd == datagrams.fileno():
            text, name = datagrams.recvfrom(2048)
            print('udp from', name[0], flush=True)
            try:
                datagrams.sendto(text, name)
            except OSError as error:
                print(error, flush=True)
        else:
            text = known[fd].recv(2048)
            if text:
                known[fd].sendall(text)
            else:
                poll.unregister(fd)
                known.pop(fd).close()
";

/// Does what each line says: `open KIND FROM TO PORT` (FROM may be `any`), or `ask` on all that is open.
const ASK: &str = "\
import socket, sys
opened, count = [], 0
def ask(own, stream, text):
    # Datagrams may be lost while the way changes.
    for attempt in range(1 if stream else 10):
        own.settimeout(60 if stream else 1)
        own.send(text)
        try:
            got = own.recv(2048)
            while got != text and not stream:
                got = own.recv(2048)
            return got
        except TimeoutError:
            pass
for line in sys.stdin:
    count += 1
    match line.split():
        case ['open', kind, source, to, port]:
            stream = kind == 'tcp'
            own = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
            own.settimeout(60)
            if source != 'any':
                own.bind((source, 0))
            own.connect((to, int(port)))
            opened.append((own, stream))
            print('from', own.getsockname()[0], flush=True)
        case ['ask']:
            for number, (own, stream) in enumerate(opened):
                got = ask(own, stream, b'%d' % count)
                assert got == b'%d' % count, (number, got)
    print('done', count, flush=True)
";

/// Sends datagrams from addresses that need not be the host's own, to a port: `TO PORT FROM..`.
const FORGE: &str = "\
import socket, struct, sys
to, port = sys.argv[1], int(sys.argv[2])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for source in sys.argv[3:]:
    text = b'from ' + source.encode()
    udp = struct.pack('!4H', 5000, port, 8 + len(text), 0) + text
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    raw.sendto(struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + ends + udp, (to, 0))
";

/// Both hosts take what comes by any interface, unless a test says otherwise.
fn prepare(world: &World) {
    for host in [&world.hosts.left, &world.hosts.right] {
        for interface in ["all", "default", "net0"] {
            sysctl(&host.namespace, &format!("net.ipv4.conf.{interface}.rp_filter=0"));
        }
    }
}

fn sysctl(namespace: &rig::Namespace, set: &str) {
    namespace.tool("sysctl", &format!("-q -w {set}")).unwrap();
}

/// A second wire between the hosts: `net1`, 10.78.1.1 and 10.78.1.2.
fn second_wire(world: &World) {
    let (left, right) = (&world.hosts.left.namespace, &world.hosts.right.namespace);
    left.ip(&format!("link add net1 type veth peer name net1 netns {}", right.name())).unwrap();
    for (namespace, address) in [(left, "10.78.1.1/24"), (right, "10.78.1.2/24")] {
        namespace.ip("link set net1 up").unwrap();
        namespace.ip(&format!("address add {address} dev net1")).unwrap();
    }
}

/// What left, the accelerated host, is in a scenario.
fn on_left(world: &World, library: Option<&Path>, text: &str, words: &str) -> Program {
    world
        .hosts
        .left
        .program(PYTHON)
        .words("-u -c")
        .argument(text)
        .words(words)
        .preload(library)
        .may_fall_back()
}

fn on_right(world: &World, text: &str, words: &str) -> Program {
    world.hosts.right.program(PYTHON).words("-u -c").argument(text).words(words)
}

fn echo(program: Program) -> Running {
    let mut server = program.start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    server
}

/// The one that asks, on left.
struct Client<'a> {
    running: Running,
    lines: u32,
    accelerated: Option<&'a Host>,
}

impl Client<'_> {
    fn start<'a>(world: &'a World, library: Option<&Path>) -> Client<'a> {
        Client {
            running: on_left(world, library, ASK, "").piped().start().unwrap(),
            lines: 0,
            accelerated: library.map(|_| &world.hosts.left),
        }
    }

    fn tell(&mut self, line: &str) {
        self.lines += 1;
        self.running.tell(&format!("{line}\n")).unwrap();
        self.running.wait_for_output(&format!("done {}\n", self.lines), DEADLINE).unwrap_or_else(|error| {
            panic!("{line}: {error}; it said {}", self.running.stderr());
        });
    }

    /// A connection and a datagram socket.
    fn open(&mut self, from: &str, to: &str) {
        self.tell(&format!("open tcp {from} {to} {PORT}"));
        self.tell(&format!("open udp {from} {to} {PORT}"));
        self.accelerated.into_iter().for_each(wait_for_acceleration);
    }

    /// More packets than what a change takes beside them.
    fn ask(&mut self) {
        (0..40).for_each(|_| self.tell("ask"));
    }
}

/// The interface of left is accelerated, if that was asked for.
fn must_be_there(world: &World, library: Option<&Path>) {
    if library.is_some() {
        wait_for_acceleration(&world.hosts.left);
    }
}

/// Runs a program on left to its end, which accelerates an interface if that was asked for; what it printed.
fn run_on_left(world: &World, library: Option<&Path>, text: &str, words: &str) -> String {
    let program = on_left(world, library, text, words).environment("VMA_TRACELEVEL", "debug");
    let finished = program.run(DEADLINE).and_then(Finished::success).unwrap();
    assert!(library.is_none() || finished.stderr.contains(": accelerated, "), "{}", finished.stderr);
    finished.stdout
}

/// Plays a scenario on the kernel and accelerated, each in a fresh world, and returns what left's kernel saw of the
/// latter.
fn as_on_the_kernel(scenario: impl Fn(&World, Option<&Path>)) -> Option<KernelCounters> {
    let mut seen = None;
    for accelerated in [false, true] {
        let world = world(&Options::default())?;
        prepare(&world);
        println!("{}", if accelerated { "accelerated" } else { "on the kernel" });
        let before = world.hosts.left.counters().unwrap();
        scenario(&world, accelerated.then_some(world.library.as_path()));
        seen = Some(world.hosts.left.counters().unwrap().since(&before));
    }
    seen
}

#[test]
fn an_address_that_another_interface_has_is_a_source_like_any_other() {
    let seen = as_on_the_kernel(|world, library| {
        let left = &world.hosts.left.namespace;
        left.ip("address add 10.88.0.1/32 dev lo").unwrap();
        world.hosts.right.namespace.ip("route add 10.88.0.1 via 10.77.1.1").unwrap();
        let server = echo(on_right(world, ECHO, &format!("0.0.0.0 {PORT}")));
        let mut client = Client::start(world, library);
        // (A datagram socket that is bound to it is the kernel's.)
        client.tell(&format!("open tcp 10.88.0.1 10.77.1.2 {PORT}"));
        client.ask();
        // The route names it.
        left.ip("route replace 10.77.1.0/24 dev net0 src 10.88.0.1").unwrap();
        client.open("any", "10.77.1.2");
        client.ask();
        assert_eq!(client.running.stdout().matches("from 10.88.0.1").count(), 3);
        drop((client, server));
    });
    if let Some(seen) = seen {
        assert_host_bypassed("left", &seen);
    }
}

#[test]
fn a_new_hardware_address_is_taken_over_by_what_is_connected() {
    let seen = as_on_the_kernel(|world, library| {
        let server = echo(on_right(world, ECHO, &format!("0.0.0.0 {PORT}")));
        let mut client = Client::start(world, library);
        client.open("any", "10.77.1.2");
        client.ask();
        world.hosts.left.namespace.ip("link set net0 address 02:00:00:00:77:01").unwrap();
        client.ask();
        client.open("any", "10.77.1.2");
        client.ask();
        drop((client, server));
    });
    if let Some(seen) = seen {
        assert_host_bypassed("left", &seen);
    }
}

/// Who is heard by a server on left, of those that right pretends to be. The last one is right itself.
fn heard(world: &World, library: Option<&Path>, from: &str) -> Vec<String> {
    let mut server = echo(on_left(world, library, ECHO, &format!("0.0.0.0 {PORT}")));
    must_be_there(world, library);
    let forged = on_right(world, FORGE, &format!("10.77.1.1 {PORT} {from} 10.77.1.2"));
    forged.run(DEADLINE).and_then(Finished::success).unwrap();
    server.wait_for_output("udp from 10.77.1.2\n", DEADLINE).unwrap();
    let said = server.kill().unwrap().stdout;
    said.lines().filter_map(|line| line.strip_prefix("udp from ")).map(str::to_owned).collect()
}

#[test]
fn who_pretends_to_be_this_host_is_not_heard() {
    as_on_the_kernel(|world, library| {
        second_wire(world);
        let left = &world.hosts.left.namespace;
        left.ip("address add 10.88.0.1/32 dev lo").unwrap();
        let own = "10.78.1.1 10.88.0.1 10.77.1.1 127.0.0.1";
        assert_eq!(heard(world, library, &format!("{own} 10.77.1.9")), ["10.77.1.9", "10.77.1.2"]);
        // An address that comes later, too.
        let mut server = echo(on_left(world, library, ECHO, &format!("0.0.0.0 {PORT}")));
        left.ip("address add 10.88.0.2/32 dev lo").unwrap();
        let forged = on_right(world, FORGE, &format!("10.77.1.1 {PORT} 10.77.1.2 10.88.0.2 10.77.1.9"));
        forged.run(DEADLINE).and_then(Finished::success).unwrap();
        server.wait_for_output("udp from 10.77.1.9\n", DEADLINE).unwrap();
        assert!(!server.stdout().contains("10.88.0.2"), "{}", server.stdout());
    });
}

/// A server on left that its client, right as 10.99.0.1, reaches over `net0`; left's way back is `net1`.
fn served_both_ways(world: &World, library: Option<&Path>, back: &str) {
    second_wire(world);
    world.hosts.right.namespace.ip("address add 10.99.0.1/32 dev lo").unwrap();
    for command in back.split(';') {
        world.hosts.left.namespace.ip(command.trim()).unwrap();
    }
    let server = echo(on_left(world, library, ECHO, &format!("10.77.1.1 {PORT}")));
    must_be_there(world, library);
    let client = on_right(world, ASK, "").piped().start().unwrap();
    let mut client = Client { running: client, lines: 0, accelerated: None };
    for _ in 0..3 {
        client.open("10.99.0.1", "10.77.1.1");
        client.ask();
    }
    let before = world.hosts.left.counters().unwrap();
    client.ask();
    let seen = world.hosts.left.counters().unwrap().since(&before);
    assert!(seen.get("if.tx_packets") < 40, "what net0 carried went there only: {seen:?}");
    drop((client, server));
}

#[test]
fn a_server_answers_by_the_interface_that_the_route_to_its_client_names() {
    as_on_the_kernel(|world, library| {
        served_both_ways(world, library, "route add 10.99.0.1 via 10.78.1.2");
    });
}

#[test]
fn a_server_answers_by_the_interface_that_a_rule_for_its_address_names() {
    as_on_the_kernel(|world, library| {
        let back = "route add 10.99.0.1 via 10.77.1.2; \
                    route add default via 10.78.1.2 dev net1 table 100; \
                    rule add from 10.77.1.1 lookup 100";
        served_both_ways(world, library, back);
    });
}

#[test]
fn a_client_with_a_source_address_of_its_own_leaves_by_the_interface_that_a_rule_names() {
    as_on_the_kernel(|world, library| {
        second_wire(world);
        let left = &world.hosts.left.namespace;
        left.ip("route add default via 10.78.1.2 dev net1 table 100").unwrap();
        left.ip("rule add from 10.77.1.1 lookup 100").unwrap();
        let server = echo(on_right(world, ECHO, &format!("0.0.0.0 {PORT}")));
        let mut client = Client::start(world, library);
        client.open("10.77.1.1", "10.77.1.2");
        let before = world.hosts.left.counters().unwrap();
        client.ask();
        let seen = world.hosts.left.counters().unwrap().since(&before);
        assert!(seen.get("if.tx_packets") < 40, "it leaves by net1: {seen:?}");
        // Without a source of its own it takes the way of all others.
        client.open("any", "10.77.1.2");
        client.ask();
        drop((client, server));
    });
}

#[test]
fn what_is_connected_follows_its_route_to_another_interface() {
    as_on_the_kernel(|world, library| {
        second_wire(world);
        let (left, right) = (&world.hosts.left.namespace, &world.hosts.right.namespace);
        right.ip("address add 10.99.0.1/32 dev lo").unwrap();
        left.ip("route add 10.99.0.1 via 10.77.1.2").unwrap();
        let server = echo(on_right(world, ECHO, &format!("10.99.0.1 {PORT}")));
        let mut client = Client::start(world, library);
        client.open("any", "10.99.0.1");
        client.ask();
        left.ip("route replace 10.99.0.1 via 10.78.1.2 src 10.77.1.1").unwrap();
        // The old way is closed for what leaves.
        right.tool("nft", "add table ip closed").unwrap();
        right.tool("nft", "add chain ip closed in { type filter hook prerouting priority -300 ; }").unwrap();
        right.tool("nft", "add rule ip closed in iif net0 ip daddr 10.99.0.1 drop").unwrap();
        client.ask();
        drop((client, server));
    });
}

#[test]
fn whoever_an_interface_does_not_take_by_its_reverse_path_filter_is_not_heard() {
    // 10.78.1.9 is behind net1, 10.55.0.1 is nowhere, 10.77.1.9 is here.
    let own = "10.78.1.9 10.55.0.1 10.77.1.9";
    for (filter, heard_are) in [(0, &["10.78.1.9", "10.55.0.1"][..]), (1, &[]), (2, &["10.78.1.9"])] {
        as_on_the_kernel(|world, library| {
            second_wire(world);
            let left = &world.hosts.left.namespace;
            // After the lane of a program that serves was opened, it is told of the change.
            sysctl(left, &format!("net.ipv4.conf.net0.rp_filter={filter}"));
            let mut expected = heard_are.to_vec();
            expected.extend(["10.77.1.9", "10.77.1.2"]);
            assert_eq!(heard(world, library, own), expected, "rp_filter={filter}");
        });
    }
}

#[test]
fn a_reverse_path_filter_that_is_switched_on_later_holds_for_who_listens() {
    as_on_the_kernel(|world, library| {
        second_wire(world);
        let mut server = echo(on_left(world, library, ECHO, &format!("0.0.0.0 {PORT}")));
        must_be_there(world, library);
        let mut forge = |from: &str, heard: &str| {
            let words = format!("10.77.1.1 {PORT} {from}");
            on_right(world, FORGE, &words).run(DEADLINE).and_then(Finished::success).unwrap();
            server.wait_for_output(&format!("udp from {heard}\n"), DEADLINE).unwrap();
            server.stdout()
        };
        assert!(forge("10.78.1.8 10.77.1.8", "10.77.1.8").contains("10.78.1.8"));
        sysctl(&world.hosts.left.namespace, "net.ipv4.conf.all.rp_filter=1");
        // The background thread of the library hears of it.
        let mut others = 9..250;
        eventually("what may not come this way is not heard", || {
            let end = others.next().expect("an address");
            let [wrong, right] = ["10.78.1", "10.77.1"].map(|net| format!("{net}.{end}"));
            !forge(&format!("{wrong} {right}"), &right).contains(&wrong)
        });
    });
}

/// Takes connections on ports from the first on and keeps them all: `ADDRESS PORT COUNT`. What it is sent it sends
/// back.
const KEEP: &str = "\
import resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
known, poll = {}, select.poll()
for number in range(count):
    listener = socket.create_server((address, port + number), backlog=1000)
    known[listener.fileno()] = listener
    poll.register(listener.fileno(), select.POLLIN)
listeners = list(known)
print('ready', flush=True)
while True:
    for fd, _ in poll.poll():
        if fd in listeners:
            peer = known[fd].accept()[0]
            known[peer.fileno()] = peer
            poll.register(peer.fileno(), select.POLLIN)
            continue
        text = known[fd].recv(100)
        if text:
            known[fd].sendall(text)
        else:
            poll.unregister(fd)
";

/// Connects to each of some ports so often, and asks over all connections: `TO PORT COUNT TIMES`.
const FAN: &str = "\
import socket, sys
to, port, count, times = sys.argv[1], *map(int, sys.argv[2:])
opened = []
for _ in range(times):
    for number in range(count):
        opened.append(socket.create_connection((to, port + number), timeout=60))
for number, own in enumerate(opened):
    own.sendall(b'%d' % number)
for number, own in enumerate(opened):
    assert own.recv(100) == b'%d' % number
assert len({(own.getsockname(), own.getpeername()) for own in opened}) == count * times
print('from ports', len({own.getsockname()[1] for own in opened}), flush=True)
";

/// All that left has for connections without a bind.
fn ten_ports(world: &World) {
    let file = "/proc/sys/net/ipv4/ip_local_port_range";
    world.hosts.left.namespace.inside(|| std::fs::write(file, "40000 40009")).unwrap().unwrap();
}

#[test]
fn a_local_port_serves_many_connections_if_they_go_to_different_places() {
    as_on_the_kernel(|world, library| {
        ten_ports(world);
        let mut server = on_right(world, KEEP, &format!("10.77.1.2 {PORT} 4")).start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let said = run_on_left(world, library, FAN, &format!("10.77.1.2 {PORT} 4 8"));
        assert!(said.starts_with("from ports"), "{said}");
    });
}

#[test]
fn ports_that_the_kernel_could_use_again_are_used() {
    as_on_the_kernel(|world, library| {
        ten_ports(world);
        let mut server = on_right(world, KEEP, &format!("10.77.1.2 {PORT} 2")).start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        // Another program holds all ports, towards one place.
        let hold = FAN.replace("opened = []", "opened = []; times = 8") + "input()\n";
        let words = format!("10.77.1.2 {PORT} 1 0");
        let mut holder = on_left(world, None, &hold, &words).piped().start().unwrap();
        holder.wait_for_output("from ports", DEADLINE).unwrap();
        let words = format!("10.77.1.2 {} 1 4", PORT + 1);
        run_on_left(world, library, FAN, &words);
        holder.kill().unwrap();
    });
}

/// Connects and closes so often, with few descriptors, to who never closes: `TO PORT TIMES`. Prints how many
/// descriptors are left.
const ABANDON: &str = "\
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
to, port, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(times):
    socket.create_connection((to, port), timeout=60).close()
opened = []
try:
    while True:
        opened.append(os.open('/dev/null', os.O_RDONLY))
except OSError:
    print(len(opened), flush=True)
";

#[test]
fn connections_that_were_closed_leave_descriptors_to_others() {
    as_on_the_kernel(|world, library| {
        let mut server = on_right(world, KEEP, &format!("10.77.1.2 {PORT} 1")).start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let words = format!("10.77.1.2 {PORT} 1200");
        let left: u32 = run_on_left(world, library, ABANDON, &words).trim().parse().unwrap();
        assert!(left > 800, "{left} descriptors left");
    });
}

/// A server that sends so many bytes, and a client that checks them: `connect` or `serve`, ADDRESS PORT KIB.
const BULK: &str = "\
import socket, sys
role, address, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) << 10
text = bytes(number * number >> 8 & 255 for number in range(4096)) * (size >> 12)
if role == 'serve':
    listener = socket.create_server((address, port))
    print('ready', flush=True)
    listener.accept()[0].sendall(text)
else:
    peer = socket.create_connection((address, port), timeout=60)
    got = bytearray()
    while more := peer.recv(65536):
        got += more
    assert got == text
";

#[test]
fn segments_that_a_router_cuts_into_fragments_arrive() {
    for accelerated in [false, true] {
        let options = Options { offloads: false, loss_permille: Some(0), ..Options::default() };
        let Some(world) = world(&options) else { return };
        let (left, right) = (&world.hosts.left, &world.hosts.right);
        let library = accelerated.then_some(world.library.as_path());
        // What right sends may be fragmented, and is.
        sysctl(&right.namespace, "net.ipv4.ip_no_pmtu_disc=1");
        world.hosts.router.as_ref().unwrap().set_mtu("net0", 600).unwrap();
        let before = left.counters().unwrap();
        let mut server =
            on_right(&world, BULK, &format!("serve {} {PORT} 64", right.address)).start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let client = on_left(&world, library, BULK, &format!("connect {} {PORT} 64", right.address));
        client.run(DEADLINE).and_then(Finished::success).unwrap();
        server.finish(DEADLINE).and_then(Finished::success).unwrap();
        let seen = left.counters().unwrap().since(&before);
        if accelerated {
            assert_host_bypassed("left", &seen);
        } else {
            assert!(seen.get("Ip.ReasmOKs") > 20, "nothing was fragmented: {seen:?}");
        }
    }
}

#[test]
fn what_is_connected_outlives_that_its_interface_goes_and_comes_back() {
    as_on_the_kernel(|world, library| {
        let (left, right) = (&world.hosts.left.namespace, &world.hosts.right.namespace);
        let server = echo(on_right(world, ECHO, &format!("0.0.0.0 {PORT}")));
        let mut client = Client::start(world, library);
        client.open("any", "10.77.1.2");
        client.ask();
        for _ in 0..3 {
            left.ip("link delete net0").unwrap();
            left.ip(&format!("link add net0 type veth peer name net0 netns {}", right.name())).unwrap();
            for (namespace, address) in [(right, "10.77.1.2/24"), (left, "10.77.1.1/24")] {
                namespace.ip("link set net0 up").unwrap();
                namespace.ip(&format!("address add {address} dev net0")).unwrap();
            }
            client.ask();
            // What is opened now is on the new interface.
            client.open("any", "10.77.1.2");
            assert_eq!(world.hosts.left.has_xdp_program().unwrap(), library.is_some());
        }
        client.ask();
        drop((client, server));
    });
}

#[test]
fn what_is_connected_outlives_changes_of_its_interface() {
    let seen = as_on_the_kernel(|world, library| {
        let left = &world.hosts.left.namespace;
        let server = echo(on_right(world, ECHO, &format!("0.0.0.0 {PORT}")));
        let mut client = Client::start(world, library);
        client.open("any", "10.77.1.2");
        for change in [
            "link set net0 down; link set net0 up",
            "address delete 10.77.1.1/24 dev net0; address add 10.77.1.1/24 dev net0",
            "link set net0 mtu 1000; link set net0 mtu 1500",
            "link set net0 down; link set net0 name other0; link set other0 up; \
             link set other0 down; link set other0 name net0; link set net0 up",
        ] {
            for command in change.split(';') {
                left.ip(command.trim()).unwrap();
            }
            client.ask();
            client.open("any", "10.77.1.2");
        }
        client.ask();
        drop((client, server));
    });
    if let Some(seen) = seen {
        assert_host_bypassed("left", &seen);
    }
}
