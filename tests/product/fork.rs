//! Servers of several processes: workers that share a listener, a process for each connection, nginx.

use std::path::Path;
use std::process::Command;

use rig::skip::{skipped, test_name};
use rig::{Finished, Host, Options, Program, Protocol, Running, eventually};
use tests::{
    DEADLINE, World, assert_host_bypassed_but, compile, eventually_bypassed_but, wait_for_acceleration,
    wait_for_no_program, world,
};

const PORT: u16 = 9400;
const PYTHON: &str = "/usr/bin/python3";

/// Packets of a connection that are the kernel's, which a listener of several processes is: the handshake, and what
/// came before the worker that accepts it has taken it to its lane.
const HANDSHAKE: u64 = 6;

/// Opens connections one after the other: prints the line that each begins with, and checks an echo.
const ASK: &str = "\
import socket,sys
for _ in range(int(sys.argv[3])):
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    lines = peer.makefile('rb')
    print(lines.readline().decode().strip())
    for _ in range(20):
        peer.sendall(b'echo\\n')
        assert lines.readline() == b'echo\\n'
    lines.close()
    peer.close()
";

/// Python with the server's address and port.
fn script(host: &Host, text: &str, address: &str) -> Program {
    host.program(PYTHON).words("-u -c").argument(text).argument(address).argument(PORT.to_string())
}

/// The process ids that answered, in order.
fn ask(host: &Host, address: &str, count: u32) -> Vec<u32> {
    let asked = script(host, ASK, address).argument(count.to_string()).run(DEADLINE);
    let said = asked.and_then(Finished::success).unwrap().stdout;
    said.lines().map(|line| line.parse().unwrap()).collect()
}

fn distinct(answers: &[u32]) -> Vec<u32> {
    let mut all = answers.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn all_workers_of_a_listener_are_accelerated_and_the_others_go_on_when_one_is_killed() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let server = compile("apps/prefork.c").unwrap();
    let program = hosts.right.program(server.path()).argument(&address).argument(PORT.to_string());
    let mut server = program.preload(Some(library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    // Workers open their lanes when they first wait for a connection.
    let workers = eventually_bypassed_but(&hosts.right, 60 * HANDSHAKE, || {
        Some(distinct(&ask(&hosts.left, &address, 60))).filter(|workers| workers.len() == 3)
    });

    for victim in &workers[..2] {
        assert!(Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap().success());
        let answers = distinct(&ask(&hosts.left, &address, 40));
        assert!(!answers.contains(victim));
        eventually_bypassed_but(&hosts.right, 40 * HANDSHAKE, || Some(ask(&hosts.left, &address, 40)));
    }
    let last = workers[2].to_string();
    assert!(Command::new("kill").args(["-9", &last]).status().unwrap().success());
    server.finish(DEADLINE).and_then(Finished::success).unwrap();
    wait_for_no_program(&hosts.right);
}

/// Two workers that wait on the set which their parent made.
const SET_BEFORE_FORK: &str = "\
import os,select,socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
listener.setblocking(False)
waits = select.epoll()
waits.register(listener, select.EPOLLIN)
def work():
    while True:
        for number, _ in waits.poll():
            assert number == listener.fileno()
            try:
                peer = listener.accept()[0]
            except BlockingIOError:
                continue
            with peer:
                peer.setblocking(True)
                peer.sendall(b'%d\\n' % os.getpid())
                while said := peer.recv(100):
                    peer.sendall(said)
for _ in range(2):
    if os.fork() == 0:
        work()
os.wait()
";

/// `sys.argv[3]`: the server gives up its privileges once it listens.
const FORKING: &str = "\
import os,socketserver,sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        assert self.request.getpeername() == self.client_address
        while True:
            data = self.request.recv(65536)
            if not data:
                break
            self.request.sendall(data)
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64
server = Server((sys.argv[1], int(sys.argv[2])), Echo)
if sys.argv[3] == 'unprivileged':
    os.setgroups([])
    os.setuid(65534)
server.serve_forever()
";

#[test]
fn workers_that_wait_on_an_epoll_set_of_their_parent_are_accelerated() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let mut server = script(&hosts.right, SET_BEFORE_FORK, &address).preload(Some(library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    // Workers open their lanes when they first wait.
    let workers = eventually_bypassed_but(&hosts.right, 60 * HANDSHAKE, || {
        Some(distinct(&ask(&hosts.left, &address, 60))).filter(|workers| workers.len() == 2)
    });
    for worker in workers {
        assert!(Command::new("kill").args(["-9", &worker.to_string()]).status().unwrap().success());
    }
    server.finish(DEADLINE).and_then(Finished::success).unwrap();
}

/// Sends a megabyte on several connections at a time, ends its side, and reads all of it back.
const MIRROR: &str = "\
import os,socket,sys,threading
failed = []
def one():
    try:
        data = os.urandom(1 << 20)
        peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
        def send():
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        back = b''.join(iter(lambda: peer.recv(65536), b''))
        sender.join()
        assert back == data, len(back)
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=one) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(' '.join(failed) or 0)
";

#[test]
fn a_server_that_forks_for_each_connection_echoes_every_byte() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    for rights in ["privileged", "unprivileged"] {
        let program = script(&hosts.right, FORKING, &address).argument(rights);
        let mut server = program.preload(Some(library)).start().unwrap();
        server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
        // Those that are an engine's at the first fork cannot move without privilege: they end, and are told.
        let first = script(&hosts.left, MIRROR, &address).run(DEADLINE).unwrap();
        assert!(rights == "unprivileged" || first.clone().success().is_ok(), "{first:?}");
        for _ in 0..2 {
            script(&hosts.left, MIRROR, &address).run(DEADLINE).and_then(Finished::success).unwrap();
        }
        if rights == "privileged" {
            // Once its parent has closed it, a child has its connection alone, and takes it to its lane.
            eventually("children take their connections", || {
                let before = hosts.right.counters().unwrap();
                script(&hosts.left, MIRROR, &address).run(DEADLINE).and_then(Finished::success).unwrap();
                let counted = hosts.right.counters().unwrap().since(&before);
                counted.transport_packets() * 4 < counted.wire_packets()
            });
        }
        server.kill().unwrap();
    }
}

/// Says its process id and a line for each that it hears, in a child, as which it goes on after its first connection.
const HEIR: &str = "\
import os,socket,sys,time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
peer = listener.accept()[0]
if os.fork():
    sys.exit()
time.sleep(0.5)
peer.sendall(b'%d\\n' % os.getpid())
while said := peer.recv(100):
    peer.sendall(said)
";

#[test]
fn a_connection_outlives_the_process_that_accepted_it() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let mut server = script(&hosts.right, HEIR, &address).preload(Some(library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    wait_for_acceleration(&hosts.right);
    assert_eq!(ask(&hosts.left, &address, 1).len(), 1);
    let said = server.finish(DEADLINE).and_then(Finished::success).unwrap().stderr;
    assert!(!said.contains("WARNING"), "{said}");
}

/// One connection to each of two servers of the same port, the second of which starts while the first connection
/// stands.
const TWO_AFTER_ANOTHER: &str = "\
import socket,sys
def peer():
    one = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    return one, one.makefile('rb')
def echoes(one, lines):
    one.sendall(b'echo\\n')
    assert lines.readline() == b'echo\\n'
first = peer()
echoes(*first)
print('stands', flush=True)
sys.stdin.readline()
for _ in range(3):
    second = peer()
    echoes(*second)
    echoes(*first)
";

/// Runs `cat` for each connection, as inetd does.
const INETD: &str = "\
import os,signal,socket,sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    peer = listener.accept()[0]
    if os.fork() == 0:
        os.dup2(peer.fileno(), 0)
        os.dup2(peer.fileno(), 1)
        os.execvp('cat', ['cat'])
    peer.close()
";

#[test]
fn connections_of_a_servers_children_stand_when_the_server_is_replaced() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let server = || {
        let mut running = script(&hosts.right, INETD, &address).preload(Some(library)).start().unwrap();
        running.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
        running
    };
    let mut first = server();
    let mut client = script(&hosts.left, TWO_AFTER_ANOTHER, &address).piped().start().unwrap();
    client.wait_for_output("stands", DEADLINE).unwrap();
    first.signal(9).unwrap();
    first.wait_for_end(DEADLINE).unwrap();
    wait_for_no_program(&hosts.right);
    let second = server();
    // The second is accelerated as well.
    wait_for_acceleration(&hosts.right);
    client.tell("on\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
    for server in [first, second] {
        assert!(!server.kill().unwrap().stderr.contains("WARNING"));
    }
}

/// Two workers that become `cat` with the first connection that each accepts, while their parent listens, too.
const BECOMING: &str = "\
import os,socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
for _ in range(2):
    if os.fork() == 0:
        peer = listener.accept()[0]
        peer.sendall(b'%d\\n' % os.getpid())
        os.dup2(peer.fileno(), 0)
        os.dup2(peer.fileno(), 1)
        os.execvp('cat', ['cat'])
os.wait()
os.wait()
";

#[test]
fn workers_pass_their_connections_to_other_programs_while_the_family_listens() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let mut server = script(&hosts.right, BECOMING, &address).preload(Some(library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    wait_for_acceleration(&hosts.right);
    assert_eq!(distinct(&ask(&hosts.left, &address, 2)).len(), 2);
    let said = server.finish(DEADLINE).and_then(Finished::success).unwrap().stderr;
    assert!(!said.contains("WARNING"), "{said}");
}

/// Connects, hears a line, becomes a shell with the connection as its input. `sys.argv[3]`: the descriptor passes to
/// it; `sys.argv[4]`: it gave up CAP_NET_ADMIN (12) before.
const BECOME: &str = "\
import ctypes,os,socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
assert peer.recv(6, socket.MSG_WAITALL) == b'hello\\n'
if sys.argv[4] == 'unprivileged':
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[0] &= ~(1 << 12)
    assert libc.capset(header, sets) == 0
os.dup2(peer.fileno(), 0, inheritable=sys.argv[3] == 'passes')
print('fd 0', flush=True)
os.execvp('sh', ['sh', '-c', 'read line; echo \"heard $line\"; echo answer >&0'])
";

const GREET: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
for _ in range(3):
    peer = listener.accept()[0]
    peer.sendall(b'hello\\n')
    peer.sendall(b'line\\n')
    try:
        print(peer.makefile('rb').read().decode().strip() or 'ended', flush=True)
    except ConnectionResetError: # with what nobody reads any more
        print('ended', flush=True)
";

#[test]
fn a_connection_goes_on_after_exec_or_a_warning_names_it_and_its_peer_is_told() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let mut server = script(&hosts.right, GREET, &address).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let ways = [
        ("passes", "privileged", "line", 0),
        ("passes", "unprivileged", "", 1),
        ("stays", "privileged", "", 0),
    ];
    for (how, rights, heard, warnings) in ways {
        let program = script(&hosts.left, BECOME, &address).argument(how).argument(rights);
        let finished = program.preload(Some(library)).run(DEADLINE).unwrap();
        let Finished { stdout, stderr, .. } = finished;
        assert_eq!(stdout, format!("fd 0\nheard {heard}\n"), "{how}, {rights}: {stderr}");
        let named = format!("exec: fd 0, connected to {address}:{PORT}");
        let told = stderr.lines().filter(|line| line.contains("WARNING") && line.contains(&named)).count();
        assert_eq!(told, warnings, "{how}, {rights}: {stderr}");
    }
    let said = server.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    assert_eq!(said, "answer\nended\nended\n");
}

/// nginx with two workers over a folder of its own.
fn nginx(world: &World, folder: &Path) -> Option<Running> {
    if !Path::new("/usr/sbin/nginx").exists() {
        skipped(&test_name(), "nginx is not installed: apt-get install nginx-light");
        return None;
    }
    let path = folder.display();
    let configuration = format!(
        "user root; worker_processes 2; daemon off; pid {path}/pid; error_log {path}/log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {path}/tmp;\n\
         server {{ listen {PORT}; root {path}; }} }}\n"
    );
    std::fs::write(folder.join("conf"), configuration).unwrap();
    let program = world.hosts.right.program("/usr/sbin/nginx").words("-c").argument(folder.join("conf"));
    let mut server = program.preload(Some(&world.library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    wait_for_acceleration(&world.hosts.right);
    Some(server)
}

#[test]
fn nginx_with_two_workers_sends_a_large_file_intact() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = std::env::temp_dir().join(format!("rig-{}-nginx", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let content: Vec<u8> =
        (0..50_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(folder.join("file"), &content).unwrap();
    if let Some(server) = nginx(&world, &folder) {
        let fetch = |number: u32| {
            let fetched = folder.join(format!("fetched{number}"));
            let words = format!("-sS --max-time 60 http://{}:{PORT}/file -o", world.hosts.right.address);
            let curl = world.hosts.left.program("curl").words(&words).argument(&fetched);
            curl.run(DEADLINE).and_then(Finished::success).unwrap();
            assert!(std::fs::read(&fetched).unwrap() == content, "the file that arrived differs");
        };
        // Workers open their lanes when they first wait.
        eventually_bypassed_but(&world.hosts.right, HANDSHAKE, || {
            fetch(0);
            Some(())
        });
        let before = world.hosts.right.counters().unwrap();
        (1..4).for_each(fetch);
        let since = world.hosts.right.counters().unwrap().since(&before);
        assert_host_bypassed_but("server", &since, 3 * HANDSHAKE);
        server.signal(15).unwrap();
        server.finish(DEADLINE).unwrap();
    }
    let _ = std::fs::remove_dir_all(&folder);
}
