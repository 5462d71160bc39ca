//! A server and clients that echo, with rules of either kind: who meets, who is refused, who goes back to loopback.

use std::path::Path;
use std::process::Command;

use rig::skip::test_name;

use crate::{File, free_port, parts, preloaded, text};

/// `echo.py server PORT COUNT` serves so many connections, one after the other; `echo.py client PORT` makes one, and
/// prints whether it had a segment at its end. `forks`: each end has a child, which ends, and then there is a segment
/// again. `fill`: before anybody reads, both sides send many short messages.
/// `whole`: each receive waits for all (MSG_WAITALL).
/// `sleeps`: no end polls, and the client goes on until it has no segment any more.
const ECHO: &str = r#"
import os, signal, socket, sys
ROUNDS, SHORT, WHOLE = 40, 20000, 100
WAITS = "whole" in sys.argv
def all_of(connection, count):
    got = b""
    while len(got) < count:
        piece = connection.recv(count - len(got), socket.MSG_WAITALL * WAITS)
        assert piece, "ended early"
        got += piece
    return got
def fill(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(SHORT):
        assert connection.send(bytes([at % 251])) == 1
    assert all_of(connection, SHORT) == bytes(at % 251 for at in range(SHORT))
def has_segment():
    with open("/proc/self/maps") as maps:
        return any("sidestep-connection" in line for line in maps)
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
def ask(connection, what):
    connection.sendall(what)
    assert all_of(connection, 2) == b"go"
def until_segment(connection):
    while not has_segment():
        for at in range(100):
            connection.sendall(b"x")
            assert all_of(connection, 1) == b"x"
role, port, fills = sys.argv[1], int(sys.argv[2]), "fill" in sys.argv
if role == "server":
    listener = socket.create_server(("127.0.0.1", port))
    print("ready", flush=True)
    for _ in range(int(sys.argv[3])):
        connection, _ = listener.accept()
        with connection:
            most = WHOLE if WAITS else 65536
            while (got := connection.recv(most, socket.MSG_WAITALL * WAITS)) and got != b"fill":
                if got == b"fork":
                    fork()
                connection.sendall(b"go" if got == b"fork" else got)
            if got == b"fill":
                connection.sendall(b"go")
                fill(connection)
else:
    try:
        connection = socket.create_connection(("127.0.0.1", port))
    except OSError as refused:
        print("refused", refused.errno)
        sys.exit()
    try:
        for at in range(ROUNDS):
            said = bytes([at]) * (WHOLE if WAITS else 1 + at * 97)
            connection.sendall(said)
            assert all_of(connection, len(said)) == said
        if fills:
            ask(connection, b"fill")
            fill(connection)
        if "forks" in sys.argv:
            signal.alarm(int(sys.argv[-1]))
            for end in 2 * [fork, lambda: ask(connection, b"fork")]:
                until_segment(connection)
                end()
            until_segment(connection)
        if "sleeps" in sys.argv:
            signal.alarm(int(sys.argv[-1]))
            print("met" if has_segment() else "alone")
            while has_segment():
                for at in range(100):
                    connection.sendall(b"x")
                    assert all_of(connection, 1) == b"x"
        print("echoed", "segment" if has_segment() else "no segment")
    except ConnectionResetError:
        print("reset")
"#;

/// A program in Python; `rules`: under libsdp.so with these.
pub(crate) fn echo(words: &[&str], rules: Option<(&Path, &File)>) -> Command {
    let mut command = match rules {
        Some((library, rules)) => preloaded(library, Path::new("python3"), rules),
        None => Command::new("python3"),
    };
    if words.contains(&"sleeps") {
        command.env("VMA_RX_POLL", "0");
    }
    command.arg("-c").arg(ECHO).args(words);
    command
}

/// A server of [`ECHO`] that is killed when this goes.
pub(crate) struct EchoServer {
    process: std::process::Child,
    pub(crate) port: String,
    log: File,
}

impl EchoServer {
    pub(crate) fn start(count: usize, rules: Option<(&Path, &File)>) -> EchoServer {
        EchoServer::start_with(count, rules, &[])
    }

    fn start_with(count: usize, rules: Option<(&Path, &File)>, more: &[&str]) -> EchoServer {
        let port = free_port().to_string();
        let command = echo(&[&["server", &port, &count.to_string()], more].concat(), rules);
        EchoServer::spawn(port, command)
    }

    /// `command`: [`echo`]'s, of a server at `port`.
    pub(crate) fn spawn(port: String, mut command: Command) -> EchoServer {
        let log = File::new(&format!("echo-{port}"), "");
        command.stdout(std::process::Stdio::piped()).stderr(std::fs::File::create(&log.0).unwrap());
        let mut process = command.spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut ready).unwrap();
        EchoServer { process, port, log }
    }

    /// What a client says at its end, and what it logs.
    pub(crate) fn client(&self, rules: Option<(&Path, &File)>, more: &[&str]) -> (String, String) {
        let words = [&["client", &self.port], more].concat();
        let done = echo(&words, rules).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        (text(&done.stdout), text(&done.stderr))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log.0).unwrap()
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn rules_of(name: &str, wanted: &str) -> File {
    let rules = format!("log min-level 8\nuse {wanted} server * *:*\nuse {wanted} client * *:*\n");
    File::new(&format!("{}-{name}", test_name().replace(':', "-")), &rules)
}

#[test]
fn a_client_that_wants_sdp_alone_refuses_a_server_without_it() {
    let Some((library, _)) = parts() else { return };
    let (sdp, both) = (rules_of("sdp", "sdp"), rules_of("both", "both"));
    let plain = EchoServer::start(1, None);
    let (said, log) = plain.client(Some((&library, &sdp)), &[]);
    assert_eq!(said, format!("refused {}\n", libc::ECONNREFUSED));
    assert!(log.contains("refused (ECONNREFUSED): sdp wanted (rule ") && log.lines().count() == 1, "{log}");
    // The other one falls back, on the connection that it has.
    assert_eq!(plain.client(Some((&library, &both)), &[]).0, "echoed no segment\n");
    for rules in [&sdp, &both] {
        let server = EchoServer::start(1, Some((&library, rules)));
        assert_eq!(
            server.client(Some((&library, &sdp)), &[]),
            ("echoed segment\n".to_owned(), String::new())
        );
    }
}

#[test]
fn a_client_that_wants_sdp_alone_does_not_leave_the_host() {
    let Some((library, _)) = parts() else { return };
    let rules = rules_of("sdp", "sdp");
    let script = "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 9), 5)\nexcept OSError as e:\n    print(e.errno)";
    let mut command = preloaded(&library, Path::new("python3"), &rules);
    let done = command.args(["-c", script]).output().unwrap();
    assert_eq!(text(&done.stdout), format!("{}\n", libc::ENETUNREACH));
    assert!(text(&done.stderr).contains("which reaches this host only"), "{}", text(&done.stderr));
}

#[test]
fn a_server_that_wants_sdp_alone_resets_clients_without_it() {
    let Some((library, _)) = parts() else { return };
    let (sdp, both) = (rules_of("sdp", "sdp"), rules_of("both", "both"));
    let server = EchoServer::start(2, Some((&library, &sdp)));
    assert_eq!(server.client(None, &[]).0, "reset\n");
    for rules in [&both, &sdp] {
        assert_eq!(server.client(Some((&library, rules)), &[]).0, "echoed segment\n");
    }
    let log = server.log();
    assert!(log.contains("reset: sdp wanted of who connects, and it does not speak SDP"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_server_of_both_serves_both_kinds_of_clients_at_one_port() {
    let Some((library, _)) = parts() else { return };
    let both = rules_of("both", "both");
    let server = EchoServer::start(4, Some((&library, &both)));
    for _ in 0..2 {
        assert_eq!(server.client(None, &[]).0, "echoed no segment\n");
        assert_eq!(server.client(Some((&library, &both)), &[]).0, "echoed segment\n");
    }
    assert_eq!(server.log(), "");
}

#[test]
fn ends_that_sleep_for_each_message_go_back_to_loopback() {
    let Some((library, _)) = parts() else { return };
    let rules = "log min-level 7\nuse both server * *:*\nuse both client * *:*\n";
    let rules = File::new(&test_name().replace(':', "-"), rules);
    let server = EchoServer::start_with(1, Some((&library, &rules)), &["sleeps"]);
    let patience = rig::PATIENCE.as_secs().to_string();
    let (said, log) = server.client(Some((&library, &rules)), &["sleeps", &patience]);
    assert_eq!(said, "met\nechoed no segment\n");
    let is_told = |log: &str| log.contains("TCP carries it: both its ends sleep for each message");
    assert!(is_told(&log), "{log}");
    rig::eventually("the server tells it, too", || is_told(&server.log()));
}

#[test]
fn ends_that_wait_for_whole_messages_meet() {
    let Some((library, _)) = parts() else { return };
    let both = rules_of("both", "both");
    let server = EchoServer::start_with(1, Some((&library, &both)), &["whole"]);
    assert_eq!(server.client(Some((&library, &both)), &["whole"]).0, "echoed segment\n");
}

#[test]
fn two_sides_that_both_send_many_short_messages_do_not_wait_for_each_other() {
    let Some((library, _)) = parts() else { return };
    let both = rules_of("both", "both");
    let server = EchoServer::start(1, Some((&library, &both)));
    assert_eq!(server.client(Some((&library, &both)), &["fill"]).0, "echoed segment\n");
}
