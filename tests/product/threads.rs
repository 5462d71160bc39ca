//! Processes in which several threads use connections: by which carrier they get more done is tried, where nobody has
//! demanded one.

use rig::{Finished, Options, Program, Protocol, Running, eventually};
use tests::{DEADLINE, World, world};

const PORT: u16 = 9890;
const TO_WIRE: &str = "moved from the kernel to the wire";
const TO_KERNEL: &str = "moved from the wire to the kernel";
/// What the log says when a trial is over.
const TRIED: &str = "bytes/s by the kernel";

/// Answers on each connection by a thread of its own.
const SERVER: &str = "\
import socket,sys,threading
def answer(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    peer, _ = listener.accept()
    threading.Thread(target=answer, args=(peer,), daemon=True).start()
";

/// Two connections that exchange small messages, by one thread in turn or by a thread each, until a line comes from
/// standard input. Arguments: address, port, threads.
const CLIENT: &str = "\
import socket,sys,threading
peers = [socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30) for _ in range(2)]
over = False
counts = [0, 0]
def exchange(which):
    peer, counts[which] = peers[which], counts[which] + 1
    question = b'%8d' % counts[which] * 8
    peer.sendall(question)
    answer = b''
    while len(answer) < len(question):
        piece = peer.recv(64)
        assert piece, 'the end'
        answer += piece
    assert answer == question, (answer, question)
def talk(mine):
    while not over:
        for which in mine:
            exchange(which)
share = [[0], [1]] if sys.argv[3] == '2' else [[0, 1]]
threads = [threading.Thread(target=talk, args=(mine,)) for mine in share]
for thread in threads: thread.start()
print('begun', flush=True)
sys.stdin.readline()
over = True
for thread in threads: thread.join()
print(min(counts), 'exchanges')
";

struct Talk {
    server: Running,
    client: Running,
}

/// The client's end runs under the library, which says what it does.
fn talk(world: &World, port: u16, threads: u32, environment: &[(&str, &str)]) -> Talk {
    talk_on(world, port, threads, environment, Program::any_cpu)
}

/// `place`: where both run, else each on a processor of its own.
fn talk_on(
    world: &World,
    port: u16,
    threads: u32,
    environment: &[(&str, &str)],
    place: impl Fn(Program) -> Program,
) -> Talk {
    let World { hosts, library, .. } = world;
    let server = hosts
        .right
        .program("/usr/bin/python3")
        .any_cpu()
        .words("-u -c")
        .argument(SERVER)
        .words(&format!("{} {port}", hosts.right.address));
    let mut server = server.start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    let client = place(hosts.left.program("/usr/bin/python3").words("-u -c").argument(CLIENT))
        .words(&format!("{} {port} {threads}", hosts.right.address))
        .preload(Some(library))
        .may_fall_back()
        .environment("SIDESTEP_CARRIER", "auto")
        .environment("VMA_TRACELEVEL", "debug");
    let client = environment.iter().fold(client, |client, (name, value)| client.environment(name, value));
    let mut client = client.piped().start().unwrap();
    client.wait_for_output("begun", DEADLINE).unwrap();
    Talk { server, client }
}

impl Talk {
    /// Ends the client, whose answers were all right; its log.
    fn end(mut self) -> String {
        self.client.tell("enough\n").unwrap();
        let ended = self.client.finish(DEADLINE).and_then(Finished::success).unwrap();
        assert!(ended.stdout.contains("exchanges"), "{}", ended.stdout);
        self.server.kill().unwrap();
        ended.stderr
    }
}

#[test]
fn threads_with_connections_are_tried_by_both_carriers() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = talk(&world, PORT, 2, &[]);
    // One of a moment in which the machine did something else compares nothing, and another one follows.
    let is_over = |line: &str| line.contains(TRIED) && !line.contains("tried 0 times");
    eventually("a trial was over", || talk.client.stderr().lines().any(is_over));
    let log = talk.end();
    assert!(log.contains(TO_WIRE) && log.contains(TO_KERNEL), "{log}");
}

#[test]
fn where_each_connection_is_judged_by_itself_nothing_is_tried() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = talk(&world, PORT + 1, 2, &[("SIDESTEP_CARRIER", "late")]);
    eventually("all moved", || talk.client.stderr().matches(TO_WIRE).count() == 2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let log = talk.end();
    assert!(!log.contains(TRIED) && !log.contains(TO_KERNEL), "{log}");
}

/// It has a processor to itself, but for our own thread that opens the interface.
#[test]
fn one_thread_that_waits_for_nobody_is_not_tried() {
    let Some(world) = world(&Options::default()) else { return };
    let talk = talk_on(&world, PORT + 5, 1, &[], |client| client);
    eventually("both moved", || talk.client.stderr().matches(TO_WIRE).count() == 2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let log = talk.end();
    assert!(!log.contains(TRIED) && !log.contains(TO_KERNEL), "{log}");
}

/// Two others want its processor all the time.
#[test]
fn one_thread_that_waits_for_its_processor_is_tried_by_what_its_calls_cost() {
    let Some(world) = world(&Options::default()) else { return };
    let busy = || world.hosts.left.program("sh").words("-c").argument("while :; do :; done").start().unwrap();
    let others = [busy(), busy()];
    let talk = talk_on(&world, PORT + 4, 1, &[("SIDESTEP_CARRIER", "auto")], |client| client);
    let is_over = |line: &str| line.contains(TRIED) && line.contains("by the processor's time");
    eventually("a trial was over", || talk.client.stderr().lines().any(is_over));
    for other in others {
        other.kill().unwrap();
    }
    talk.end();
}

#[test]
fn what_is_demanded_is_not_tried() {
    let Some(world) = world(&Options::default()) else { return };
    let rules = std::env::temp_dir().join(format!("rig-{}-threads.conf", std::process::id()));
    std::fs::write(&rules, "use vma tcp_client *:*\n").unwrap();
    let ways = [("VMA_CONFIG_FILE", rules.to_str().unwrap()), ("SIDESTEP_CARRIER", "wire")];
    for (port, way) in (PORT + 2..).zip(ways) {
        let before = world.hosts.left.counters().unwrap();
        let talk = talk(&world, port, 2, &[way]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let since = world.hosts.left.counters().unwrap().since(&before);
        let log = talk.end();
        assert!(since.wire_packets() > 0 && since.transport_packets() == 0, "{way:?}: past the kernel");
        assert!(!log.contains(TRIED) && !log.contains(TO_KERNEL), "{way:?}: {log}");
    }
    std::fs::remove_file(&rules).unwrap();
}
