//! What a benchmark must not hide: stalls, losses, duplicates, what never arrived.

mod common;

use std::time::Duration;

use common::{FakeServer, ORIGINAL, OURS, Server, TempFile, client, echo, has_original, number};

/// Runs `args` against a server of ours that stands still for 0.8 s in the middle.
fn with_stall(args: &str) -> String {
    let server = Server::start(OURS, "");
    let words = format!("{args} -i 127.0.0.1 -p {}", server.port);
    let runner = std::thread::spawn(move || client(OURS, &words));
    std::thread::sleep(Duration::from_millis(2000));
    server.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(800));
    server.signal(libc::SIGCONT);
    let (text, code) = runner.join().unwrap();
    assert_eq!(code, Some(0), "{text}");
    text
}

#[test]
fn a_server_that_stalls_shows_in_the_percentiles_by_schedule() {
    let text = with_stall("pp --mps=1000 -t 4");
    let line = text.lines().find(|l| l.contains("[By schedule]")).unwrap_or_else(|| panic!("{text}"));
    // 0.8 s is 20 % of four seconds; latency is half of the round trip.
    assert!(number(line, "p90=") > 100_000.0, "{text}");
    assert!(number(line, "p99=") > 300_000.0, "{text}");
    assert!(number(line, "p99.9=") > 350_000.0, "{text}");
    assert!(number(line, "usec late: ") > 500.0, "{text}");
    // The plain percentiles hide it, as the original's do; that is what the line is for.
    assert!(number(&text, "percentile 99.000 =") < 100_000.0, "{text}");
}

#[test]
fn a_stall_under_load_is_seen_by_both_counts() {
    let text = with_stall("ul --mps=1000 -t 4 --reply-every 1");
    let line = text.lines().find(|l| l.contains("[By schedule]")).unwrap_or_else(|| panic!("{text}"));
    assert!(number(line, "p99=") > 300_000.0 && number(line, "p99.9=") > 350_000.0, "{text}");
    assert!(number(&text, "percentile 99.000 =") > 300_000.0, "{text}");
}

#[test]
fn lost_datagrams_time_out_are_counted_and_the_run_completes() {
    let server = FakeServer::start(|n, request| if n % 500 == 0 { vec![] } else { vec![echo(request)] });
    let (text, code) =
        client(OURS, &format!("pp -t 1 --mps 2000 --reply-timeout 20 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    let valid = text.lines().find(|l| l.contains("[Valid Duration]")).unwrap();
    assert!(number(valid, "RunTime=") > 0.9, "{text}");
    let dropped = number(&text, "# dropped messages =");
    let (sent, received) = (number(valid, "SentMessages="), number(valid, "ReceivedMessages="));
    assert!(dropped >= 1.0 && sent - received == dropped, "{text}");
    assert!(text.contains("lost messages counted at their age"), "{text}");
}

#[test]
fn one_lost_datagram_does_not_end_an_unpaced_run() {
    let server = FakeServer::start(|n, request| if n == 3000 { vec![] } else { vec![echo(request)] });
    let (text, code) = client(OURS, &format!("pp -t 3 --reply-timeout 500 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    assert!(number(&text, "[Valid Duration] RunTime=") > 1.9, "{text}");
    assert!(number(&text, "# dropped messages =") <= 1.0, "{text}");
    assert_eq!(number(&text, "SentMessages=") - number(&text, "; ReceivedMessages="), 1.0, "{text}");
}

#[test]
fn late_answers_enter_the_statistics_with_their_true_latency() {
    let mut held = None;
    let server = FakeServer::start(move |n, request| {
        if n == 300 {
            held = Some(echo(request));
            return vec![];
        }
        let mut replies = vec![echo(request)];
        if n == 302 {
            replies.extend(held.take());
        }
        replies
    });
    let args = format!("pp -n 2000 --reply-timeout 1000 -i 127.0.0.1 -p {}", server.port);
    let (text, code) = client(OURS, &args);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(number(&text, "late answers (in the statistics): "), 1.0, "{text}");
    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{text}");
}

#[test]
fn duplicates_and_reordering_are_counted_once_each() {
    let mut held: Option<Vec<u8>> = None;
    let server = FakeServer::start(move |_, request| {
        let seq = u64::from_be_bytes(request[..8].try_into().unwrap());
        match seq % 100 {
            10 => vec![echo(request), echo(request)],
            50 => {
                held = Some(echo(request));
                vec![]
            }
            51 => vec![echo(request), held.take().unwrap_or_default()],
            _ => vec![echo(request)],
        }
    });
    let (text, code) =
        client(OURS, &format!("ul -t 2 --mps 500 --reply-every 1 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    let duplicated = number(&text, "# duplicated messages =");
    let swapped = number(&text, "# out-of-order messages =");
    assert!((8.0..=14.0).contains(&duplicated), "{text}");
    assert!((8.0..=14.0).contains(&swapped), "{text}");
    assert_eq!(number(&text, "# dropped messages ="), 0.0, "{text}");
}

#[test]
fn throughput_says_what_arrived_when_the_server_is_ours_and_offered_when_it_is_not() {
    for transport in ["", "--tcp"] {
        let server = Server::start(OURS, transport);
        let json = TempFile::new("tp.json", "");
        let args = format!(
            "tp -t 1 -m 200 --mps 2000 -i 127.0.0.1 -p {} {transport} --json {}",
            server.port, json.0
        );
        let (text, code) = client(OURS, &args);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("[Delivered] "), "{text}");
        let (sent, arrived) = (number(&text, "Total of "), number(&text, "[Delivered] "));
        assert!(arrived <= sent && arrived > 0.0, "{text}");
        if !transport.is_empty() {
            assert_eq!(arrived, sent, "{text}");
        }
        assert!(!text.contains("all clients"), "{text}");
        assert!(text.contains("; server ") && !text.contains("server unknown"), "{text}");
        let (served, _) = server.stop();
        assert_eq!(
            number(&served, "Total "),
            arrived,
            "the question was counted or messages were lost: {served}"
        );
    }
    if has_original() {
        for transport in ["", "--tcp"] {
            let server = Server::start(ORIGINAL, transport);
            let (text, code) =
                client(OURS, &format!("tp -t 1 --mps 1000 -i 127.0.0.1 -p {} {transport}", server.port));
            assert_eq!(code, Some(0), "{text}");
            assert!(text.contains("[Offered] ") && text.contains("server unknown"), "{text}");
        }
    }
}

#[test]
fn counts_of_two_clients_are_told_apart() {
    let server = Server::start(OURS, "");
    let args = format!("tp -t 2 --mps 300 -i 127.0.0.1 -p {}", server.port);
    let other = format!("tp -t 2 --mps 700 -i 127.0.0.1 -p {}", server.port);
    let runner = std::thread::spawn(move || client(OURS, &other));
    let (text, _) = client(OURS, &args);
    runner.join().unwrap();
    assert_eq!(number(&text, "[Delivered] "), number(&text, "Total of "), "{text}");
}

#[test]
fn no_answer_is_not_a_valid_test() {
    let silent = FakeServer::start(|_, _| vec![]);
    for args in ["pp -t 1 --reply-timeout 100", "ul -t 1"] {
        let (text, code) = client(OURS, &format!("{args} -i 127.0.0.1 -p {}", silent.port));
        assert_eq!(code, Some(8), "{text}");
        assert!(text.contains("No messages were received from the server. Is the server down?"), "{text}");
    }
    // Of ten messages none asks for an answer.
    let (text, code) = client(OURS, &format!("ul --pps 10 -t 1 -i 127.0.0.1 -p {}", silent.port));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("No messages were received from the server. Is the server down?"), "{text}");
    let (text, code) = client(OURS, &format!("pp --tcp -i 127.0.0.1 -p {}", common::free_port()));
    assert_eq!(code, Some(7), "{text}");
    let taken = Server::start(OURS, "");
    let (text, code) = client(OURS, &format!("sr -i 127.0.0.1 -p {}", taken.port));
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("cannot bind"), "{text}");
}

#[test]
fn repeated_runs_give_means_with_confidence_intervals() {
    let server = Server::start(OURS, "");
    let (text, code) = client(OURS, &format!("pp -t 1 --repeat 3 -i 127.0.0.1 -p {}", server.port));
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("# dropped messages").count(), 3, "{text}");
    assert!(text.contains("[Runs] mean of 3 runs and 95% confidence interval"), "{text}");
    assert!(number(&text, "[Runs] p50 usec") > 0.0 && text.contains(" +- "), "{text}");
}

#[test]
fn memory_does_not_grow_with_the_length_of_the_run() {
    let server = Server::start(OURS, "");
    let words = format!("pp -t 36000000 -i 127.0.0.1 -p {}", server.port);
    let mut child = std::process::Command::new(OURS)
        .args(words.split_whitespace())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(number(&status, "VmHWM:\t") < 40_000.0, "{status}");
}
