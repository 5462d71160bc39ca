//! Programs that people run: redis, iperf3, Python's http.server and curl, accelerated at both ends and mixed.

use std::path::{Path, PathBuf};

use rig::{Finished, Host, Options, Program, Protocol, Running};
use tests::{DEADLINE, World, assert_host_bypassed, assert_opened_nothing, world};

/// Debian's own, never a version manager's wrapper script.
const PYTHON: &str = "/usr/bin/python3";

/// Which ends are accelerated: client, server.
const WAYS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

fn accelerated(world: &World, program: Program, yes: bool) -> Program {
    program.preload(yes.then_some(world.library.as_path()))
}

fn serve(world: &World, program: Program, yes: bool, port: u16) -> Running {
    let mut server = accelerated(world, program, yes).start().unwrap();
    server.wait_for_port(Protocol::Tcp, port, DEADLINE).unwrap();
    server
}

/// Runs `client` against a server that is up, and checks that the accelerated ends bypassed their kernels.
fn ask(world: &World, client: Program, way: (bool, bool)) -> Finished {
    let hosts = [&world.hosts.left, &world.hosts.right];
    let before = hosts.map(|host| host.counters().unwrap());
    let finished = accelerated(world, client, way.0).run(DEADLINE).and_then(Finished::success);
    let finished = finished.unwrap_or_else(|error| panic!("client, server accelerated: {way:?}: {error}"));
    for ((host, before), (name, yes)) in hosts.iter().zip(&before).zip([("client", way.0), ("server", way.1)])
    {
        if yes {
            assert_host_bypassed(name, &host.counters().unwrap().since(before));
        }
    }
    finished
}

#[test]
fn redis_benchmark_gets_right_answers() {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address;
    for way in WAYS {
        let words = format!("--bind {address} --port 6379 --protected-mode no --appendonly no --save");
        let server =
            serve(&world, world.hosts.right.program("redis-server").words(&words).argument(""), way.1, 6379);
        let benchmark = format!("-h {address} -p 6379 -n 5000 -c 10 -t set,get,lpush,lrange_100,mset -q");
        let said = ask(&world, world.hosts.left.program("redis-benchmark").words(&benchmark), way).stdout;
        assert!(said.contains("requests per second"), "{said}");
        assert!(!said.contains("Error"), "{said}");
        let value = "x".repeat(100_000);
        let set = world.hosts.left.program("redis-cli").words(&format!("-h {address} set key {value}"));
        assert_eq!(ask_once(&world, set, way.0), "OK");
        let get = world.hosts.left.program("redis-cli").words(&format!("-h {address} get key"));
        assert_eq!(ask_once(&world, get, way.0), value);
        server.kill().unwrap();
    }
}

fn ask_once(world: &World, client: Program, yes: bool) -> String {
    let finished = accelerated(world, client, yes).run(DEADLINE).and_then(Finished::success).unwrap();
    finished.stdout.trim().to_owned()
}

#[test]
fn iperf3_tcp_runs_in_both_directions() {
    iperf3("-t 1");
    iperf3("-t 1 -R");
}

#[test]
fn iperf3_udp_runs_in_both_directions() {
    iperf3("-t 1 -u -b 20M -l 1400");
    iperf3("-t 1 -u -b 20M -l 1400 -R");
}

fn iperf3(words: &str) {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address;
    for way in WAYS {
        let server = world.hosts.right.program("iperf3").words(&format!("-s -1 -B {address}"));
        let server = serve(&world, server, way.1, 5201);
        let client = world.hosts.left.program("iperf3").words(&format!("-c {address} --json {words}"));
        let said = ask(&world, client, way).stdout;
        assert!(!said.contains("\"error\""), "{words} {way:?}: {said}");
        let received = said.rsplit_once("\"bytes\":").map(|(_, rest)| rest.trim_start());
        let received = received.and_then(|rest| rest.split([',', '\n']).next()).unwrap_or("0");
        assert!(received.trim().parse::<f64>().is_ok_and(|bytes| bytes > 0.0), "{words} {way:?}: {said}");
        server
            .finish(DEADLINE)
            .and_then(Finished::success)
            .unwrap_or_else(|e| panic!("{words} {way:?}: {e}"));
    }
}

#[test]
fn curl_fetches_a_file_from_pythons_http_server_intact() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("http");
    let content: Vec<u8> =
        (0..3_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(folder.0.join("file"), &content).unwrap();
    for way in WAYS {
        let server = http_server(&world.hosts.right, &folder.0);
        let server = serve(&world, server, way.1, 8000);
        let fetched = folder.0.join("fetched");
        let words = format!("-sS --max-time 60 http://{}:8000/file -o", world.hosts.right.address);
        ask(&world, world.hosts.left.program("curl").words(&words).argument(&fetched), way);
        assert!(std::fs::read(&fetched).unwrap() == content, "{way:?}: the file that arrived differs");
        server.kill().unwrap();
    }
}

fn http_server(host: &Host, folder: &Path) -> Program {
    let words = format!("-u -m http.server 8000 --bind {}", host.address);
    host.program(PYTHON).words(&words).directory(folder)
}

#[test]
fn curl_says_the_same_about_a_refused_connection() {
    let Some(world) = world(&Options::default()) else { return };
    let words = format!("-sS --max-time 60 http://{}:9/", world.hosts.right.address);
    let curl = world.hosts.left.program("curl").words(&words);
    let kernel = curl.run(DEADLINE).unwrap();
    let before = world.hosts.left.counters().unwrap();
    let ours = accelerated(&world, curl, true).run(DEADLINE).unwrap();
    assert_opened_nothing(&world.hosts.left, &before);
    assert_eq!(ours.status.code(), kernel.status.code());
    assert_eq!(ours.status.code(), Some(7), "curl: failed to connect");
}

/// A folder of this test, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("rig-{}-{label}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
