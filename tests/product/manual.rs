//! The sessions that VMA's manual prints, as they go here: sockperf under VMA_SPEC=latency with the banner before it
//! (section 6), what vma_stats shows of it meanwhile (examples 1 to 4 of section 8.1.1) and the log when a socket is
//! closed (example 5), and libvma.conf with VMA_APPLICATION_ID=B1 (section 4.1.3). Figures differ, lines do not.

use rig::{Finished, Host, Options, Program, Protocol, eventually};
use std::path::PathBuf;
use std::process::Command;
use tests::{DEADLINE, World, world};

const PORT: u16 = 11111;
const GROUP: &str = "224.4.1.3";

/// The first pattern that fits no line of `text` behind those of the patterns before it; other lines are free. `*`
/// stands for any text, and words may be any number of blanks apart.
fn missing<'a>(text: &str, patterns: &[&'a str]) -> Option<&'a str> {
    let mut lines = text.lines();
    patterns.iter().copied().find(|pattern| !lines.any(|line| fits(line, pattern)))
}

fn assert_lines(text: &str, patterns: &[&str]) {
    assert_eq!(missing(text, patterns), None, "in:\n{text}");
}

fn fits(line: &str, pattern: &str) -> bool {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((first, others)) = pattern.split_once('*') else { return line == pattern };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = others.split('*').collect();
    let (last, between) = parts.split_last().expect("one part at least");
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A folder for statistics and logs, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sidestep-manual-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// A program whose sockets and words are found here.
    fn program(&self, world: &World, program: Program, log: &str) -> Program {
        let program = program.preload(Some(&world.library)).environment("VMA_STATS_SHMEM_DIR", &self.0);
        program.environment("VMA_TRACELEVEL", "debug").environment("VMA_LOG_FILE", self.0.join(log))
    }

    fn vma_stats(&self, pid: u32, words: &str) -> String {
        let mut command = Command::new(tests::built("vma-stats", "vma_stats"));
        command.arg("-k").arg(&self.0).args(["-p", &pid.to_string()]);
        let output = command.args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const BANNER: &[&str] = &[
    "*VMA INFO: *---",
    "*VMA INFO: VMA_VERSION: *",
    "*VMA INFO: Cmd Line: *sockperf*",
    "*VMA DEBUG: Current Time: *",
    "*VMA DEBUG: Pid: *",
    "*VMA DEBUG: System: *",
    "*VMA DEBUG: Architecture: x86_64*",
    "*VMA DEBUG: Node: *",
    "*VMA INFO: *---",
    "*VMA Spec *[VMA_SPEC]",
    "*Log Level *[VMA_TRACELEVEL]",
    "*Log File *[VMA_LOG_FILE]",
];

/// Example 5.
const CLOSED: &[&str] = &[
    "*Tx Offload: * / * / * [*",
    "*Rx Offload: * / * / * [*",
    "*Rx byte: * dropped * limit *",
    "*Rx pkt : * dropped *",
    "*Rx poll: * / * (*%) [miss/hit]",
];

const PING_PONG: &[&str] = &[
    "sockperf*[CLIENT] send on:*",
    "*[ 0] IP = * PORT = 11111 # UDP",
    "sockperf: Warmup stage (sending a few dummy messages)...",
    "sockperf: Starting test...",
    "sockperf: Test end (interrupted by *)",
    "sockperf: Test ended",
    "sockperf: [Total Run] RunTime=* sec; * SentMessages=*; ReceivedMessages=*",
    "sockperf: *Printing statistics for Server No: 0",
    "sockperf: [Valid Duration] RunTime=* sec; SentMessages=*; ReceivedMessages=*",
    "sockperf: *avg-*=* (std-dev=*",
    "sockperf: *# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0*",
    "sockperf: *Latency is * usec*",
    "sockperf: *Total * observations*; each percentile contains * observations",
    "sockperf: *---> <MAX> observation = *",
    "sockperf: *---> percentile 99.99*= *",
    "sockperf: *---> percentile 50.0*= *",
    "sockperf: *---> <MIN> observation = *",
];

#[test]
fn sockperf_under_the_latency_profile_prints_what_the_manual_prints() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("sockperf");
    let address = world.hosts.right.address.to_string();
    let sockperf = |host: &Host, words: &str, log: &str| {
        let program = host.program("sockperf").words(words).words(&format!("-i {address} -p {PORT}"));
        folder.program(&world, program, log).environment("VMA_SPEC", "latency")
    };
    let mut server = sockperf(&world.hosts.right, "sr", "server").start().unwrap();
    server.wait_for_port(Protocol::Udp, PORT, DEADLINE).unwrap();
    let client = sockperf(&world.hosts.left, "pp -t 60", "client").start().unwrap();

    watched(&folder, server.pid(), &address);
    client.signal(libc::SIGINT).unwrap();
    let client = client.finish(DEADLINE).and_then(Finished::success).unwrap();
    assert_lines(&client.stdout, PING_PONG);
    server.signal(libc::SIGINT).unwrap();
    server.finish(DEADLINE).unwrap();
    for log in ["server", "client"] {
        let log = folder.read(log);
        assert_lines(&log, &[BANNER, CLOSED].concat());
    }
}

/// Examples 1 to 3, of the server.
fn watched(folder: &Folder, pid: u32, address: &str) {
    let moves = || !folder.vma_stats(pid, "-d 1 -c 1").contains(" Rx: 0 ");
    eventually("the server is talked to", moves);
    let (total, delta) = ("fd *--- total offloaded ---*", "fd *--- offloaded ---*");
    let rows = ["* Rx: * * * * *", "Tx: * * * *"];
    for (words, head) in [
        ("-d 1 -c 1", [total, "pkt Kbyte eagain error poll%*"]),
        ("-d 2 -c 2", [delta, "pkt/s Kbyte/s eagain/s error/s poll%*"]),
    ] {
        assert_lines(&folder.vma_stats(pid, words), &[&head[..], &rows].concat());
    }
    let bound = format!("- Local Address = [{address}:{PORT}]");
    let example_3 = [
        "Fd=[*]",
        "- UDP, Blocked, MC Loop Enabled",
        &bound,
        "Rx Offload: * / * / * / * [kilobytes/packets/eagains/errors]*",
        "Rx byte: cur * / max * / dropped* / limit *",
        "Rx pkt : cur * / max * / dropped*",
        "Rx poll: * / * (*%) [miss/hit]",
        "CQ=[*]",
        "Packets dropped: *",
        "Packets queue len: *",
        "Drained max: *",
        "Buffer pool size: *",
        "RING_ETH=[*]",
        "Interrupt requests: *",
        "Interrupt received: *",
    ];
    // A second in which a busy machine let nobody talk says so instead.
    let look = || folder.vma_stats(pid, "-v 3 -d 2 -c 2");
    eventually("a second's traffic is as in example 3", || missing(&look(), &example_3).is_none());
}

/// Joins a group and waits to be ended.
const JOINS: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(('', 11111))
sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                socket.inet_aton(sys.argv[2]) + socket.inet_aton(sys.argv[1]))
print('ready', sock.fileno(), flush=True)
sys.stdin.read()
";

#[test]
fn groups_are_listed_with_their_descriptors_as_in_example_4() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("groups");
    let host = &world.hosts.right;
    let program = host.program("/usr/bin/python3").words("-u -c").argument(JOINS);
    let program = program.argument(host.address.to_string()).argument(GROUP).piped();
    let mut joins = folder.program(&world, program, "joins").start().unwrap();
    joins.wait_for_output("ready", DEADLINE).unwrap();
    let fd = joins.stdout().split_whitespace().last().unwrap().to_owned();
    let shown = folder.vma_stats(joins.pid(), "-v 4 -c 1");
    let group = format!("[{GROUP}] {fd}");
    assert_lines(&shown, &["VMA Group Membership* Information", "Group fd number", "---*", &group]);
    joins.kill().unwrap();
}

/// Listens on the port of its second argument, as the kernel's or not.
const LISTENS: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
listener.accept()
";

#[test]
fn a_group_of_rules_with_an_id_holds_for_who_has_it() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("rules");
    let (right, left) = (&world.hosts.right, &world.hosts.left);
    let rules = folder.0.join("libvma.conf");
    let subnet = format!("{}/24", right.address);
    let text =
        format!("application-id tcp-lat B1\nuse vma tcp_client {subnet}:*:*:*\nuse os tcp_server *:5001\n");
    std::fs::write(&rules, text).unwrap();
    let program = folder.0.join("tcp-lat");
    std::os::unix::fs::symlink("/usr/bin/python3", &program).unwrap();
    let serves = |id: &str, port: u16| {
        let server = right.program(&program).words("-u -c").argument(LISTENS).may_fall_back();
        let server = server.argument(right.address.to_string()).argument(port.to_string());
        let log = format!("{id}-{port}");
        let server = folder.program(&world, server, &log).may_fall_back();
        let server = server.environment("VMA_CONFIG_FILE", &rules).environment("VMA_APPLICATION_ID", id);
        let mut server = server.start().unwrap();
        server.wait_for_output("ready", DEADLINE).unwrap();
        let before = right.counters().unwrap();
        let connects = format!("import socket; socket.create_connection(('{}', {port}))", right.address);
        let client = left.program("/usr/bin/python3").words("-c").argument(connects);
        client.run(DEADLINE).and_then(Finished::success).unwrap();
        server.finish(DEADLINE).and_then(Finished::success).unwrap();
        right.counters().unwrap().since(&before).get("Tcp.PassiveOpens")
    };
    assert_eq!(serves("B1", 5001), 1, "the rule has it by the kernel");
    assert_eq!(serves("B1", 5002), 0, "other ports are accelerated");
    assert_eq!(serves("VMA_DEFAULT_APPLICATION_ID", 5001), 0, "the group is not this program's");
}
