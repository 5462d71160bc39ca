//! Moderation of interrupts, as VMA_CQ_MODERATION_* and VMA_CQ_AIM_* ask for it: by what sysfs says of the interface,
//! by how long packets wait, and by what is given back. A veth does not coalesce by itself: it is the kernel's deferral
//! there.

use rig::{Finished, Host, Options, Program, Running, eventually};
use std::path::Path;
use std::time::Duration;
use tests::{DEADLINE, World, world};

const PORT: u16 = 9840;

/// Answers each datagram.
const ECHOES: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
while True:
    data, peer = sock.recvfrom(2000)
    sock.sendto(data, peer)
";

/// So many round trips, one after the other: nanoseconds of all of them.
const ASKS: &str = "\
import socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(20)
sock.connect((sys.argv[1], int(sys.argv[2])))
begun = time.monotonic_ns()
for i in range(int(sys.argv[3])):
    sock.send(b'x')
    sock.recv(100)
print(time.monotonic_ns() - begun)
";

/// Datagrams of so many bytes, a thousand a second at the most, until it is ended.
const SENDS: &str = "\
import socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    sock.sendto(bytes(int(sys.argv[3])), (sys.argv[1], int(sys.argv[2])))
    time.sleep(0.001)
";

/// What the interface had before; the tests expect it back.
const BEFORE: (u64, u64) = (7000, 3);

/// gro_flush_timeout and napi_defer_hard_irqs of the host's interface.
fn settings(host: &Host) -> (u64, u64) {
    let read = |name: &str| {
        let file = format!("/sys/class/net/{}/{name}", host.interface);
        let said =
            host.program("cat").argument(file).run(DEADLINE).and_then(Finished::success).unwrap().stdout;
        said.trim().parse().unwrap()
    };
    (read("gro_flush_timeout"), read("napi_defer_hard_irqs"))
}

fn set_before(host: &Host) {
    let folder = format!("/sys/class/net/{}", host.interface);
    let (flush, defer) = BEFORE;
    let script =
        format!("echo {flush} > {folder}/gro_flush_timeout; echo {defer} > {folder}/napi_defer_hard_irqs");
    host.program("sh").words("-ec").argument(script).run(DEADLINE).and_then(Finished::success).unwrap();
    assert_eq!(settings(host), BEFORE);
}

fn python(host: &Host, script: &str, address: std::net::Ipv4Addr) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(address.to_string()).argument(PORT.to_string())
}

/// [`ECHOES`] under these variables, ready.
fn echoes(world: &World, variables: &[(&str, &str)]) -> Running {
    let host = &world.hosts.right;
    let mut program = python(host, ECHOES, host.address).preload(Some(&world.library)).any_cpu();
    for (name, value) in variables {
        program = program.environment(name, value);
    }
    let mut running = program.start().unwrap();
    running.wait_for_output("ready", DEADLINE).unwrap();
    running
}

/// The view of all details.
fn vma_stats(folder: &Path, pid: u32) -> String {
    let mut command = std::process::Command::new(tests::built("vma-stats", "vma_stats"));
    let output = command.arg("-k").arg(folder).args(["-p", &pid.to_string(), "-v", "3", "-c", "1"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn asks(world: &World, times: u32) -> Duration {
    let asks = python(&world.hosts.left, ASKS, world.hosts.right.address).argument(times.to_string());
    let said = asks.run(DEADLINE).and_then(Finished::success).unwrap().stdout;
    Duration::from_nanos(said.trim().parse().unwrap())
}

#[test]
fn packets_wait_as_long_as_a_parameter_says_and_the_killed_give_back_what_was_set() {
    let Some(world) = world(&Options::default()) else { return };
    let host = &world.hosts.right;
    set_before(host);
    // A veth has NAPI, whose timer it is, for a program in the driver's own hook.
    let program = echoes(
        &world,
        &[
            ("SIDESTEP_XDP_MODE", "native"),
            ("VMA_CQ_MODERATION_PERIOD_USEC", "20000"),
            ("VMA_CQ_AIM_INTERVAL_MSEC", "0"),
            ("VMA_RX_POLL", "0"),
        ],
    );
    eventually("it is set", || settings(host) == (20_000_000, 1));
    let took = asks(&world, 20);
    assert!(took > Duration::from_millis(200), "{took:?}");
    program.kill().unwrap();
    eventually("it is given back", || settings(host) == BEFORE);
}

#[test]
fn a_program_says_the_pace_of_a_ring_and_it_follows_no_traffic_from_then_on() {
    let Some(world) = world(&Options::default()) else { return };
    let host = &world.hosts.right;
    set_before(host);
    const SAYS: &str = "\
import ctypes,socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
find = ctypes.CDLL(None).vma_get_api
find.restype = ctypes.c_void_p
table, ring = find(), ctypes.c_int()
def call(at, *given):
    slot = ctypes.c_void_p.from_address(table + at).value
    return ctypes.CFUNCTYPE(ctypes.c_int, *map(type, given))(slot)(*given)
assert ctypes.c_uint64.from_address(table + 152).value >> 20 & 1
assert call(56, ctypes.c_int(sock.fileno()), ctypes.cast(ctypes.byref(ring), ctypes.c_void_p), ctypes.c_int(1)) == 1
for pace in sys.stdin:
    change = (ctypes.c_uint32 * 4)(1, ring.value, 9, int(pace))
    print('said', call(144, ctypes.cast(change, ctypes.c_void_p)), pace, flush=True)
";
    for variables in [&[][..], &[("VMA_CQ_AIM_INTERVAL_MSEC", "1")]] {
        let program = python(host, SAYS, host.address).preload(Some(&world.library)).piped();
        let program = program.environment("SIDESTEP_CARRIER", "wire");
        let program =
            variables.iter().fold(program, |program, (name, value)| program.environment(name, value));
        let mut program = program.start().unwrap();
        for pace in [70, 30] {
            program.tell(&format!("{pace}\n")).unwrap();
            program.wait_for_output(&format!("said 0 {pace}"), DEADLINE).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(settings(host), (pace * 1000, 1));
        }
        program.kill().unwrap();
        eventually("it is given back", || settings(host) == BEFORE);
    }
}

#[test]
fn one_program_moderates_an_interface_and_its_children_go_on_with_it() {
    let Some(world) = world(&Options::default()) else { return };
    let host = &world.hosts.right;
    set_before(host);
    const FORKS: &str = "\
import os,socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
if os.fork() == 0:
    sys.stdin.read()
print('ready', flush=True)
";
    let program = python(host, FORKS, host.address).preload(Some(&world.library)).piped();
    let mut program = program.environment("VMA_CQ_MODERATION_ENABLE", "0").start().unwrap();
    program.wait_for_output("ready", DEADLINE).unwrap();
    eventually("it is set", || settings(host) == (0, 0));
    // The parent is gone, the child reads on.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(settings(host), (0, 0));
    program.finish(DEADLINE).unwrap();
    eventually("it is given back", || settings(host) == BEFORE);
}

#[test]
fn a_driver_that_coalesces_does_it() {
    let Some(world) = world(&Options::default()) else { return };
    const ADDRESS: &str = "10.98.7.1";
    let host = &world.hosts.right;
    let shell = |script: &str| {
        host.program("sh")
            .words("-ec")
            .argument(script)
            .run(DEADLINE)
            .and_then(Finished::success)
            .unwrap()
            .stdout
    };
    // A tap counts packets, and knows no times.
    shell(&format!(
        "ip tuntap add mode tap name tap7; ip addr add {ADDRESS}/24 dev tap7; ip link set tap7 up"
    ));
    shell("ethtool -C tap7 rx-frames 5");
    let frames = || {
        let said = shell("ethtool -c tap7");
        let line = said.lines().find_map(|line| line.strip_prefix("rx-frames:")).unwrap_or_default().trim();
        line.to_owned()
    };
    assert_eq!(frames(), "5");
    let program = python(host, ECHOES, ADDRESS.parse().unwrap()).preload(Some(&world.library));
    let program =
        program.environment("SIDESTEP_INTERFACES", "tap7").environment("VMA_CQ_AIM_INTERVAL_MSEC", "0");
    let program = program.environment("VMA_CQ_MODERATION_PERIOD_USEC", "0");
    let mut program = program.environment("VMA_CQ_MODERATION_COUNT", "9").start().unwrap();
    program.wait_for_output("ready", DEADLINE).unwrap();
    eventually("it is set", || frames() == "9");
    program.kill().unwrap();
    eventually("it is given back", || frames() == "5");
}

#[test]
fn the_pace_follows_the_traffic() {
    let Some(world) = world(&Options::default()) else { return };
    let host = &world.hosts.right;
    let folder = std::env::temp_dir().join(format!("sidestep-moderation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = echoes(
        &world,
        &[
            ("VMA_CQ_MODERATION_ENABLE", "1"),
            ("VMA_CQ_MODERATION_PERIOD_USEC", "70"),
            ("VMA_CQ_AIM_INTERVAL_MSEC", "100"),
            ("VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC", "10"),
            ("VMA_CQ_AIM_MAX_PERIOD_USEC", "500"),
            ("VMA_CQ_AIM_MAX_COUNT", "77"),
            ("VMA_STATS_SHMEM_DIR", folder.to_str().unwrap()),
        ],
    );
    let shows = |period: &str| {
        vma_stats(&folder, program.pid()).contains(&format!("Moderation usec period: {period}\n"))
    };
    eventually("nothing comes: as set", || settings(host) == (70_000, 1) && shows("70"));
    let sends = |bytes: &str| python(&world.hosts.left, SENDS, host.address).argument(bytes).start().unwrap();
    let small = sends("100");
    eventually("small packets are taken at once", || settings(host) == (0, 0) && shows("0"));
    small.kill().unwrap();
    let large = sends("1400");
    eventually("large ones wait, as long as they may", || settings(host) == (500_000, 1) && shows("500"));
    large.kill().unwrap();
    program.kill().unwrap();
    eventually("it is given back", || settings(host) == (0, 0));
    std::fs::remove_dir_all(&folder).unwrap();
}
