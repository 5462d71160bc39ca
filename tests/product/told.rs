//! What the library tells its user: on its log, by socket options, and in the statistics of a running program.

use rig::{Finished, Host, Options, Program};
use stats::Snapshot;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tests::{DEADLINE, World, world};

const PORT: u16 = 9780;

/// Sends a datagram to a port where nobody listens, and says that it did.
const SEND: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
sock.sendto(b'x', (sys.argv[1], int(sys.argv[3])))
sock.close()
print('sent')
";

/// Sends as many datagrams as a socket that would move does before an interface is opened for it.
const SEND_MANY: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
for _ in range(600):
    sock.sendto(b'x', (sys.argv[1], int(sys.argv[3])))
";

/// Sets an option (level, name, value) on a UDP socket after it was bound.
const SET: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
level, name, value = map(int, sys.argv[4:7])
try:
    sock.setsockopt(level, name, value.to_bytes(4, 'little'))
    print('set')
except OSError as error:
    print('errno', error.errno)
";

/// Whether a TCP socket, and one that it accepted over the wire, say TCP_NODELAY.
const NODELAY: &str = "\
import socket,sys
listener = socket.socket()
listener.bind((sys.argv[2], int(sys.argv[3])))
listener.listen()
print('ready', flush=True)
accepted, _ = listener.accept()
nodelay = lambda sock: int(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
print(nodelay(listener), nodelay(accepted))
";

/// Polls for a datagram that does not come.
const POLLS: &str = "\
import select,socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
print('ready', flush=True)
poll = select.poll()
poll.register(sock, select.POLLIN)
poll.poll()
";

/// Joins groups, every second by the newer call (struct group_req), and waits to be ended.
const JOINS: &str = "\
import socket,struct,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(('', int(sys.argv[3])))
near = socket.inet_aton(sys.argv[2])
index = int(sys.argv[4])
for last in range(1, 13):
    group = socket.inet_aton('239.9.9.%d' % last)
    if last % 2:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + near)
    else:
        address = struct.pack('=HH4s8x112x', socket.AF_INET, 0, group)
        sock.setsockopt(socket.IPPROTO_IP, 42, struct.pack('=I4x', index) + address)
print('ready', flush=True)
sys.stdin.read()
";

fn python(world: &World, host: &Host, script: &str) -> Program {
    let other = if host.address == world.hosts.left.address { &world.hosts.right } else { &world.hosts.left };
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    let program = program.argument(other.address.to_string()).argument(host.address.to_string());
    program.argument(PORT.to_string()).preload(Some(&world.library)).may_fall_back()
}

fn sends(world: &World, environment: &[(&str, &str)]) -> String {
    let mut program = python(world, &world.hosts.left, SEND).environment("VMA_TRACELEVEL", "info");
    for (name, value) in environment {
        program = program.environment(name, value);
    }
    let finished = program.run(DEADLINE).and_then(Finished::success).unwrap();
    assert!(finished.stdout.contains("sent"), "{}", finished.stdout);
    finished.stderr
}

fn warnings(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("WARNING")).collect()
}

#[test]
fn names_of_interfaces_that_cannot_be_are_told_once_and_the_program_works() {
    let Some(world) = world(&Options::default()) else { return };
    let log = sends(&world, &[("SIDESTEP_INTERFACES", "nosuch")]);
    assert_eq!(warnings(&log).len(), 1, "{log}");
    assert!(log.contains("SIDESTEP_INTERFACES: no interface is called nosuch; there are: lo"), "{log}");
    let log = sends(&world, &[("SIDESTEP_INTERFACES", "lo")]);
    assert!(log.contains("SIDESTEP_INTERFACES: lo cannot be accelerated"), "{log}");
    let log = sends(&world, &[("SIDESTEP_INTERFACES", "*")]);
    assert_eq!(warnings(&log), Vec::<&str>::new());
}

#[test]
fn a_host_whose_only_interface_is_left_alone_says_so_in_one_line() {
    let Some(world) = world(&Options::default()) else { return };
    let script = "ip link add only0 type bridge && ip addr add 10.98.7.1/24 dev only0 && ip link set only0 up && \
                  LD_PRELOAD=$0 VMA_TRACELEVEL=info exec python3 -c \"$1\" 10.98.7.2 10.98.7.1 9";
    let program = world.hosts.left.program("unshare").words("--net sh -c").argument(script);
    let finished =
        program.argument(&world.library).argument(SEND_MANY).run(DEADLINE).unwrap().success().unwrap();
    let told: Vec<&str> = finished.stderr.lines().filter(|line| line.contains(" VMA ")).collect();
    assert_eq!(told.len(), 1, "{}", finished.stderr);
    assert!(
        told[0].contains("only0: left to the kernel") && told[0].contains("SIDESTEP_INTERFACES=only0"),
        "{told:?}"
    );
}

#[test]
fn an_application_id_that_no_group_has_is_told() {
    let Some(world) = world(&Options::default()) else { return };
    let log = sends(&world, &[("VMA_APPLICATION_ID", "B1"), ("VMA_CONFIG_FILE", "/dev/null")]);
    assert_eq!(warnings(&log).len(), 1, "{log}");
    assert!(log.contains("VMA_APPLICATION_ID='B1': /dev/null has no group of this id"), "{log}");
}

#[test]
fn the_log_tells_calls_packets_counters_and_host_at_the_levels_of_the_manual() {
    let Some(world) = world(&Options::default()) else { return };
    let at =
        |level: &str| sends(&world, &[("VMA_TRACELEVEL", level), ("VMA_MTU", "1400"), ("VMA_IPOIB", "0")]);
    let (info, debug, fine, finer) = (at("info"), at("4"), at("5"), at("6"));
    assert!(info.contains("[VMA_LOG_FILE]") && info.contains("[VMA_MTU]\n"), "{info}");
    assert!(info.contains("[VMA_IPOIB]  no effect"), "{info}");
    assert!(!info.contains("Node: "), "{info}");
    for expected in
        ["Current Time: 20", "Pid: ", "System: Linux", "Architecture: ", "Node: ", "closed; its counters:"]
    {
        assert!(debug.contains(expected), "{expected} in {debug}");
    }
    assert!(debug.contains("Tx Offload: 0 / 1 / 0 / 0 [kilobytes/packets/eagains/errors]"), "{debug}");
    assert!(!debug.contains("FINE: ") && fine.contains("FINE: sendto(fd "), "{fine}");
    assert!(!fine.contains("FINER: ") && finer.contains("FINER: interface "), "{finer}");
}

#[test]
fn what_the_kernel_alone_can_do_is_handled_as_the_user_said() {
    let Some(world) = world(&Options::default()) else { return };
    const MARK: &str = "1 36 7";
    let set = |handling: &str, option: &str| {
        let program = python(&world, &world.hosts.left, SET).words(option);
        program.environment("VMA_EXCEPTION_HANDLING", handling).run(DEADLINE).unwrap()
    };
    let level = |finished: &Finished, name: &str| {
        finished.stderr.contains(&format!("VMA {name}: setsockopt level 1"))
    };
    for handling in ["-2", "-1", "0", "1"] {
        let finished = set(handling, MARK);
        assert!(finished.stdout.contains("set"), "{handling}: {}", finished.stderr);
        assert_eq!(level(&finished, "ERROR"), handling == "1", "{}", finished.stderr);
        let loud = warnings(&finished.stderr).len();
        assert_eq!(loud, usize::from(handling != "0"), "{handling}: {}", finished.stderr);
    }
    let refused = set("2", MARK);
    assert!(refused.stdout.contains("errno 22") && level(&refused, "ERROR"), "{}", refused.stderr);
    let aborted = set("3", MARK);
    assert!(!aborted.status.success() && level(&aborted, "ERROR"), "{}", aborted.stderr);
    // SO_MAX_PACING_RATE: only the kernel paces datagrams. Without a limit there is nothing to pace.
    assert!(set("2", "1 47 100000").stdout.contains("errno 22"));
    assert!(set("2", "1 47 4294967295").stdout.contains("set"));
}

/// Reads where nothing is, with a handler of its own if its last argument says so.
const CRASHES: &str = "\
import ctypes,socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
libc = ctypes.CDLL(None)
query = (ctypes.c_ubyte * 256)()
libc.sigaction(11, None, query)
print('default', not any(query[:8]))
if sys.argv[4] == 'own':
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda signal: libc._exit(7))
    libc.signal(11, handler)
elif sys.argv[4] == 'default':
    libc.signal(11, None)
sys.stdout.flush()
libc.strlen(ctypes.c_void_p(4711))
";

#[test]
fn a_segmentation_fault_tells_its_backtrace_and_ends_the_process_as_ever() {
    let Some(world) = world(&Options::default()) else { return };
    let crash = |asked: &str, how: &str| {
        let program = python(&world, &world.hosts.left, CRASHES).argument(how);
        let finished = program.environment("VMA_HANDLE_SIGSEGV", asked).run(DEADLINE).unwrap();
        assert!(finished.stdout.contains("default True"), "{}", finished.stdout);
        finished
    };
    for how in ["none", "default"] {
        let told = crash("1", how);
        assert_eq!(told.status.signal(), Some(11), "{}", told.stderr);
        let lines: Vec<&str> =
            told.stderr.lines().skip_while(|line| !line.contains("at address 0x12")).collect();
        assert!(lines.len() > 2 && lines[0].contains("VMA ERROR: segmentation fault"), "{}", told.stderr);
        assert!(lines[1].contains("#0 ") && lines[1].contains("libc.so"), "{}", told.stderr);
        assert!(lines.iter().any(|line| line.contains("python3")), "{}", told.stderr);
    }
    let own = crash("1", "own");
    assert_eq!(own.status.code(), Some(7), "{}", own.stderr);
    assert!(!own.stderr.contains("backtrace"), "{}", own.stderr);
    let unasked = crash("0", "none");
    assert_eq!(unasked.status.signal(), Some(11));
    assert!(!unasked.stderr.contains("backtrace"), "{}", unasked.stderr);
}

#[test]
fn without_the_privilege_a_program_that_must_accelerate_ends() {
    let Some(world) = world(&Options::default()) else { return };
    let bounded = world.hosts.left.program("setpriv").words("--bounding-set -net_raw,-net_admin env");
    let preload = format!("LD_PRELOAD={}", world.library.display());
    let program = bounded.argument(preload).words("VMA_EXCEPTION_HANDLING=-2 python3 -c").argument(SEND);
    let (other, own) = (world.hosts.right.address.to_string(), world.hosts.left.address.to_string());
    let finished = program.argument(other).argument(own).argument("9").run(DEADLINE).unwrap();
    assert!(!finished.status.success() && !finished.stdout.contains("sent"), "{}", finished.stdout);
    assert!(
        finished.stderr.contains("VMA_EXCEPTION_HANDLING is -2: the program ends"),
        "{}",
        finished.stderr
    );
}

#[test]
fn sockets_say_the_nodelay_that_a_parameter_gave_them() {
    let Some(world) = world(&Options::default()) else { return };
    for (value, said) in [("1", "1 1"), ("0", "0 0")] {
        let program = python(&world, &world.hosts.right, NODELAY).environment("VMA_TCP_NODELAY", value);
        let mut server = program.environment("SIDESTEP_STRICT", "1").start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let connects = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))";
        let client = world.hosts.left.program("/usr/bin/python3").words("-c").argument(connects);
        let client = client.argument(world.hosts.right.address.to_string()).argument(PORT.to_string());
        client.run(DEADLINE).unwrap().success().unwrap();
        let finished = server.finish(DEADLINE).unwrap().success().unwrap();
        assert!(finished.stdout.contains(said), "{value}: {}", finished.stdout);
    }
}

#[test]
fn who_comes_second_hears_whose_the_interface_is() {
    let Some(world) = world(&Options::default()) else { return };
    let mut owner = python(&world, &world.hosts.left, POLLS).start().unwrap();
    owner.wait_for_output("ready", DEADLINE).unwrap();
    let log = sends(&world, &[]);
    let pid = owner.pid();
    owner.kill().unwrap();
    assert_eq!(warnings(&log).len(), 1, "{log}");
    assert!(log.contains(&format!("process {pid} (python3")), "{log}");
}

#[test]
fn a_library_that_is_not_there_is_told_by_the_loader_and_the_program_runs() {
    let Some(world) = world(&Options::default()) else { return };
    let program =
        world.hosts.left.program("echo").argument("ran").environment("LD_PRELOAD", "/nowhere/libvma.so");
    let finished = program.run(DEADLINE).and_then(Finished::success).unwrap();
    assert_eq!(finished.stdout, "ran\n");
    assert!(
        finished.stderr.contains("object '/nowhere/libvma.so' from LD_PRELOAD cannot be preloaded"),
        "{}",
        finished.stderr
    );
}

/// A folder for statistics, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sidestep-told-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn read(&self, pid: u32) -> Snapshot {
        let file = self.0.join(stats::segment::file_name(pid));
        Snapshot::parse(&std::fs::read(file).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn polling_is_seen_while_it_lasts() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("polling");
    let program = python(&world, &world.hosts.left, POLLS).environment("VMA_STATS_SHMEM_DIR", &folder.0);
    let program = program.environment("VMA_CPU_USAGE_STATS", "1").environment("VMA_SELECT_POLL", "-1");
    let mut polls = program.start().unwrap();
    polls.wait_for_output("ready", DEADLINE).unwrap();
    let begun = Instant::now();
    while folder.read(polls.pid()).process.polling_cpu_percent.value() == 0 {
        assert!(begun.elapsed() < DEADLINE, "a poll of a minute is not seen");
        std::thread::sleep(Duration::from_millis(50));
    }
    polls.kill().unwrap();
}

#[test]
fn all_groups_of_a_socket_are_seen_however_they_were_joined() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("groups");
    let index =
        world.hosts.left.program("sh").words("-c").argument(
            "cat /sys/class/net/$(ip -o -4 addr show scope global | awk '{print $2; exit}')/ifindex",
        );
    let index = index.run(DEADLINE).unwrap().success().unwrap().stdout.trim().to_owned();
    let program = python(&world, &world.hosts.left, JOINS).argument(index).piped();
    let mut joins = program.environment("VMA_STATS_SHMEM_DIR", &folder.0).start().unwrap();
    joins.wait_for_output("ready", DEADLINE).unwrap();
    let snapshot = folder.read(joins.pid());
    let socket = snapshot.sockets.iter().find(|socket| socket.groups.value() > 0).expect("a member");
    let mut last: Vec<u8> = snapshot.groups(socket).iter().map(|group| group.octets()[3]).collect();
    last.sort_unstable();
    assert_eq!(last, (1..13).collect::<Vec<u8>>());
    joins.kill().unwrap();
}

/// A number drawn from a seed: SplitMix64.
fn below(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) % end as u64) as usize
}

/// A value that may be one of this parameter's, or nearly.
fn some_value(state: &mut u64, row: &config::Row) -> String {
    const STRANGE: [&str; 8] =
        ["", "0", "-1", "1", "2147483648", "*", "\u{7f}\u{1b}[31m", "0xffffffffffffffff"];
    match below(state, 4) {
        0 => STRANGE[below(state, STRANGE.len())].to_owned(),
        1 => below(state, 1 << 20).to_string(),
        2 => row.accepted().split([',', '|', ' ']).nth(below(state, 9)).unwrap_or("").to_owned(),
        _ => (0..below(state, 40)).map(|_| char::from(1 + below(state, 126) as u8)).collect(),
    }
}

/// Buffers of an interface that a test may take: 64 MiB, or what nobody can have.
const BUFFERS_MOST: u64 = 16_384;

/// A value that does no harm to the host: files are those of `folder`, buffers are bounded.
fn some_harmless_value(state: &mut u64, row: &config::Row, folder: &Path) -> OsString {
    let value = some_value(state, row);
    if ["FILE", "DIR"].iter().any(|part| row.name.contains(part)) {
        return folder.join(value.replace('/', "_")).into();
    }
    let counts_buffers = ["FRAMES", "_BUFS"].iter().any(|part| row.name.contains(part));
    match value.trim().parse::<u64>() {
        Ok(many) if counts_buffers && many > BUFFERS_MOST => (many % BUFFERS_MOST).to_string().into(),
        _ => value.into(),
    }
}

/// The rules that are shipped, a few bytes of them changed.
fn some_rules(state: &mut u64) -> Vec<u8> {
    let mut bytes = include_bytes!("../../conf/libvma.conf").to_vec();
    for _ in 0..below(state, 30) {
        let at = below(state, bytes.len());
        bytes[at] = below(state, 256) as u8;
    }
    bytes.extend_from_slice(b"\nuse vma udp_sender *:0-99999\n\0\n");
    bytes
}

/// Environments and rules as a confused user could write them: SIDESTEP_STRANGE of them, or two hundred, drawn from
/// SIDESTEP_STRANGE_SEED. What is read of them is looked at in crates/config.
#[test]
fn with_strange_environments_and_rules_the_program_works_all_the_same() {
    let Some(world) = world(&Options::default()) else { return };
    // The rules are those below.
    let rows: Vec<&config::Row> = config::ROWS.iter().filter(|row| row.name != "VMA_CONFIG_FILE").collect();
    let (program, folder) = (tests::compile("apps/strange.c").unwrap(), Folder::new("strange"));
    let path = folder.0.join("rules");
    let wish = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
    };
    let (count, mut state) = (wish("SIDESTEP_STRANGE", 200), wish("SIDESTEP_STRANGE_SEED", 15));
    for round in 0..count {
        std::fs::write(&path, some_rules(&mut state)).unwrap();
        let mut program =
            world.hosts.left.program(program.path()).argument(world.hosts.right.address.to_string());
        program = program.argument(PORT.to_string()).preload(Some(&world.library)).may_fall_back();
        program = program.environment("VMA_CONFIG_FILE", &path);
        // So little traffic opens no interface by itself.
        program = program.environment("SIDESTEP_CARRIER", if round % 2 == 0 { "wire" } else { "auto" });
        let (mut said, mut may_refuse) = (String::new(), false);
        for _ in 0..=below(&mut state, 20) {
            let row = rows[below(&mut state, rows.len())];
            let value = some_harmless_value(&mut state, row, &folder.0);
            program = program.environment(row.name, &value);
            said += &format!("{}={value:?} ", row.name);
            may_refuse |= ["SIDESTEP_STRICT", "VMA_EXCEPTION_HANDLING"].contains(&row.name);
        }
        let finished = program.run(DEADLINE).unwrap_or_else(|error| panic!("round {round}: {said}\n{error}"));
        if may_refuse && finished.stdout.is_empty() {
            // It was asked to refuse or to end; what it did is one of both.
            assert!(
                matches!(finished.status.code(), Some(1)) || finished.status.signal() == Some(libc::SIGABRT),
                "round {round}: {said}"
            );
            continue;
        }
        let finished = finished.success().unwrap_or_else(|error| panic!("round {round}: {said}\n{error}"));
        assert!(finished.stdout.contains("worked"), "round {round}: {said}");
    }
}
