//! The server: opens what the command line names and answers.
//!
//! `responder` judges and answers messages; `single` are the lean loops over one socket, `many` the loop over a
//! multiplexer, `xtreme` the one over completions; `peers` knows who sent how much and what is missing.

pub mod filter;
pub mod many;
pub mod peers;
pub mod responder;
pub mod single;
pub mod xtreme;

use std::sync::Arc;

use crate::clock::{Clock, Reading};
use crate::exit::{Code, Failure, Result};
use crate::iomux::Kind;
use crate::message::{HEADER, Header, WARM_UP, fill_payload};
use crate::report::{self, text};
use crate::settings::{Endpoint, Settings};
use crate::sockets::{self, Socket};
use crate::{cpu, signals};

use filter::Filters;
use responder::{Responder, Totals};

/// A bound socket and what it stands for.
pub struct Listener {
    /// The socket.
    pub socket: Socket,
    /// Its first endpoint.
    pub endpoint: Endpoint,
    /// Groups joined: answers go to the group only when there is exactly one.
    pub groups: usize,
}

/// Serves until a signal.
pub fn run(s: &Settings, clock: Clock, first: Reading) -> Result<()> {
    crate::extra_api::check(s)?;
    if s.pre_warm_up_sec > 0 {
        signals::sleep(f64::from(s.pre_warm_up_sec));
    }
    let totals = Arc::new(Totals::new(s.threads * if s.rx_filter { 2 } else { 1 }));
    let outcome =
        if s.threads > 1 { threads(s, clock, first, &totals) } else { alone(s, clock, first, &totals) };
    outcome?;
    report::say(if s.threads > 1 {
        "sockperf: server_select_per_thread() exit"
    } else {
        "sockperf: cleanupAfterLoop() exit"
    });
    Ok(())
}

fn alone(s: &Settings, clock: Clock, first: Reading, totals: &Arc<Totals>) -> Result<()> {
    cpu::pin("--cpu-affinity", &s.cpus)?;
    let listeners = open(s, &s.endpoints)?;
    let mut responder = Responder::new(s, clock, clock.rate_since(first), Arc::clone(totals), 0);
    serve(s, listeners, &mut responder)?;
    if s.activity.is_some_and(|(_, table)| !table) {
        report::say("");
    }
    report::say("sockperf: Test end (interrupted by user)");
    summary(totals);
    responder.summary();
    Ok(())
}

fn threads(s: &Settings, clock: Clock, first: Reading, totals: &Arc<Totals>) -> Result<()> {
    report::say(&format!("sockperf: Running {} threads to manage {} sockets", s.threads, s.endpoints.len()));
    let share = s.endpoints.len().div_ceil(s.threads);
    let rate = clock.rate_since(first);
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = s
            .endpoints
            .chunks(share)
            .enumerate()
            .map(|(index, part)| {
                let totals = Arc::clone(totals);
                scope.spawn(move || {
                    let cpu = s.cpus.get(index % s.cpus.len().max(1)).copied();
                    let outcome = cpu::pin("--cpu-affinity", cpu.as_slice()).and_then(|()| {
                        let listeners = open(s, part)?;
                        let mut responder = Responder::new(s, clock, rate, totals, index);
                        serve(s, listeners, &mut responder)?;
                        responder.summary();
                        Ok(())
                    });
                    if outcome.is_err() {
                        // One thread that cannot serve ends the others: a test would silently be half.
                        signals::stop();
                    }
                    outcome
                })
            })
            .collect();
        workers.into_iter().filter_map(|w| w.join().ok()).collect()
    });
    let ended = outcomes.into_iter().collect::<Result<Vec<()>>>()?;
    report::say("sockperf: Got signal 2 - exiting");
    summary(totals);
    for () in ended {
        report::say("sockperf: Test end (interrupted by signal 2)");
    }
    Ok(())
}

fn summary(totals: &Totals) {
    let (messages, malformed) = (totals.messages(), totals.malformed());
    if messages == 0 {
        report::say("sockperf: No messages were received on the server.");
    } else {
        report::say(&format!("sockperf: Total {messages} messages received and handled"));
    }
    if malformed > 0 {
        report::say(&format!(
            "sockperf: [Refused] {malformed} datagrams or connections with malformed messages"
        ));
    }
}

/// Binds all endpoints. Multicast groups on one port share a socket, as on the original.
fn open(s: &Settings, endpoints: &[Endpoint]) -> Result<Vec<Listener>> {
    let mut listeners: Vec<Listener> = Vec::new();
    for endpoint in endpoints {
        let port = endpoint.address.ip().map(|a| a.port());
        let shared = listeners.iter_mut().find(|l| {
            endpoint.address.is_multicast()
                && l.endpoint.address.is_multicast()
                && l.endpoint.address.family() == endpoint.address.family()
                && l.endpoint.address.ip().map(|a| a.port()) == port
        });
        if let Some(listener) = shared {
            sockets::join(s, &listener.socket, endpoint)?;
            listener.groups += 1;
            continue;
        }
        let socket = sockets::server(s, endpoint)?;
        listeners.push(Listener { socket, endpoint: *endpoint, groups: 1 });
    }
    Ok(listeners)
}

fn serve(s: &Settings, listeners: Vec<Listener>, responder: &mut Responder) -> Result<()> {
    let mut banner = String::from("sockperf: [SERVER] listen on:");
    for (index, listener) in listeners.iter().enumerate() {
        banner.push('\n');
        banner.push_str(&text::endpoint_line(index, &listener.endpoint));
    }
    report::say(&banner);
    if let Some(tls) = &s.tls {
        report::say(&format!("sockperf: TLS: {}", tls.cipher));
    }
    if s.warm_up {
        report::say("sockperf: Warmup stage (sending a few dummy messages)...");
        warm_up(s, &listeners);
    }
    // SAFETY: no arguments. (glibc has a function for it only from 2.30 on.)
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    report::say(&format!("sockperf: [tid {tid}] using {}() to block on socket(s)", s.mux.name()));
    let filters =
        if s.rx_filter { Filters::install(&listeners, responder.beside(s))? } else { Filters::default() };
    let outcome = read(s, listeners, responder);
    filters.summary();
    outcome
}

fn read(s: &Settings, listeners: Vec<Listener>, responder: &mut Responder) -> Result<()> {
    if s.mux == Kind::Socketxtreme {
        return xtreme::serve(listeners, responder);
    }
    match listeners.as_slice() {
        [only] if s.mux == Kind::Recvfrom && !only.endpoint.tcp => single::datagrams(s, only, responder),
        [only] if s.mux == Kind::Recvfrom => single::streams(s, only, responder),
        _ => many::serve(s, listeners, responder),
    }
}

/// Two warm-up messages to each group. Small ones: the original's 65507 bytes are 45 fragments to everyone.
fn warm_up(s: &Settings, listeners: &[Listener]) {
    let mut message = [0; 64];
    fill_payload(&mut message[HEADER..], s.seed);
    Header { seq: 0, flags: WARM_UP, length: 64 }.write(&mut message);
    for listener in listeners.iter().filter(|l| l.endpoint.address.is_multicast() && !s.dont_reply) {
        for _ in 0..2 {
            responder::send_datagram(listener.socket.fd, &message, &listener.endpoint.address);
        }
    }
}

/// A socket that failed for good.
pub fn broken(what: &str) -> Failure {
    Failure::new(Code::Socket, format!("cannot receive {what}: {}", std::io::Error::last_os_error()))
}
