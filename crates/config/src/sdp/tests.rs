//! The three dialects point by point, the listings of the manual, and what mistaken files are told.

use super::{By, Destination, Dialect, Event, Log, Role, Rules, Wanted};
use core::net::SocketAddr;
use proptest::prelude::*;

fn troubles(text: &str) -> Vec<String> {
    let events = Rules::parse("f", text).1;
    events
        .into_iter()
        .filter_map(|event| match event {
            Event::Trouble(trouble) => Some(trouble.text),
            Event::Log(_) => None,
        })
        .collect()
}

fn read(text: &str) -> Rules {
    assert_eq!(troubles(text), [""; 0], "{text}");
    Rules::parse("f", text).0
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// What a program's socket speaks, and which line says so (0: no rule).
fn said(rules: &Rules, program: &str, role: Role, address: &str) -> (Wanted, u32) {
    let decision = rules.compile(program).decide(role, at(address));
    let line = if let By::Rule(line) = decision.by { line } else { 0 };
    (decision.wanted, line)
}

use Role::{Client, Server};
use Wanted::{Both, Sdp, Tcp};

#[test]
fn the_examples_of_the_manual_decide_as_it_says() {
    let text = "match listen *:5001 program ttcp\nmatch shared *:5002\nmatch destination 192.168.1.0/24\n\
                match program db2*\n";
    let rules = read(text);
    for (program, role, address, answer) in [
        ("ttcp", Server, "0.0.0.0:5001", (Sdp, 1)),
        ("iperf", Server, "0.0.0.0:5001", (Tcp, 0)),
        ("ttcp", Client, "10.0.0.1:5001", (Tcp, 0)),
        ("iperf", Server, "10.0.0.1:5002", (Both, 2)),
        ("iperf", Client, "192.168.1.77:9", (Sdp, 3)),
        ("iperf", Client, "192.168.2.77:9", (Tcp, 0)),
        ("db2sysc", Client, "10.0.0.1:9", (Sdp, 4)),
        ("db2", Server, "10.0.0.1:9", (Sdp, 4)),
        ("db2sysc", Server, "10.0.0.1:5002", (Both, 2)),
    ] {
        assert_eq!(said(&rules, program, role, address), answer, "{program} {address}");
    }
}

#[test]
fn the_listing_for_netperf_is_accepted_with_its_slip() {
    let text = "match destination *.*\nmatch listen *.*\n";
    let rules = Rules::parse("f", text).0;
    assert_eq!(said(&rules, "netperf", Client, "192.168.0.1:12865"), (Sdp, 1));
    assert_eq!(said(&rules, "netserver", Server, "0.0.0.0:12865"), (Sdp, 2));
    let told = troubles(text);
    assert!(told.len() == 2 && told[0].starts_with("f:1: '*.*' is taken for '*:*'"), "{told:?}");
    assert_eq!(said(&read("match shared *:*\n"), "netserver", Server, "0.0.0.0:12865"), (Both, 1));
}

#[test]
fn all_expressions_of_a_match_line_must_hold() {
    let rules = read("match program t?cp listen 10.0.0.0/8:1-9 listen *:5-20 program *cp");
    assert_eq!(said(&rules, "ttcp", Server, "10.1.1.1:7"), (Sdp, 1));
    assert_eq!(said(&rules, "ttcp", Server, "10.1.1.1:3"), (Tcp, 0));
    assert_eq!(said(&rules, "tcp", Server, "10.1.1.1:7"), (Tcp, 0));
}

#[test]
fn of_use_rules_the_first_of_the_role_wins_and_without_one_it_is_both() {
    let rules = read(
        "use tcp server * 10.0.0.0/8:80\nuse sdp listen ng* *:80\nuse sdp client * *:*\nuse tcp connect * *:80",
    );
    for (program, role, address, answer) in [
        ("nginx", Server, "10.1.1.1:80", (Tcp, 1)),
        ("nginx", Server, "11.1.1.1:80", (Sdp, 2)),
        ("httpd", Server, "11.1.1.1:80", (Both, 0)),
        ("curl", Client, "10.1.1.1:80", (Sdp, 3)),
    ] {
        assert_eq!(said(&rules, program, role, address), answer, "{program} {address}");
    }
    assert_eq!(rules.dialect(), Some(Dialect::Use));
}

#[test]
fn blanks_comments_and_names_with_hashes_are_read_as_ofed_does() {
    let rules =
        read("# all of it\n\n  use\tboth server a#b 10.0.0.0 / 24 : 5 - 7 # why\r\nuse tcp client * *:1#x");
    assert_eq!(said(&rules, "a#b", Server, "10.0.0.9:6"), (Both, 3));
    assert_eq!(said(&rules, "x", Client, "10.0.0.9:1"), (Tcp, 4));
}

#[test]
fn javas_lines_bind_and_connect() {
    let rules = read("bind * *\nconnect 192.0.2.0/24 1024-*\nconnect [2001:db8::]/32 0-80");
    for (role, address, answer) in [
        (Server, "[::]:1", (Sdp, 1)),
        (Client, "192.0.2.1:1024", (Sdp, 2)),
        (Client, "192.0.2.1:80", (Tcp, 0)),
        (Client, "[2001:db8:1::1]:80", (Sdp, 3)),
        (Client, "[2001:db9:1::1]:80", (Tcp, 0)),
    ] {
        assert_eq!(said(&rules, "java", role, address), answer, "{address}");
    }
}

#[test]
fn addresses_of_both_families_are_compared() {
    let rules = read(
        "use sdp server * ::1:80\nuse sdp server * fe80::/10:*\nuse sdp client * [2001:db8::/32]:5\n\
         use sdp client * 0.0.0.0/0:6",
    );
    for (role, address, answer) in [
        (Server, "[::1]:80", (Sdp, 1)),
        (Server, "[febf::1]:9", (Sdp, 2)),
        (Client, "[2001:db8::9]:5", (Sdp, 3)),
        (Client, "1.2.3.4:6", (Sdp, 4)),
        (Client, "[::ffff:1.2.3.4]:6", (Sdp, 4)),
        (Client, "[2001:db8::9]:6", (Both, 0)),
    ] {
        assert_eq!(said(&rules, "x", role, address), answer, "{address}");
    }
}

#[test]
fn host_bits_beyond_the_length_are_told_and_do_not_hide_the_network() {
    // What nobody means to write, and OFED's rule then never matches.
    let text = "match destination 192.168.1.5/24";
    assert_eq!(troubles(text), ["f:1: '192.168.1.5/24' has bits beyond its length; 192.168.1.0/24 is meant"]);
    assert_eq!(said(&Rules::parse("f", text).0, "x", Client, "192.168.1.99:1"), (Sdp, 1));
}

#[test]
fn without_rules_everything_is_both_and_simple_is_sdp() {
    assert_eq!(said(&read(""), "x", Server, "1.1.1.1:1"), (Both, 0));
    assert_eq!(said(&read("log min-level 3"), "x", Client, "1.1.1.1:1"), (Both, 0));
    assert_eq!(said(&Rules::simple(), "x", Client, "1.1.1.1:1"), (Sdp, 0));
    assert!(!Rules::default().compile("x").leaves_all());
}

#[test]
fn decisions_can_be_explained() {
    let rules = Rules::parse("/etc/libsdp.conf", "match listen *:1\nmatch program a\nmatch listen *:3").0;
    let rules = rules.compile("b");
    let decision = rules.decide(Server, at("1.1.1.1:3"));
    assert_eq!(rules.reason(decision.by).to_string(), "rule /etc/libsdp.conf:3");
    assert_eq!(rules.passed_over(decision).collect::<Vec<_>>(), [1]);
    let decision = rules.decide(Server, at("1.1.1.1:4"));
    assert_eq!(rules.reason(decision.by).to_string(), "no rule of /etc/libsdp.conf fits");
    assert_eq!(rules.passed_over(decision).count(), 2);
    assert!(Rules::parse("f", "match program a").0.compile("b").leaves_all());
}

#[test]
fn a_file_that_mixes_dialects_is_told_so() {
    let rest = "line ignored, the other lines hold";
    let first = "but the rules of this file are in";
    for (text, told) in [
        (
            "match listen *:1\nuse both server netserver 10.0.0.0/8:5-6",
            format!(
                "f:2: a rule in OFED's dialect (use ...), {first} Topspin's dialect (match ...) since line 1; \
                 there it is 'match shared 10.0.0.0/8:5-6 program netserver'; {rest}"
            ),
        ),
        (
            "use tcp client * *:*\nmatch program db2*",
            format!(
                "f:2: a rule in Topspin's dialect (match ...), {first} OFED's dialect (use ...) since line 1; \
                 there it is 'use sdp server db2* *:*, and use sdp client db2* *:*'; {rest}"
            ),
        ),
        (
            "connect * 80\n\nuse tcp client * *:80",
            format!(
                "f:3: a rule in OFED's dialect (use ...), {first} Java's dialect (bind ..., connect ...) since \
                 line 1; no line of that dialect says the same; {rest}"
            ),
        ),
    ] {
        assert_eq!(troubles(text), [told]);
    }
    let rules = Rules::parse("f", "match listen *:1\nuse sdp client * *:*\nmatch listen *:2").0;
    assert_eq!(said(&rules, "x", Client, "1.1.1.1:1"), (Tcp, 0));
    assert_eq!(said(&rules, "x", Server, "1.1.1.1:2"), (Sdp, 3));
}

#[test]
fn mistakes_are_named_with_what_would_be_right() {
    for (line, part) in [
        ("mtach listen *:1", "'mtach' begins no line; expected log, and match, use, or bind and connect"),
        ("match", "match needs an expression"),
        ("match listen", "listen needs an address, such as *:5001"),
        ("match port 5", "'port' is no expression; expected destination, listen, shared or program"),
        ("match program", "program needs a name"),
        ("match listen *:1 destination *:1", "listen and destination never hold for one socket"),
        ("match listen *:1 shared *:1", "listen and shared never hold for one socket"),
        ("match listen myhost:1", "'myhost' is no address"),
        ("match listen 5001", "'5001' is no address"),
        ("match listen 1.2.3.4/33", "'33' is no length of a prefix; expected 0 to 32"),
        ("match listen fe80::1:80", "an IPv6 address stands in brackets here"),
        ("match listen [fe80::1:80", "has no ']'"),
        ("match listen *:0", "'0' is no port; expected 1 to 65535"),
        ("match listen *:65536", "'65536' is no port"),
        ("match listen *:9-1", "the range of ports 9-1 is empty"),
        ("use tcp", "'' is no role; expected server or client"),
        ("use shared server * *:1", "'shared' after use; expected sdp, tcp or both"),
        ("use both server *:5001", "missing: the program, or *, before the address"),
        ("use both server x", "missing: program and ADDRESS:PORTS"),
        ("use both server * 10.0.0.1", "'10.0.0.1' has no port; write 10.0.0.1:PORT, or 10.0.0.1:* for any"),
        ("use vma tcp_server *:*", "'use vma tcp_server' is for libvma.conf (VMA_CONFIG_FILE)"),
        ("use sdp tcp_client *:*", "is for libvma.conf"),
        ("application-id redis *", "'application-id' is for libvma.conf"),
        ("bind 10.0.0.1", "bind needs two words, an address and ports"),
        ("connect 10.0.0.1 80 81", "connect needs two words"),
        ("log", "log needs destination, min-level, or both"),
        ("log min-level 10", "'10' is no level; expected 1 (everything) to 9 (errors)"),
        ("log min-level", "'' is no level"),
        ("log destination file", "log destination file needs a name"),
        ("log destination /tmp/x", "'/tmp/x' is no log destination; expected stderr, syslog or file NAME"),
        ("log destination file /tmp/", "'/tmp/' names no file"),
        ("log level 3", "'level' in a log line"),
    ] {
        let told = troubles(line);
        assert!(
            told.len() == 1 && told[0].starts_with("f:1: ") && told[0].contains(part),
            "{line}: {told:?}"
        );
        assert!(told[0].ends_with("line ignored, the other lines hold"), "{told:?}");
    }
}

#[test]
fn a_file_whose_only_rule_is_mistaken_leaves_sockets_to_its_dialects_default() {
    assert_eq!(said(&Rules::parse("f", "match listen here").0, "x", Server, "1.1.1.1:1"), (Tcp, 0));
    assert_eq!(said(&Rules::parse("f", "use sdp server x").0, "x", Server, "1.1.1.1:1"), (Both, 0));
}

#[test]
fn log_lines_count_from_where_they_stand_and_change_what_they_name() {
    let text = "log min-level 1 destination file libsdp.log\nlog min-level 1 destination stderr\n\
                log destination syslog\nlog destination file /var/log/../x.log min-level 7";
    let events = Rules::parse("f", text).1;
    let file = |name: &str| Destination::File(name.to_owned());
    let log = |min_level, destination| Event::Log(Log { min_level, destination });
    assert_eq!(
        events[..4],
        [
            log(1, file("libsdp.log")),
            log(1, Destination::Stderr),
            log(1, Destination::Syslog),
            log(7, file("x.log"))
        ]
    );
    assert!(matches!(&events[4], Event::Trouble(trouble) if !trouble.is_error), "{:?}", events[4]);
}

#[test]
fn log_files_are_where_each_libsdp_had_them() {
    let paths = |dialect, user| -> Vec<String> {
        Destination::File("x".into()).paths(dialect, user).into_iter().map(|path| path.file).collect()
    };
    assert_eq!(paths(Some(Dialect::Match), 5), ["/tmp/x", "/tmp/x.5/log"]);
    assert_eq!(paths(Some(Dialect::Use), 5), ["/tmp/x.5/log"]);
    assert_eq!(paths(Some(Dialect::Use), 0), ["/var/log/x", "/tmp/x.0/log"]);
    assert!(Destination::Syslog.paths(None, 0).is_empty());
}

#[test]
fn a_file_of_nothing_but_mistakes_is_told_in_a_few_lines() {
    let told = troubles(&"nonsense\n".repeat(1000));
    assert_eq!(told.len(), super::TROUBLE_MAX + 1);
    assert_eq!(told.last().unwrap(), "f: 980 more lines with trouble");
}

/// Words that files are made of, so that made-up ones get far.
const WORDS: [&str; 34] = [
    "match",
    "use",
    "bind",
    "connect",
    "log",
    "destination",
    "listen",
    "shared",
    "program",
    "sdp",
    "tcp",
    "both",
    "server",
    "client",
    "min-level",
    "stderr",
    "syslog",
    "file",
    "*",
    "*:*",
    "*.*",
    "*:5001",
    "10.0.0.0/8:1-9",
    "[fe80::/64]:80",
    "::1:80",
    "1024-*",
    "[",
    "]",
    "/",
    "-",
    "#",
    "\n",
    "\u{1f980}",
    "9",
];

fn never_fails(text: &str) {
    let (rules, events) = Rules::parse("f", text);
    assert!(events.len() <= EVENTS_EACH * text.lines().count() + 1, "more said than there is to say");
    let compiled = rules.compile("prog");
    for role in [Server, Client] {
        for address in ["10.0.0.1:5001", "[::1]:80", "0.0.0.0:0"] {
            let decision = compiled.decide(role, at(address));
            assert!(!compiled.reason(decision.by).to_string().is_empty());
            assert!(!compiled.leaves_all() || decision.wanted == Tcp);
        }
    }
}

/// A log line may set something and be warned about.
const EVENTS_EACH: usize = 2;

proptest! {
    #[test]
    fn random_text_leaves_usable_rules(text in ".{0,400}") {
        never_fails(&text);
    }

    #[test]
    fn words_in_any_order_leave_usable_rules(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..80)) {
        never_fails(&words.join(" "));
        never_fails(&words.concat());
    }

    #[test]
    fn mutated_files_leave_usable_rules(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12)
    ) {
        let mut bytes = b"log min-level 1 destination file x\nmatch listen *:5001 program ttcp\nmatch destination *.*\n\
            use both server * 10.0.0.0/8:1-9\nuse sdp client db2* [fe80::]/64:*\nconnect 192.0.2.0/24 1024-*\n".to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            match byte {
                0..=40 => { bytes.remove(place); }
                41..=80 => bytes.insert(place, byte),
                _ => bytes[place] = byte,
            }
        }
        never_fails(&String::from_utf8_lossy(&bytes));
    }
}
