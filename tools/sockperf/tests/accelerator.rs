//! The extra API's paths, against a stand-in accelerator, by LD_PRELOAD and by --load-vma.

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{OURS, Server, TempFile, client, free_port, number};

/// The stand-in. `cargo test` builds it beside the tests; `cargo test --test accelerator` does not.
fn library() -> String {
    static BUILT: OnceLock<String> = OnceLock::new();
    let build = || {
        let mut path = PathBuf::from(OURS);
        path.pop();
        let release = path.ends_with("release");
        path.push("examples/libfake_accelerator.so");
        if !path.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "-p", "sockperf", "--example", "fake_accelerator"]);
            assert!(cargo.args(release.then_some("--release")).status().unwrap().success());
        }
        path.to_string_lossy().into_owned()
    };
    BUILT.get_or_init(build).clone()
}

/// Runs a client under the stand-in; standard output and error together.
fn accelerated(args: &str) -> (String, Option<i32>) {
    let out = Command::new(OURS).args(args.split_whitespace()).env("LD_PRELOAD", library()).output().unwrap();
    (
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr),
        out.status.code(),
    )
}

fn accelerated_server(args: &str, port: u16) -> Server {
    let child = Command::new("env")
        .arg(format!("LD_PRELOAD={}", library()))
        .args([OURS, "sr"])
        .args(args.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let server = Server { child, port };
    server.await_bound();
    server
}

#[test]
fn zero_copy_reads_go_through_the_extra_api() {
    for transport in ["", "--tcp"] {
        let server = Server::start(OURS, transport);
        let (text, code) = accelerated(&format!(
            "pp -n 100 -m 300 --vmazcopyread -i 127.0.0.1 -p {} {transport}",
            server.port
        ));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("fake accelerator: zero-copy read"), "{text}");
    }
    let port = free_port();
    let server = accelerated_server(&format!("--zcopyread -i 127.0.0.1 -p {port}"), port);
    let (text, code) = client(OURS, &format!("pp -n 100 -m 300 --data-integrity -i 127.0.0.1 -p {port}"));
    assert_eq!(code, Some(0), "{text}");
    let (served, _) = server.stop();
    assert!(number(&served, "Total ") >= 9100.0, "{served}");
}

#[test]
fn the_receive_callback_answers_and_drops() {
    let port = free_port();
    let server = accelerated_server(&format!("--vmarxfiltercb -i 127.0.0.1 -p {port}"), port);
    let (text, code) = client(OURS, &format!("pp -n 100 -i 127.0.0.1 -p {port}"));
    assert_eq!(code, Some(0), "{text}");
    let (served, _) = server.stop();
    assert!(number(&served, "Total ") >= 9100.0, "{served}");
}

#[test]
fn socketxtreme_serves_and_measures_by_completions() {
    let port = free_port();
    let feed = TempFile::new("feed", &format!("127.0.0.1:{port}\n"));
    let server = accelerated_server(&format!("-f {} -F x", feed.0), port);
    let (text, code) = accelerated(&format!(
        "pp -n 100 -m 200 -f {} -F socketxtreme --client_ip 127.0.0.1 --no-peer-query",
        feed.0
    ));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("fake accelerator: completion") && text.contains("using socketxtreme()"), "{text}");
    let (served, _) = server.stop();
    assert!(number(&served, "Total ") >= 9100.0, "{served}");
}

#[test]
fn dummy_sends_are_made_under_an_accelerator_only() {
    let server = Server::start(OURS, "");
    let args = format!("ul -t 1 --mps 100 --reply-every 1 --dummy-send 5000 -i 127.0.0.1 -p {}", server.port);
    let (text, code) = accelerated(&args);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("fake accelerator: dummy send"), "{text}");
    let (plain, code) = client(OURS, &args);
    assert_eq!(code, Some(0), "{plain}");
    assert!(plain.contains("NOTE: no accelerator is loaded"), "{plain}");
    let (served, _) = server.stop();
    let sent = number(&text, "SentMessages=") + number(&plain, "SentMessages=");
    assert_eq!(number(&served, "Total "), sent, "{served}");
}

#[test]
fn a_library_can_be_loaded_without_ld_preload() {
    let server = Server::start(OURS, "");
    for option in ["--load-vma", "--load-xlio"] {
        let (text, code) =
            client(OURS, &format!("pp -n 10 {option}={} -i 127.0.0.1 -p {}", library(), server.port));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("fake accelerator: sendto"), "{text}");
        let (text, code) =
            client(OURS, &format!("pp {option}=/nonexistent.so -i 127.0.0.1 -p {}", server.port));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("cannot load /nonexistent.so"), "{text}");
    }
}

#[test]
fn options_of_the_extra_api_are_refused_on_a_plain_kernel() {
    let feed = TempFile::new("feed", "127.0.0.1:9\n");
    for args in ["pp --zcopyread", "sr --rxfiltercb", &format!("sr -f {} -F x", feed.0)] {
        let (text, code) = client(OURS, args);
        assert_eq!(code, Some(6), "{text}");
        assert!(text.contains("needs the accelerator's extra API"), "{text}");
    }
}
