//! Questions and answers of a message each: Debian's sockperf in all its modes, and a name server asked by dnsperf.

use super::{App, Figures, GRACE, Stage, end, parse};
use crate::{Context, Error, Package, Protocol, Result, Running};

const PORT: u16 = 7200;

const SOCKPERF: App = App {
    name: "sockperf-under-load",
    what: "Debian's sockperf, a thread that receives before the first send, UDP",
    unit: "messages/s",
    needs: &[Package { program: "sockperf", package: "sockperf" }],
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: None,
    run: |stage| sockperf(stage, Sockets::Udp, UNDER_LOAD, PORT),
};

pub(super) const APPS: &[App] = &[
    SOCKPERF,
    App {
        name: "sockperf-modes",
        what: "Debian's sockperf: every mode over UDP and TCP, every way to wait for two sockets",
        unit: "modes/s",
        // With the wire demanded, sockperf's clock would run while the first send opens the interface, in vain.
        bypasses: false,
        run: modes,
        ..SOCKPERF
    },
    App {
        name: "dnsperf",
        what: "dnsmasq asked by dnsperf, two threads and four clients, UDP",
        unit: "answers/s",
        needs: &[
            Package { program: "dnsperf", package: "dnsperf" },
            Package { program: "dnsmasq", package: "dnsmasq-base" },
        ],
        run: names,
        ..SOCKPERF
    },
];

const UNDER_LOAD: &str = "under-load --mps=2000 --reply-every=1";

/// What sockperf opens.
#[derive(Clone, Copy)]
enum Sockets {
    Udp,
    Tcp,
    /// One of each, and the letter of the call that waits for them.
    Both(char),
}

fn modes(stage: &Stage<'_>) -> Result<Figures> {
    let data = stage.file("playback.csv");
    let lines = (1..1000).map(|line| format!("0.{:06}, {}\n", line * 500, 20 + line % 900));
    std::fs::write(&data, lines.collect::<String>()).context(data.display())?;
    let playback = format!("playback --reply-every=1 --data-file={}", data.display());
    // Each at a port of its own: sockperf's server cannot have one again at once.
    let mut ports = PORT..;
    let mut next = || ports.next().unwrap_or(PORT);
    for sockets in [Sockets::Udp, Sockets::Tcp] {
        for mode in ["ping-pong", UNDER_LOAD, "throughput --mps=5000 -m 1000", &playback] {
            sockperf(stage, sockets, mode, next())?;
        }
    }
    for letter in ['s', 'p', 'e'] {
        sockperf(stage, Sockets::Both(letter), "ping-pong", next())?;
    }
    Ok(Figures { rate: f64::from(next() - PORT) / f64::from(stage.seconds), ..Figures::default() })
}

/// One mode; its rate is that of the messages that were received, or sent where none comes back.
fn sockperf(stage: &Stage<'_>, sockets: Sockets, mode: &str, port: u16) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let place = match sockets {
        Sockets::Udp => format!("-i {address} -p {port}"),
        Sockets::Tcp => format!("--tcp -i {address} -p {port}"),
        Sockets::Both(letter) => {
            let list = stage.file("sockets");
            let text = format!("U:{address}:{port}\nT:{address}:{port}\n");
            std::fs::write(&list, text).context(list.display())?;
            format!("-f {} -F {letter}", list.display())
        }
    };
    let server = stage.server("sockperf").any_cpu().words(&format!("server {place}"));
    let mut server = server.start()?;
    let protocol = if matches!(sockets, Sockets::Udp) { Protocol::Udp } else { Protocol::Tcp };
    server.wait_for_port(protocol, port, GRACE)?;
    let time = if mode.starts_with("playback") { String::new() } else { format!("-t {}", stage.seconds + 1) };
    let words = format!("{mode} {place} {time}");
    let said = stage.ask(&stage.client("sockperf").any_cpu().words(&words))?.stdout;
    server.signal(libc::SIGINT)?;
    server.finish(GRACE)?;
    let what = if mode.starts_with("throughput") { "Message Rate is" } else { "ReceivedMessages=" };
    let counted =
        said.lines().filter(|line| line.contains("[Valid Duration]") || line.contains("Message Rate"));
    let count = counted.filter_map(|line| parse::number(line, what).ok()).fold(0.0, f64::max);
    if count == 0.0 || said.contains("No messages were received") {
        return Err(Error::new(format!("sockperf {words}:\n{said}")));
    }
    Ok(Figures { rate: count / f64::from(stage.seconds), ..Figures::default() })
}

/// Every name has the same address.
fn names(stage: &Stage<'_>) -> Result<Figures> {
    let questions = stage.file("questions");
    let lines: String = (0..500).map(|name| format!("host{name}.example A\n")).collect();
    std::fs::write(&questions, lines).context(questions.display())?;
    let address = stage.hosts.right.address;
    let words = format!(
        "-k -u root -C /dev/null -x {} -p {PORT} -a {address} -z --no-resolv --no-hosts --no-daemon \
         --address=/#/192.0.2.7",
        stage.file("pid").display()
    );
    let server: Running = stage.serve(&stage.server("dnsmasq").words(&words), PORT)?;
    // Over UDP: dnsmasq closes a TCP connection after a hundred questions, and dnsperf counts those behind as lost.
    let words = format!("-s {address} -p {PORT} -T 2 -c 4 -l {} -d", stage.seconds);
    let said = stage.ask(&stage.client("dnsperf").words(&words).argument(&questions))?.stdout;
    let number = |label: &str| parse::number(&said, label);
    let answered = number("Queries completed:")?;
    if answered == 0.0 || answered != number("NOERROR")? || number("Queries lost:")? != 0.0 {
        return Err(Error::new(format!("dnsperf:\n{said}")));
    }
    end(server)?;
    Ok(Figures { rate: answered / f64::from(stage.seconds), ..Figures::default() })
}
