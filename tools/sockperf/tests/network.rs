//! Multicast, socket options as the kernel sees them, and hosts with several addresses.

mod common;

use std::net::UdpSocket;
use std::process::Command;

use common::{ORIGINAL, OURS, Server, client, free_port, has_original, message, number};

const LOOP: &str = "--mc-rx-if 127.0.0.1 --mc-tx-if 127.0.0.1 --mc-loopback-enable";

#[test]
fn multicast_ping_pong_works_between_all_pairs() {
    let programs: &[&str] = if has_original() { &[OURS, ORIGINAL] } else { &[OURS] };
    for server_program in programs {
        for client_program in programs {
            let port = free_port();
            let server = Server::start_at(server_program, port, &format!("-i 224.4.9.8 -p {port} {LOOP}"));
            let (text, code) = client(client_program, &format!("pp -t 1 -i 224.4.9.8 -p {port} {LOOP}"));
            assert_eq!(code, Some(0), "{server_program} {client_program}: {text}");
            assert!(number(&text, "ReceivedMessages=") > 10.0, "{server_program} {client_program}: {text}");
            assert_eq!(number(&text, "# duplicated messages ="), 0.0, "{text}");
            drop(server);
        }
    }
}

/// Sends one request to a group and returns whether the answer came to the group or to the sender alone.
fn answered_to_group(server_args: &str, group: &str) -> bool {
    let port = free_port();
    let _server = Server::start_at(OURS, port, &format!("-i {group} -p {port} {LOOP} {server_args}"));
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let outgoing = [127u8, 0, 0, 1];
    // SAFETY: the option takes four bytes.
    unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, outgoing.as_ptr().cast(), 4);
        let one = 1i32;
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, (&raw const one).cast(), 4);
    }
    socket.join_multicast_v4(&group.parse().unwrap(), &[127, 0, 0, 1].into()).unwrap();
    socket.send_to(&message(1, 3, 14, 14), (group, port)).unwrap();
    destination(&socket) == group.parse::<std::net::Ipv4Addr>().unwrap()
}

/// The destination address of the next datagram.
fn destination(socket: &UdpSocket) -> std::net::Ipv4Addr {
    let mut data = [0u8; 100];
    let mut control = [0u64; 16];
    // SAFETY: all buffers outlive the call, and the control buffer is walked by the macros.
    unsafe {
        let mut piece = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: 100 };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = 128;
        assert!(libc::recvmsg(std::os::fd::AsRawFd::as_raw_fd(socket), &mut header, 0) > 0, "no answer");
        let info = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&header)).cast::<libc::in_pktinfo>().read_unaligned();
        info.ipi_addr.s_addr.to_ne_bytes().into()
    }
}

#[test]
fn answers_go_to_the_group_unless_unicast_is_forced() {
    assert!(answered_to_group("", "224.4.9.10"));
    assert!(!answered_to_group("--force-unicast-reply", "224.4.9.11"));
}

#[test]
fn a_source_filter_keeps_other_senders_out() {
    for (source, heard) in [("127.0.0.1", true), ("127.0.0.77", false)] {
        let port = free_port();
        let _server = Server::start_at(
            OURS,
            port,
            &format!("-i 232.4.9.9 -p {port} {LOOP} --mc-source-filter {source}"),
        );
        let (text, code) = client(
            OURS,
            &format!(
                "pp -t 1 --reply-timeout 100 -i 232.4.9.9 -p {port} {LOOP} --client_ip 127.0.0.1 --force"
            ),
        );
        assert_eq!(code, Some(1), "an unknown option was accepted: {text}");
        let (text, code) =
            client(OURS, &format!("pp -t 1 --reply-timeout 100 -i 232.4.9.9 -p {port} {LOOP}"));
        assert_eq!(code == Some(0), heard, "{source}: {text}");
    }
}

/// Options set by a short run, as strace shows them.
fn options_set(args: &str) -> Option<String> {
    let out = Command::new("strace")
        .args(["-f", "-e", "trace=setsockopt,fcntl,bind", OURS])
        .args(args.split_whitespace())
        .output();
    match out {
        Ok(out) => Some(String::from_utf8_lossy(&out.stderr).into_owned()),
        Err(e) => {
            rig::skip::skipped_here(&format!(
                "strace cannot be run ({e}), so socket options were not looked at"
            ));
            None
        }
    }
}

#[test]
fn socket_options_reach_the_kernel() {
    let server = Server::start(OURS, "");
    let base = format!("tp -t 1 --mps 10 --no-peer-query -i 127.0.0.1 -p {}", server.port);
    for (option, call) in [
        ("--tos 16", "SOL_IP, IP_TOS, [16]"),
        ("--lls 50", "SO_BUSY_POLL, [50]"),
        ("--buffer-size 30000", "SO_SNDBUF, [30000]"),
        ("--rate-limit 1000000", "SO_MAX_PACING_RATE, [1000000]"),
        ("--uc-reuseaddr", "SO_REUSEADDR, [1]"),
        ("--set-sock-accl", "SOL_SOCKET, 0x64"),
        ("--nonblocked", "O_NONBLOCK"),
    ] {
        let Some(trace) = options_set(&format!("{base} {option}")) else { return };
        assert!(trace.contains(call), "{option}:\n{trace}");
    }
    let group = "tp -t 1 --mps 10 --no-peer-query -i 224.4.9.12 --mc-tx-if 127.0.0.1";
    for (option, call) in [
        ("", "IP_MULTICAST_TTL, [2]"),
        ("--mc-ttl 9", "IP_MULTICAST_TTL, [9]"),
        ("", "IP_MULTICAST_LOOP, [0]"),
        ("--mc-loopback-enable", "IP_MULTICAST_LOOP, [1]"),
        ("", "IP_MULTICAST_IF, [16777343]"),
    ] {
        let Some(trace) = options_set(&format!("{group} {option}")) else { return };
        assert!(trace.contains(call), "{option}:\n{trace}");
    }
    let stream = Server::start(OURS, "--tcp");
    for (mode, set) in [
        ("pp -n 1", true),
        ("pp -n 1 --tcp-avoid-nodelay", false),
        ("tp -t 1 --mps 9", false),
        ("tp -t 1 --mps 9 --tcp-avoid-nodelay", true),
    ] {
        let args = format!("{mode} --tcp --no-peer-query -i 127.0.0.1 -p {}", stream.port);
        let Some(trace) = options_set(&args) else { return };
        assert_eq!(trace.contains("TCP_NODELAY, [1]"), set, "{mode}:\n{trace}");
    }
}

#[test]
fn a_wildcard_server_answers_from_the_address_it_was_asked_at() {
    let test = rig::skip::test_name();
    let outcome = std::thread::spawn(move || {
        // SAFETY: affects this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let reason = "no right to make a network namespace, so several addresses were not tested";
            return rig::skip::skipped(&test, reason);
        }
        for command in
            ["ip link set lo up", "ip addr add 10.77.0.1/24 dev lo", "ip addr add 10.77.0.2/24 dev lo"]
        {
            let mut words = command.split(' ');
            assert!(Command::new(words.next().unwrap()).args(words).status().unwrap().success(), "{command}");
        }
        let _server = Server::start_at(OURS, 11111, "");
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
        for asked in ["10.77.0.1:11111", "10.77.0.2:11111", "127.0.0.1:11111"] {
            socket.send_to(&message(1, 3, 14, 14), asked).unwrap();
            let mut buffer = [0; 100];
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((n, from.to_string().as_str()), (14, asked));
        }
    });
    outcome.join().unwrap();
}
