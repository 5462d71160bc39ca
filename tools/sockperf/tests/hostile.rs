//! Damaged and hostile input: no hang, no crash, no spinning, and the next honest client is served.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use common::{FakeServer, OURS, Server, client, echo, free_port, message, number};

fn stray_datagrams() -> Vec<Vec<u8>> {
    let mut strays = vec![
        vec![],
        vec![1; 5],
        message(1, 1, 60_000, 14),
        message(1, 1, 0, 14),
        message(1, 1, 1, 14),
        message(1, 3, u32::MAX, 14),
        message(u64::MAX, 3, 14, 14),
        message(0, 7, 160, 160),
        message(9, 3, 65_507, 65_507),
        message(9, 0xffff, 20, 20),
        message(9, 3, 14, 65_507),
    ];
    let mut question = message(0, 7, 160, 160);
    question[14..30].copy_from_slice(b"sockperf side Q1");
    question[30..32].copy_from_slice(&[0xff, 0xff]);
    strays.push(question);
    strays
}

/// CPU time of a process in clock ticks.
fn cpu(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_udp_server_survives_every_stray_datagram_and_serves_the_next_client() {
    for mode in ["", "-g", "--nonblocked"] {
        let server = Server::start(OURS, mode);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for stray in stray_datagrams() {
            socket.send_to(&stray, ("127.0.0.1", server.port)).unwrap();
        }
        let (text, code) = client(OURS, &format!("pp -n 100 -i 127.0.0.1 -p {}", server.port));
        assert_eq!(code, Some(0), "{mode}: {text}");
        let (served, status) = server.stop();
        assert_eq!(status, Some(0), "{served}");
        assert!(served.contains("[Refused] "), "{served}");
    }
}

#[test]
fn a_stray_datagram_does_not_make_an_idle_server_spin() {
    let server = Server::start(OURS, "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for stray in stray_datagrams() {
        socket.send_to(&stray, ("127.0.0.1", server.port)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let before = cpu(server.child.id());
    std::thread::sleep(Duration::from_millis(1000));
    assert!(cpu(server.child.id()) - before < 20, "the idle server used the processor");
}

#[test]
fn many_messages_in_one_datagram_are_all_served() {
    let server = Server::start(OURS, "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let packed: Vec<u8> = (1..=5).flat_map(|seq| message(seq, 3, 20, 20)).collect();
    socket.send_to(&packed, ("127.0.0.1", server.port)).unwrap();
    for seq in 1..=5u64 {
        let mut reply = [0; 100];
        let n = socket.recv(&mut reply).unwrap();
        assert_eq!((n, u64::from_be_bytes(reply[..8].try_into().unwrap())), (20, seq));
    }
}

#[test]
fn the_side_channels_answer_is_not_longer_than_the_question() {
    let server = Server::start(OURS, "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let question = stray_datagrams().pop().unwrap();
    socket.send_to(&question, ("127.0.0.1", server.port)).unwrap();
    let mut reply = [0; 1000];
    assert_eq!(socket.recv(&mut reply).unwrap(), question.len());
}

#[test]
fn a_broken_stream_is_closed_and_the_others_are_served() {
    let server = Server::start(OURS, "--tcp");
    let address = ("127.0.0.1", server.port);
    for bad in
        [message(1, 3, 0, 14), message(1, 3, 13, 14), message(1, 3, 65_508, 14), message(1, 3, u32::MAX, 14)]
    {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
        stream.write_all(&bad).unwrap();
        let mut rest = Vec::new();
        // Closed with data unread is a reset; both are an end.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    // Half a message, held open, must not keep others from being served.
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(&message(1, 3, 100, 50)).unwrap();
    let (text, code) = client(OURS, &format!("pp --tcp -n 100 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    half.set_read_timeout(Some(common::PATIENCE)).unwrap();
    half.write_all(&[0x55; 50]).unwrap();
    let mut reply = [0; 100];
    half.read_exact(&mut reply).unwrap();
    assert_eq!(reply[9], 2);
}

#[test]
fn a_client_that_does_not_read_its_answers_does_not_stop_the_server() {
    let server = Server::start(OURS, "--tcp");
    let mut deaf = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let flood: Vec<u8> = (1..=1000).flat_map(|seq| message(seq, 3, 1400, 1400)).collect();
    while deaf.write_all(&flood).is_ok() {}
    let (text, code) =
        client(OURS, &format!("pp --tcp -n 100 --reply-timeout 20000 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let server = Server::start(OURS, "--tcp");
    for _ in 0..200 {
        drop(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
    }
    let (text, code) = client(OURS, &format!("pp --tcp -n 100 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    common::eventually("the descriptors of those connections are closed", || {
        std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count() < 15
    });
}

#[test]
fn an_unpaced_client_ends_in_time_whatever_the_server_sends() {
    let server = FakeServer::start(|n, request| {
        let mut replies = stray_datagrams();
        replies.push(message(n + 1_000_000, 2, 14, 14));
        replies.push(request.to_vec());
        if n % 2 == 0 {
            replies.push(echo(request));
        }
        replies
    });
    let (text, code) = client(OURS, &format!("pp -t 1 --reply-timeout 10 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    assert!(number(&text, "# dropped messages =") > 0.0, "{text}");
    assert!(number(&text, "strays and malformed (ignored): ") > 0.0, "{text}");
    let (text, code) = client(OURS, &format!("ul -t 1 --reply-every 1 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_tcp_server_that_lies_or_leaves_ends_the_client_with_a_reason() {
    for (what, code) in [(message(1, 2, 5, 14), 2), (message(1, 2, u32::MAX, 14), 2), (Vec::new(), 7)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 14];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(&what);
            }
        });
        let (text, status) = client(OURS, &format!("pp --tcp --no-peer-query -i 127.0.0.1 -p {port}"));
        assert_eq!(status, Some(code), "{text}");
    }
}

#[test]
fn corrupted_payload_is_found_by_data_integrity() {
    let server = FakeServer::start(|n, request| {
        let mut reply = echo(request);
        if n == 50 {
            reply[20] ^= 1;
        }
        vec![reply]
    });
    let (text, code) = client(OURS, &format!("pp -m 64 --data-integrity -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("message 50 differs"), "{text}");
}

#[test]
fn a_connect_that_is_never_answered_times_out() {
    // A full backlog drops SYNs on Linux.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // SAFETY: the descriptor is open; the backlog shrinks to its minimum.
    unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
    let _full: Vec<_> = (0..4)
        .filter_map(|_| {
            TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_millis(200)).ok()
        })
        .collect();
    let args = format!("pp --tcp --tcp_nb_connect_timeout_ms 300 --no-peer-query -i 127.0.0.1 -p {port}");
    let (text, code) = client(OURS, &args);
    assert_eq!(code, Some(8), "{text}");
    assert!(text.contains("no answer within 300 msec"), "{text}");
}

#[test]
fn a_stopped_server_process_resumes_in_every_multiplexer() {
    for mux in ["e", "p", "s"] {
        let port = free_port();
        let feed = common::TempFile::new("feed", &format!("U:127.0.0.1:{port}\n"));
        let server = Server::start_at(OURS, port, &format!("-f {} -F {mux} --timeout=-1", feed.0));
        server.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(50));
        server.signal(libc::SIGCONT);
        let (text, code) = client(OURS, &format!("pp -n 100 -i 127.0.0.1 -p {port}"));
        assert_eq!(code, Some(0), "{mux}: {text}");
        let (served, status) = server.stop();
        assert_eq!(status, Some(0), "{mux}: {served}");
    }
}
