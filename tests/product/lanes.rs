//! Lanes for threads (VMA_RING_ALLOCATION_LOGIC_RX): connections of several threads go by several lanes of one
//! interface, with right answers, and one that another thread takes over follows it to its lane.

use rig::{Options, Program, Protocol, Running, TwoHosts};
use stats::Snapshot;
use tests::keeper::{Keeper, wait_for_lanes};
use tests::{DEADLINE, World, world};

const PORT: u16 = 9870;
const THREADS: usize = 4;

/// A thread for each connection, which echoes. Arguments: address, port.
const SERVER: &str = "\
import os,socket,sys,threading
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
def echo(peer):
    peer.settimeout(60)
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()
while True:
    peer, _ = listener.accept()
    threading.Thread(target=echo, args=(peer,), daemon=True).start()
";

/// So many threads, each with a connection of its own and so many questions; a barrier between two halves of them, at
/// which `pass` hands each connection to the next thread, and `fork` has a child ask over one of its own. Arguments:
/// address, port, threads, questions, and how.
const CLIENT: &str = "\
import os,socket,sys,threading
where, threads, questions, how = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
def connect():
    peer = socket.create_connection(where, timeout=60)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer
def ask(peer, name, count):
    for i in range(count):
        question = b'%d of %d;' % (i, name) * (1 + i % 40)
        peer.sendall(question)
        answer = b''
        while len(answer) < len(question):
            piece = peer.recv(65536)
            assert piece, 'the end'
            answer += piece
        assert answer == question
peers, right, half = [None] * threads, [], threading.Barrier(threads)
def run(name):
    peers[name] = connect()
    ask(peers[name], name, questions // 2)
    half.wait()
    if how == 'fork' and name == 0:
        child = os.fork()
        if child == 0:
            ask(connect(), 99, questions)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    peer = peers[(name + 1) % threads if how == 'pass' else name]
    ask(peer, name, questions // 2)
    right.append(name)
all = [threading.Thread(target=run, args=(name,)) for name in range(threads)]
[thread.start() for thread in all]
[thread.join() for thread in all]
print('right:', len(right), flush=True)
sys.stdin.readline()
";

/// The same by datagrams: a thread and a port for each socket. `shared`: their ports may be others', too; `pass`: the
/// main thread makes the sockets, and gives them to the threads. Arguments: address, port, threads, and how.
const UDP_SERVER: &str = "\
import socket,sys,threading
def make(name):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if sys.argv[4] == 'shared':
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    peer.bind((sys.argv[1], int(sys.argv[2]) + name))
    return peer
def echo(name, peer):
    peer = peer or make(name)
    while True:
        peer.sendto(*peer.recvfrom(2000))
threads = range(int(sys.argv[3]))
made = [make(name) if sys.argv[4] == 'pass' else None for name in threads]
for name in threads:
    threading.Thread(target=echo, args=(name, made[name]), daemon=True).start()
sys.stdin.readline()
";

/// Each thread asks a port of its own; a connected socket where its number is even. Arguments: the server's, and
/// questions.
const UDP_CLIENT: &str = "\
import socket,sys,threading
how, count, right = sys.argv[4], int(sys.argv[5]), []
def run(name):
    to = (sys.argv[1], int(sys.argv[2]) + name)
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.settimeout(60)
    if name % 2 == 0:
        peer.connect(to)
    for i in range(count):
        question = b'%d of %d;' % (i, name) * (1 + i % 40)
        if name % 2 == 0:
            peer.send(question)
        else:
            peer.sendto(question, to)
        assert peer.recv(2000) == question
    right.append(name)
all = [threading.Thread(target=run, args=(name,)) for name in range(int(sys.argv[3]))]
[thread.start() for thread in all]
[thread.join() for thread in all]
print('right:', len(right), flush=True)
sys.stdin.readline()
";

/// Two programs whose threads talk.
struct Talk {
    client: Running,
    server: Running,
}

impl Talk {
    /// All answers were right. `variables`: of both ends.
    fn new(world: &World, threads: usize, questions: u32, how: &str, variables: &[(&str, &str)]) -> Talk {
        let TwoHosts { left, right, .. } = &world.hosts;
        let words = format!("{} {PORT} {threads} {questions} {how}", right.address);
        let under = |program: Program| {
            let program = program.preload(Some(&world.library)).any_cpu().piped();
            let program = program.environment("VMA_STATS_SHMEM_DIR", "/tmp");
            variables.iter().fold(program, |program, (name, value)| program.environment(name, value))
        };
        let python =
            |host: &rig::Host, script| host.program("/usr/bin/python3").words("-u -c").argument(script);
        let mut server = under(python(right, SERVER).words(&words)).start().unwrap();
        server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
        let mut client = under(python(left, CLIENT).words(&words)).start().unwrap();
        client.wait_for_output(&format!("right: {threads}"), DEADLINE).unwrap();
        Talk { client, server }
    }

    /// By datagrams.
    fn udp(world: &World, questions: u32, how: &str, variables: &[(&str, &str)]) -> Talk {
        let TwoHosts { left, right, .. } = &world.hosts;
        let words = format!("{} {PORT} {THREADS} {how}", right.address);
        let under = |host: &rig::Host, script| {
            let program = host.program("/usr/bin/python3").words("-u -c").argument(script).words(&words);
            let program = program.preload(Some(&world.library)).any_cpu().piped();
            let program = program.environment("VMA_STATS_SHMEM_DIR", "/tmp");
            variables.iter().fold(program, |program, (name, value)| program.environment(name, value))
        };
        let mut server = under(right, UDP_SERVER).start().unwrap();
        for port in 0..THREADS as u16 {
            server.wait_for_port(Protocol::Udp, PORT + port, DEADLINE).unwrap();
        }
        let mut client = under(left, UDP_CLIENT).words(&questions.to_string()).start().unwrap();
        client.wait_for_output(&format!("right: {THREADS}"), DEADLINE).unwrap();
        Talk { client, server }
    }

    /// Packets that came in by each lane: of the client, and of the server.
    fn lanes(&self) -> [Vec<u64>; 2] {
        [&self.client, &self.server]
            .map(|end| counted(end).lanes.iter().map(|(_, lane)| lane.rx_frames.value()).collect::<Vec<_>>())
    }

    fn end(mut self) {
        self.client.tell("seen\n").unwrap();
        self.client.finish(DEADLINE).and_then(rig::Finished::success).unwrap();
        self.server.kill().unwrap();
    }
}

/// The program's statistics.
fn counted(of: &Running) -> Snapshot {
    let path = format!("/tmp/{}", stats::segment::file_name(of.pid()));
    Snapshot::parse(&std::fs::read(path).unwrap()).unwrap()
}

fn busy(lanes: &[u64], packets: u64) -> usize {
    lanes.iter().filter(|came| **came >= packets).count()
}

#[test]
fn each_thread_has_a_lane_of_its_own() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = Talk::new(&world, THREADS, 400, "keep", &[("VMA_RING_ALLOCATION_LOGIC_RX", "20")]);
    for lanes in talk.lanes() {
        assert_eq!(busy(&lanes, 200), THREADS, "packets by lane: {lanes:?}");
    }
    talk.end();
}

#[test]
fn threads_share_as_few_lanes_as_a_parameter_says() {
    let Some(world) = world(&Options::default()) else { return };
    let variables = [("VMA_RING_ALLOCATION_LOGIC_TX", "20"), ("VMA_RING_LIMIT_PER_INTERFACE", "2")];
    let talk = Talk::new(&world, THREADS, 400, "keep", &variables);
    for lanes in talk.lanes() {
        assert_eq!((lanes.len(), busy(&lanes, 200)), (2, 2), "packets by lane: {lanes:?}");
    }
    talk.end();
}

#[test]
fn each_socket_has_a_lane_of_its_own_and_begins_on_the_wire() {
    let Some(world) = world(&Options::default()) else { return };
    let variables = [("VMA_RING_ALLOCATION_LOGIC_RX", "10"), ("SIDESTEP_CARRIER", "wire")];
    let talk = Talk::new(&world, THREADS, 400, "pass", &variables);
    for lanes in talk.lanes() {
        assert_eq!(busy(&lanes, 200), THREADS, "packets by lane: {lanes:?}");
    }
    assert_eq!(
        counted(&talk.client).process.moves_to_kernel.value(),
        0,
        "a lane for a socket follows no thread"
    );
    talk.end();
}

#[test]
fn sockets_that_ask_for_it_have_lanes_of_their_own_beside_one_for_all_others() {
    let Some(world) = world(&Options::default()) else { return };
    const ASKS: &str = "\
import socket,struct,sys
def connect(logic, user):
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, 2810, struct.pack('5I', 2, logic, 0, user, 3))
    peer.settimeout(60)
    peer.connect((sys.argv[1], int(sys.argv[2])))
    return peer
peers = [connect(11, 1), connect(11, 2), connect(11, 5), connect(0, 7)]
peers += [socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)]
for peer in peers:
    for i in range(400):
        peer.sendall(b'%d' % (i % 10))
        assert peer.recv(1) == b'%d' % (i % 10)
print('right', flush=True)
sys.stdin.readline()
";
    let TwoHosts { left, right, .. } = &world.hosts;
    let python = |host: &rig::Host, script| {
        let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
        program.words(&format!("{} {PORT}", right.address)).any_cpu().piped()
    };
    let mut server = python(right, SERVER).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let client = python(left, ASKS).preload(Some(&world.library)).environment("SIDESTEP_CARRIER", "wire");
    let mut client = client.environment("VMA_STATS_SHMEM_DIR", "/tmp").start().unwrap();
    client.wait_for_output("right", DEADLINE).unwrap();
    let lanes: Vec<u64> = counted(&client).lanes.iter().map(|(_, lane)| lane.rx_frames.value()).collect();
    // Users 1 and 5 share one of four, user 2 has one, the others have the first.
    assert_eq!(lanes.len(), 3, "packets by lane: {lanes:?}");
    assert!(lanes.iter().filter(|lane| **lane >= 800).count() == 2 && busy(&lanes, 400) == 3, "{lanes:?}");
    client.tell("seen\n").unwrap();
    client.finish(DEADLINE).and_then(rig::Finished::success).unwrap();
}

#[test]
fn threads_are_bound_to_cores_that_have_a_lane_each() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = Talk::new(&world, THREADS, 400, "keep", &[("VMA_RING_ALLOCATION_LOGIC_RX", "31")]);
    let cores = std::thread::available_parallelism().unwrap().get().min(THREADS);
    let bound = std::fs::read_dir(format!("/proc/{}/task", talk.server.pid())).unwrap().filter(|thread| {
        let status = std::fs::read_to_string(thread.as_ref().unwrap().path().join("status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
        list.parse::<u32>().is_ok()
    });
    assert!(bound.count() >= THREADS || cores == 1);
    for lanes in talk.lanes() {
        assert_eq!(busy(&lanes, 200), cores, "packets by lane: {lanes:?}");
    }
    talk.end();
}

#[test]
fn a_connection_follows_the_thread_that_uses_it() {
    let Some(world) = world(&Options::default()) else { return };
    let logic = ("VMA_RING_ALLOCATION_LOGIC_RX", "20");
    let passed = |ratio| {
        let variables = [logic, ("VMA_RING_MIGRATION_RATIO_RX", ratio)];
        let talk = Talk::new(&world, THREADS, 1000, "pass", &variables);
        let moves = [&talk.client, &talk.server].map(|end| counted(end).process.moves_to_kernel.value());
        for lanes in talk.lanes() {
            assert_eq!(busy(&lanes, 200), THREADS, "packets by lane: {lanes:?}");
        }
        talk.end();
        tests::wait_for_no_program(&world.hosts.left);
        tests::wait_for_no_program(&world.hosts.right);
        moves
    };
    assert_eq!(passed("-1"), [0, 0]);
    assert_eq!(
        passed("100"),
        [THREADS as u64, 0],
        "each goes to its new thread's lane by way of the kernel, once"
    );
}

#[test]
fn further_lanes_come_from_the_keeper_too() {
    let Some(world) = world(&Options::default()) else { return };
    let keeper = Keeper::start(&world.hosts.right, "");
    let talk = Talk::new(&world, THREADS, 400, "keep", &[("VMA_RING_ALLOCATION_LOGIC_RX", "20")]);
    wait_for_lanes(&world.hosts.right, THREADS);
    let [_, server] = talk.lanes();
    assert_eq!(busy(&server, 200), THREADS, "packets by lane: {server:?}");
    talk.end();
    keeper.kill().unwrap();
}

#[test]
fn a_child_of_a_program_with_several_lanes_has_its_own() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = Talk::new(&world, THREADS, 400, "fork", &[("VMA_RING_ALLOCATION_LOGIC_RX", "20")]);
    let [_, server] = talk.lanes();
    assert!(busy(&server, 200) > THREADS, "packets by lane: {server:?}");
    talk.end();
}

#[test]
fn a_udp_socket_stands_on_the_lane_of_its_thread() {
    let Some(world) = world(&Options::default()) else { return };
    let variables = [("VMA_RING_ALLOCATION_LOGIC_RX", "20"), ("SIDESTEP_CARRIER", "wire")];
    let talk = Talk::udp(&world, 400, "keep", &variables);
    for lanes in talk.lanes() {
        assert_eq!(busy(&lanes, 200), THREADS, "packets by lane: {lanes:?}");
    }
    talk.end();
}

#[test]
fn udp_sockets_that_may_share_a_port_stand_on_the_first_lane() {
    let Some(world) = world(&Options::default()) else { return };
    let variables = [("VMA_RING_ALLOCATION_LOGIC_RX", "20"), ("SIDESTEP_CARRIER", "wire")];
    let talk = Talk::udp(&world, 400, "shared", &variables);
    let [client, server] = talk.lanes();
    assert_eq!(busy(&client, 200), THREADS, "packets by lane: {client:?}");
    assert_eq!(busy(&server, 1), 1, "packets by lane: {server:?}");
    talk.end();
}

#[test]
fn a_udp_socket_follows_the_thread_that_uses_it() {
    let Some(world) = world(&Options::default()) else { return };
    let served = |ratio| {
        let variables = [
            ("VMA_RING_ALLOCATION_LOGIC_RX", "20"),
            ("VMA_RING_MIGRATION_RATIO_RX", ratio),
            ("SIDESTEP_CARRIER", "wire"),
        ];
        let talk = Talk::udp(&world, 1000, "pass", &variables);
        let [_, server] = talk.lanes();
        talk.end();
        tests::wait_for_no_program(&world.hosts.left);
        tests::wait_for_no_program(&world.hosts.right);
        // Until they have moved, datagrams come by the main thread's lane.
        busy(&server, 600)
    };
    assert_eq!(served("-1"), 1, "where the main thread bound them");
    assert_eq!(served("100"), THREADS);
}
