//! Real programs under the library behave as without it.

mod common;

use common::{Server, apps, command, free_port, have, scratch, succeeds};

fn python(script: &str, preload: bool) -> String {
    let mut run = command("python3", preload);
    run.arg(apps().join(script));
    String::from_utf8(succeeds(run).stdout).unwrap()
}

#[test]
fn python_sockets_subprocesses_multiprocessing_and_asyncio() {
    if have("python3") {
        assert_eq!(python("everyday.py", true), python("everyday.py", false));
    }
}

#[test]
fn curl_fetches_from_a_python_server() {
    if !have("python3") || !have("curl") {
        return;
    }
    let port = free_port();
    let folder = scratch("www");
    std::fs::create_dir_all(&folder).unwrap();
    let content: String = (0..60_000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(folder.join("file"), &content).unwrap();
    let mut server = command("python3", true);
    server.args(["-m", "http.server", "--bind", "127.0.0.1"]).arg(port.to_string()).current_dir(&folder);
    let _server = Server::start(server, port);
    for preload in [false, true] {
        let mut fetch = command("curl", preload);
        fetch.args(["-sS", "--fail", "--noproxy", "*"]).arg(format!("http://127.0.0.1:{port}/file"));
        assert!(succeeds(fetch).stdout == content.as_bytes(), "the file came through changed");
    }
}

#[test]
fn redis_serves_its_benchmark() {
    if !have("redis-server") || !have("redis-benchmark") {
        return;
    }
    let port = free_port();
    let mut server = command("redis-server", true);
    server.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", "/tmp", "--port"]);
    server.arg(port.to_string());
    let _server = Server::start(server, port);
    let mut benchmark = command("redis-benchmark", true);
    benchmark.args(["-n", "2000", "-t", "set,get,lpush", "--csv", "-p"]).arg(port.to_string());
    let said = String::from_utf8(succeeds(benchmark).stdout).unwrap();
    for name in ["SET", "GET", "LPUSH"] {
        assert!(said.contains(&format!("\"{name}\"")), "no result for {name} in: {said}");
    }
}

/// It imports no socket function, but looks each up by dlsym.
#[test]
fn sockperf_measures() {
    if !have("sockperf") {
        return;
    }
    let port = free_port();
    let address = ["-i", "127.0.0.1", "--tcp", "-p"];
    let mut server = command("sockperf", true);
    server.arg("sr").args(address).arg(port.to_string());
    let _server = Server::start(server, port);
    let mut client = command("sockperf", true);
    client.arg("pp").args(address).arg(port.to_string()).args(["-t", "1"]);
    let said = String::from_utf8(succeeds(client).stdout).unwrap();
    assert!(said.contains("dropped messages = 0"), "{said}");
}
