//! Connections inside the host under libvma.so, which no rule names, and between the two libraries.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rig::eventually;
use rig::skip::skipped;
use stats::{Carrier, Snapshot, Socket, Verdict, Why};

use crate::echo::{EchoServer, echo, rules_of};
use crate::{free_port, library, parts, test_name, text};

/// `command` under libvma.so, with these variables.
fn under(vma: &Path, mut command: Command, more: &[(&str, &str)]) -> Command {
    command.env("LD_PRELOAD", vma).env("VMA_STATS_SHMEM_DIR", "").envs(more.iter().copied());
    command
}

/// A server under libvma.so.
fn served(vma: &Path, more: &[(&str, &str)]) -> EchoServer {
    let port = free_port().to_string();
    let command = under(vma, echo(&["server", &port, "9"], None), more);
    EchoServer::spawn(port, command)
}

/// What a client of `server` says at its end.
fn client(vma: &Path, server: &EchoServer, more: &[(&str, &str)]) -> String {
    let done = under(vma, echo(&["client", &server.port], None), more).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stderr), "", "nothing is told that nobody asked for");
    text(&done.stdout)
}

#[test]
fn connections_meet_by_themselves_unless_one_end_or_the_user_is_against_it() {
    let Some((sdp, _)) = parts() else { return };
    let vma = library().unwrap();
    let both = rules_of("both", "both");
    let server = |more: &[(&str, &str)]| served(&vma, more);
    assert_eq!(client(&vma, &server(&[]), &[]), "echoed segment\n");
    assert_eq!(client(&vma, &server(&[]), &[("SIDESTEP_LOCAL", "off")]), "echoed no segment\n");
    assert_eq!(client(&vma, &server(&[]), &[("SIDESTEP_CARRIER", "kernel")]), "echoed no segment\n");
    assert_eq!(server(&[]).client(Some((&sdp, &both)), &[]).0, "echoed segment\n", "the protocol is one");
    assert_eq!(client(&vma, &server(&[("SIDESTEP_LOCAL", "off")]), &[]), "echoed no segment\n");
    assert_eq!(client(&vma, &EchoServer::start(1, Some((&sdp, &both))), &[]), "echoed segment\n");
    assert_eq!(client(&vma, &EchoServer::start(1, None), &[]), "echoed no segment\n");
}

#[test]
fn a_fork_takes_a_connection_from_memory_only_until_its_child_has_ended() {
    let Some((_, _)) = parts() else { return };
    let vma = library().unwrap();
    let server = served(&vma, &[]);
    let patience = rig::PATIENCE.as_secs().to_string();
    let client =
        under(&vma, echo(&["client", &server.port, "forks", &patience], None), &[]).output().unwrap();
    assert_eq!((text(&client.stdout), text(&client.stderr)), ("echoed segment\n".into(), "".into()));
}

#[test]
fn what_a_rule_leaves_to_the_kernel_stays_there() {
    let Some((_, _)) = parts() else { return };
    let vma = library().unwrap();
    let rules = crate::File::new("by-itself-os", "use os tcp_client 127.0.0.0/8:*\n");
    let by_rule = [("VMA_CONFIG_FILE", rules.0.to_str().unwrap())];
    assert_eq!(client(&vma, &served(&vma, &[]), &by_rule), "echoed no segment\n");
    assert_eq!(client(&vma, &served(&vma, &[]), &[]), "echoed segment\n");
}

/// Ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The connections of a process, by its statistics.
fn sockets(process: &Child, folder: &Path) -> Vec<Socket> {
    let path = folder.join(stats::segment::file_name(process.id()));
    let snapshot = std::fs::read(path).ok().and_then(|bytes| Snapshot::parse(&bytes).ok());
    let sockets = snapshot.map_or_else(Vec::new, |snapshot| snapshot.sockets);
    sockets.iter().map(|socket| Socket::from_words(&socket.words())).collect()
}

#[test]
fn redis_and_its_client_go_through_memory_and_vma_stats_tells() {
    let (Some(_), true) = (parts(), Path::new("/usr/bin/redis-server").exists()) else {
        return skipped(&test_name(), "no redis-server");
    };
    let vma = library().unwrap();
    for local in ["shm", "off"] {
        let port = free_port().to_string();
        let folder = std::env::temp_dir().join(format!("by-itself-{port}"));
        std::fs::create_dir(&folder).unwrap();
        let redis = |program: &str, words: &[&str]| {
            let mut command = under(&vma, Command::new(program), &[("SIDESTEP_LOCAL", local)]);
            command.env("VMA_STATS_SHMEM_DIR", &folder).args(words).stdout(Stdio::piped());
            command
        };
        let server = Running(
            redis("redis-server", &["--port", &port, "--save", ""]).stdout(Stdio::null()).spawn().unwrap(),
        );
        eventually("redis serves", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
        let long = ["-p", &port, "-c", "1", "-t", "incr", "-n", "100000000", "-q"];
        let client = Running(redis("redis-benchmark", &long).stdout(Stdio::null()).spawn().unwrap());
        eventually("it is carried so", || {
            let is_so = |socket: &Socket| match Carrier::from_number(socket.carrier.value()) {
                Carrier::Memory => local == "shm" && socket.remote.value() != 0,
                Carrier::Kernel => local == "off" && socket.why.value() == Why::LocalAddress as u64,
                _ => false,
            };
            sockets(&client.0, &folder).iter().any(is_so) && sockets(&server.0, &folder).iter().any(is_so)
        });
        if local == "shm" {
            let has_met = |socket: &Socket| socket.verdict.value() == Verdict::MetPeer as u64;
            assert!(sockets(&server.0, &folder).iter().any(has_met));
            let is_counted = |socket: &Socket| {
                let sums = [stats::report::calls(socket), stats::report::bytes(socket)];
                sums.iter().all(|sum| sum.memory > 0 && sum.wire == 0)
                    && stats::report::has(socket, stats::flag::ACCELERATED)
            };
            eventually("its calls are counted where they were made", || {
                [&client, &server].iter().all(|end| sockets(&end.0, &folder).iter().any(is_counted))
            });
        }
        drop(client);
        let asked =
            redis("redis-cli", &["-p", &port, "INCRBY", "counter:__rand_int__", "0"]).output().unwrap();
        assert!(text(&asked.stdout).trim().parse::<u64>().unwrap() > 0, "{asked:?}");
        drop(server);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
