//! Programs on one interface of which one is killed at random moments, again and again: its peers are told, the others
//! go on, and the keeper has afterwards what it had before.

use rig::{Chance, Finished, Host, Options, Program, Running, eventually};
use std::time::Duration;
use tests::keeper::{Keeper, NOBODY, interface, wait_for_lanes};
use tests::talk::{CLIENT, SERVER};
use tests::{DEADLINE, World, assert_host_bypassed, compile, world};

/// How many rounds; `cargo x test --long` says more.
const ROUNDS: &str = "SIDESTEP_KEEPER_ROUNDS";
const FEW: u32 = 16;
const PORT: u16 = 9940;

/// By the kernel: whoever connects says where it listens, and is connected to; both ask and are answered until the end.
/// A line on standard input has it wait for all ends, and say how many connections there were, and how they ended.
/// Arguments: address and port to listen at, and the others' address.
const PEER: &str = "\
import select,socket,sys,time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=1000)
ready = select.epoll()
ready.register(listener, select.EPOLLIN)
ready.register(0, select.EPOLLIN)
peers, all, ends = {}, 0, {'end': 0, 'reset': 0, 'refused': 0}
last = None
def end(number, how):
    ready.unregister(number)
    ends[how] += 1
    peers.pop(number)[0].close()
def ask(peer):
    peer.setblocking(False)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peers[peer.fileno()] = [peer, b'']
    ready.register(peer, select.EPOLLIN)
print('listens', flush=True)
while last is None or peers and time.monotonic() < last + 60:
    for number, _ in ready.poll(1):
        if number == 0:
            sys.stdin.readline()
            ready.unregister(0)
            last = time.monotonic()
            continue
        if number == listener.fileno():
            peer = listener.accept()[0]
            all += 1
            ask(peer)
            continue
        peer, said = peers[number]
        try:
            got = peer.recv(65536)
            if not got:
                end(number, 'end')
                continue
            if said is not None:
                peers[number][1] = said = said + got
                if not said.endswith(b'\\n'):
                    continue
                peers[number][1] = None
                got = b'x' * 700
                back = socket.socket()
                back.settimeout(2)
                try:
                    back.connect((sys.argv[3], int(said)))
                    all += 1
                    ask(back)
                    peers[back.fileno()][1] = None
                    back.send(got)
                except OSError:
                    ends['refused'] += 1
            peer.send(got)
        except OSError:
            if number in peers:
                end(number, 'reset')
print(all, 'connections,', ends['end'], 'ends,', ends['reset'], 'resets,', len(peers), 'wait,', ends['refused'], 'refused')
";

fn accelerated(world: &World, program: Program) -> Program {
    program.user(NOBODY).any_cpu().preload(Some(&world.library))
}

fn python(host: &Host, text: &str, words: &str) -> Program {
    host.program("/usr/bin/python3").words("-u -c").argument(text).words(words).any_cpu()
}

/// A server that nobody kills, and its client, which goes on until it is told to stop. One that is the kernel's, on the
/// clients' host, shows the pauses that are the machine's.
fn survivor(world: &World, port: u16, is_accelerated: bool) -> [Running; 2] {
    let World { hosts, .. } = world;
    let host = if is_accelerated { &hosts.right } else { &hosts.left };
    let words = format!("{} {port}", host.address);
    let server = python(host, SERVER, &format!("{words} one"));
    let server = if is_accelerated { accelerated(world, server) } else { server };
    let mut server = server.start().unwrap();
    server.wait_for_port(rig::Protocol::Tcp, port, DEADLINE).unwrap();
    // With time for the others in between.
    let client = CLIENT.replace("[], 0)", "[], 0.002)");
    assert_ne!(client, CLIENT);
    [server, python(&hosts.left, &client, &format!("{words} {}", u32::MAX)).piped().start().unwrap()]
}

/// What a keeper may lose: packet buffers that are neither free nor posted nor a living program's, descriptors; and its
/// flows and threads.
fn has(host: &Host, keeper: &Keeper) -> (u64, u64, usize, usize) {
    let held = interface(host);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let of_programs: u64 = held["lanes"].as_array().unwrap().iter().map(|lane| number(&lane["frames"])).sum();
    let frames = number(&held["frames"]["free"]) + number(&held["frames"]["posted"]) + of_programs;
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", keeper.pid())).unwrap().count();
    (number(&held["flows"]), frames, count("fd"), count("task"))
}

/// KiB.
fn memory(keeper: &Keeper) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", keeper.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn a_program_that_is_killed_at_random_moments_leaves_nothing_and_disturbs_nobody() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, .. } = &world;
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(FEW);
    let victim = compile("apps/keeper_killed.c").unwrap();
    let keeper = Keeper::start(&hosts.right, "");
    let others = [0, 1, 2, 5].map(|at| survivor(&world, PORT + at, at != 5));
    let peer = format!("{} {} {}", hosts.left.address, PORT + 3, hosts.right.address);
    let mut peer = python(&hosts.left, PEER, &peer).piped().start().unwrap();
    peer.wait_for_output("listens", DEADLINE).unwrap();
    wait_for_lanes(&hosts.right, 3);
    let words = format!("{} {} {} {}", hosts.left.address, PORT + 3, hosts.right.address, PORT + 4);
    let victim = accelerated(&world, hosts.right.program(victim.path()).words(&words));
    let seed = if rounds == FEW { 1 } else { u64::from(std::process::id()) };
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let all_frames = interface(&hosts.right)["frames"]["all"].as_u64().unwrap();
    let before = hosts.right.counters().unwrap();
    let (mut had, mut grown) = (None, Vec::new());
    for round in 0..rounds {
        if round % (rounds / 8).max(1) == 0 {
            grown.push(memory(&keeper));
        }
        // What is allocated once is there after the first rounds.
        if round == FEW / 2 {
            wait_for_lanes(&hosts.right, 3);
            // A thread for each of the three, and none for who asked for the status.
            eventually("the three are its clients", || has(&hosts.right, &keeper).3 == 4);
            had = Some((has(&hosts.right, &keeper), memory(&keeper)));
        }
        let mut running = victim.start().unwrap();
        // Whatever time the start takes, one in four has come to talk.
        if round % 4 == 0 {
            running.wait_for_output("talks", DEADLINE).unwrap();
        }
        std::thread::sleep(Duration::from_micros(chance.below(120_000)));
        let done = running.kill().unwrap();
        assert!(!done.stderr.contains("PANIC") && !done.stderr.contains("panicked"), "{}", done.stderr);
    }
    let since = hosts.right.counters().unwrap().since(&before);
    peer.tell("enough\n").unwrap();
    let told = peer.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    let told = told.trim_start_matches("listens\n");
    let numbers: Vec<u32> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [all, ends, resets, waiting, _] = numbers[..] else { panic!("{told}") };
    assert!(waiting == 0 && all == ends + resets, "seed {seed}: {told}");
    assert!(resets >= rounds / 4, "seed {seed}: few were accelerated when they were killed: {told}");
    assert_host_bypassed("the killed ones' host", &since);
    wait_for_lanes(&hosts.right, 3);
    let (had, settled) = had.unwrap();
    let mut now = had;
    // What is a program's and what is free changes while it is counted, and whoever asked may not be gone.
    let is_as_before = || {
        now = has(&hosts.right, &keeper);
        (now.0, now.1, now.3) == (had.0, all_frames, had.3) && now.2 <= had.2 + 1
    };
    eventually(&format!("seed {seed}: nothing is left of {rounds} rounds"), is_as_before);
    let memory = memory(&keeper);
    println!(
        "{rounds} rounds: {told}the keeper's memory in KiB: {grown:?}, {settled}, {memory}; {had:?}, {now:?}"
    );
    // Heaps of threads settle in the first thousand; a page for each death would be far beyond.
    assert!(memory < settled + 2048, "seed {seed}: {settled} KiB, then {memory} KiB");
    for [server, mut client] in others {
        client.tell("enough\n").unwrap();
        println!("{}", client.finish(DEADLINE).and_then(Finished::success).unwrap().stdout.trim());
        server.kill().unwrap();
    }
    keeper.kill().unwrap();
}
