//! What `vma_stats` reads is what the programs did; and what the library says by itself.

use rig::{Finished, Host, Options, Program};
use stats::{Snapshot, Why};
use std::path::{Path, PathBuf};
use tests::{DEADLINE, World, talk, world};

const PORT: u16 = 9400;
const ROUNDS: u64 = 100;

/// Before it serves: a socket that must be left to the kernel.
const LOCAL: &str = "\
import socket
local = socket.socket()
local.connect_ex(('127.0.0.1', 1))
";

/// Before it serves: sockets share their ports (SO_REUSEPORT).
const SHARES: &str = "\
import socket
class Shared(socket.socket):
    def __init__(self, *words):
        super().__init__(*words)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
socket.socket = Shared
";

/// One accelerated socket in the parent, one for the kernel in the child.
const FORKS: &str = "\
import os,socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
child = os.fork()
if child == 0:
    local = socket.socket()
    local.connect_ex(('127.0.0.1', 1))
    print('child', os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
sock.recv(10)
os.kill(child, 9)
os.waitpid(child, 0)
";

/// Connects to a server that says nothing, and waits in one way.
const WAITS_IN_KERNEL: &str = "\
import select,socket,sys
if sys.argv[3] == 'accept':
    socket.create_server((sys.argv[1], 0)).accept()
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
if sys.argv[3] == 'recv':
    sock.recv(1)
elif sys.argv[3] == 'poll':
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.poll(60000)
elif sys.argv[3] == 'select':
    select.select([sock], [], [])
elif sys.argv[3] == 'epoll':
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN)
    poll.poll()
";

fn python(host: &Host, script: &str, address: &str) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(address).argument(PORT.to_string())
}

/// A folder for statistics, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sidestep-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn of(&self, pid: u32) -> PathBuf {
        self.0.join(stats::segment::file_name(pid))
    }

    fn read(&self, pid: u32) -> Snapshot {
        Snapshot::parse(&std::fs::read(self.of(pid)).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ask(host: &Host, address: &str, text: &str, times: u64) {
    let asks = python(host, talk::DATAGRAM_CLIENT, address).argument(text).argument(times.to_string());
    asks.run(DEADLINE).and_then(Finished::success).unwrap();
}

fn left(snapshot: &Snapshot, why: Why) -> u64 {
    snapshot.left.iter().find(|(of, _)| *of == why).unwrap().1
}

fn preloaded(program: Program, library: &Path, folder: &Folder) -> Program {
    // Sockets that must be the kernel's are among those that are counted.
    program.preload(Some(library)).may_fall_back().environment("VMA_STATS_SHMEM_DIR", &folder.0)
}

#[test]
fn counts_are_what_the_programs_exchanged_and_the_file_goes_with_the_process() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let folder = Folder::new("counts");
    let words = folder.0.join("words");
    let address = hosts.right.address.to_string();
    let mut server =
        preloaded(python(&hosts.right, &[LOCAL, talk::DATAGRAM_SERVER].concat(), &address), library, &folder)
            .environment("VMA_STATS_FILE", &words)
            .start()
            .unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    ask(&hosts.left, &address, "twelve bytes", ROUNDS);

    let told = folder.read(server.pid());
    assert_eq!((told.process.sockets_accelerated.value(), told.process.sockets_open.value()), (1, 1));
    assert_eq!(left(&told, Why::LocalAddress), 1, "the connection inside the host");
    let socket = told.sockets.iter().find(|socket| socket.flags.value() & stats::flag::ACCELERATED != 0);
    let socket = socket.expect("an accelerated socket");
    for (what, packets, bytes) in
        [("received", &socket.rx_packets, &socket.rx_bytes), ("sent", &socket.tx_packets, &socket.tx_bytes)]
    {
        assert_eq!((packets.value(), bytes.value()), (ROUNDS, 12 * ROUNDS), "{what}");
    }
    assert_eq!(told.lanes.len(), 1);
    assert!(told.lanes[0].1.rx_frames.value() >= ROUNDS);
    let other = told.sockets.iter().find(|socket| socket.flags.value() & stats::flag::LEFT != 0).unwrap();
    assert_eq!(other.why.value(), Why::LocalAddress as u64);

    let file = folder.of(server.pid());
    ask(&hosts.left, &address, "quit", 1);
    server.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(!file.exists(), "the file outlived its process");
    let words = std::fs::read_to_string(words).unwrap();
    assert!(words.contains(&format!("/ {} / 0 / 0 [kilobytes", ROUNDS + 1)), "{words}");
}

/// Calls on it would pay for being asked each time where it belongs.
#[test]
fn a_datagram_socket_that_never_moves_is_left_to_the_kernel_once_it_would() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let folder = Folder::new("kept");
    let address = hosts.right.address.to_string();
    let script = [SHARES, talk::DATAGRAM_SERVER].concat();
    let server = preloaded(python(&hosts.right, &script, &address), library, &folder);
    let mut server = server.environment("SIDESTEP_CARRIER", "late").start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    ask(&hosts.left, &address, "twelve bytes", 10 * ROUNDS);
    let told = folder.read(server.pid());
    let kept = told.sockets.iter().find(|socket| socket.flags.value() & stats::flag::LEFT != 0);
    assert_eq!(kept.expect("a socket that was left").why.value(), Why::Unsupported as u64);
    assert_eq!(told.process.sockets_accelerated.value(), 0);
    ask(&hosts.left, &address, "quit", 1);
    server.finish(DEADLINE).and_then(Finished::success).unwrap();
}

#[test]
fn a_program_that_only_waits_in_the_kernel_is_seen() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let folder = Folder::new("waits");
    let address = hosts.right.address.to_string();
    let silent =
        format!("import socket,time\ns = socket.create_server(('{address}', {PORT}))\ntime.sleep(600)\n");
    let mut server = hosts.right.program("/usr/bin/python3").words("-c").argument(silent).start().unwrap();
    server.wait_for_port(rig::Protocol::Tcp, PORT, DEADLINE).unwrap();
    for how in ["accept", "recv", "poll", "select", "epoll"] {
        let host = if how == "accept" { &hosts.right } else { &hosts.left };
        let program = preloaded(python(host, WAITS_IN_KERNEL, &address).argument(how), library, &folder);
        let program = program.environment("SIDESTEP_CARRIER", "late").start().unwrap();
        let begun = std::time::Instant::now();
        let seen = loop {
            let read = std::fs::read(folder.of(program.pid())).ok();
            if let Some(seen) = read.and_then(|bytes| Snapshot::parse(&bytes).ok()) {
                break seen;
            }
            assert!(begun.elapsed() < DEADLINE, "nobody sees a program in {how}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let carried = |socket: &stats::Socket| socket.carrier.value() == stats::Carrier::Kernel as u64;
        assert!(seen.sockets.iter().any(carried), "{how}");
        program.kill().unwrap();
    }
    server.kill().unwrap();
}

#[test]
fn the_child_of_a_fork_counts_for_itself() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let folder = Folder::new("fork");
    let address = hosts.right.address.to_string();
    let mut parent = preloaded(python(&hosts.right, FORKS, &address), library, &folder).start().unwrap();
    // The line comes in pieces.
    parent.wait_for_output("\n", DEADLINE).unwrap();
    let said = parent.stdout();
    let child: u32 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    let (of_parent, of_child) = (folder.read(parent.pid()), folder.read(child));
    assert_eq!((left(&of_parent, Why::LocalAddress), of_parent.process.sockets_accelerated.value()), (0, 1));
    assert_eq!((left(&of_child, Why::LocalAddress), of_child.process.sockets_accelerated.value()), (1, 0));
    ask(&hosts.left, &address, "quit", 1);
    parent.finish(DEADLINE).and_then(Finished::success).unwrap();
}

#[test]
fn the_banner_comes_with_the_first_accelerated_socket_to_those_who_read_it() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let folder = Folder::new("banner");
    let script = |end: &str| {
        format!("import socket,sys\ns = socket.socket()\ns.connect_ex(('127.0.0.1', 1))\n{end}\n")
    };
    let run = |end: &str, variable: (&str, &str)| {
        let program = python(&hosts.right, &script(end), &hosts.right.address.to_string());
        let program = preloaded(program, library, &folder).environment("VMA_RX_POLL", "7");
        let program = program.environment(variable.0, variable.1);
        program.run(DEADLINE).and_then(Finished::success).unwrap().stderr
    };
    let bind = "for i in 0, 1: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((sys.argv[1], 0))";
    assert_eq!(run("", ("VMA_TRACELEVEL", "info")), "", "nothing was accelerated");
    let is_told = |told: &str| {
        assert_eq!(told.matches("VMA_VERSION: ").count(), 1, "{told}");
        assert!(told.contains("[VMA_RX_POLL]") && !told.contains("[VMA_MSS]"), "{told}");
    };
    is_told(&run(bind, ("VMA_TRACELEVEL", "info")));
    assert_eq!(run(bind, ("VMA_TRACELEVEL", "warning")), "");
    assert_eq!(run(bind, ("VMA_TCP_NODELAY", "1")), "", "another program reads a pipe");
    let log = folder.0.join("log");
    assert_eq!(run(bind, ("VMA_LOG_FILE", log.to_str().unwrap())), "");
    is_told(&std::fs::read_to_string(log).unwrap());
    let at_terminal = "import pty,sys\npty.spawn([sys.executable, '-c', sys.argv[3], sys.argv[1]])";
    let program = python(&hosts.right, at_terminal, &hosts.right.address.to_string()).argument(script(bind));
    let program = preloaded(program, library, &folder).environment("VMA_RX_POLL", "7");
    is_told(&program.run(DEADLINE).and_then(Finished::success).unwrap().stdout);
    let told = run("", ("VMA_STATS_SHMEM_DIR", "/nonexistent"));
    assert!(told.contains("VMA WARNING: VMA_STATS_SHMEM_DIR=/nonexistent: no file"), "{told}");
    let told = run("", ("VMA_CONFIG_FILE", "/nonexistent/libvma.conf"));
    assert!(told.contains("VMA WARNING: VMA_CONFIG_FILE=/nonexistent/libvma.conf: cannot be read"), "{told}");
}

/// Opens an accelerated socket and prints IP_MULTICAST_LOOP, and where the background thread may run.
const PARAMETERS: &str = "\
import glob,socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print('loop', sock.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP))
begun = time.monotonic()
join = socket.inet_aton('239.1.2.3') + socket.inet_aton(sys.argv[1])
sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, join)
print('waited', time.monotonic() - begun >= 0.3)
while True:
    for task in glob.glob('/proc/self/task/*'):
        status = open(task + '/status').read()
        if 'sidestep' in status and 'Cpus_allowed_list:\\t0\\n' in status:
            print('pinned')
            sys.exit()
    time.sleep(0.01)
";

#[test]
fn parameters_reach_what_they_name() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let program = python(&hosts.right, PARAMETERS, &hosts.right.address.to_string()).preload(Some(library));
    let program = program.any_cpu().environment("VMA_TX_MC_LOOPBACK", "0");
    let program = program.environment("VMA_WAIT_AFTER_JOIN_MSEC", "300");
    let program = program.environment("VMA_INTERNAL_THREAD_AFFINITY", "0");
    let said = program.run(DEADLINE).and_then(Finished::success).unwrap().stdout;
    assert_eq!(said, "loop 0\nwaited True\npinned\n");
}
