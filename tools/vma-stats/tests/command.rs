//! The command as a user runs it, against segments that the writer's side made.

use stats::segment::{About, address, file_name, flag};
use stats::{Carrier, Segment, Verdict, Why};
use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard};

/// Blocks are counted per process: one segment at a time.
static ONE: Mutex<()> = Mutex::new(());

/// A directory with the statistics of this very test process.
struct Rig {
    directory: PathBuf,
    segment: Segment,
    pid: u32,
    _one: MutexGuard<'static, ()>,
}

impl Rig {
    fn new(name: &str) -> Rig {
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let pid = std::process::id();
        let directory = std::env::temp_dir().join(format!("vma-stats-{name}-{pid}"));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join(file_name(pid));
        let length = Segment::size(2, 4);
        std::fs::File::create(&path).unwrap().set_len(length as u64).unwrap();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let file = sys::file::open(&path, libc::O_RDWR, 0).unwrap();
        let mapping = sys::memory::Mapping::shared(file.raw(), length, 0, false).unwrap();
        let about = About { pid, program: b"test-program", started_ns: 1 };
        // SAFETY: a new file, zeroed; the mapping is leaked below.
        let segment = unsafe { Segment::create(mapping.start(), length, 2, 4, about) }.unwrap();
        std::mem::forget(mapping);
        Rig { directory, segment, pid, _one: one }
    }

    fn run(&self, options: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vma_stats"));
        command.arg("-k").arg(&self.directory).args(options.split_whitespace());
        command.env_remove("VMA_STATS_SHMEM_DIR").output().unwrap()
    }

    fn shown(&self, options: &str) -> String {
        let output = self.run(options);
        assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// An accelerated TCP connection with traffic on descriptor 14.
    fn connection(&self) -> &'static stats::Socket {
        let socket = self.segment.claim_socket(14);
        socket.flags.set(flag::ACCELERATED | flag::TCP);
        socket.carrier.set(Carrier::Wire as u64);
        socket.carrier_since_ns.set(sys::clock::realtime() - 90_000_000_000);
        socket.carrier_moves.add(3);
        socket.verdict.set(Verdict::SmallCalls as u64);
        socket.verdict_calls.set(16);
        socket.verdict_bytes.set(992);
        socket.local.set(address("10.0.0.1:80".parse().unwrap()));
        socket.remote.set(address("10.0.0.2:4000".parse().unwrap()));
        socket.tcp_state.set(4);
        socket.rx_packets.add(1000);
        socket.rx_bytes.add(2048);
        socket.rx_poll_hit.add(3);
        socket.rx_poll_miss.add(1);
        socket.tx_packets.add(7);
        socket.tx_queued_bytes.set(55);
        self.segment.process().sockets_accelerated.one();
        socket
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A line with its runs of blanks made one.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn basic_view_has_vmas_columns() {
    let rig = Rig::new("basic");
    rig.connection();
    let shown = rig.shown("-c 1");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("vmastat: stats for application: test-program with pid: {}", rig.pid));
    assert!(lines[1].contains("total offloaded") && lines[1].contains("total os"), "{}", lines[1]);
    assert_eq!(squeezed(lines[2]), "pkt Kbyte eagain error poll% pkt Kbyte eagain error");
    assert_eq!(
        lines[3],
        " 14  Rx:       1000       2        0       0   75.0       0       0       0       0"
    );
    assert_eq!(squeezed(lines[4]), "Tx: 7 0 0 0 0 0 0 0");
    assert_eq!(lines[5].len(), 79);
    assert!(rig.shown("-c 1 -v 2").contains("queue pkt"));
    assert!(!rig.shown("-c 1 -s 15-20").contains("Rx:"));
}

#[test]
fn deltas_are_per_second() {
    let rig = Rig::new("deltas");
    let socket = rig.connection();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vma_stats"));
    command.arg("-k").arg(&rig.directory).args(["-d", "2", "-c", "1", "-i", "2"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The first line comes after the first look.
    assert!(lines.next().unwrap().contains("stats for application"));
    socket.rx_packets.add(50);
    let shown: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success());
    assert!(shown[1].contains("pkt/s"), "{shown:?}");
    assert!(squeezed(&shown[2]).starts_with("14 Rx: 25"), "{shown:?}");
}

#[test]
fn full_view_tells_all_about_sockets_and_lanes() {
    let rig = Rig::new("full");
    rig.connection();
    let lane = rig.segment.lane(0);
    lane.interface.set(3);
    lane.name_low.set(u64::from_le_bytes(*b"veth0\0\0\0"));
    lane.rx_ring_full.add(5);
    lane.drained_max.seen(9);
    lane.frames_free.set(67);
    lane.interrupts_received.add(2);
    let shown = rig.shown("-v 3 -c 1");
    for expected in [
        "\tFd=[14]",
        "- TCP, Blocked",
        "- Local Address   = [10.0.0.1:80]",
        "- Foreign Address = [10.0.0.2:4000]",
        "Rx Offload: 2 / 1000 / 0 / 0 [kilobytes/packets/eagains/errors]",
        "Rx poll: 1 / 3 (75.00%) [miss/hit]",
        "CQ=[0]",
        "Packets dropped: 5 [packets]",
        "Drained max: 9 [frames in a turn]",
        "Buffer pool size: 67 [free frames of 4096 bytes]",
        "Interrupt received: 2 [sleeps that packets ended]",
        "RING_ETH=[0]",
        "Master: veth0 (index 3",
        "rx_ring_full: 5",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

#[test]
fn multicast_groups_list_their_descriptors() {
    let rig = Rig::new("multicast");
    let (first, second) = (rig.segment.claim_socket(15), rig.segment.claim_socket(19));
    for (socket, group) in [(first, "224.4.1.3"), (first, "224.4.1.2"), (second, "224.4.1.2")] {
        rig.segment.member(socket, group.parse().unwrap(), true);
    }
    let shown = rig.shown("-v 4");
    assert!(shown.contains("[224.4.1.2]          15 19\n[224.4.1.3]          15\n"), "{shown}");
}

#[test]
fn netstat_view_lists_each_socket() {
    let rig = Rig::new("netstat");
    rig.connection();
    let shown = rig.shown("-v 5");
    let row = squeezed(shown.lines().nth(1).unwrap());
    let expected = format!("tcp Yes 0 55 10.0.0.1:80 10.0.0.2:4000 ESTABLISHED 0 {}/test-program", rig.pid);
    assert_eq!(row, expected);
}

#[test]
fn why_tells_reasons_and_remedies() {
    let rig = Rig::new("why");
    assert!(rig.shown("--why").contains("has not opened"));
    rig.connection();
    let left = rig.segment.claim_socket(20);
    left.flags.set(flag::TCP | flag::LEFT);
    left.why.set(Why::QueueBusy as u64);
    rig.segment.left_to_kernel(Why::QueueBusy);
    let shown = rig.shown("--why");
    assert!(shown.contains("1 accelerated, 1 left to the kernel"), "{shown}");
    assert!(shown.contains(Why::QueueBusy.text()) && shown.contains(Why::QueueBusy.remedy()), "{shown}");
    assert!(shown.contains("fd 20") && shown.contains("fd 14"), "{shown}");
}

#[test]
fn why_tells_of_each_socket_what_carries_it_since_when_and_the_judges_reason() {
    let rig = Rig::new("carriers");
    rig.connection();
    let (left, bulk) = (rig.segment.claim_socket(20), rig.segment.claim_socket(21));
    left.flags.set(flag::TCP | flag::LEFT);
    left.carrier.set(Carrier::Kernel as u64);
    left.why.set(Why::QueueBusy as u64);
    bulk.flags.set(flag::TCP);
    bulk.carrier.set(Carrier::Kernel as u64);
    bulk.carrier_moves.add(1);
    bulk.verdict.set(Verdict::Bulk as u64);
    bulk.verdict_calls.set(8);
    bulk.verdict_bytes.set(8 * 65_536);
    bulk.rx_os_packets.add(5);
    rig.segment.claim_socket(22);
    let shown = rig.shown("--why");
    let of = |fd: u32| {
        let lines = shown.lines().skip_while(|line| !line.starts_with(&format!("  fd {fd} "))).skip(1);
        lines.take_while(|line| !line.starts_with("  fd ")).map(str::trim).collect::<Vec<_>>()
    };
    let wire = of(14);
    let (since, rest) = wire[0].strip_prefix("wire since ").unwrap().split_once(" s, ").unwrap();
    assert!(since.parse::<f64>().unwrap() >= 90.0, "{since}");
    assert_eq!(rest, "3 moves: little data a call: 62 bytes in each of 16 calls");
    assert_eq!(wire[1], "calls so far: 1007 on the wire, 0 in the kernel");
    assert!(of(20)[0].ends_with(&format!(" s: {}", Why::QueueBusy.text())), "{shown}");
    assert!(
        of(21)[0].contains(" s, 1 move: bulk, ") && of(21)[0].ends_with(": 65536 bytes in each of 8 calls")
    );
    assert_eq!(of(21)[1], "calls so far: 0 on the wire, 5 in the kernel");
    assert_eq!(of(22)[0], Verdict::Undecided.text());
    let told = rig.shown("--json -s 21");
    for expected in ["\"carrier\":\"kernel\"", "\"verdict\":\"Bulk\"", "\"carrier_moves\":1", "\"why\":null"]
    {
        assert!(told.contains(expected), "{expected} in {told}");
    }
}

#[test]
fn calls_without_bytes_are_no_reason() {
    let rig = Rig::new("price");
    let paid = rig.segment.claim_socket(20);
    paid.flags.set(flag::TCP);
    paid.carrier.set(Carrier::Wire as u64);
    paid.verdict.set(Verdict::SmallCalls as u64);
    paid.verdict_calls.set(36_832);
    let shown = rig.shown("--why");
    assert!(shown.contains(Verdict::SmallCalls.text()) && !shown.contains("36832"), "{shown}");
}

#[test]
fn what_memory_carries_is_told_from_the_wire_in_every_view() {
    let rig = Rig::new("memory");
    let inside = rig.segment.claim_socket(30);
    inside.flags.set(flag::ACCELERATED | flag::TCP);
    inside.carrier.set(Carrier::Memory as u64);
    inside.verdict.set(Verdict::MetPeer as u64);
    inside.local.set(address("127.0.0.1:80".parse().unwrap()));
    inside.remote.set(address("127.0.0.1:4000".parse().unwrap()));
    inside.rx_memory_packets.add(30);
    inside.rx_memory_bytes.add(4096);
    inside.tx_memory_packets.add(7);
    inside.rx_os_packets.add(5);
    rig.segment.process().moves_to_memory.add(2);
    rig.segment.process().moves_from_memory.add(1);

    let why = rig.shown("--why");
    assert!(why.contains("2 moved into memory, 1 back to the kernel\n"), "{why}");
    assert!(why.contains("calls so far: 37 in memory, 5 in the kernel\n"), "{why}");
    let basic = squeezed(&rig.shown("-c 1"));
    assert!(basic.contains("30 Rx: 30 4 0 0 0.0 5 0 0 0 Tx: 7 0 "), "{basic}");
    let full = rig.shown("-c 1 -v 3");
    for line in ["Tx Memory: 0 / 7 / 0 / 0 [kilobytes", "Rx Memory: 4 / 30 / 0 / 0 [kilobytes"] {
        assert!(full.contains(line), "{full}");
    }
    assert!(!full.contains("Offload"), "nothing of it was on the wire: {full}");
    assert!(squeezed(&rig.shown("-c 1 -v 5")).contains("tcp Yes 0 0 127.0.0.1:80 127.0.0.1:4000"));
    let told = rig.shown("--json -s 30");
    for part in
        ["\"accelerated\":true,", "\"carrier\":\"memory\"", "\"rx_packets\":0", "\"rx_memory_packets\":30"]
    {
        assert!(told.contains(part), "{part} in {told}");
    }
    inside.rx_packets.add(1);
    assert!(rig.shown("--why").contains("calls so far: 1 on the wire, 37 in memory, 5 in the kernel\n"));
}

/// Two programs of one name, with statistics of their own.
#[test]
fn of_several_programs_of_a_name_the_others_are_told_or_all_are_shown() {
    let rig = Rig::new("twins");
    rig.connection();
    let mut twins = [(); 2].map(|()| Command::new("sleep").arg("600").spawn().unwrap());
    for twin in &twins {
        let named = |pid: u32| rig.directory.join(file_name(pid));
        std::fs::copy(named(rig.pid), named(twin.id())).unwrap();
        // The arguments are the last that exec puts in their place.
        while !std::fs::read(format!("/proc/{}/cmdline", twin.id())).unwrap().starts_with(b"sleep") {
            std::thread::yield_now();
        }
    }
    let one = rig.run("-n sleep -c 1");
    let why = rig.run("-n sleep --why");
    for twin in &mut twins {
        twin.kill().unwrap();
        twin.wait().unwrap();
    }
    let said = String::from_utf8_lossy(&one.stderr);
    let other = twins.iter().map(std::process::Child::id).max().unwrap();
    assert!(said.contains("of 2 programs; the others: ") && said.contains(&format!("({other})")), "{said}");
    let shown = String::from_utf8_lossy(&why.stdout);
    assert_eq!(shown.matches("stats for application").count(), 2, "{shown}");
}

#[test]
fn json_has_every_counter_by_its_name() {
    let rig = Rig::new("json");
    rig.connection();
    rig.segment.left_to_kernel(Why::NoRoute);
    let shown = rig.shown("--json");
    assert_eq!(shown.lines().count(), 1);
    for expected in [
        "\"program\":\"test-program\"",
        "\"fd\":14,\"protocol\":\"tcp\",\"accelerated\":true,\"why\":null,\"carrier\":\"wire\"",
        "\"local\":\"10.0.0.1:80\"",
        "\"tcp_state\":\"ESTABLISHED\"",
        "\"rx_packets\":1000",
        "\"NoRoute\":1",
        "\"sockets_accelerated\":1",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let balance = |open, close| shown.matches::<char>(open).count() == shown.matches::<char>(close).count();
    assert!(balance('{', '}') && balance('[', ']'));
}

#[test]
fn zero_lets_counts_begin_anew_without_touching_the_program() {
    let rig = Rig::new("zero");
    let socket = rig.connection();
    let shown = rig.shown("-z -c 1");
    assert!(squeezed(&shown).contains("14 Rx: 0 0"), "{shown}");
    assert_eq!(socket.rx_packets.value(), 1000);
    socket.rx_packets.add(4);
    assert!(squeezed(&rig.shown("-c 1")).contains("14 Rx: 4 0"));
}

#[test]
fn wishes_reach_the_program() {
    let rig = Rig::new("wishes");
    let shown = rig.shown("-l debug -D 2 -S 14");
    assert_eq!(shown.lines().count(), 1, "{shown}");
    let control = rig.segment.control();
    assert_eq!((control.take_log_level(), control.take_log_details()), (Some(5), Some(2)));
    assert_eq!(control.take_dump(), Some((14, 3)));
}

#[test]
fn the_program_is_found_by_number_and_by_name() {
    let rig = Rig::new("find");
    rig.connection();
    assert!(rig.shown(&format!("-p {} -c 1", rig.pid)).contains("14  Rx:"));
    let exe = std::env::current_exe().unwrap();
    assert!(
        rig.shown(&format!("-n {} -c 1", exe.file_name().unwrap().to_str().unwrap())).contains("14  Rx:")
    );
    let told = rig.run("-n nobody");
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(text.contains("Failed to identify process") && text.contains("there are: "), "{text}");
    assert_eq!(told.status.code(), Some(1));
    let told = rig.run("-p 4194305");
    assert!(
        String::from_utf8_lossy(&told.stderr).contains("statistics data for process id 4194305 not found")
    );
}

#[test]
fn files_of_dead_programs_are_removed_unless_forbidden() {
    let rig = Rig::new("dead");
    let (mine, dead) = (rig.directory.join(file_name(rig.pid)), rig.directory.join(file_name(4_194_305)));
    std::fs::copy(&mine, &dead).unwrap();
    let strange = rig.directory.join(file_name(4_194_306));
    std::fs::write(&strange, "my own notes").unwrap();
    rig.shown("-c 1 -F");
    assert!(dead.exists());
    rig.shown("-c 1");
    assert!(!dead.exists() && mine.exists());
    assert!(strange.exists(), "a file that is no statistics is nobody's to remove");
}

#[test]
fn strange_files_are_refused_with_a_reason() {
    let rig = Rig::new("strange");
    let mine = rig.directory.join(file_name(rig.pid));
    let good = std::fs::read(&mine).unwrap();
    let refused = |expected: &str| {
        let told = rig.run("-c 1 -l debug");
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(text.contains(expected) && told.status.code() == Some(1), "{text}");
    };
    let replace = |bytes: &[u8]| {
        std::fs::remove_file(&mine).unwrap();
        std::fs::write(&mine, bytes).unwrap();
    };
    let mut other = good.clone();
    other[16] ^= 1;
    replace(&other);
    refused("is not compatible with stats protocol version");
    replace(&good[..good.len() - 1]);
    refused("damaged");
    replace(b"");
    refused("not a statistics file");
    std::fs::remove_file(&mine).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &mine).unwrap();
    refused("cannot open");
}

#[test]
fn wrong_options_are_told_with_a_hint() {
    let rig = Rig::new("options");
    let told = rig.run("-v 9");
    assert_eq!(told.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&told.stderr).starts_with("vmastat: '-v' Invalid view val: 9\n"));
    assert!(rig.shown("--help").contains("--why"));
    assert!(rig.shown("-V").contains("VMA version"));
}

/// A running `vma_stats --prometheus`, ended with the test.
struct Server(std::process::Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serving(rig: &Rig) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vma_stats"));
    command.arg("-k").arg(&rig.directory).args(["--prometheus", "127.0.0.1:0"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("vmastat: serving http://").unwrap().strip_suffix("/metrics").unwrap();
    Server(child, address.to_owned())
}

/// What comes back for these bytes, until the other side closes.
fn asked(server: &Server, request: &[u8]) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(&server.1)?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

/// Labels of the connection: those of its state are not among them, or its counters would begin anew with a move.
const SOCKET: &str = "fd=\"14\",protocol=\"tcp\",local=\"10.0.0.1:80\",remote=\"10.0.0.2:4000\"";

#[test]
fn prometheus_reads_every_counter_once() {
    let rig = Rig::new("prometheus");
    rig.connection();
    rig.segment.left_to_kernel(Why::NoRoute);
    rig.segment.lane(0).interface.set(3);
    rig.segment.lane(0).name_low.set(u64::from_le_bytes(*b"veth0\0\0\0"));
    // Two of one interface.
    rig.segment.lane(1).interface.set(3);
    rig.segment.lane(1).name_low.set(u64::from_le_bytes(*b"veth0\0\0\0"));
    let server = serving(&rig);
    let answer = asked(&server, GET).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
    let own = format!("pid=\"{}\",program=\"test-program\"", rig.pid);
    for expected in [
        format!("sidestep_process_sockets_accelerated_total{{{own}}} 1\n"),
        format!("sidestep_left_to_kernel_total{{{own},reason=\"NoRoute\"}} 1\n"),
        format!("sidestep_lane_frames_free{{{own},interface=\"veth0\",lane=\"0\"}} 0\n"),
        format!("sidestep_lane_frames_free{{{own},interface=\"veth0\",lane=\"1\"}} 0\n"),
        format!("sidestep_socket_rx_packets_total{{{own},{SOCKET}}} 1000\n"),
        format!(
            "sidestep_socket_info{{{own},{SOCKET},accelerated=\"true\",why=\"\",carrier=\"wire\",verdict=\"SmallCalls\"}} 1\n"
        ),
        "# TYPE sidestep_socket_rx_packets_total counter\n".to_owned(),
        "# TYPE sidestep_socket_rx_queued_bytes gauge\n".to_owned(),
    ] {
        assert!(body.contains(&expected), "{expected} in {body}");
    }
    // Of the format: each line is a comment or a sample, each sample stands once and under its own type.
    let mut type_of = "";
    let mut seen = std::collections::HashSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            type_of = rest.split(' ').next().unwrap();
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), type_of, "{line}");
            assert!(value.parse::<u64>().is_ok() && seen.insert(series.to_owned()), "{line}");
        }
    }
}

/// Every name and label that the dashboard asks for is told, and no panel asks for nothing.
#[test]
fn the_dashboard_asks_for_what_prometheus_is_told() {
    let rig = Rig::new("dashboard");
    rig.connection();
    rig.segment.left_to_kernel(Why::NoRoute);
    rig.segment.lane(0).interface.set(3);
    let body = asked(&serving(&rig), GET).unwrap();
    let text = include_str!("../../../conf/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets: Vec<_> = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).collect();
    assert!(panels.len() > 10 && targets.len() >= panels.len());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for target in targets {
        let asked = target["expr"].as_str().unwrap();
        let mut names = asked.split(|c| !is_part(c)).filter(|word| word.starts_with("sidestep_")).peekable();
        assert!(names.peek().is_some(), "{asked}");
        let shown = target["legendFormat"].as_str().unwrap();
        let shown = shown.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
        let labels: Vec<&str> = shown.chain(["program"]).collect();
        for name in names {
            let sample = body.lines().find(|line| line.starts_with(&format!("{name}{{")));
            let sample = sample.unwrap_or_else(|| panic!("{name} is not told, {asked} asks for it"));
            for label in &labels {
                assert!(
                    sample.contains(&format!("{label}=\"")),
                    "{sample} has no {label}, {asked} asks for it"
                );
            }
        }
    }
}

#[test]
fn strange_and_slow_clients_of_prometheus_harm_nobody() {
    let rig = Rig::new("hostile");
    rig.connection();
    let server = serving(&rig);
    assert!(asked(&server, b"GET /other HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 404"));
    assert!(asked(&server, b"POST /metrics HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 405"));
    assert!(asked(&server, b"\xff\0\r\n\r\n").unwrap().starts_with("HTTP/1.1 405"));
    // More than a request may have, without an end. The other side may reset.
    let _ = asked(&server, &[b'a'; 100_000]);
    let silent: Vec<_> = (0..60).filter_map(|_| std::net::TcpStream::connect(&server.1).ok()).collect();
    let begun = std::time::Instant::now();
    while !asked(&server, GET).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
        assert!(begun.elapsed().as_secs() < 60, "silent clients keep others out");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(silent);
}
