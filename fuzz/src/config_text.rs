//! Text that users and attackers of the environment control: variables, `libvma.conf`, `libsdp.conf`, patterns, lists of
//! interfaces.

use crate::input::Input;
use config::{Interfaces, Parameters, ROWS, Role, Rules, sdp};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Messages about one line or variable.
const NOTICES_EACH: usize = 8;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let which = input.u8();
    let text = String::from_utf8_lossy(input.bytes(usize::MAX));
    match which % 4 {
        0 => {
            rules(&text);
            sdp_rules(&text);
        }
        1 => environment(&text),
        2 => {
            let (pattern, name) = text.split_once('\n').unwrap_or((&text, "python3.11"));
            let _ = config::glob::matches(pattern, name);
        }
        _ => {
            let (interfaces, notices) = Interfaces::parse(&text);
            assert!(notices.len() <= text.len(), "more complaints than text");
            let _ = (interfaces.choice("eth0"), interfaces.choice(&text));
        }
    }
}

fn rules(text: &str) {
    let (rules, notices) = Rules::parse("file", text);
    assert!(notices.len() <= text.lines().count(), "more complaints than lines");
    let here = Some(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80));
    let compiled = rules.compile("redis-server", "*");
    for role in [Role::TcpServer, Role::TcpClient, Role::UdpReceiver, Role::UdpSender, Role::UdpConnect] {
        for (local, remote) in [(here, None), (None, here), (here, here), (None, None)] {
            let now = rules.decide(role, "redis-server", "*", local, remote);
            assert_eq!(now, compiled.decide(role, local, remote), "compiling changed a decision");
        }
    }
    let _ = (compiled.leaves_all_tcp(), compiled.leaves_all_udp(), compiled.with_sdp());
    // Lines by the extra API, at run time: whatever they are, what comes of it decides.
    let mut again = rules.compile("redis-server", "*");
    text.lines().for_each(|line| drop(again.add_first(line)));
    let _ = again.decide(Role::TcpServer, here, None);
}

fn sdp_rules(text: &str) {
    let (rules, events) = sdp::Rules::parse("file", text);
    // A log line may set something and be warned about; the last one counts what is not told.
    assert!(events.len() <= 2 * text.lines().count() + 1, "more complaints than lines");
    let compiled = rules.compile("db2sysc");
    let somewhere = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 5001);
    for address in [SocketAddr::V4(somewhere), (somewhere.ip().to_ipv6_mapped(), somewhere.port()).into()] {
        for role in [sdp::Role::Server, sdp::Role::Client] {
            let decision = compiled.decide(role, address);
            assert_eq!(decision, compiled.decide(role, somewhere.into()), "the family changed a decision");
            assert!(!compiled.leaves_all() || decision.wanted == sdp::Wanted::Tcp);
            assert!(!compiled.reason(decision.by).to_string().is_empty());
        }
    }
}

/// Lines `NAME=value`; a first byte chooses a known name where there is none.
fn environment(text: &str) {
    let lines = text.lines().map(|line| match line.split_once('=') {
        Some(pair) => pair,
        None => {
            let row = line.as_bytes().first().map_or(0, |byte| usize::from(*byte)) % ROWS.len();
            (ROWS[row].name, line.get(1..).unwrap_or(""))
        }
    });
    let lines: Vec<(&str, &str)> = lines.collect();
    let (parameters, notices) = Parameters::from_env(lines.iter().copied());
    assert!(notices.len() <= NOTICES_EACH * (lines.len() + ROWS.len()), "{} complaints", notices.len());
    // What was understood can be shown.
    assert!(!config::banner::lines(&parameters).is_empty());
    let _ = config::banner::changed(&parameters);
}
