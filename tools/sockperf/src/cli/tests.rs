//! The command line: spellings, ranges, conflicts, and that every row of the table does something.

use super::*;
use crate::cli::options::{Argument, OPTIONS, bit};
use crate::exit::Code;
use crate::iomux::Kind;
use crate::settings::{Bins, Pace, Span};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

fn settings(line: &str) -> Settings {
    match parse(&words(line)) {
        Ok(Request::Run(settings)) => *settings,
        Ok(Request::Show(text)) => panic!("{line} shows {text}"),
        Err(misuse) => panic!("{line}: {}", misuse.failure),
    }
}

fn refused(line: &str) -> Failure {
    match parse(&words(line)) {
        Err(misuse) => misuse.failure,
        Ok(_) => panic!("{line} was accepted"),
    }
}

fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("sockperf-cli-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn short_values_attach_follow_or_stand_behind_an_equals_sign() {
    for line in ["pp -p500", "pp -p 500", "pp -p=500", "pp --port 500", "pp --port=500"] {
        assert_eq!(settings(line).endpoints[0].address.to_string(), "127.0.0.1:500", "{line}");
    }
}

#[test]
fn negative_values_need_an_equals_sign() {
    assert_eq!(settings("sr --timeout=-1").mux_timeout_ms, -1);
    assert_eq!(refused("sr --timeout -1").code, Code::Argument);
    assert_eq!(settings("sr --nonblocked --recv_looping_num=-1").recv_looping, None);
}

#[test]
fn an_option_may_be_given_once_and_names_are_not_abbreviated() {
    for line in [
        "pp -t 1 -t 2",
        "pp -t 1 --time 2",
        "pp --tim 1",
        "pp 10.0.0.1",
        "pp --tcp=1",
        "pp --nonsense",
        "pp -t",
    ] {
        assert_eq!(refused(line).code, Code::Argument, "{line}");
    }
    assert_eq!(refused("frobnicate").code, Code::Argument);
}

#[test]
fn names_of_all_three_dialects_are_known() {
    assert!(settings("pp --stream --addr 127.0.0.1").endpoints[0].tcp);
    assert!(settings("pp --vmazcopyread").zcopy_read && settings("pp --zcopyread").zcopy_read);
    assert!(settings("sr --vmarxfiltercb").rx_filter && settings("sr --rxfiltercb").rx_filter);
    assert_eq!(settings("sr --mc-rx-ip 1.2.3.4 --mc-tx-ip 1.2.3.5").mc_rx_if.as_deref(), Some("1.2.3.4"));
    assert_eq!(settings("pp --client_addr 127.0.0.1").client_ip.unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(settings("ul --pps 5").pace, Pace::PerSecond(5));
    assert_eq!(settings("pp --srv-num 3").servers, 3);
    assert_eq!(settings("pp -n 1000").span, Span::Messages(1000));
    assert_eq!(settings("pp --histogram 20:0:100").bins, Some(Bins { size: 20, low: 0, high: 100 }));
    assert_eq!(settings("pp --ci_sig_level 95").confidence, Some(95));
    assert_eq!(settings("pp --tcp --tcp_nb_connect_timeout_ms 7").connect_timeout_ms, 7);
    assert_eq!(settings("pp --load-vma").load.as_deref(), Some("libvma.so"));
    assert_eq!(settings("pp --load-vma=/x.so").load.as_deref(), Some("/x.so"));
    assert_eq!(settings("pp --load-xlio").load.as_deref(), Some("libxlio.so"));
    assert_eq!(settings("pp --tcp --tls").tls.unwrap().cipher, "AES128-GCM-SHA256");
    assert_eq!(
        settings("sr --stream --tls=TLS_AES_256_GCM_SHA384").tls.unwrap().cipher,
        "TLS_AES_256_GCM_SHA384"
    );
}

#[test]
fn defaults_are_the_originals() {
    let ping_pong = settings("pp");
    assert_eq!((ping_pong.msg_size, ping_pong.reply_every, ping_pong.pace), (14, 1, Pace::Max));
    assert_eq!((ping_pong.span, ping_pong.mc_ttl, ping_pong.mux_timeout_ms), (Span::Seconds(1), 2, 10));
    let under_load = settings("ul");
    assert_eq!((under_load.reply_every, under_load.pace), (100, Pace::PerSecond(10_000)));
    let server = settings("sr");
    assert_eq!(server.endpoints[0].address.to_string(), "0.0.0.0:11111");
    assert_eq!(settings("tp").pace, Pace::Max);
}

#[test]
fn nagle_is_off_except_in_throughput_and_the_option_turns_it_over() {
    assert!(settings("pp --tcp").no_delay() && !settings("tp --tcp").no_delay());
    assert!(!settings("pp --tcp --tcp-avoid-nodelay").no_delay());
    assert!(settings("tp --tcp --tcp-avoid-nodelay").no_delay());
}

#[test]
fn values_out_of_range_are_refused() {
    for line in [
        "pp -m 13",
        "pp -m 65508",
        "pp --tcp -m 1048576",
        "pp -t 0",
        "pp -t 36000001",
        "pp -b 0",
        "pp --mps 0",
        "pp --mps fast",
        "pp --mc-ttl 256",
        "pp -p 70000",
        "pp -p 12x",
        "pp -r x",
        "sr -m 5x",
        "pp --srv-num 0",
        "ul --reply-every 0",
        "pp --ci_sig_level 100",
        "pp --histogram 0:0:5",
        "pp --buffer-size 0",
        "pp --lls x",
        "pp --sender-affinity a",
        "pp -n 0",
        "pp --color blue",
        "pp --progress x",
        "pp -F q -f x",
        "pp --repeat 0",
        "pp --rate-limit 0",
        "pp -a 0",
        "pp --tos 256",
        "pp --reply-timeout 0",
        "pp -m 65507 -r 1",
    ] {
        assert_eq!(refused(line).code, Code::Argument, "{line}");
    }
    assert_eq!(settings("pp --tcp -m 1048575").msg_size, 1_048_575);
    assert_eq!(settings("pp -m 0x40").msg_size, 64);
    assert_eq!(settings("sr -m 100").msg_size, 65_507);
}

#[test]
fn options_that_exclude_each_other_are_named() {
    let feed = file("conflict", "127.0.0.1:5\n");
    let no_cipher = ["pp --tcp --tls=NULL-SHA256", "pp --tcp --tls=DHE-RSA-AES128-GCM-SHA256"];
    for line in no_cipher.iter().chain(&["sr --tcp --tls=ECDHE-RSA-AES128-GCM-SHA256"]) {
        assert_eq!(refused(line).code, Code::Unsupported, "{line}");
    }
    for line in [
        "pp -f FEED -i 1.2.3.4",
        "pp -f FEED -p 5",
        "pp -f FEED --tcp",
        "pp -f FEED --client_port 5",
        "pp -n 10 -t 1",
        "pp -n 10 --mps 5",
        "pp --data-integrity -b 2",
        "sr --dont-reply --tcp",
        "sr --threads-num 2",
        "pp -F e",
        "pp --recv_looping_num 5",
        "pp --tcp_nb_connect_timeout_ms 5",
        "pb",
        "ul --dummy-send 100 --mps 200",
        "pp --dummy-send",
        "sr -f FEED --threads-num 2",
        "pp --tcp -i 224.0.0.5",
        "pp --client_ip ::1",
        "pp --compare a.json",
        "pp -n 3 -b 2",
        "pp --tls",
        "pp -f FEED --tls",
        "pp --tcp --tls --load-vma",
        "pp --tcp --tls --load-xlio",
        "pp --tcp --tls --zcopyread",
        "sr --tcp --tls --rxfiltercb",
        "sr -f FEED -F x --tls",
    ] {
        assert_eq!(refused(&line.replace("FEED", &feed)).code, Code::Argument, "{line}");
    }
    std::fs::remove_file(feed).unwrap();
}

#[test]
fn feed_files_bring_their_multiplexer_and_playback_files_their_records() {
    let feed = file("feed", "U:127.0.0.1:5\nT:127.0.0.1:6");
    let with = |extra: &str| settings(&format!("sr -f {feed} {extra}"));
    assert_eq!((with("").mux, with("").endpoints.len()), (Kind::Epoll, 2));
    for (letter, kind) in
        [("s", Kind::Select), ("poll", Kind::Poll), ("r", Kind::Recvfrom), ("x", Kind::Socketxtreme)]
    {
        assert_eq!(with(&format!("-F {letter}")).mux, kind);
    }
    assert_eq!(with("--threads-num 2 --cpu-affinity 0,1").threads, 2);
    let data = file("data", "0.1, 64\n");
    assert_eq!(settings(&format!("pb --data-file {data}")).playback, [(0.1, 64)]);
    std::fs::remove_file(feed).unwrap();
    std::fs::remove_file(data).unwrap();
}

/// A value that every option with an argument accepts somewhere.
fn sample_of(name: &str, mode: Mode) -> String {
    match name {
        "msg-size" if mode == Mode::Server => "70000",
        "ip" | "client_ip" | "mc-source-filter" | "mc-rx-if" | "mc-tx-if" => "127.0.0.2",
        "iomux-type" => "p",
        "sender-affinity" | "receiver-affinity" | "cpu-affinity" => "0",
        "histogram" => "5:0:10",
        "color" => "never",
        "dummy-send" => "20000",
        "tls" => "TLS_AES_128_GCM_SHA256",
        "msg-size" => "100",
        _ => "3",
    }
    .to_string()
}

#[test]
fn every_row_of_the_table_changes_the_settings() {
    let feed = file("rows", "127.0.0.1:5\n127.0.0.1:6\n127.0.0.1:7\n");
    let data = file("rows-data", "0.1, 64\n");
    for option in OPTIONS {
        let mode = [Mode::PingPong, Mode::UnderLoad, Mode::Playback, Mode::Server]
            .into_iter()
            .find(|m| option.modes & bit(*m) != 0)
            .expect("an option of no subcommand");
        let (word, name) = (help::SUBCOMMANDS.iter().find(|s| s.mode == mode).unwrap().name, option.name());
        if name == "help" {
            continue;
        }
        let base = match name {
            "file" => word.to_string(),
            "iomux-type" | "threads-num" => format!("{word} -f {feed}"),
            "recv_looping_num" => format!("{word} --nonblocked"),
            "tcp_nb_connect_timeout_ms" | "tls" => format!("{word} --tcp"),
            "range" => format!("{word} -m 50"),
            "dummy-send" => format!("{word} --mps 5"),
            "compare" => format!("{word} --report r.html"),
            _ if mode == Mode::Playback && name != "data-file" => format!("{word} --data-file {data}"),
            _ => word.to_string(),
        };
        let value = match name {
            "file" => feed.clone(),
            "data-file" => data.clone(),
            _ => sample_of(name, mode),
        };
        let spelled = match option.argument {
            Argument::None => format!("--{name}"),
            _ => format!("--{name}={value}"),
        };
        let after = settings(&format!("{base} {spelled}"));
        if name == "data-file" {
            assert_eq!(after.playback.len(), 1);
            continue;
        }
        let before = settings(&base);
        assert_ne!(format!("{before:?}"), format!("{after:?}"), "{word} {spelled} changes nothing");
    }
    std::fs::remove_file(feed).unwrap();
    std::fs::remove_file(data).unwrap();
}

#[test]
fn help_teaches_with_an_example_and_lists_every_option() {
    for subcommand in help::SUBCOMMANDS {
        for name in [subcommand.name, subcommand.alias] {
            for ask in ["-h", "-?", "--help", "--usage"] {
                let Ok(Request::Show(text)) = parse(&words(&format!("{name} {ask}"))) else {
                    panic!("{name} {ask}")
                };
                assert!(text.contains("Examples:\n   ") && text.contains("sockperf "), "{name}");
                for option in OPTIONS.iter().filter(|o| o.modes & bit(subcommand.mode) != 0) {
                    assert!(text.contains(&format!("--{}", option.name())), "{name} lacks {}", option.name());
                }
            }
        }
    }
    for ask in ["help", "h", "?", "--help", "--version", ""] {
        assert!(matches!(parse(&words(ask)), Ok(Request::Show(_))), "{ask}");
    }
}

#[test]
fn examples_in_the_help_are_accepted() {
    for (line, _) in help::SUBCOMMANDS.iter().flat_map(|s| s.examples) {
        let line = line.rsplit("sockperf ").next().unwrap();
        if line.contains("-f ") || line.contains("--data-file") {
            continue;
        }
        settings(line);
    }
}

#[test]
fn the_man_page_has_every_option_and_exit_code() {
    let page = include_str!("../../../../man/sockperf.1").replace("\\-", "-");
    for option in OPTIONS {
        for name in option.long {
            assert!(page.contains(&format!("\\fB--{name}\\fR")), "--{name}");
        }
        assert!(page.contains(option.help.split(' ').next().unwrap()), "{}", option.name());
    }
    for code in [
        Code::Argument,
        Code::Malformed,
        Code::Unsupported,
        Code::NotFound,
        Code::Fatal,
        Code::Socket,
        Code::Timeout,
    ] {
        assert!(page.contains(&format!("\n{}\t", code as u8)), "{code:?}");
    }
}
