//! The keeper: programs without privilege share an interface by it, and have connections moved.

use std::time::Duration;

use rig::{Finished, Host, Options, Program, Protocol, Running, eventually, eventually_some};
use serde_json::Value;
use tests::keeper::{Keeper, NOBODY, interface, status, wait_for_lanes};
use tests::talk::{CLIENT, SERVER, WAITS};
use tests::{
    DEADLINE, World, assert_host_bypassed, compile, wait_for_acceleration, wait_for_no_program, world,
};

const PORT: u16 = 9880;
/// What the log says of a move.
const MOVED: &str = "moved from the kernel to the wire";
/// So many questions: until it is told to stop.
const MANY: &str = "1000000000";

fn late(world: &World, host: &Host, text: &str) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(text);
    let program = program.preload(Some(&world.library)).may_fall_back().any_cpu();
    program.environment("SIDESTEP_CARRIER", "late").environment("VMA_TRACELEVEL", "debug")
}

fn serve(world: &World, port: u16) -> Running {
    let right = &world.hosts.right;
    let program = late(world, right, SERVER).environment("SIDESTEP_MOVE_EVERY", "50");
    let mut server = program.words(&format!("{} {port} nobody", right.address)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    server
}

/// A program of the left host's, by the kernel.
fn by_kernel(world: &World, text: &str, words: &str) -> Program {
    world.hosts.left.program("/usr/bin/python3").words("-u -c").argument(text).words(words).any_cpu()
}

/// By the kernel.
fn client(world: &World, port: u16) -> Running {
    let words = format!("{} {port} {}", world.hosts.right.address, u32::MAX);
    by_kernel(world, CLIENT, &words).piped().start().unwrap()
}

#[test]
fn a_worker_that_gave_up_its_user_has_connections_moved_to_the_wire_and_back() {
    moves_to_the_wire_and_back(PORT);
}

#[test]
fn connections_on_a_port_that_takes_a_privilege_come_back_from_the_wire_without_it() {
    const LOW: u16 = 988;
    moves_to_the_wire_and_back(LOW);
}

fn moves_to_the_wire_and_back(port: u16) {
    let Some(world) = world(&Options::default()) else { return };
    let keeper = Keeper::start(&world.hosts.right, "");
    let server = serve(&world, port);
    let mut client = client(&world, port);
    // It can move there again only because it came back.
    eventually("the worker's connection moves", || server.stderr().matches(MOVED).count() >= 10);
    client.tell("enough\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(!server.stderr().contains("ERROR"), "{}", server.stderr());
    server.kill().unwrap();
    keeper.kill().unwrap();
}

#[test]
fn where_nobody_is_to_be_asked_the_connections_of_such_a_worker_stay_in_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let server = late(&world, &world.hosts.right, SERVER).environment("SIDESTEP_KEEPER", "none");
    let words = format!("{} {} nobody", world.hosts.right.address, PORT + 1);
    let mut server = server.environment("SIDESTEP_MOVE_EVERY", "50").words(&words).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 1, DEADLINE).unwrap();
    let mut client = client(&world, PORT + 1);
    eventually("the worker asked in vain", || server.stderr().contains("no privilege"));
    assert!(!server.stderr().contains(MOVED));
    client.tell("enough\n").unwrap();
    client.finish(DEADLINE).and_then(Finished::success).unwrap();
    server.kill().unwrap();
}

/// An ordinary user's program with the server's address and a port; strict, so that it fails where it is not
/// accelerated.
fn ordinary(world: &World, host: &Host, text: &str, port: u16, how: &str) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(text).user(NOBODY).any_cpu();
    let program = program.words(&format!("{} {port} {how}", world.hosts.right.address));
    program.preload(Some(&world.library)).environment("VMA_TRACELEVEL", "debug").piped()
}

fn echo(world: &World, port: u16) -> Running {
    let mut server = ordinary(world, &world.hosts.right, SERVER, port, "one").start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    server
}

fn stop(mut asking: Running) {
    asking.tell("enough\n").unwrap();
    asking.finish(DEADLINE).and_then(Finished::success).unwrap();
}

#[test]
fn programs_of_an_ordinary_user_share_an_interface_and_it_is_given_back_behind_them() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keepers = [Keeper::start(&hosts.left, ""), Keeper::start(&hosts.right, "")];
    for round in 0..2 {
        let before = [hosts.left.counters().unwrap(), hosts.right.counters().unwrap()];
        let servers = [2, 3].map(|at| echo(&world, PORT + at));
        let held = wait_for_lanes(&hosts.right, 2);
        let is_one =
            |lane: &Value| lane["user"] == "nobody" && lane["program"] == "python3" && lane["flows"] != 0;
        assert!(held["lanes"].as_array().unwrap().iter().all(is_one), "{held}");
        // For a moment the keeper answers everybody with what it told the one before.
        let page = eventually_some("the page has who is refused", || {
            Some(shown(&hosts.right)).filter(|page| page.contains("vma_stats"))
        });
        assert!(page.matches("  nobody  python3  ").count() == 2 && page.contains("frames: "), "{page}");
        let refused = page.lines().find(|line| line.contains("vma_stats")).unwrap_or_default();
        assert!(refused.contains("neither root nor named"), "{page}");
        let asking = [2, 3].map(|at| ordinary(&world, &hosts.left, CLIENT, PORT + at, MANY).start().unwrap());
        wait_for_acceleration(&hosts.left);
        std::thread::sleep(Duration::from_millis(300));
        asking.into_iter().for_each(stop);
        for (host, before) in [&hosts.left, &hosts.right].into_iter().zip(&before) {
            let since = host.counters().unwrap().since(before);
            assert_host_bypassed(&format!("{} in round {round}", host.address), &since);
        }
        servers.into_iter().for_each(|server| drop(server.kill().unwrap()));
        wait_for_no_program(&hosts.left);
        wait_for_no_program(&hosts.right);
    }
    keepers.into_iter().for_each(|keeper| drop(keeper.kill().unwrap()));
}

/// What `vma_stats` shows of the keeper to somebody who is not admitted.
fn shown(host: &Host) -> String {
    const STRANGER: u32 = 4700;
    let program = host.program(tests::built("vma-stats", "vma_stats")).words("--keeper").user(STRANGER);
    program.any_cpu().run(DEADLINE).and_then(Finished::success).unwrap().stdout
}

#[test]
fn more_programs_come_and_go_in_a_moment_than_there_are_lanes() {
    const PROGRAMS: u32 = 200;
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let words = format!("{} {} one", hosts.left.address, PORT + 23);
    let mut server = by_kernel(&world, SERVER, &words).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 23, DEADLINE).unwrap();
    let short = compile("apps/first_byte.c").unwrap();
    let words = format!("{} {}", hosts.left.address, PORT + 23);
    let short = hosts.right.program(short.path()).words(&words).user(NOBODY).any_cpu();
    let short = short.preload(Some(&world.library));
    let before = hosts.right.counters().unwrap();
    for _ in 0..PROGRAMS {
        short.run(DEADLINE).and_then(Finished::success).unwrap();
    }
    assert_host_bypassed("the short programs' host", &hosts.right.counters().unwrap().since(&before));
    server.kill().unwrap();
    keeper.kill().unwrap();
}

/// By the kernel, a client that only waits.
fn waits(world: &World, port: u16) -> Running {
    let words = format!("{} {port}", world.hosts.right.address);
    let mut waiting = by_kernel(world, WAITS, &words).start().unwrap();
    waiting.wait_for_output("connected", DEADLINE).unwrap();
    waiting
}

#[test]
fn peers_of_a_killed_program_are_told_and_the_others_go_on_undisturbed() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let (victim, survivor) = (echo(&world, PORT + 4), echo(&world, PORT + 5));
    let mut asking = client(&world, PORT + 5);
    let waiting = waits(&world, PORT + 4);
    victim.kill().unwrap();
    let told = waiting.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.contains("reset"), "{}", told.stdout);
    // Its port is free for another one.
    let successor = echo(&world, PORT + 4);
    waits(&world, PORT + 4).kill().unwrap();
    asking.tell("enough\n").unwrap();
    asking.finish(DEADLINE).and_then(Finished::success).unwrap();
    survivor.kill().unwrap();
    successor.kill().unwrap();
    keeper.kill().unwrap();
}

#[test]
fn peers_learn_of_a_killed_last_program_although_the_first_word_of_it_was_lost() {
    let Some(world) = world(&Options { loss_permille: Some(0), ..Options::default() }) else { return };
    let World { hosts, .. } = &world;
    let router = hosts.router.as_ref().unwrap();
    let keeper = Keeper::start(&hosts.right, "");
    let victim = echo(&world, PORT + 20);
    let waiting = waits(&world, PORT + 20);
    router.drop_permille(999).unwrap();
    victim.kill().unwrap();
    eventually("the keeper speaks", || keeper.stderr().contains("are told"));
    eventually("what it says is lost", || router.dropped().unwrap() > 0);
    router.drop_permille(0).unwrap();
    let told = waiting.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.contains("reset"), "{}", told.stdout);
    keeper.kill().unwrap();
}

#[test]
fn peers_learn_of_a_killed_program_although_a_firewall_keeps_the_kernel_from_hearing_them() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let victim = echo(&world, PORT + 22);
    let waiting = waits(&world, PORT + 22);
    // As to a firewall that lets in what it has seen begin: it has seen nothing of what programs did themselves.
    let nft = |words: &str| {
        hosts.right.program("nft").argument(words).run(DEADLINE).and_then(Finished::success).unwrap()
    };
    nft("add table ip wall");
    nft("add chain ip wall input { type filter hook input priority 0 ; }");
    nft(&format!("add rule ip wall input tcp dport {} drop", PORT + 22));
    victim.kill().unwrap();
    let told = waiting.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.contains("reset"), "{}", told.stdout);
    keeper.kill().unwrap();
}

/// Takes connections and says nothing. Arguments: address, port.
const CROWDED: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=4096)
peers = []
while True:
    peers.append(listener.accept()[0])
    if len(peers) % 100 == 0:
        print(len(peers), 'accepted.', flush=True)
";

/// So many connections. Says how many, and then of how many ends by a reset it heard, and how late the last of them was
/// behind the moment of which standard input tells (of the monotonic clock). Arguments: address, port, count.
const CROWD: &str = "\
import select,socket,sys,time
peers = select.epoll()
kept = {}
for _ in range(int(sys.argv[3])):
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    kept[peer.fileno()] = peer
    peers.register(peer, select.EPOLLIN)
print(len(kept), 'connected', flush=True)
resets = []
while kept and (ready := peers.poll(60)):
    now = time.monotonic()
    for number, _ in ready:
        peers.unregister(number)
        try:
            kept.pop(number).recv(1)
        except ConnectionResetError:
            resets.append(now)
killed = float(sys.stdin.readline())
after = sorted((at - killed) * 1000 for at in resets)
print(len(resets), 'resets, ms: median', round(after[len(after) // 2]), 'last', round(after[-1]))
";

/// Now, as Python has it.
fn monotonic() -> String {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes where it is told to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    format!("{}.{:09}\n", now.tv_sec, now.tv_nsec)
}

#[test]
fn all_peers_of_a_killed_server_are_told_by_a_reset_with_the_number_that_they_expect() {
    const COUNT: u64 = 1200;
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let mut victim = ordinary(&world, &hosts.right, CROWDED, PORT + 21, "").start().unwrap();
    victim.wait_for_port(Protocol::Tcp, PORT + 21, DEADLINE).unwrap();
    let words = format!("{} {} {COUNT}", hosts.right.address, PORT + 21);
    let mut crowd = by_kernel(&world, CROWD, &words).piped().start().unwrap();
    victim.wait_for_output(&format!("{COUNT} accepted."), DEADLINE).unwrap();
    crowd.wait_for_output("connected", DEADLINE).unwrap();
    let before = hosts.left.counters().unwrap();
    let killed = monotonic();
    victim.kill().unwrap();
    crowd.tell(&killed).unwrap();
    let told = crowd.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    println!("{told}");
    assert!(told.contains(&format!("{COUNT} resets")), "{told}");
    // A reset that is in the window and not exact is challenged a second time (RFC 5961, 3.2).
    let challenges = hosts.left.counters().unwrap().since(&before).get("TcpExt.TCPChallengeACK");
    assert!((1..=COUNT).contains(&challenges), "{challenges} answers to segments in the wrong place");
    keeper.kill().unwrap();
}

/// Takes datagrams until it is killed. Arguments: address and port.
const SINK: &str = "\
import socket,sys
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind((sys.argv[1], int(sys.argv[2])))
print('bound', flush=True)
while True:
    sink.recv(100)
";

/// Sends so many datagrams. Arguments: address, port.
const SOURCE: &str = "\
import socket,sys
source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for at in range(600):
    source.sendto(b'x' * 50, (sys.argv[1], int(sys.argv[2])))
";

#[test]
fn packets_that_a_killed_program_had_not_read_leave_their_memory_to_the_others() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let survivor = echo(&world, PORT + 9);
    let posted = || interface(&hosts.right)["frames"]["posted"].as_u64().unwrap();
    wait_for_lanes(&hosts.right, 1);
    let before = posted();
    for round in 0..4 {
        let mut victim = ordinary(&world, &hosts.right, SINK, PORT + 10, "").start().unwrap();
        victim.wait_for_output("bound", DEADLINE).unwrap();
        wait_for_lanes(&hosts.right, 2);
        victim.signal(libc::SIGSTOP).unwrap();
        let source = by_kernel(&world, SOURCE, &format!("{} {}", hosts.right.address, PORT + 10));
        source.run(DEADLINE).and_then(Finished::success).unwrap();
        victim.kill().unwrap();
        wait_for_lanes(&hosts.right, 1);
        eventually(&format!("what round {round} left is taken back"), || posted() <= before);
    }
    survivor.kill().unwrap();
    keeper.kill().unwrap();
}

#[test]
fn a_new_keeper_takes_over_from_one_that_was_killed_and_no_connection_ends() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let mut keeper = Keeper::start(&hosts.right, "");
    let (survivor, victim) = (echo(&world, PORT + 11), echo(&world, PORT + 12));
    let (asking, waiting) = (client(&world, PORT + 11), waits(&world, PORT + 12));
    let mut newcomers = Vec::new();
    for round in 0..3 {
        keeper.kill().unwrap();
        keeper = Keeper::start(&hosts.right, "");
        // It is strict, and comes before the others have found the new keeper.
        newcomers.push(echo(&world, PORT + 13 + round));
        wait_for_lanes(&hosts.right, 3 + usize::from(round));
        assert!(keeper.stderr().contains("taken over"), "{}", keeper.stderr());
    }
    victim.kill().unwrap();
    let told = waiting.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.contains("reset"), "{}", told.stdout);
    wait_for_lanes(&hosts.right, 4);
    stop(asking);
    newcomers.into_iter().for_each(|newcomer| drop(newcomer.kill().unwrap()));
    survivor.kill().unwrap();
    wait_for_no_program(&hosts.right);
    keeper.kill().unwrap();
}

#[test]
fn the_first_root_program_starts_a_keeper_for_all_that_follow_which_outlives_it() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let start = format!("start={}", tests::built("sidestepd", "sidestepd").display());
    let begin = |port: u16| {
        let program = hosts.right.program("/usr/bin/python3").words("-u -c").argument(SERVER).any_cpu();
        let program = program.words(&format!("{} {port} one", hosts.right.address));
        program.preload(Some(&world.library)).environment("SIDESTEP_KEEPER", &start).start().unwrap()
    };
    // Both at once, and both strict.
    let mut servers = [PORT + 16, PORT + 17].map(begin);
    for (server, port) in servers.iter_mut().zip([PORT + 16, PORT + 17]) {
        server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    }
    wait_for_lanes(&hosts.right, 2);
    let keeper = || status(&hosts.right).unwrap()["keeper"]["pid"].as_u64().unwrap();
    let first = keeper();
    let waiting = waits(&world, PORT + 16);
    servers.into_iter().for_each(|server| drop(server.kill().unwrap()));
    let told = waiting.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.contains("reset"), "also of the last one: {}", told.stdout);
    let mut third = begin(PORT + 18);
    third.wait_for_port(Protocol::Tcp, PORT + 18, DEADLINE).unwrap();
    wait_for_lanes(&hosts.right, 1);
    assert_eq!(keeper(), first, "it is still there");
    third.kill().unwrap();
    // SAFETY: no pointers; it is the keeper that was started here.
    assert_eq!(unsafe { libc::kill(first as i32, libc::SIGTERM) }, 0);
    eventually("it ends by a signal", || status(&hosts.right).is_none());
    wait_for_no_program(&hosts.right);
}

#[test]
fn a_program_that_was_refused_finds_the_keeper_that_comes_later() {
    const TRIES: &str = "\
import socket, sys, time
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
        break
    except OSError:
        print('refused', flush=True)
        time.sleep(0.1)
print('connected')
";
    let Some(world) = world(&Options::default()) else { return };
    let port = PORT + 30;
    let server = by_kernel_on_the_right(&world, port);
    let program = ordinary(&world, &world.hosts.left, TRIES, port, "").environment("SIDESTEP_STRICT", "1");
    let mut program = program.start().unwrap();
    program.wait_for_output("refused", DEADLINE).unwrap();
    let keeper = Keeper::start(&world.hosts.left, "");
    let told = program.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert!(told.stdout.ends_with("connected\n"), "{}", told.stdout);
    keeper.kill().unwrap();
    server.kill().unwrap();
}

#[test]
fn a_connection_that_stays_for_want_of_privilege_is_shown_with_its_name() {
    let Some(world) = world(&Options::default()) else { return };
    let port = PORT + 31;
    let server = by_kernel_on_the_right(&world, port);
    let words = format!("{} {port} {MANY}", world.hosts.right.address);
    let client = late(&world, &world.hosts.left, CLIENT).user(NOBODY).words(&words).piped().start().unwrap();
    let name = format!("-> {}:{port}", world.hosts.right.address);
    let why = || {
        let vma_stats = tests::built("vma-stats", "vma_stats");
        let program = world.hosts.left.program(vma_stats).words(&format!("--why -p {}", client.pid()));
        program.run(DEADLINE).unwrap().stdout
    };
    let shown = eventually_some("it stays", || {
        Some(why()).filter(|page| page.contains("since") && page.contains("no privilege"))
    });
    assert!(shown.contains(&name) && !shown.contains("*:* -> *:*"), "{shown}");
    client.kill().unwrap();
    server.kill().unwrap();
}

/// A server of the kernel's.
fn by_kernel_on_the_right(world: &World, port: u16) -> Running {
    let right = &world.hosts.right;
    let server = right.program("/usr/bin/python3").words("-u -c").argument(SERVER).any_cpu();
    let mut server = server.words(&format!("{} {port} one", right.address)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    server
}

#[test]
fn programs_outlive_their_keeper_and_a_new_one_serves_once_they_are_gone() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let first = Keeper::start(&hosts.right, "");
    let server = echo(&world, PORT + 6);
    let mut asking = client(&world, PORT + 6);
    first.kill().unwrap();
    tests::eventually_bypassed_but(&hosts.right, 0, || {
        std::thread::sleep(Duration::from_millis(300));
        Some(())
    });
    asking.tell("enough\n").unwrap();
    asking.finish(DEADLINE).and_then(Finished::success).unwrap();
    server.kill().unwrap();
    wait_for_no_program(&hosts.right);
    let second = Keeper::start(&hosts.right, "");
    let server = echo(&world, PORT + 7);
    stop(ordinary(&world, &hosts.left, CLIENT, PORT + 7, MANY).preload(None).start().unwrap());
    server.kill().unwrap();
    second.kill().unwrap();
}

#[test]
fn workers_of_an_ordinary_users_server_have_lanes_of_their_own() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let keeper = Keeper::start(&hosts.right, "");
    let text = SERVER.replace("while True:\n    peer, _", "os.fork()\nos.fork()\nwhile True:\n    peer, _");
    let mut server = ordinary(&world, &hosts.right, &text, PORT + 8, "one").start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT + 8, DEADLINE).unwrap();
    let ask = || {
        let asking = (0..4).map(|_| client(&world, PORT + 8)).collect::<Vec<_>>();
        std::thread::sleep(Duration::from_millis(100));
        asking.into_iter().for_each(stop);
        Some(())
    };
    // The handshakes are the kernel's, whose listener they share.
    tests::eventually_bypassed_but(&hosts.right, 4 * 6, ask);
    assert!(server.stderr().matches("by the keeper").count() >= 3, "{}", server.stderr());
    server.kill().unwrap();
    keeper.kill().unwrap();
}
