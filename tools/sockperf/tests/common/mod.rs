//! Starting servers and clients, ours and the original, on the loopback of this machine.

#![allow(dead_code, missing_docs, unreachable_pub)] // each test file uses a part

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub const OURS: &str = env!("CARGO_BIN_EXE_sockperf");
pub const ORIGINAL: &str = "/usr/bin/sockperf";

/// True when the original 3.7 is installed; says so loudly when it is not.
pub fn has_original() -> bool {
    let there = Path::new(ORIGINAL).exists();
    if !there {
        rig::skip::skipped_here(&format!("{ORIGINAL} is not installed, so nothing was compared with it"));
    }
    there
}

/// A port that is free for both transports, and stays so: below the ports that the kernel gives to sockets that ask for
/// any, and never given twice here.
pub fn free_port() -> u16 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(64).wrapping_add(number) % 20_000) as u16;
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() && free(port) {
            return port;
        }
    }
}

/// A server that is stopped when dropped.
pub struct Server {
    pub child: Child,
    pub port: u16,
}

impl Server {
    /// Starts `program sr -p port args` and waits until it serves. Somebody else may take the port that was free.
    pub fn start(program: &str, args: &str) -> Server {
        let mut attempts = (0..5).map(|_| free_port());
        let started = attempts.find_map(|port| {
            let server = Server::spawn(program, port, &format!("-i 127.0.0.1 -p {port} {args}"));
            server.ok()
        });
        started.unwrap_or_else(|| panic!("{program} sr {args} ended at once, on five ports"))
    }

    /// The same with all arguments given; `port` is where it will be found.
    pub fn start_at(program: &str, port: u16, args: &str) -> Server {
        let ended = |status| panic!("{program} sr {args} ended at once: {status}");
        Server::spawn(program, port, args).unwrap_or_else(ended)
    }

    /// `Err`: it ended at once.
    fn spawn(program: &str, port: u16, args: &str) -> Result<Server, ExitStatus> {
        let mut command = Command::new(program);
        command.arg("sr").args(args.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Server { child: command.spawn().unwrap(), port };
        server.await_bound();
        server.child.try_wait().unwrap().map_or(Ok(server), Err)
    }

    pub fn await_bound(&self) {
        let needle = format!(":{:04X} ", self.port);
        let deadline = Instant::now() + PATIENCE;
        let table =
            |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        while Instant::now() < deadline {
            let bound = |text: &str| {
                text.lines()
                    .any(|l| l.split_whitespace().nth(1).is_some_and(|a| format!("{a} ").ends_with(&needle)))
            };
            if ["udp", "tcp", "udp6", "tcp6"].iter().any(|name| bound(&table(name))) {
                // The original binds all sockets before it serves; a moment covers the rest.
                std::thread::sleep(Duration::from_millis(150));
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not bind port {}", self.port);
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Stops the server in order; its output and exit code.
    pub fn stop(mut self) -> (String, Option<i32>) {
        self.signal(libc::SIGINT);
        let status = wait(&mut self.child);
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text).unwrap();
        }
        (text, status)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    eventually(&format!("process {} ends", child.id()), || child.try_wait().unwrap().is_some());
    child.wait().unwrap().code()
}

/// For whatever must happen, on a busy machine, too: it only matters when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds` says true.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "after {PATIENCE:?} still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a client to its end, at most a minute.
pub fn client(program: &str, args: &str) -> (String, Option<i32>) {
    let words: Vec<&str> = args.split_whitespace().collect();
    client_words(program, &words)
}

pub fn client_words(program: &str, words: &[&str]) -> (String, Option<i32>) {
    let Output { stdout, stderr, status } =
        Command::new("timeout").args(["-k", "1", "60", program]).args(words).output().unwrap();
    assert_ne!(status.code(), Some(124), "{program} {words:?} did not end");
    (String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr), status.code())
}

/// The number behind `key` in `text`.
pub fn number(text: &str, key: &str) -> f64 {
    let at = text.find(key).unwrap_or_else(|| panic!("no '{key}' in:\n{text}")) + key.len();
    let rest = text[at..].trim_start_matches([' ', '=']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("'{key}' has no number in:\n{text}"))
}

/// A file that is removed when dropped.
pub struct TempFile(pub String);

impl TempFile {
    pub fn new(name: &str, text: &str) -> TempFile {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sockperf-test-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        TempFile(path.to_string_lossy().into_owned())
    }

    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A UDP server made of a closure: request number and bytes in, any number of datagrams out.
pub struct FakeServer {
    pub port: u16,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FakeServer {
    pub fn start(mut answer: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> FakeServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            let mut buffer = vec![0; 70_000];
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
                // The side channel's question goes unanswered, as on a server of another kind.
                if n == 160 && &buffer[14..22] == b"sockperf" {
                    continue;
                }
                number += 1;
                for reply in answer(number, &buffer[..n]) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        FakeServer { port, stop, thread: Some(thread) }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The reply to a request.
pub fn echo(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    reply[9] &= !1;
    reply
}

/// A message with its header.
pub fn message(seq: u64, flags: u16, length: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0x55; size];
    let mut header = seq.to_be_bytes().to_vec();
    header.extend(flags.to_be_bytes());
    header.extend(length.to_be_bytes());
    let n = size.min(14);
    bytes[..n].copy_from_slice(&header[..n]);
    bytes
}
