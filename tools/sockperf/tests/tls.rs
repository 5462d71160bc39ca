//! TLS: every mode and multiplexer between ours, both roles against OpenSSL's own programs, and peers that are no TLS.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use common::{OURS, Server, TempFile, client, echo, free_port, message, number};

/// One of each version.
const CIPHERS: [&str; 2] = ["AES128-GCM-SHA256", "TLS_AES_256_GCM_SHA384"];

fn served(args: &str, wanted: &str) -> String {
    let (text, code) = client(OURS, args);
    assert_eq!(code, Some(0), "{args}: {text}");
    assert!(text.contains(wanted), "{args}: no '{wanted}' in {text}");
    text
}

#[test]
fn every_mode_works_over_both_versions() {
    let data = TempFile::new("playback", "0.05, 14\n0.1, 20000\n0.15, 64000\n");
    for cipher in CIPHERS {
        let tls = format!("--tcp --tls={cipher}");
        let server = Server::start(OURS, &tls);
        let to = format!("-i 127.0.0.1 -p {} {tls}", server.port);
        let version = if cipher.starts_with("TLS_") { "TLS: TLSv1.3 " } else { "TLS: TLSv1.2 ECDHE-ECDSA-" };
        for mode in [
            "pp -t 1 -m 64 --data-integrity".to_string(),
            "pp -t 1 -m 60000 -r 5000 --nonblocked".to_string(),
            "pp -t 1 -b 10 --nonblocked --recv_looping_num=-1".to_string(),
            "ul -t 1 --mps 500 --reply-every 5 -m 1400".to_string(),
            format!("pb --data-file {} --reply-every 1", data.0),
        ] {
            let text = served(&format!("{mode} {to}"), version);
            assert!(number(&text, "ReceivedMessages=") > 2.0, "{mode}: {text}");
            assert_eq!(number(&text, "# dropped messages ="), 0.0, "{mode}: {text}");
        }
        let text = served(&format!("tp -t 1 -m 20000 {to}"), version);
        assert!(number(&text, "[Delivered] ") > 0.0, "{text}");
        assert!(text.contains("(100.00%)"), "{text}");
        let (text, code) = server.stop();
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("[Refused]"), "{text}");
    }
}

#[test]
fn a_message_as_long_as_a_stream_may_have_and_sends_that_would_block() {
    let server = Server::start(OURS, "--tcp --tls -m 1048575");
    let to = format!("-i 127.0.0.1 -p {} --tcp --tls", server.port);
    served(&format!("pp -t 1 -m 1048575 --data-integrity {to}"), "TLSv1.2");
    for more in ["--tcp-skip-blocking-send", "--tcp-skip-blocking-send --nonblocked --buffer-size 5000"] {
        let text = served(&format!("tp -t 1 -m 100000 {more} {to}"), "Message Rate");
        assert!(text.contains("(100.00%)"), "what was not skipped must arrive: {text}");
    }
    let (text, _) = server.stop();
    assert!(!text.contains("[Refused]"), "{text}");
}

#[test]
fn many_connections_work_in_every_multiplexer() {
    for (mux, more) in
        [("e", ""), ("p", "--threads-num 2"), ("s", "--nonblocked --recv_looping_num=-1"), ("r", "")]
    {
        let ports = [free_port(), free_port(), free_port()];
        let lines: String = ports.iter().map(|port| format!("T:127.0.0.1:{port}\n")).collect();
        let feed = TempFile::new("feed", &lines);
        let tls = "--tls=TLS_AES_128_GCM_SHA256";
        let server = Server::start_at(OURS, ports[2], &format!("-f {} -F {mux} {tls} {more}", feed.0));
        // In turn there is one connection for each listener, and no place for a question.
        let quiet = if mux == "r" { "--no-peer-query" } else { "" };
        let nonblocked = more.replace("--threads-num 2", "");
        for mode in ["pp -t 1 -m 5000", "ul -t 1 --mps 300 --reply-every 1"] {
            let text =
                served(&format!("{mode} -f {} -F {mux} {tls} {quiet} {nonblocked}", feed.0), "TLSv1.3");
            assert_eq!(number(&text, "# dropped messages ="), 0.0, "{mux}: {text}");
        }
        let (text, code) = server.stop();
        assert_eq!(code, Some(0), "{mux}: {text}");
    }
}

#[test]
fn unix_sockets_carry_tls_too() {
    let path = std::env::temp_dir().join(format!("sockperf-tls-{}", std::process::id()));
    let path = path.to_string_lossy().into_owned();
    let mut server =
        Command::new(OURS).args(["sr", "--tcp", "--tls", "-i", &path]).stdout(Stdio::null()).spawn().unwrap();
    common::eventually("the server has its path", || std::path::Path::new(&path).exists());
    served(&format!("pp -n 100 --tcp --tls -i {path}"), "TLSv1.2");
    // SAFETY: the child is ours.
    unsafe { libc::kill(server.id() as i32, libc::SIGTERM) };
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// A program of OpenSSL's that copies between its pipes and a TLS session.
struct Openssl {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Openssl {
    /// `None`, and said so, without the program.
    fn start(args: &str) -> Option<Openssl> {
        let mut command = Command::new("openssl");
        command
            .args(args.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            rig::skip::skipped_here("openssl is not installed, so no independent TLS was talked to");
            return None;
        };
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Openssl { child, to, from })
    }

    /// The bytes of the next whole message.
    fn message(from: &mut ChildStdout) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 14];
        from.read_exact(&mut bytes).ok()?;
        let length = u32::from_be_bytes(bytes[10..14].try_into().unwrap()) as usize;
        bytes.resize(length, 0);
        from.read_exact(&mut bytes[14..]).ok()?;
        Some(bytes)
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn openssls_client_is_served() {
    for (ours, theirs) in [
        ("AES128-GCM-SHA256", "-tls1_2"),
        ("AES256-GCM-SHA384", "-tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "-tls1_2"),
        ("TLS_AES_128_GCM_SHA256", "-tls1_3"),
        ("TLS_AES_256_GCM_SHA384", "-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384"),
        // Not what we offer first: the handshake takes one more round.
        ("TLS_AES_128_GCM_SHA256", "-tls1_3 -groups P-521:P-384"),
    ] {
        let server = Server::start(OURS, &format!("--tcp --tls={ours}"));
        let args = format!("s_client -quiet -connect 127.0.0.1:{} {theirs}", server.port);
        let Some(mut first) = Openssl::start(&args) else { return };
        let mut second = Openssl::start(&args).unwrap();
        for size in [14, 20, 1400, 20_000, 65_507] {
            for peer in [&mut first, &mut second] {
                let request = message(size as u64, 3, size as u32, size);
                peer.to.write_all(&request).unwrap();
                assert_eq!(Openssl::message(&mut peer.from), Some(echo(&request)), "{ours} {size}");
            }
        }
        drop((first, second));
        let (text, code) = server.stop();
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("Total 10 messages") && !text.contains("[Refused]"), "{ours}: {text}");
    }
}

/// Certificate and key of a server, as `openssl` makes them.
struct Identity(TempFile, TempFile);

impl Identity {
    /// Of X.509's first version, as the original's are.
    fn new(kind: &str) -> Option<Identity> {
        let (certificate, key, request) =
            (TempFile::new("cert.pem", ""), TempFile::new("key.pem", ""), TempFile::new("req.pem", ""));
        let run = |args: &str| {
            let mut command = Command::new("openssl");
            command.args(args.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let (key_path, path) = (&key.0, &request.0);
        (run(&format!("req -new -newkey {kind} -nodes -subj /CN=x -keyout {key_path} -out {path}"))
            && run(&format!("x509 -req -in {path} -signkey {key_path} -days 1 -out {}", certificate.0)))
        .then_some(Identity(certificate, key))
    }
}

#[test]
fn our_client_is_served_by_openssls_server() {
    let rsa = Identity::new("rsa:2048");
    let ecdsa = Identity::new("ec -pkeyopt ec_paramgen_curve:secp384r1");
    let (Some(rsa), Some(ecdsa)) = (rsa, ecdsa) else {
        return rig::skip::skipped_here("openssl is not installed, so no independent TLS was talked to");
    };
    for (ours, identity, theirs, agreed) in [
        ("AES128-GCM-SHA256", &rsa, "-tls1_2", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("AES128-GCM-SHA256", &ecdsa, "-tls1_2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES256-GCM-SHA384", &rsa, "", "TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_AES_128_GCM_SHA256", &ecdsa, "", "TLSv1.3 TLS_AES_128_GCM_SHA256"),
        ("TLS_AES_256_GCM_SHA384", &rsa, "-tls1_3 -groups P-384", "TLS_AES_256_GCM_SHA384"),
    ] {
        let port = free_port();
        let files = format!("-cert {} -key {}", identity.0.0, identity.1.0);
        let args = format!("s_server -quiet -accept 127.0.0.1:{port} {files} {theirs}");
        let Openssl { child, to, from } = &mut Openssl::start(&args).unwrap();
        await_listener(port);
        let to_client = format!("-i 127.0.0.1 -p {port} --tcp --tls={ours} --no-peer-query");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(request) = Openssl::message(from) {
                    if request[9] & 2 != 0 && to.write_all(&echo(&request)).is_err() {
                        return;
                    }
                }
            });
            let modes =
                ["pp -t 1 -m 3000 --data-integrity", "ul -t 1 --mps 200 --reply-every 2", "tp -t 1 -m 30000"];
            // All of them once for each version; the handshake is what differs otherwise.
            let some = if theirs.is_empty() { 3 } else { 1 };
            for mode in &modes[..some] {
                let text = served(&format!("{mode} {to_client}"), agreed);
                if !mode.starts_with("tp") {
                    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{ours} {mode}: {text}");
                }
            }
            let _ = child.kill();
        });
    }
}

fn await_listener(port: u16) {
    let needle = format!("0100007F:{port:04X} 00000000:0000 0A");
    common::eventually(&format!("somebody listens at {port}"), || {
        std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap().contains(&needle)
    });
}

#[test]
fn a_cipher_the_peer_does_not_want_ends_the_client_with_a_reason() {
    let server = Server::start(OURS, "--tcp --tls=TLS_AES_128_GCM_SHA256");
    let to = format!("-i 127.0.0.1 -p {} --tcp", server.port);
    let (text, code) = client(OURS, &format!("pp {to} --tls"));
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("no TLS with") && text.contains("the server needs --tls with a cipher"), "{text}");
    let (text, code) = client(OURS, &format!("pp {to} --no-peer-query"));
    assert_eq!(code, Some(7), "a client without TLS: {text}");
    served(&format!("pp -n 100 {to} --tls=TLS_AES_128_GCM_SHA256"), "TLSv1.3");
    let plain = Server::start(OURS, "--tcp");
    let (text, code) = client(OURS, &format!("pp --tcp --tls -i 127.0.0.1 -p {}", plain.port));
    assert_eq!(code, Some(7), "{text}");
    let (text, code) = plain.stop();
    assert_eq!(code, Some(0), "{text}");
}

/// What no client of TLS would send, and what one might leave off in the middle.
fn bad_beginnings() -> Vec<Vec<u8>> {
    let mut beginnings: Vec<Vec<u8>> = vec![
        vec![],
        vec![0x16],
        vec![0x16, 3, 1, 0xff, 0xff],
        vec![0x16, 3, 1, 0x40, 0x00, 1, 0, 0x3f, 0xfc],
        vec![0x16, 3, 3, 0, 0],
        vec![0x15, 3, 3, 0, 2, 1, 0],
        vec![0x17, 3, 3, 0, 20, 0, 0, 0, 0],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        message(1, 3, 14, 14),
        vec![0xff; 40_000],
        vec![0; 40_000],
    ];
    // Handshake records without end.
    let mut endless = vec![0x16, 3, 3, 0x20, 0, 1, 0xff, 0xff, 0xff];
    endless.resize(5 + 0x2000, 0);
    beginnings.push(endless.repeat(10));
    beginnings
}

#[test]
fn connections_that_are_no_tls_do_not_keep_the_server_from_others() {
    for args in ["--tcp --tls", "--tcp --tls=TLS_AES_128_GCM_SHA256 --nonblocked"] {
        let server = Server::start(OURS, args);
        let mut held = Vec::new();
        for beginning in bad_beginnings() {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            let _ = stream.write_all(&beginning);
            // A third says that this is all, a third leaves, and a third stalls.
            match held.len() % 3 {
                0 => drop(stream.shutdown(Shutdown::Write)),
                1 => drop(stream.shutdown(Shutdown::Both)),
                _ => {}
            }
            held.push(stream);
        }
        let text = served(&format!("pp -n 100 -i 127.0.0.1 -p {} {args}", server.port), "TLS: ");
        assert_eq!(number(&text, "# dropped messages ="), 0.0, "{text}");
        let idle = cpu_of_half_a_second(&server);
        assert!(args.contains("--nonblocked") || idle < 10, "the idle server used {idle} ticks");
        drop(held);
        let (text, code) = server.stop();
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("[Refused] "), "{text}");
    }
}

/// Processor time in clock ticks.
fn cpu_of_half_a_second(server: &Server) -> u64 {
    let cpu = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(") ").next().unwrap().split(' ').filter_map(|f| f.trim().parse().ok()).collect();
        fields[10] + fields[11]
    };
    let before = cpu();
    std::thread::sleep(Duration::from_millis(500));
    cpu() - before
}

#[test]
fn a_server_that_is_no_tls_or_stalls_ends_the_client_in_time() {
    for (answer, code) in [
        (Some(b"220 mail.example\r\n".to_vec()), 7),
        (Some(vec![0x16, 3, 3, 0xff, 0xff]), 7),
        (Some(vec![0x15, 3, 3, 0, 2, 2, 40]), 7),
        (Some(Vec::new()), 7),
        (Some(vec![0xff; 100_000]), 7),
        (None, 8),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                match &answer {
                    Some(bytes) => {
                        let _ = stream.read(&mut [0; 1000]);
                        let _ = stream.write_all(bytes);
                    }
                    // A record that is never finished.
                    None => {
                        let _ = stream.write_all(&[0x16, 3, 3, 0, 100, 2]);
                        held.push(stream);
                    }
                }
            }
        });
        let args = format!("pp --tcp --tls --tcp_nb_connect_timeout_ms 300 -i 127.0.0.1 -p {port}");
        let (text, status) = client(OURS, &args);
        assert_eq!(status, Some(code), "{text}");
        assert!(text.contains("no TLS with 127.0.0.1"), "{text}");
    }
}

/// Passes bytes on; byte number `damaged` of those from the client is changed.
fn meddle(server: u16, damaged: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(("127.0.0.1", server)).unwrap();
        let (mut back_from, mut back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut back_from, &mut back_to);
            let _ = back_to.shutdown(Shutdown::Both);
        });
        let (mut passed, mut bytes) = (0, [0; 500]);
        while let Ok(n) = near.read(&mut bytes) {
            if n == 0 {
                break;
            }
            if (passed..passed + n).contains(&damaged) {
                bytes[damaged - passed] ^= 0x10;
            }
            passed += n;
            if far.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = far.shutdown(Shutdown::Both);
    });
    port
}

#[test]
fn damage_on_the_wire_ends_the_connection_on_both_sides() {
    for cipher in CIPHERS {
        let server = Server::start(OURS, &format!("--tcp --tls={cipher}"));
        // The kind of a handshake message, within the ClientHello, within the messages.
        for damaged in [5, 50, 20_000] {
            let port = meddle(server.port, damaged);
            let args = format!("pp -t 5 --tcp --tls={cipher} --no-peer-query -i 127.0.0.1 -p {port}");
            let (text, code) = client(OURS, &args);
            assert_eq!(code, Some(7), "{damaged}: {text}");
        }
        served(&format!("pp -n 100 --tcp --tls={cipher} -i 127.0.0.1 -p {}", server.port), "TLS: ");
        let (text, code) = server.stop();
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("[Refused] "), "{text}");
    }
}
