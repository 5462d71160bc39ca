//! The box between two namespaces with the kernel's own TCP and UDP on both sides. Needs root; says so if it has none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two hosts and the box between them. Dropping it removes the namespaces.
struct Rig {
    names: [String; 3],
    middlebox: Option<Child>,
}

impl Rig {
    /// `None` without root.
    fn new(tag: &str, options: &str) -> Option<Rig> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            ::rig::skip::skipped_here("needs root for network namespaces");
            return None;
        }
        let names = ["a", "box", "b"].map(|end| format!("sim-{tag}-{}-{end}", std::process::id()));
        let mut rig = Rig { names, middlebox: None };
        let [a, middle, b] = rig.names.clone();
        for name in [&a, &middle, &b] {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        for (ns, port, address) in [(&a, "left", "10.1.0.1/24"), (&b, "right", "10.1.0.2/24")] {
            ip(&format!("link add eth0 netns {ns} type veth peer name {port} netns {middle}"));
            ip(&format!("-n {middle} link set {port} up addrgenmode none"));
            ip(&format!("-n {ns} addr add {address} dev eth0"));
            // Without IPv6, whose own packets would be counted among those of a test.
            ip(&format!("-n {ns} link set eth0 up addrgenmode none"));
        }
        let mut child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &middle,
                env!("CARGO_BIN_EXE_middlebox"),
                "--left",
                "left",
                "--right",
                "right",
            ])
            .args(["--json"])
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "middlebox: ready\n");
        rig.middlebox = Some(child);
        Some(rig)
    }

    fn a<T>(&self, work: impl FnOnce() -> T) -> T {
        inside(&self.names[0], work)
    }

    fn b<T>(&self, work: impl FnOnce() -> T) -> T {
        inside(&self.names[2], work)
    }

    /// Ends the box by SIGTERM; its report.
    fn finish(&mut self) -> String {
        let mut child = self.middlebox.take().unwrap();
        // SAFETY: our own child, not yet waited for (`ip netns exec` becomes the program by exec).
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let mut report = String::new();
        child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        assert!(child.wait().unwrap().success());
        report
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut child) = self.middlebox.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(line: &str) {
    assert!(Command::new("ip").args(line.split_whitespace()).status().unwrap().success(), "ip {line}");
}

/// Runs `work` with this thread in another namespace; sockets made there stay there.
fn inside<T>(namespace: &str, work: impl FnOnce() -> T) -> T {
    let own = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    let other = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
    // SAFETY: setns changes this thread's namespace only.
    assert_eq!(unsafe { libc::setns(other.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    let result = work();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    result
}

fn field(report: &str, direction: &str, name: &str) -> u64 {
    let part = report.split_once(&format!("\"{direction}\":{{")).unwrap().1.split_once('}').unwrap().0;
    let word = part.split(',').find_map(|f| f.strip_prefix(&format!("\"{name}\":"))).unwrap();
    word.parse().unwrap()
}

/// Sends `bytes` from a to b; the time it took.
fn transfer(rig: &Rig, bytes: usize) -> Duration {
    let listener = rig.b(|| TcpListener::bind("10.1.0.2:7000").unwrap());
    let data: Vec<u8> =
        (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let expected = data.clone();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        assert!(got == expected, "the stream changed on its way: {} of {} bytes", got.len(), expected.len());
    });
    let began = Instant::now();
    let mut stream = rig.a(|| TcpStream::connect("10.1.0.2:7000").unwrap());
    stream.write_all(&data).unwrap();
    drop(stream);
    reader.join().unwrap();
    began.elapsed()
}

#[test]
fn kernel_tcp_survives_every_fault_and_the_report_counts_them() {
    let faults = "--seed 3 --delay 1ms --jitter 500us --loss 1% --reorder 2%,1ms --duplicate 1% --corrupt 1%";
    let Some(mut rig) = Rig::new("faults", faults) else { return };
    transfer(&rig, 2 << 20);
    let report = rig.finish();
    for name in ["lost_random", "reordered", "duplicated", "corrupted"] {
        assert!(field(&report, "left_to_right", name) > 0, "{name} in {report}");
    }
    // Super-frames were cut: 2 MiB need 1449 packets of 1448 bytes.
    assert!(field(&report, "left_to_right", "in_frames") >= 1449, "{report}");
    assert_eq!(field(&report, "left_to_right", "not_understood"), 0);
}

#[test]
fn a_round_trip_takes_both_delays_and_counted_losses_hit_exactly() {
    let options = "--left-to-right --delay 30ms --lose-frames 2,3 --right-to-left --delay 20ms";
    let Some(mut rig) = Rig::new("delay", options) else { return };
    let a = rig.a(|| UdpSocket::bind("10.1.0.1:9000").unwrap());
    let b = rig.b(|| UdpSocket::bind("10.1.0.2:9000").unwrap());
    b.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    a.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut buffer = [0u8; 64];
    let began = Instant::now();
    a.send_to(b"first", "10.1.0.2:9000").unwrap();
    assert_eq!(b.recv(&mut buffer).unwrap(), 5);
    b.send_to(b"answer", "10.1.0.1:9000").unwrap();
    assert_eq!(a.recv(&mut buffer).unwrap(), 6);
    assert!(began.elapsed() >= Duration::from_millis(49), "{:?}", began.elapsed());
    for word in ["second", "third", "fourth"] {
        a.send_to(word.as_bytes(), "10.1.0.2:9000").unwrap();
    }
    let len = b.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"fourth");
    let report = rig.finish();
    assert_eq!(field(&report, "left_to_right", "lost_counted"), 2, "{report}");
    assert_eq!(field(&report, "right_to_left", "lost_counted"), 0, "{report}");
}

#[test]
fn the_rate_holds_kernel_tcp_back() {
    let Some(mut rig) = Rig::new("rate", "--rate 80mbit --queue 128k") else { return };
    let took = transfer(&rig, 2 << 20);
    // 2 MiB at 80 Mbit/s last 209 ms on the wire.
    assert!(took >= Duration::from_millis(205), "{took:?}");
    rig.finish();
}

#[test]
#[ignore = "a measurement: cargo test --release -p middlebox -- --ignored --nocapture"]
fn throughput_at_20_ms_and_without_delay() {
    for options in ["", "--delay 10ms", "--delay 10ms --rate 1gbit --queue 4m"] {
        let Some(mut rig) = Rig::new("fast", options) else { return };
        for ns in [&rig.names[0], &rig.names[2]] {
            for setting in ["tcp_rmem=4096 131072 33554432", "tcp_wmem=4096 131072 33554432"] {
                let line = format!("net.ipv4.{setting}");
                Command::new("ip").args(["netns", "exec", ns, "sysctl", "-qw", &line]).status().unwrap();
            }
        }
        let bytes = 512 << 20;
        let took = transfer(&rig, bytes);
        eprintln!("{options:?}: {:.0} Mbit/s\n{}", bytes as f64 * 8e-6 / took.as_secs_f64(), rig.finish());
    }
}
