//! A connection with both directions in use at once moves between the kernel and the wire at random moments: nothing is
//! lost or shifted, it goes on, and the process holds no more at the end than after a quarter of it. What the kernel is
//! told of a connection is enough for it to go on at once.
//!
//! `SIDESTEP_TRANSFER_MIB` sets the length of each direction: a few by default, 10 GiB in `cargo x test --long moves`.

use std::time::Duration;

use rig::{Host, Options, Program, Protocol, Running, TwoHosts, eventually};
use stats::Snapshot;
use tests::talk::SERVER;
use tests::{DEADLINE, World, compile, world};

const PORT: u16 = 9890;

/// Calls after which a connection moves. Pieces are of random size, and both threads' calls count.
const EVERY: &str = "9";

/// KiB that a process may hold beyond what it held after a quarter: pools of the allocator.
const SLACK_KIB: u64 = 32 << 10;

#[test]
fn both_directions_are_intact_while_the_connection_moves() {
    let Some(world) = world(&Options::default()) else { return };
    moving(&world, 16);
}

#[test]
fn both_directions_are_intact_while_the_connection_moves_and_packets_are_lost() {
    let Some(world) = world(&Options { loss_permille: Some(10), ..Options::default() }) else { return };
    moving(&world, 4);
}

/// A question for each line; once one says `silent`, questions only. Each time says the round trip as the socket has
/// it.
const ASKS: &str = "\
import socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for line in sys.stdin:
    peer.sendall(b'?')
    if line != 'silent\\n':
        assert peer.recv(1) == b'?'
    info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    print('round trip', int.from_bytes(info[68:72], sys.byteorder), flush=True)
";

/// Takes one connection, reads it in small pieces to its end, and says how much that was.
const READS: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('listening', flush=True)
peer, total = listener.accept()[0], 0
while piece := peer.recv(1460):
    total += len(piece)
peer.sendall(str(total).encode())
";

/// Sends more than any buffer holds, faster than it is read, and compares.
const SENDS: &str = "\
import socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
peer.sendall(b'x' * 30_000_000)
peer.shutdown(socket.SHUT_WR)
assert peer.recv(20) == b'30000000'
";

#[test]
fn a_sender_hears_of_room_when_its_receiver_moves_with_a_full_buffer() {
    let Some(world) = world(&Options::default()) else { return };
    let TwoHosts { left, right, .. } = &world.hosts;
    let words = format!("{} {}", right.address, PORT + 2);
    let server = right.program("/usr/bin/python3").words("-u -c").argument(READS).words(&words);
    let server = server.preload(Some(&world.library)).may_fall_back();
    let server = server.environment("VMA_TRACELEVEL", "debug");
    let mut server = server.environment("SIDESTEP_MOVE_EVERY", "30").start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 2, DEADLINE).unwrap();
    let before = left.counters().unwrap();
    let client = left.program("/usr/bin/python3").words("-c").argument(SENDS).words(&words);
    client.start().unwrap().finish(DEADLINE).unwrap().success().unwrap();
    let server = server.finish(DEADLINE).unwrap().success().unwrap();
    let moves = server.stderr.matches("moved from the wire to the kernel").count();
    assert!(moves > 10, "{moves} moves: {}", server.stderr);
    // It would ask each time when its timer says so.
    let probes = left.counters().unwrap().since(&before).get("TcpExt.TCPWinProbe");
    assert!(probes <= 2, "{probes} probes of a closed window");
}

#[test]
fn the_kernel_knows_the_round_trip_of_a_connection_that_it_gets() {
    let Some(world) = world(&Options::default()) else { return };
    let TwoHosts { left, right, .. } = &world.hosts;
    let words = format!("{} {}", right.address, PORT + 1);
    let server = right.program("/usr/bin/python3").words("-c").argument(SERVER).words(&words).words("one");
    let mut server = server.start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 1, DEADLINE).unwrap();
    let client = left.program("/usr/bin/python3").words("-u -c").argument(ASKS).words(&words).piped();
    let client = client.preload(Some(&world.library)).may_fall_back();
    let client = client.environment("SIDESTEP_MOVE_EVERY", EVERY).environment("VMA_STATS_SHMEM_DIR", "/tmp");
    let mut client = client.start().unwrap();
    let mut lines = 0;
    let mut until_moves = |what: &str, wanted: [u64; 2]| {
        for _ in 0..100 {
            client.tell(&format!("{what}\n")).unwrap();
            lines += 1;
            eventually("the program answers", || client.stdout().lines().count() == lines);
            if moves(&client) == wanted {
                return;
            }
        }
        panic!("{what}: {:?} moves are not {wanted:?}", moves(&client));
    };
    until_moves("ask", [1, 1]);
    // From here on nothing that the peer says can tell the kernel.
    right.namespace.ip(&format!("route add blackhole {}/32", left.address)).unwrap();
    until_moves("silent", [1, 2]);
    let last = client.stdout().lines().last().unwrap().to_owned();
    assert_ne!(last, "round trip 0", "a loss would wait for the timeout of those who know nothing");
    client.kill().unwrap();
    server.kill().unwrap();
}

fn moving(world: &World, default_mib: u64) {
    let asked = std::env::var("SIDESTEP_TRANSFER_MIB").ok().and_then(|text| text.parse().ok());
    let mib: u64 = asked.unwrap_or(default_mib);
    // As far below what any machine gives as a minute and a second for each MiB are.
    let deadline = DEADLINE + Duration::from_secs(60 + mib);
    let program = compile("apps/moving.c").unwrap();
    let TwoHosts { left, right, .. } = &world.hosts;
    let end = |host: &Host, how: &str| -> Program {
        bound_buffers(host);
        let program = host.program(program.path()).words(&format!("{how} {} {PORT} {mib}", right.address));
        let program = program.preload(Some(&world.library)).may_fall_back().any_cpu().piped();
        program.environment("SIDESTEP_MOVE_EVERY", EVERY).environment("VMA_STATS_SHMEM_DIR", "/tmp")
    };
    let mut server = end(right, "listen").start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let mut client = end(left, "connect").start().unwrap();
    let mut ends = [&mut client, &mut server];
    for running in &mut ends {
        running.wait_for_output("end: ", deadline).unwrap();
    }
    let counted = ends.map(|running| moves(running));
    for (running, [to_wire, to_kernel]) in [client, server].into_iter().zip(counted) {
        let mut running = running;
        running.tell("seen\n").unwrap();
        let finished = running.finish(DEADLINE).and_then(rig::Finished::success).unwrap();
        println!(
            "{mib} MiB each way, {to_wire} moves to the wire, {to_kernel} back; {}",
            finished.stdout.trim()
        );
        assert!(to_wire >= 3 * mib && to_kernel >= 3 * mib, "it hardly moved: {to_wire} and {to_kernel}");
        let [quarter, last] = ["quarter: ", "end: "].map(|when| held(&finished.stdout, when));
        assert!(last.0 <= quarter.0, "descriptors are left over: {}", finished.stdout);
        assert!(last.1 <= quarter.1 + SLACK_KIB, "memory grows: {}", finished.stdout);
    }
}

/// What is queued is copied with each move: a quarter of a second for 32 MiB, where a move takes microseconds else.
fn bound_buffers(host: &Host) {
    for (which, sizes) in [("rmem", "4096 131072 1048576"), ("wmem", "4096 16384 1048576")] {
        let text = format!("echo {sizes} > /proc/sys/net/ipv4/tcp_{which}");
        host.program("/bin/sh").words("-c").argument(text).run(DEADLINE).unwrap();
    }
}

/// To the wire, and to the kernel.
fn moves(running: &Running) -> [u64; 2] {
    let path = format!("/tmp/{}", stats::segment::file_name(running.pid()));
    let snapshot = Snapshot::parse(&std::fs::read(path).unwrap()).unwrap();
    [snapshot.process.moves_to_wire.value(), snapshot.process.moves_to_kernel.value()]
}

/// Descriptors and KiB, as the program says them.
fn held(said: &str, when: &str) -> (u64, u64) {
    let line = said.lines().find_map(|line| line.strip_prefix(when)).unwrap();
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
