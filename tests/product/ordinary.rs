//! On the ordinary interface programs behave under the preload as without it: same exit status, same output, nothing
//! on standard error. The interface of this machine's own traffic is never accelerated here.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rig::skip::{skipped, test_name};
use tests::library;

/// Runs a command line here, in the machine's own namespace, with and without the preload.
fn both(words: &str) -> Option<(Output, Output)> {
    let Some(library) = library() else {
        skipped(&test_name(), "no target/release/libvma.so: cargo build --release -p preload");
        return None;
    };
    let run = |preload: bool| {
        let mut command = Command::new("timeout");
        command.arg("60").args(words.split_whitespace()).stdin(Stdio::null());
        // Said twice on purpose: whatever `auto` decides, nothing is attached to this machine's interfaces.
        command.env("SIDESTEP_INTERFACES", "!*");
        if preload {
            command.env("LD_PRELOAD", &library);
        }
        command.output().unwrap()
    };
    Some((run(false), run(true)))
}

fn assert_same(kernel: &Output, ours: &Output) {
    assert_eq!(ours.status, kernel.status, "stderr: {}", String::from_utf8_lossy(&ours.stderr));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&kernel.stdout));
    let noisy = String::from_utf8_lossy(&ours.stderr);
    let noisy: Vec<&str> =
        noisy.lines().filter(|line| line.contains("WARNING") || line.contains("ERROR")).collect();
    assert!(noisy.is_empty(), "{noisy:?}");
}

/// Whether Debian's archive can be reached from here, directly.
fn archive_answers() -> bool {
    use std::net::ToSocketAddrs;
    let Ok(addresses) = ("deb.debian.org", 80).to_socket_addrs() else { return false };
    addresses.take(2).any(|address| TcpStream::connect_timeout(&address, Duration::from_secs(3)).is_ok())
}

#[test]
fn curl_fetches_from_this_machine_as_without_us() {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        }
    });
    let Some((kernel, ours)) = both(&format!("curl -sS --noproxy * http://127.0.0.1:{port}/")) else {
        return;
    };
    assert_same(&kernel, &ours);
    assert_eq!(ours.stdout, b"hello");
    server.join().unwrap();
}

#[test]
fn curl_fetches_over_the_ordinary_interface_as_without_us() {
    if !archive_answers() {
        return skipped(&test_name(), "deb.debian.org does not answer");
    }
    let url = "http://deb.debian.org/debian/dists/stable/Release.gpg";
    let Some((kernel, ours)) = both(&format!("curl -sS --fail {url}")) else { return };
    assert_same(&kernel, &ours);
    assert!(ours.status.success());
}

#[test]
fn apt_get_update_behaves_as_without_us() {
    if !rig::is_root() {
        return skipped(&test_name(), "not root: apt-get update needs it");
    }
    if !archive_answers() {
        return skipped(&test_name(), "deb.debian.org does not answer");
    }
    let Some((kernel, ours)) = both("apt-get -q update") else { return };
    assert_eq!(ours.status, kernel.status, "{}", String::from_utf8_lossy(&ours.stderr));
    assert!(ours.status.success());
}
