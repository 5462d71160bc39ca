//! What each option does, seen from outside. Spellings, ranges and conflicts are tested beside the command line.

mod common;

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{
    FakeServer, ORIGINAL, OURS, Server, TempFile, client, client_words, echo, free_port, has_original,
    message, number,
};

fn ok(args: &str) -> String {
    let (text, code) = client(OURS, args);
    assert_eq!(code, Some(0), "{args}:\n{text}");
    text
}

/// Runs `args` against a server of ours with `server_args`.
fn against(server_args: &str, args: &str) -> String {
    let server = Server::start(OURS, server_args);
    ok(&format!("{args} -i 127.0.0.1 -p {}", server.port))
}

fn feed(transports: &[&str]) -> (TempFile, u16) {
    let ports: Vec<u16> = transports.iter().map(|_| free_port()).collect();
    let lines: String = transports.iter().zip(&ports).map(|(t, p)| format!("{t}:127.0.0.1:{p}\n")).collect();
    (TempFile::new("feed", &lines), *ports.last().unwrap())
}

#[test]
fn every_multiplexer_serves_a_mixed_feed_with_ours_and_the_original() {
    for mux in ["s", "p", "e"] {
        for server in [OURS, ORIGINAL] {
            if server == ORIGINAL && !has_original() {
                continue;
            }
            let (file, port) = feed(&["U", "T", "U"]);
            let args = format!("-f {} -F {mux}", file.0);
            let running = Server::start_at(server, port, &args);
            for mode in ["pp -t 1", "ul -t 1 --mps 300 --reply-every 1", "tp -t 1 --mps 300"] {
                let text = ok(&format!("{mode} {args} --nonblocked --recv_looping_num=-1"));
                assert!(text.contains("[ 2] IP = 127.0.0.1"), "{text}");
                if !mode.starts_with("tp") {
                    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{mux} {server}: {text}");
                }
            }
            drop(running);
        }
    }
}

#[test]
fn taking_sockets_in_turn_works_in_lock_step() {
    let (file, port) = feed(&["U", "U", "T"]);
    let server = Server::start_at(OURS, port, &format!("-f {} -F r", file.0));
    let text = ok(&format!("pp -n 300 -f {} -F r --no-peer-query", file.0));
    assert!(text.contains("using recvfrom() to block"), "{text}");
    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{text}");
    assert_eq!(number(&server.stop().0, "Total "), 9300.0);
}

#[test]
fn a_tcp_server_without_a_feed_serves_several_clients_at_once() {
    let server = Server::start(OURS, "--tcp");
    let args = format!("pp --tcp -t 1 -i 127.0.0.1 -p {}", server.port);
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let args = args.clone();
            std::thread::spawn(move || ok(&args))
        })
        .collect();
    for text in clients.into_iter().map(|c| c.join().unwrap()) {
        assert!(number(&text, "ReceivedMessages=") > 100.0, "{text}");
    }
}

#[test]
fn server_threads_divide_the_sockets_and_keep_to_their_processors() {
    let (file, port) = feed(&["U", "U", "T", "U"]);
    let server = Server::start_at(OURS, port, &format!("-f {} --threads-num 2 --cpu-affinity 0,1", file.0));
    let mut masks = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let mask = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_string();
        masks.push(mask);
    }
    assert!(masks.contains(&"0".to_string()) && masks.contains(&"1".to_string()), "{masks:?}");
    let text = ok(&format!("pp -n 400 -f {}", file.0));
    assert!(text.contains("[CPU]") && text.contains("server"), "{text}");
    let (served, code) = server.stop();
    assert_eq!(code, Some(0), "{served}");
    for line in
        ["Running 2 threads to manage 4 sockets", "Got signal 2 - exiting", "server_select_per_thread() exit"]
    {
        assert!(served.contains(line), "{served}");
    }
    assert_eq!(
        served.matches("Test end (interrupted by signal 2)").count(),
        2,
        "one for each thread: {served}"
    );
    assert_eq!(number(&served, "Total "), 9400.0, "{served}");
}

#[test]
fn sender_and_receiver_run_where_they_were_told() {
    let server = Server::start(OURS, "");
    let args = format!("ul -t 600 --sender-affinity 0 --receiver-affinity 1 -i 127.0.0.1 -p {}", server.port);
    let mut child = Command::new(OURS)
        .args(args.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut found = Vec::new();
    common::eventually("both threads run where they were told", || {
        found.clear();
        for task in std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let field = |name: &str| {
                status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("").trim().to_string()
            };
            let pair = (field("Name:"), field("Cpus_allowed_list:"));
            if [("sockperf", "0"), ("receiver", "1")].contains(&(pair.0.as_str(), pair.1.as_str())) {
                found.push(pair);
            }
        }
        found.len() == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn text_options_change_the_lines_they_name() {
    let server = Server::start(OURS, "");
    for (args, wanted) in [
        ("pp -n 200 -b 5", "Summary: Latency of burst of 5 messages is "),
        ("pp -n 200 --full-rtt", "====> avg-rtt="),
        ("pp -n 200 --full-rtt", "Summary: Round trip is "),
        ("pp -n 200", "Warm up packets=8000; SentMessages=9200; ReceivedMessages=9200"),
        ("pp -n 200", "Test end (reached packet number)"),
        ("pp -n 200 --ci_sig_level 90", "90.0% ci=["),
        ("pp -n 200 --histogram 5:0:50", "[Histogram] Display"),
        ("pp -n 200 --debug", "+INFO: taking time consumes"),
        ("pp -n 200 --debug --no-rdtsc", "clock = CLOCK_MONOTONIC"),
        ("pp -n 200 --color always", "\u{1b}[2;35m====> avg"),
        ("pp -n 200 -A 1000", "    -- Interval --     -- Message Rate --  -- Total Message Count --"),
        ("pp -n 200 -a 1000", "\n.........\n"),
        ("pp -t 1 --srv-num 2 --reply-timeout 1", "Printing statistics for Server No: 1"),
        ("tp -t 1 --giga-size", " GBps ("),
        ("tp -t 1 -m 4000", "(3 ip frags / msg)"),
        ("tp -t 1 -m 1472 --mps 100", "NOTE: test was performed, using msg-size=1472, mps=100."),
        ("ul -t 1 --mps 200 --progress 0.2", " msg/s "),
    ] {
        let (text, _) = client(OURS, &format!("{args} -i 127.0.0.1 -p {}", server.port));
        assert!(text.contains(wanted), "{args} lacks '{wanted}':\n{text}");
    }
    let digits = against("", "tp -t 1 --mps 100 --increase_output_precision");
    let bandwidth = digits.lines().find(|l| l.contains("BandWidth is")).unwrap();
    assert_eq!(
        bandwidth.split_whitespace().nth(4).unwrap().split('.').next_back().unwrap().len(),
        9,
        "{bandwidth}"
    );
}

#[test]
fn sizes_vary_both_ways_and_bytes_are_counted_as_sent() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let server = FakeServer::start(move |_, request| {
        seen.lock().unwrap().push(request.len());
        vec![echo(request)]
    });
    ok(&format!("pp -n 1 -m 100 -r 20 -i 127.0.0.1 -p {}", server.port));
    let sizes = sizes.lock().unwrap().clone();
    assert!(sizes.iter().all(|s| (80..=120).contains(s)));
    assert!(sizes.contains(&80) && sizes.contains(&120), "the ends never came");
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((mean - 100.0).abs() < 2.0, "{mean}");
}

#[test]
fn the_rate_is_kept_and_replies_are_asked_for_as_told() {
    let text = against("", "ul -t 2 --mps 1000 --reply-every 10");
    let sent = number(&text, "; SentMessages=");
    assert!((sent - 2450.0).abs() < 30.0, "{text}");
    assert_eq!(number(&text, "; ReceivedMessages="), (sent / 10.0).floor(), "{text}");
    let text = against("", "tp -t 1 --mps 2000 -b 50");
    assert!((number(&text, "Total of ") - 2000.0).abs() <= 60.0, "{text}");
}

#[test]
fn the_time_asked_for_is_measured_in_full_unless_the_later_timing_is_wanted() {
    let full = number(&against("", "pp -t 2"), "[Valid Duration] RunTime=");
    let cut = number(&against("", "pp -t 2 --compat-timing"), "[Valid Duration] RunTime=");
    assert!((1.8..=2.0).contains(&full) && (1.3..=1.55).contains(&cut), "{full} {cut}");
}

#[test]
fn the_full_log_holds_every_observation_and_no_colour() {
    let log = TempFile::new("log", "");
    let text = against("", &format!("pp -t 1 --mps 500 --full-rtt --color always --full-log {}", log.0));
    let rows = log.text();
    let valid = text.lines().find(|l| l.contains("[Valid Duration]")).unwrap();
    let observations = number(valid, "ReceivedMessages=") as usize;
    let parameters = "test was performed using the following parameters: --mps=500 --burst=1 --reply-every=1 --msg-size=14 --time=1 --full-rtt";
    assert_eq!(rows.lines().nth(1), Some(parameters));
    assert!(rows.contains("\npacket, txTime(sec), rxTime(sec), rtt(usec)\n0, "), "{rows}");
    assert_eq!(rows.lines().filter(|l| l.split(", ").count() == 4).count(), observations + 1);
    assert_eq!(rows.lines().filter(|l| *l == "------------------------------").count(), 4);
    assert!(!rows.contains('\u{1b}'), "{rows}");
    let last = rows.lines().rev().nth(1).unwrap();
    let fields: Vec<f64> = last.split(", ").map(|f| f.parse().unwrap()).collect();
    assert!(((fields[2] - fields[1]) * 1e6 - fields[3]).abs() < 0.01, "{last}");
}

#[test]
fn gaps_are_reported_with_the_originals_lines() {
    let mut texts = Vec::new();
    for program in [OURS, ORIGINAL] {
        if program == ORIGINAL && !has_original() {
            continue;
        }
        let server = Server::start(program, "-g");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = socket.local_addr().unwrap().to_string();
        for seq in [1, 2, 3, 6, 7, 5, 10] {
            socket.send_to(&message(seq, 1, 14, 14), ("127.0.0.1", server.port)).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let (text, _) = server.stop();
        let lines: Vec<String> = text
            .lines()
            .filter(|l| l.contains("Dropped/OOO") || l.contains("new session"))
            .map(|l| l.replace(&local, "CLIENT").split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines.len(), 4, "{text}");
        texts.push(lines);
    }
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{texts:#?}");
}

#[test]
fn a_server_that_shall_not_reply_only_counts() {
    let server = Server::start(OURS, "--dont-reply");
    let (text, code) = client(OURS, &format!("pp -t 1 --reply-timeout 50 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(8), "{text}");
    assert!(number(&server.stop().0, "Total ") > 5.0);
}

#[test]
fn messages_above_a_datagram_travel_over_tcp_when_the_server_allows() {
    let text = against("--tcp -m 200000", "pp --tcp -m 200000 -t 1 --data-integrity");
    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{text}");
    let server = Server::start(OURS, "--tcp");
    let (text, code) = client(OURS, &format!("pp --tcp -m 200000 -t 1 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(7), "{text}");
}

#[test]
fn sends_that_would_block_are_skipped_and_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = ok(&format!(
        "tp --tcp -t 1 -m 10000 --tcp-skip-blocking-send --no-peer-query --buffer-size 20000 -i 127.0.0.1 -p {port}"
    ));
    assert!(number(&text, " sec; ") > 0.0 && text.contains(" skipped"), "{text}");
    assert!(text.contains("Socket receive buffer: "), "{text}");
}

#[test]
fn the_client_sends_from_the_port_and_address_given() {
    let sources = Arc::new(Mutex::new(None));
    let port = free_port();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server_port = socket.local_addr().unwrap().port();
    let seen = Arc::clone(&sources);
    let receiver = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        *seen.lock().unwrap() = socket.recv_from(&mut buffer).ok();
    });
    let args = format!(
        "tp -t 1 --mps 10 --no-peer-query --client_ip 127.0.0.7 --client_port {port} -i 127.0.0.1 -p {server_port}"
    );
    ok(&args);
    receiver.join().unwrap();
    assert_eq!(sources.lock().unwrap().unwrap().1.to_string(), format!("127.0.0.7:{port}"));
}

#[test]
fn warm_up_can_be_left_out_or_delayed() {
    assert!(against("", "pp -n 1").contains("Warmup stage"));
    assert!(!against("", "pp -n 1 --dontwarmup").contains("Warmup stage"));
    let begin = Instant::now();
    against("", "pp -n 1 --pre-warmup-wait 1");
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_daemon_leaves_the_terminal_and_finishes_its_test() {
    let server = Server::start(OURS, "");
    let json = TempFile::new("daemon.json", "");
    let args = format!("pp -t 5 --daemonize --json {} -i 127.0.0.1 -p {}", json.0, server.port);
    let status = Command::new(OURS)
        .args(args.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() && json.text().is_empty());
    common::eventually("the daemon's report", || json.text().contains("\"received\""));
}

#[test]
fn ctrl_c_ends_a_client_with_its_statistics() {
    let server = Server::start(OURS, "");
    for (args, wanted) in [
        ("pp -t 60", "Summary: Latency is"),
        ("ul -t 60", "Summary: Latency is"),
        ("tp -t 60", "Message Rate"),
    ] {
        let words = format!("{args} -i 127.0.0.1 -p {}", server.port);
        let child = Command::new(OURS)
            .args(words.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{text}");
        assert!(text.contains("interrupted by user") && text.contains(wanted), "{text}");
    }
}

#[test]
fn results_are_written_as_json_csv_and_page_and_read_back() {
    let server = Server::start(OURS, "");
    let files = [TempFile::new("a.json", ""), TempFile::new("a.csv", ""), TempFile::new("a.html", "")];
    let base = format!("pp -t 1 --mps 1000 -i 127.0.0.1 -p {} --csv {}", server.port, files[1].0);
    let mut words: Vec<&str> = base.split_whitespace().collect();
    words.extend(["--json", &files[0].0, "--label", "first \"run\" </script>"]);
    let (text, code) = client_words(OURS, &words);
    assert_eq!(code, Some(0), "{text}");
    let json = files[0].text();
    for member in [
        "\"by_schedule\":{",
        "\"percentiles\":[",
        "\"timeline\":[[",
        "\"us_per_message\":",
        "\"peer\":{",
        "\"warm_up_seconds\":0.4",
    ] {
        assert!(json.contains(member), "{member}: {json}");
    }
    ok(&format!("{base} --report {} --compare {} --repeat 2 --label second", files[2].0, files[0].0));
    assert_eq!(files[1].text().lines().count(), 4);
    let columns: Vec<usize> = files[1].text().lines().map(|l| l.split(',').count()).collect();
    assert!(columns.windows(2).all(|w| w[0] == w[1]), "{columns:?}");
    let page = files[2].text();
    assert_eq!(page.matches("\"label\":").count(), 3);
    assert_eq!(page.matches("</script>").count(), 1, "data must not end the script");
    let (text, code) = client(OURS, &format!("{base} --report x.html --compare {}", files[1].0));
    assert_eq!(code, Some(2), "{text}");
    let out = Command::new(OURS)
        .args(format!("pp -n 10 -i 127.0.0.1 -p {} --json -", server.port).split_whitespace())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.starts_with("{\"runs\":[") && text.lines().count() == 1,
        "standard output must be JSON only:\n{text}"
    );
}

#[test]
fn errors_of_files_have_the_originals_codes() {
    let bad = TempFile::new("bad", "127.0.0.1\n");
    let empty = TempFile::new("empty", "# nothing\n");
    for (args, wanted) in [
        (format!("pp -f {}", bad.0), 2),
        (format!("pp -f {}", empty.0), 1),
        ("pp -f /nonexistent".to_string(), 4),
        ("pb --data-file /nonexistent".to_string(), 4),
        (format!("pb --data-file {}", bad.0), 1),
        ("pp --nonsense".to_string(), 1),
        ("pp --tls".to_string(), 1),
        ("pp --tcp --tls=RC4-MD5".to_string(), 3),
    ] {
        let (text, code) = client(OURS, &args);
        assert_eq!(code, Some(wanted), "{args}: {text}");
    }
}

#[test]
fn unix_sockets_and_ipv6_are_served() {
    for transport in ["", "--tcp"] {
        let path =
            std::env::temp_dir().join(format!("sockperf-unix-{}{}", std::process::id(), transport.len()));
        let path = path.to_string_lossy().into_owned();
        let mut server = Command::new(OURS)
            .args(["sr", "-i", &path])
            .args(transport.split_whitespace())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        common::eventually("the server has its path", || std::path::Path::new(&path).exists());
        let text = ok(&format!("pp -n 100 -i {path} {transport}"));
        assert!(text.contains(&format!("[ 0] ADDR = {path} # ")), "{text}");
        // SAFETY: the child is ours.
        unsafe { libc::kill(server.id() as i32, libc::SIGTERM) };
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert!(!std::path::Path::new(&path).exists(), "the path was left behind");

        let port = free_port();
        let _server = Server::start_at(OURS, port, &format!("-i ::1 -p {port} {transport}"));
        let text = ok(&format!("pp -n 100 -i ::1 -p {port} {transport}"));
        assert!(text.contains("IP = ::1 "), "{text}");
    }
}

/// A file that cannot be written ends the run before its test, and one that was written before keeps what it has.
#[test]
fn results_that_cannot_be_written_are_told_before_the_test_and_a_full_disk_is_no_success() {
    let kept = TempFile::new("kept.csv", "label\n");
    for option in ["--json", "--csv", "--report", "--full-log"] {
        let also = if option == "--csv" { String::new() } else { format!("--csv {}", kept.0) };
        let (text, code) =
            client(OURS, &format!("pp -n 10 -i 127.0.0.1 -p 9 {also} {option} /nonexistent/x"));
        assert_eq!(code, Some(4), "{option}: {text}");
        assert!(text.contains("cannot write /nonexistent/x") && !text.contains("Starting test"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&kept.0).unwrap(), "label\n");
    let server = Server::start(OURS, "");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut pp = Command::new(OURS);
    let words = format!("pp -n 10 -i 127.0.0.1 -p {}", server.port);
    let ended = pp.args(words.split_whitespace()).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        (ended.status.code(), said.contains("standard output cannot be written")),
        (Some(4), true),
        "{said}"
    );
}
