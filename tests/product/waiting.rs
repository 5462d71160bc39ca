//! What waiting costs: next to nothing when nothing happens, a processor where that was asked for, and even then
//! signals and cancellation come through.

use std::path::Path;
use std::time::Duration;

use rig::skip::{skipped, test_name};
use rig::{Finished, Options, Program, Protocol, Running};
use tests::{DEADLINE, World, compile, wait_for_acceleration, world};

const PORT: u16 = 9500;
const PYTHON: &str = "/usr/bin/python3";
/// For how long nothing happens.
const QUIET: Duration = Duration::from_secs(5);
/// The background thread looks 25 times a second when nothing moves.
const WAKES: u64 = 40;

/// What the threads of a process did so far.
#[derive(Clone, Copy, Default)]
struct Used {
    /// How long they had a processor.
    time: Duration,
    /// How often they went to sleep.
    sleeps: u64,
}

/// By each thread's own account: the process' is in ticks of 10 ms.
fn used(pid: u32) -> Used {
    let mut used = Used::default();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        // A thread may end meanwhile.
        let (Some(times), Some(status)) = (read("schedstat"), read("status")) else { continue };
        used.time += Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap());
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        used.sleeps += sleeps.unwrap().trim().parse::<u64>().unwrap();
    }
    used
}

fn children(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    listed.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// None of these processes, all accelerated, uses 1 % of a processor beyond what its twin on the kernel's sockets uses
/// at the same time, or wakes up [`WAKES`] times a second more. Without a twin: beyond nothing.
fn assert_idle(processes: &[(u32, Option<u32>)]) {
    let all = || processes.iter().map(|(pid, twin)| (used(*pid), twin.map(used).unwrap_or_default()));
    let before: Vec<_> = all().collect();
    std::thread::sleep(QUIET);
    for (((pid, _), (after, twin)), (before, twin_before)) in processes.iter().zip(all()).zip(before) {
        let (time, by_twin) =
            (after.time.saturating_sub(before.time), twin.time.saturating_sub(twin_before.time));
        let (wakes, of_twin) =
            (after.sleeps.saturating_sub(before.sleeps), twin.sleeps.saturating_sub(twin_before.sleeps));
        let said =
            format!("{pid}: {time:?} and {wakes} wakes in {QUIET:?}, its twin {by_twin:?} and {of_twin}");
        println!("{said}");
        assert!(time.saturating_sub(by_twin) * 100 <= QUIET, "{said}");
        assert!(wakes.saturating_sub(of_twin) <= WAKES * QUIET.as_secs(), "{said}");
    }
}

fn serve(world: &World, program: Program) -> Running {
    let mut server = program.preload(Some(&world.library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    server
}

/// A connection that stays, after an answer to `request`.
const STAY: &str = "\
import socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
peer.sendall(sys.argv[3].encode().decode('unicode_escape').encode())
assert peer.recv(65536)
print('answered', flush=True)
peer.settimeout(None)
peer.recv(65536)
";

fn stay(world: &World, request: &str) -> Running {
    let client = world.hosts.left.program(PYTHON).words("-u -c").argument(STAY);
    let client = client.argument(world.hosts.right.address.to_string()).argument(PORT.to_string());
    let mut client = client.argument(request).preload(Some(&world.library)).start().unwrap();
    client.wait_for_output("answered", DEADLINE).unwrap();
    client
}

/// Whoever talks on either host; on an idle kernel all would be idle, too.
fn assert_accelerated(world: &World) {
    for host in [&world.hosts.left, &world.hosts.right] {
        assert!(host.has_xdp_program().unwrap(), "{} is not accelerated", host.address);
    }
}

#[test]
fn redis_with_a_client_that_says_nothing_is_idle_and_so_is_the_client() {
    let Some(world) = world(&Options::default()) else { return };
    if !Path::new("/usr/bin/redis-server").exists() {
        return skipped(&test_name(), "redis-server is not installed: apt-get install redis-server");
    }
    let redis = |port: u16| {
        let words = format!("--bind {} --port {port} --protected-mode no --save", world.hosts.right.address);
        let program = world.hosts.right.program("/usr/bin/redis-server").words(&words).argument("");
        program.directory(&std::env::temp_dir())
    };
    // It looks at its clients ten times a second by itself, which costs more on some machines than on others.
    let mut twin = redis(PORT + 1).start().unwrap();
    twin.wait_for_port(Protocol::Tcp, PORT + 1, DEADLINE).unwrap();
    let server = serve(&world, redis(PORT));
    let client = stay(&world, "PING\\r\\n");
    assert_accelerated(&world);
    assert_idle(&[(server.pid(), Some(twin.pid())), (client.pid(), None)]);
    for program in [client, server, twin] {
        program.kill().unwrap();
    }
}

#[test]
fn nginx_with_two_workers_and_an_open_connection_is_idle() {
    let Some(world) = world(&Options::default()) else { return };
    if !Path::new("/usr/sbin/nginx").exists() {
        return skipped(&test_name(), "nginx is not installed: apt-get install nginx-light");
    }
    let folder = std::env::temp_dir().join(format!("rig-{}-idle", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.display();
    let text = format!(
        "user root; worker_processes 2; daemon off; pid {path}/pid; error_log {path}/log;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; client_body_temp_path {path}/tmp;\n\
         server {{ listen {PORT}; location / {{ return 200 'here'; }} }} }}\n"
    );
    std::fs::write(folder.join("conf"), text).unwrap();
    let program = world.hosts.right.program("/usr/sbin/nginx").words("-c").argument(folder.join("conf"));
    let server = serve(&world, program);
    let client = stay(&world, "GET / HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n");
    assert_accelerated(&world);
    let workers = children(server.pid());
    assert_eq!(workers.len(), 2);
    let all: Vec<_> = workers.iter().chain([&server.pid()]).map(|pid| (*pid, None)).collect();
    assert_idle(&all);
    client.kill().unwrap();
    server.signal(15).unwrap();
    server.finish(DEADLINE).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}

/// Waits for what never comes; SIGINT is an exception that ends it.
const ENDLESS: &str = "\
import select,socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
waits = select.epoll()
waits.register(peer, select.EPOLLIN)
print('waiting', flush=True)
try:
    {'recv': lambda: peer.recv(1), 'poll': lambda: select.select([peer], [], []), 'epoll': waits.poll}[sys.argv[3]]()
except KeyboardInterrupt:
    print('interrupted', flush=True)
";

#[test]
fn endless_polling_burns_a_processor_as_asked_and_ends_by_a_signal() {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address.to_string();
    let listen =
        format!("import socket,time; l = socket.create_server(('{address}', {PORT})); time.sleep(600)");
    let mut server = world.hosts.right.program(PYTHON).words("-u -c").argument(listen).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    for way in ["recv", "poll", "epoll"] {
        let program = world.hosts.left.program(PYTHON).words("-u -c").argument(ENDLESS).argument(&address);
        let program = program.argument(PORT.to_string()).argument(way).preload(Some(&world.library));
        let program = program.environment("VMA_RX_POLL", "-1").environment("VMA_SELECT_POLL", "-1");
        let mut waiting = program.start().unwrap();
        waiting.wait_for_output("waiting", DEADLINE).unwrap();
        // It has polled for longer than any adaptive wait would: a tenth of a second of the processor.
        let before = used(waiting.pid()).time;
        rig::eventually(&format!("{way} polls"), || {
            used(waiting.pid()).time - before >= Duration::from_millis(100)
        });
        waiting.signal(libc::SIGINT).unwrap();
        let said = waiting.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
        assert_eq!(said, "waiting\ninterrupted\n", "{way}");
    }
    server.kill().unwrap();
}

#[test]
fn a_thread_that_polls_for_ever_can_be_cancelled() {
    let Some(world) = world(&Options::default()) else { return };
    let program = compile("api/cancellation.c").unwrap();
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    let role = |host: &rig::Host, role: &str| {
        let words = format!("{role} {} {PORT} {}", right.address, left.address);
        host.program(program.path()).any_cpu().words(&words)
    };
    let server = role(right, "server").preload(Some(&world.library)).environment("VMA_RX_POLL", "-1");
    let mut server = server.environment("VMA_SELECT_POLL", "-1").start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    wait_for_acceleration(right);
    role(left, "client").run(DEADLINE).and_then(Finished::success).unwrap();
    server.finish(DEADLINE).and_then(Finished::success).unwrap();
}
