//! The command as a user runs it, against segments that the writer's side made.

use stats::segment::{About, address, file_name, flag};
use stats::{Segment, Why};
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
    let shown = rig.shown("-v 3 -c 1");
    for expected in [
        "\tFd=[14]",
        "- TCP, Blocked",
        "- Local Address   = [10.0.0.1:80]",
        "- Foreign Address = [10.0.0.2:4000]",
        "Rx Offload: 2 / 1000 / 0 / 0 [kilobytes/packets/eagains/errors]",
        "Rx poll: 1 / 3 (75.00%) [miss/hit]",
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
    let group = |text: &str| u64::from(text.parse::<std::net::Ipv4Addr>().unwrap().to_bits());
    rig.segment.claim_socket(15).groups_first.set(group("224.4.1.3") << 32 | group("224.4.1.2"));
    rig.segment.claim_socket(19).groups_second.set(group("224.4.1.2"));
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
    assert!(shown.contains("fd 20") && !shown.contains("fd 14"), "{shown}");
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
        "\"fd\":14,\"protocol\":\"tcp\",\"accelerated\":true,\"why\":null,\"local\":\"10.0.0.1:80\"",
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
