//! Parameters by what they do: as `vma_stats` counts it, as /proc shows it, and as strace sees it.

use rig::{Finished, Options, Package, Program, Running, eventually};
use stats::{Lane, Snapshot, Why};
use std::path::PathBuf;
use std::time::Instant;
use tests::{DEADLINE, World, world};

const PORT: u16 = 9820;
const STRACE: Package = Package { program: "strace", package: "strace" };

/// Three sockets that nobody reads.
const SLEEPS: &str = "\
import socket,sys,time
socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for i in range(3)]
for i, sock in enumerate(socks):
    sock.bind((sys.argv[1], int(sys.argv[2]) + i))
print('ready', flush=True)
time.sleep(600)
";

/// So many datagrams.
const SENDS: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[3])):
    sock.sendto(b'x', (sys.argv[1], int(sys.argv[2])))
";

/// Waits a fifth of a second for what does not come, by recv or by poll.
const WAITS: &str = "\
import select,socket,struct,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 200000))
poll = select.poll()
poll.register(sock, select.POLLIN)
try:
    waits = {'recv': lambda: sock.recv(1), 'poll': lambda: poll.poll(200)}
    print('came' if waits[sys.argv[3]]() else 'nothing')
except BlockingIOError:
    print('nothing')
";

/// Reads so many of the datagrams that wait as each line of its input says.
const READS: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
for line in sys.stdin:
    for i in range(int(line)):
        sock.recv(1)
    print('done', flush=True)
";

/// A folder of this test, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sidestep-effects-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn read(&self, of: &Running) -> Snapshot {
        let file = self.0.join(stats::segment::file_name(of.pid()));
        Snapshot::parse(&std::fs::read(file).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn python(host: &rig::Host, script: &str, address: std::net::Ipv4Addr) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(address.to_string()).argument(PORT.to_string())
}

/// [`SLEEPS`] under these variables, ready.
fn asleep(world: &World, folder: &Folder, variables: &[(&str, &str)]) -> Running {
    let host = &world.hosts.right;
    let mut program = python(host, SLEEPS, host.address).preload(Some(&world.library)).any_cpu();
    program = program.environment("VMA_STATS_SHMEM_DIR", &folder.0);
    for (name, value) in variables {
        program = program.environment(name, value);
    }
    if variables.iter().any(|(name, _)| *name == "VMA_OFFLOADED_SOCKETS") {
        program = program.may_fall_back();
    }
    let mut running = program.start().unwrap();
    running.wait_for_output("ready", DEADLINE).unwrap();
    running
}

fn lane(snapshot: Snapshot) -> Lane {
    snapshot.lanes.into_iter().next().expect("a lane").1
}

/// The most packets that a turn took of many that came while the program stood.
fn most_of_a_turn(world: &World, variables: &[(&str, &str)]) -> u64 {
    let folder = Folder::new("turn");
    let running = asleep(world, &folder, variables);
    running.signal(libc::SIGSTOP).unwrap();
    let stat = format!("/proc/{}/stat", running.pid());
    eventually("the program stands", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    let sends = python(&world.hosts.left, SENDS, world.hosts.right.address).argument("60");
    sends.run(DEADLINE).and_then(Finished::success).unwrap();
    running.signal(libc::SIGCONT).unwrap();
    eventually("all was taken in", || lane(folder.read(&running)).rx_frames.value() >= 60);
    let most = lane(folder.read(&running)).drained_max.value();
    running.kill().unwrap();
    most
}

#[test]
fn a_turn_takes_as_many_packets_as_parameters_say() {
    let Some(world) = world(&Options::default()) else { return };
    assert!(most_of_a_turn(&world, &[]) > 4);
    assert!(most_of_a_turn(&world, &[("VMA_CQ_POLL_BATCH_MAX", "4")]) <= 4);
    assert!(most_of_a_turn(&world, &[("VMA_PROGRESS_ENGINE_WCE_MAX", "4")]) <= 4);
}

#[test]
fn the_background_thread_looks_as_often_as_a_parameter_says() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("interval");
    let looks = |running: &Running| folder.read(running).process.background_turns.value();
    let often = asleep(&world, &folder, &[("VMA_PROGRESS_ENGINE_INTERVAL", "1")]);
    let begun = Instant::now();
    eventually("it looked many times", || looks(&often) >= 200);
    let took = begun.elapsed();
    often.kill().unwrap();
    tests::wait_for_no_program(&world.hosts.right);
    let seldom = asleep(&world, &folder, &[("VMA_PROGRESS_ENGINE_INTERVAL", "1000")]);
    let before = looks(&seldom);
    std::thread::sleep(took);
    let looked = looks(&seldom) - before;
    assert!(looked < 100, "{looked} looks in {took:?}");
    seldom.kill().unwrap();
}

#[test]
fn sockets_are_left_alone_or_counted_together_as_parameters_say() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("sockets");
    let running = asleep(&world, &folder, &[("VMA_OFFLOADED_SOCKETS", "0")]);
    let told = folder.read(&running);
    let disabled = told.left.iter().find(|(why, _)| *why == Why::Disabled).unwrap().1;
    assert_eq!((told.process.sockets_accelerated.value(), disabled), (0, 3));
    running.kill().unwrap();

    let running = asleep(&world, &folder, &[("VMA_STATS_FD_NUM", "2")]);
    let told = folder.read(&running);
    assert_eq!((told.process.sockets_accelerated.value(), told.sockets.len()), (3, 2));
    running.kill().unwrap();
}

#[test]
fn packet_memory_is_of_the_pages_that_a_parameter_names() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("pages");
    let huge = |kind: &str| {
        let running = asleep(&world, &folder, &[("VMA_MEM_ALLOC_TYPE", kind)]);
        assert!(lane(folder.read(&running)).queues.value() > 0);
        let maps = std::fs::read_to_string(format!("/proc/{}/smaps", running.pid())).unwrap();
        running.kill().unwrap();
        tests::wait_for_no_program(&world.hosts.right);
        let sizes = maps.lines().filter_map(|line| line.strip_prefix("ShmemPmdMapped:"));
        sizes.map(|size| size.trim().trim_end_matches(" kB").parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!((huge("0"), huge("1")), (0, 0));
    if huge("2") == 0 {
        rig::skip::skipped(&rig::skip::test_name(), "the kernel has no huge pages at hand");
    }
}

#[test]
fn the_background_thread_is_given_to_the_cpuset_that_a_parameter_names() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("cpuset");
    let tasks = folder.0.join("tasks");
    std::fs::write(&tasks, "").unwrap();
    let running = asleep(&world, &folder, &[("VMA_INTERNAL_THREAD_CPUSET", folder.0.to_str().unwrap())]);
    let written = || std::fs::read_to_string(&tasks).unwrap();
    eventually("it goes there", || !written().is_empty());
    let name = format!("/proc/{}/task/{}/comm", running.pid(), written());
    assert_eq!(std::fs::read_to_string(&name).unwrap(), "sidestep\n", "{name}");
    running.kill().unwrap();
}

#[test]
fn who_polls_yields_the_processor_as_often_as_parameters_say() {
    let Some(world) = world(&Options::default()) else { return };
    if let Err(missing) = rig::install(&[STRACE]) {
        return rig::skip::skipped(&rig::skip::test_name(), &missing.to_string());
    }
    let folder = Folder::new("yield");
    let host = &world.hosts.right;
    let yields = |way: &str, name: &str, every: &str| {
        let calls = folder.0.join("calls");
        let program = host.program("strace").words("-f -e trace=sched_yield -o").argument(&calls);
        let program =
            program.words("/usr/bin/python3 -u -c").argument(WAITS).argument(host.address.to_string());
        let program = program.argument(PORT.to_string()).argument(way).preload(Some(&world.library));
        let program = program.environment("VMA_RX_POLL", "-1").environment("VMA_SELECT_POLL", "-1");
        let said = program.environment(name, every).run(DEADLINE).and_then(Finished::success).unwrap();
        assert_eq!(said.stdout, "nothing\n");
        std::fs::read_to_string(&calls).unwrap().matches("sched_yield(").count()
    };
    for (way, name) in [("recv", "VMA_RX_POLL_YIELD"), ("poll", "VMA_SELECT_POLL_YIELD")] {
        let (never, each) = (yields(way, name, "0"), yields(way, name, "1"));
        assert!(never < 10 && each > 20 + never, "{way}: {never} and {each}");
    }
}

#[test]
fn who_does_not_poll_waits_for_interrupts_and_the_interface_counts_all_the_same() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("interrupts");
    let host = &world.hosts.right;
    let received = |host: &rig::Host| {
        let file = format!("/sys/class/net/{}/statistics/rx_packets", host.interface);
        let said = host.program("cat").argument(file).run(DEADLINE).and_then(Finished::success).unwrap();
        said.stdout.trim().parse::<u64>().unwrap()
    };
    let before = received(host);
    let slept = |poll: &str| {
        let program = python(host, READS, host.address).preload(Some(&world.library)).piped().any_cpu();
        let program = program.environment("VMA_STATS_SHMEM_DIR", &folder.0).environment("VMA_RX_POLL", poll);
        let mut running = program.environment("VMA_SELECT_POLL", poll).start().unwrap();
        running.wait_for_output("ready", DEADLINE).unwrap();
        running.tell("1\n".repeat(20).as_str()).unwrap();
        for read in 1..=20 {
            let sends = python(&world.hosts.left, SENDS, host.address).argument("1");
            sends.run(DEADLINE).and_then(Finished::success).unwrap();
            eventually("it is read", || running.stdout().matches("done\n").count() == read);
        }
        let slept = lane(folder.read(&running)).interrupts_received.value();
        running.kill().unwrap();
        tests::wait_for_no_program(host);
        slept
    };
    let (by_interrupts, polling) = (slept("0"), slept("-1"));
    assert!(by_interrupts >= 15 && polling < by_interrupts, "{by_interrupts} and {polling}");
    assert!(received(host) - before >= 40, "/sys/class/net counts what the kernel's stack never saw");
}
