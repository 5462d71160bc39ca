//! VMA's extra API as programs use it that were compiled against our header: the examples, with what they say counted,
//! and the API's edges. A plain library has no table, and every one of these programs says so and fails.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rig::{Finished, Host, Options, Program, Running, run_tool};
use tests::{DEADLINE, World, compile, folder, world};

const PORT: u16 = 9600;

/// Sends so many datagrams, each of so many bytes of its number's low byte, then an empty one until nobody is there.
const SEND: &str = "\
import socket,sys,time
to = (sys.argv[1], int(sys.argv[2]))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[3])):
    sock.sendto(bytes([i & 255]) * int(sys.argv[4]), to)
    time.sleep(0.001)
sock.sendto(b'', to)
";

/// Sends so many bytes on a connection.
const STREAM: &str = "\
import socket,sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
sock.sendall(bytes(i & 255 for i in range(int(sys.argv[3]))))
";

/// Asks an echo server by three connections and by datagrams, then has it quit.
const ASK: &str = "\
import os,socket,sys
to = (sys.argv[1], int(sys.argv[2]))
socks = [socket.create_connection(to, timeout=30) for i in range(3)]
for size in (1, 100, 5000, 100000):
    data = os.urandom(size)
    for sock in socks:
        sock.sendall(data)
    for sock in socks:
        left = data
        while left:
            got = sock.recv(65536)
            assert got and left.startswith(got), 'not what was sent'
            left = left[len(got):]
for sock in socks:
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b'', 'the server did not close'
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(30)
for i in range(100):
    data = os.urandom(1 + i * 14)
    sock.sendto(data, to)
    assert sock.recv(2000) == data
sock.sendto(b'quit', to)
";

/// Echoes datagrams, and streams of one connection after the other.
const ECHO: &str = "\
import socket,sys,threading
name = (sys.argv[1], int(sys.argv[2]))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(name)
listener.listen(8)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(name)
def echo(sock):
    while True:
        data = sock.recv(65536)
        if not data:
            break
        sock.sendall(data)
    sock.close()
def streams():
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=echo, args=(sock,), daemon=True).start()
threading.Thread(target=streams, daemon=True).start()
print('ready', flush=True)
while True:
    data, peer = datagrams.recvfrom(65536)
    datagrams.sendto(data, peer)
";

/// Compiles the examples as their users do.
fn examples() -> &'static Path {
    static MADE: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let source = folder().join("../examples/extra");
        let place = std::env::temp_dir().join(format!("rig-{}-examples", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let mut make = Command::new("make");
        make.arg("-s").arg("-C").arg(&place).arg("-f").arg(source.join("Makefile"));
        make.arg(format!("VPATH={}", source.display()));
        make.arg(format!("CPPFLAGS=-I{}", folder().join("../include").display()));
        run_tool(make.arg("CFLAGS=-O2 -Wall -Wextra -Werror")).unwrap();
        place
    })
}

fn python(host: &Host, script: &str, world: &World) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(world.hosts.right.address.to_string()).argument(PORT.to_string())
}

/// An accelerated example on the right host, ready.
fn start(world: &World, name: &str, words: &str) -> Running {
    let program = world.hosts.right.program(examples().join(name)).words(words);
    let program = program.argument(world.hosts.right.address.to_string()).argument(PORT.to_string());
    let mut example = program
        .preload(Some(&world.library))
        .environment("VMA_STATS_FILE", statistics(name, words))
        .environment("VMA_SOCKETXTREME", if name == "xtreme_echo" { "1" } else { "0" })
        .start()
        .unwrap();
    example.wait_for_output("ready", DEADLINE).unwrap();
    example
}

fn statistics(name: &str, words: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("rig-{}-{name}-{words}.stats", std::process::id()))
}

/// What the example said at its end, and what the statistics say of its sockets.
fn end(example: Running, name: &str, words: &str) -> (String, String) {
    let said = example.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    let file = statistics(name, words);
    let told = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    (said, told)
}

fn run(program: Program) {
    program.run(DEADLINE).and_then(Finished::success).unwrap();
}

/// Sum of the bytes 0, 1, ... 255, 0, ...
fn sum(count: u64) -> u64 {
    count / 256 * (255 * 256 / 2) + (0..count % 256).sum::<u64>()
}

#[test]
fn datagrams_are_received_without_a_copy() {
    let Some(world) = world(&Options::default()) else { return };
    let example = start(&world, "zero_copy", "udp");
    run(python(&world.hosts.left, SEND, &world).argument("500").argument("1400"));
    let (said, told) = end(example, "zero_copy", "udp");
    let sum = 1400 * sum(500);
    assert!(said.contains(&format!("packets 500 bytes 700000 sum {sum} copies 0")), "{said}");
    assert!(told.contains("Rx zero copy packets: 500\n"), "{told}");
}

#[test]
fn a_stream_is_received_without_a_copy() {
    let Some(world) = world(&Options::default()) else { return };
    let example = start(&world, "zero_copy", "tcp");
    let bytes = 1_000_000;
    run(python(&world.hosts.left, STREAM, &world).argument(bytes.to_string()));
    let (said, told) = end(example, "zero_copy", "tcp");
    assert!(said.contains(&format!(" bytes {bytes} sum {} copies ", sum(bytes))), "{said}");
    let packets = said.split("packets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(packets.parse::<u64>().unwrap() >= 10, "{said}");
    assert!(told.contains(&format!("Rx zero copy packets: {packets}\n")), "{told}");
}

#[test]
fn a_callback_drops_every_second_datagram() {
    let Some(world) = world(&Options::default()) else { return };
    let example = start(&world, "filter", "");
    run(python(&world.hosts.left, SEND, &world).argument("400").argument("100"));
    let (said, told) = end(example, "filter", "");
    assert!(said.contains("seen 400 dropped 200 received 200"), "{said}");
    assert!(told.contains("Rx filter dropped: 200\n"), "{told}");
}

#[test]
fn a_server_lives_by_completions_alone() {
    let Some(world) = world(&Options::default()) else { return };
    let example = start(&world, "xtreme_echo", "");
    run(python(&world.hosts.left, ASK, &world));
    let (said, told) = end(example, "xtreme_echo", "");
    assert!(said.contains("accepted 3 "), "{said}");
    assert!(said.contains(" closed 3"), "{said}");
    let bytes = 3 * (1 + 100 + 5000 + 100_000) + (0..100).map(|i| 1 + i * 14).sum::<u64>();
    assert!(said.contains(&format!(" bytes {bytes} ")), "{said}");
    // A hundred datagrams, and the one that ends it.
    assert!(told.contains("Rx completions: 101\n"), "{told}");
}

/// A program of `apps` on the left host, which checks itself against a plain peer that echoes.
fn checks_itself(source: &str, environment: (&str, &str)) {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let mut echo = python(&hosts.right, ECHO, &world).start().unwrap();
    echo.wait_for_output("ready", DEADLINE).unwrap();
    let program = compile(source).unwrap();
    let checks = hosts.left.program(program.path()).argument(hosts.left.address.to_string());
    let checks = checks.argument(hosts.right.address.to_string()).argument(PORT.to_string());
    // One thread of it makes sockets of the kernel's on purpose.
    let checks = checks.preload(Some(library)).may_fall_back();
    let checks = checks.environment(environment.0, environment.1);
    let said = checks.run(Duration::from_secs(300)).and_then(Finished::success).unwrap();
    assert!(said.stdout.contains("passed"), "{}", said.stdout);
    echo.kill().unwrap();
}

#[test]
fn names_are_checked_hoarders_are_bounded_and_verdicts_hold() {
    checks_itself("apps/extra_edges.c", ("VMA_SOCKETXTREME", "0"));
}

#[test]
fn acceleration_that_is_asked_for_early_is_had() {
    checks_itself("apps/extra_early.c", ("SIDESTEP_CARRIER", "auto"));
}

#[test]
fn callbacks_that_block_hold_up_nobody_else_and_lose_nothing() {
    checks_itself("apps/extra_blocking.c", ("VMA_SOCKETXTREME", "0"));
}

#[test]
fn completions_tell_connects_and_ends_and_buffers_are_counted() {
    checks_itself("apps/extra_completions.c", ("VMA_SOCKETXTREME", "1"));
}

/// Our sockperf between the hosts: what both say. A sockperf that does not find the API ends with code 6.
fn sockperf(world: &World, server: &str, client: &str, feed: Option<&str>) -> String {
    let Some(binary) = sockperf_binary() else { return String::new() };
    let World { hosts, library } = &world;
    let (here, there) = (hosts.left.address.to_string(), hosts.right.address.to_string());
    let place = std::env::temp_dir().join(format!("rig-{}-{PORT}.feed", std::process::id()));
    let words = |words: &str| {
        let words = match feed {
            Some(feed) => {
                std::fs::write(&place, feed.replace("ADDRESS", &there)).unwrap();
                format!("{words} -f {}", place.display())
            }
            None => format!("{words} -i {there} -p {PORT}"),
        };
        words.replace("OWN", &here)
    };
    let xtreme = if server.contains("-F x") { "1" } else { "0" };
    let program = |host: &Host, said: &str| {
        let program = host.program(&binary).words(&words(said)).environment("VMA_SOCKETXTREME", xtreme);
        program.preload((!said.contains("--load-vma")).then_some(library.as_path()))
    };
    let is_tcp = server.contains("--tcp") || feed.is_some_and(|feed| feed.starts_with('T'));
    let protocol = if is_tcp { rig::Protocol::Tcp } else { rig::Protocol::Udp };
    let mut serving = program(&hosts.right, server).start().unwrap();
    serving.wait_for_port(protocol, PORT, DEADLINE).unwrap();
    let said = program(&hosts.left, client).run(DEADLINE).and_then(Finished::success).unwrap();
    serving.signal(libc::SIGINT).unwrap();
    let served = serving.finish(DEADLINE).and_then(Finished::success).unwrap();
    let _ = std::fs::remove_file(place);
    said.stdout + &said.stderr + &served.stdout + &served.stderr
}

/// Where it was built; recorded as skipped if it was not.
fn sockperf_binary() -> Option<std::path::PathBuf> {
    let binary = tests::library().and_then(|library| Some(library.parent()?.join("sockperf")));
    let binary = binary.filter(|binary| binary.exists());
    if binary.is_none() {
        rig::skip::skipped(
            &rig::skip::test_name(),
            "no target/release/sockperf: cargo build --release -p sockperf",
        );
    }
    binary
}

#[test]
fn sockperf_reads_without_a_copy() {
    let Some(world) = world(&Options::default()) else { return };
    for transport in ["", "--tcp"] {
        let said = sockperf(
            &world,
            &format!("sr --vmazcopyread {transport}"),
            &format!("pp -n 200 -m 1000 --vmazcopyread --data-integrity {transport}"),
            None,
        );
        assert!(said.is_empty() || said.contains("Valid Duration"), "{said}");
    }
}

#[test]
fn sockperf_answers_inside_the_callback() {
    let Some(world) = world(&Options::default()) else { return };
    for transport in ["", "--tcp"] {
        let server = format!("sr --vmarxfiltercb {transport}");
        let said = sockperf(&world, &server, &format!("pp -n 200 {transport}"), None);
        assert!(said.is_empty() || said.contains("Valid Duration"), "{said}");
    }
}

#[test]
fn sockperf_lives_by_completions() {
    let Some(world) = world(&Options::default()) else { return };
    for feed in ["ADDRESS:9600\n", "T:ADDRESS:9600\n"] {
        let server = "sr -F x";
        let client = "pp -n 200 -m 200 -F socketxtreme --client_ip OWN --no-peer-query";
        let said = sockperf(&world, server, client, Some(feed));
        assert!(said.is_empty() || said.contains("using socketxtreme()"), "{said}");
    }
}

#[test]
fn sockperf_keeps_the_way_warm_and_loads_the_library_itself() {
    let Some(world) = world(&Options::default()) else { return };
    let said =
        sockperf(&world, "sr", "ul -t 1 --mps 100 --reply-every 1 --dummy-send 5000 --set-sock-accl", None);
    assert!(said.is_empty() || !said.contains("no accelerator is loaded"), "{said}");
    let load = format!("pp -n 100 --load-vma={}", world.library.display());
    let said = sockperf(&world, "sr", &load, None);
    assert!(said.is_empty() || said.contains("Valid Duration"), "{said}");
}
