//! A server that starts while its clients are there already: who was let in is served. And what the first socket of a
//! program that ends soon costs.

use rig::{Finished, Options, Protocol};
use tests::{DEADLINE, World, compile, world};

const PORT: u16 = 9750;

/// Eight clients at a time, each with many connections, one after the other. Only before the server listens may one be
/// refused.
const IMPATIENT: &str = "\
import concurrent.futures,socket,sys
def client(number):
    for _ in range(60):
        while True:
            try:
                peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
                break
            except ConnectionRefusedError:
                pass
        with peer, peer.makefile('rb') as lines:
            peer.sendall(b'echo\\n')
            assert lines.readline().strip().isdigit()
            assert lines.readline() == b'echo\\n'
print('ready', flush=True)
with concurrent.futures.ThreadPoolExecutor(8) as clients:
    list(clients.map(client, range(8)))
";

#[test]
fn clients_that_come_while_workers_start_are_all_served() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let workers = compile("apps/prefork.c").unwrap();
    for port in PORT..PORT + 3 {
        let program = hosts.left.program("/usr/bin/python3").words("-u -c").argument(IMPATIENT);
        let mut clients = program.argument(&address).argument(port.to_string()).start().unwrap();
        clients.wait_for_output("ready", DEADLINE).unwrap();
        let program = hosts.right.program(workers.path()).argument(&address).argument(port.to_string());
        let mut server = program.preload(Some(library)).start().unwrap();
        server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
        clients.finish(DEADLINE).and_then(Finished::success).unwrap();
        assert!(hosts.right.has_xdp_program().unwrap(), "the workers are not accelerated");
        server.kill().unwrap();
    }
}

#[test]
fn the_first_socket_begins_no_thread_and_reads_no_sysctls() {
    let Some(world) = world(&Options::default()) else { return };
    let first = compile("apps/first_socket.c").unwrap();
    // Numbers of processes are this one's own.
    let program = world.hosts.left.program("unshare").words("--pid --fork --mount --mount-proc --kill-child");
    let program = program.argument(first.path()).preload(Some(&world.library));
    let program = program.may_fall_back().environment("SIDESTEP_CARRIER", "auto");
    let program = program.environment("VMA_STATS_SHMEM_DIR", "/tmp");
    let ended = program.run(DEADLINE).and_then(Finished::success).unwrap();
    let words: Vec<&str> = ended.stdout.trim().split(", ").collect();
    let [begun, reads, at_first, later] = words[..] else { panic!("{}", ended.stdout) };
    assert_eq!((begun, at_first, later), ("0 begun", "nobody counts", "counted"));
    // The looks themselves are among them.
    let reads: u32 = reads.strip_suffix(" reads").and_then(|reads| reads.parse().ok()).unwrap();
    assert!(reads <= 12, "{reads} reads");
}

#[test]
fn the_table_of_descriptors_has_grown_before_there_are_threads() {
    let Some(world) = world(&Options::default()) else { return };
    let program = world.hosts.left.program("grep").words("FDSize /proc/self/status");
    let told = program.preload(Some(&world.library)).run(DEADLINE).and_then(Finished::success).unwrap();
    let size: u32 = told.stdout.split_whitespace().last().and_then(|size| size.parse().ok()).unwrap();
    // Three quarters of the usual limit, 1024, is the least that ours are above.
    assert!(size >= 768, "{}", told.stdout);
}

/// Lets in only what has a time to live of 100 and more.
const FAR_IS_NOBODY: &str = "\
import socket,sys
IP_MINTTL = 21
sock = socket.create_server((sys.argv[1], int(sys.argv[2])))
sock.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 100)
print('ready', flush=True)
peer, _ = sock.accept()
peer.sendall(b'yes')
peer.recv(1)
";

/// Changes its root between its first socket and the first that is accelerated.
const CHANGES_ROOT: &str = "\
import os,socket,sys
sock = socket.socket()
os.chroot(sys.argv[3])
sock.settimeout(60)
sock.connect((sys.argv[1], int(sys.argv[2])))
assert sock.recv(3) == b'yes'
print('heard', flush=True)
sock.recv(1)
";

#[test]
fn a_program_that_changes_its_root_goes_by_the_sysctls_all_the_same() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    hosts.left.namespace.tool("sysctl", "-q -w net.ipv4.ip_default_ttl=120").unwrap();
    let (address, port) = (hosts.right.address.to_string(), (PORT + 5).to_string());
    let python = |host: &rig::Host, script: &str| {
        let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
        program.argument(&address).argument(&port)
    };
    let mut server = python(&hosts.right, FAR_IS_NOBODY).start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    let root = std::env::temp_dir().join(format!("sidestep-root-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let client = python(&hosts.left, CHANGES_ROOT).argument(&root).preload(Some(library));
    let mut client = client.start().unwrap();
    let heard = client.wait_for_output("heard", DEADLINE);
    let _ = std::fs::remove_dir_all(&root);
    heard.unwrap();
    assert!(hosts.left.has_xdp_program().unwrap(), "the client is not accelerated");
    client.kill().unwrap();
    server.kill().unwrap();
}
