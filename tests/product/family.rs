//! A process that forks is the keeper of its children: nothing is opened before one of them wants it, and workers that
//! gave up their privileges are accelerated.

use std::path::Path;
use std::time::Duration;

use rig::skip::{skipped, test_name};
use rig::{Finished, Host, Options, Program, Protocol, Running, eventually};
use tests::talk::CLIENT;
use tests::{DEADLINE, World, eventually_bypassed_but, wait_for_no_program, world};

const PORT: u16 = 9960;
/// What the log says of a move.
const MOVED: &str = "moved from the kernel to the wire";
/// So many questions: until it is told to stop.
const MANY: u32 = u32::MAX;

/// As most programs run: what gains moves.
fn late(world: &World, program: Program) -> Program {
    let program = program.preload(Some(&world.library)).may_fall_back().any_cpu();
    program.environment("SIDESTEP_CARRIER", "late").environment("VMA_TRACELEVEL", "debug")
}

fn serve(world: &World, port: u16, how: &str) -> Running {
    let right = &world.hosts.right;
    let program = right.program("/usr/bin/python3").words("-u -c").argument(WORKERS);
    let server = late(world, program).words(&format!("{} {port} {how}", right.address)).start().unwrap();
    eventually("the master speaks", || server.stdout().contains('\n'));
    server
}

/// By the kernel.
fn client(world: &World, port: u16, most: u32) -> Program {
    let words = format!("{} {port} {most}", world.hosts.right.address);
    let program = world.hosts.left.program("/usr/bin/python3").words("-u -c").argument(CLIENT);
    program.words(&words).any_cpu().piped()
}

fn stop(mut client: Running) {
    client.tell("enough\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
}

fn has_program(host: &Host) -> bool {
    host.has_xdp_program().unwrap()
}

fn moved(server: &Running) -> usize {
    server.stderr().matches(MOVED).count()
}

/// Echoes in workers, one of which accepts each connection. Arguments: address, port, and words for what happens
/// before. `nobody`: they give up their user; `dropping`: their parent does; `daemon`: their parent is a child, whose
/// parent has ended; `deep`: they are children of a child of who waits; `closing`: they close what they do not know;
/// `single`: there is one.
const WORKERS: &str = "\
import os,signal,socket,sys
how = sys.argv[3].split(',')
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
if 'daemon' in how and os.fork():
    os._exit(0)
if 'deep' in how and os.fork():
    os.wait()
    sys.exit()
def become_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for _ in range(1 if 'single' in how else 2):
    if os.fork() == 0:
        break
else:
    if 'dropping' in how:
        become_nobody()
    print('master', os.getpid(), flush=True)
    signal.pause()
if 'nobody' in how:
    become_nobody()
if 'closing' in how:
    os.closerange(listener.fileno() + 1, 1 << 16)
while True:
    peer, _ = listener.accept()
    peer.settimeout(60)
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()
";

#[test]
fn nothing_is_opened_before_a_child_wants_it() {
    let Some(world) = world(&Options::default()) else { return };
    let server = serve(&world, PORT, "plain");
    for _ in 0..4 {
        client(&world, PORT, 20).run(DEADLINE).and_then(Finished::success).unwrap();
    }
    assert!(!has_program(&world.hosts.right), "opened for a few questions: {}", server.stderr());
    let talks = client(&world, PORT, MANY).start().unwrap();
    eventually("the worker's connection moves", || moved(&server) == 1);
    assert!(has_program(&world.hosts.right));
    stop(talks);
    server.kill().unwrap();
}

#[test]
fn workers_are_accelerated_whatever_they_gave_up_and_however_deep_they_are() {
    let Some(world) = world(&Options::default()) else { return };
    for how in ["plain", "nobody", "nobody,deep", "daemon,nobody", "daemon,deep", "nobody,closing"] {
        let server = serve(&world, PORT + 1, how);
        let both = [
            client(&world, PORT + 1, MANY).start().unwrap(),
            client(&world, PORT + 1, MANY).start().unwrap(),
        ];
        eventually(&format!("both workers have lanes: {how}"), || moved(&server) == 2);
        let before = world.hosts.right.counters().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let since = world.hosts.right.counters().unwrap().since(&before);
        assert!(since.wire_packets() > 0 && since.transport_packets() * 10 <= since.wire_packets(), "{how}");
        both.into_iter().for_each(stop);
        assert!(!server.stderr().contains("left to the kernel"), "{how}: {}", server.stderr());
        end(&world, server);
    }
}

fn end(world: &World, server: Running) {
    server.kill().unwrap();
    wait_for_no_program(&world.hosts.right);
}

/// The number that the master said.
fn master(server: &Running) -> i32 {
    let said = server.stdout();
    let number = said.lines().find_map(|line| line.strip_prefix("master "));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

fn signal(process: i32, number: i32) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(process, number) }, 0);
}

#[test]
fn a_worker_whose_parent_has_ended_opens_the_interface_by_itself_or_is_the_kernels() {
    let Some(world) = world(&Options::default()) else { return };
    for (how, moves) in [("single", true), ("single,nobody", false)] {
        let server = serve(&world, PORT + 2, how);
        signal(master(&server), libc::SIGKILL);
        let talks = client(&world, PORT + 2, MANY).start().unwrap();
        match moves {
            true => eventually("it moves", || moved(&server) == 1),
            false => eventually("it is told why not", || server.stderr().contains("no privilege")),
        }
        assert_eq!(moved(&server), usize::from(moves));
        stop(talks);
        end(&world, server);
    }
}

#[test]
fn workers_whose_parent_is_stopped_or_has_no_privilege_either_go_on_in_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    for how in ["nobody", "nobody,dropping"] {
        let server = serve(&world, PORT + 3, how);
        if how == "nobody" {
            signal(master(&server), libc::SIGSTOP);
        }
        let talks = client(&world, PORT + 3, MANY).start().unwrap();
        eventually("it is told why not", || server.stderr().contains("no privilege"));
        assert_eq!(moved(&server), 0);
        stop(talks);
        end(&world, server);
    }
}

/// nginx as Debian has it: its workers are another user.
#[test]
fn nginx_with_its_default_user_is_accelerated_without_a_keeper() {
    const NGINX: &str = "/usr/sbin/nginx";
    if !Path::new(NGINX).exists() {
        return skipped(&test_name(), "nginx is not installed: apt-get install nginx-light");
    }
    let Some(world) = world(&Options::default()) else { return };
    let folder = std::env::temp_dir().join(format!("rig-{}-family", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.display();
    let port = PORT + 4;
    let configuration = format!(
        "user www-data; worker_processes 2; daemon off; pid {path}/pid; error_log {path}/log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {path}/tmp;\n\
         server {{ listen {port}; location / {{ return 200 small; }} }} }}\n"
    );
    std::fs::write(folder.join("conf"), configuration).unwrap();
    let program = world.hosts.right.program(NGINX).words("-c").argument(folder.join("conf"));
    let mut server = late(&world, program).start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    assert!(!has_program(&world.hosts.right), "opened before a worker wanted it");
    let asking = world.hosts.left.program("/usr/bin/python3").words("-u -c").argument(ASK);
    let words = format!("{} {port}", world.hosts.right.address);
    let mut asking = asking.words(&words).any_cpu().piped().start().unwrap();
    // (nginx has its log where ours would be.)
    eventually_bypassed_but(&world.hosts.right, 0, || {
        std::thread::sleep(Duration::from_millis(200));
        Some(())
    });
    asking.tell("enough\n").unwrap();
    asking.finish(DEADLINE).and_then(Finished::success).unwrap();
    server.signal(libc::SIGTERM).unwrap();
    server.finish(DEADLINE).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}

/// Requests on one connection until a line comes.
const ASK: &str = "\
import select,socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(10):
        peer.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        said = b''
        while not said.endswith(b'small'):
            piece = peer.recv(65536)
            assert piece, said
            said += piece
";
