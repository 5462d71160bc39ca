//! A whole network in virtual time: hosts, the wires between them and a router in the middle. Everything that happens
//! is an event in one queue; two runs of one plan do the same things in the same order.

mod checks;
mod network;

use crate::chance::Chance;
use crate::checker::{Checker, Tag};
use crate::host::{self, Host};
use crate::ledger::{Conversation, Ledger, Violation};
use crate::link::Link;
use crate::plan::Plan;
use crate::trace::Trace;
use stack::{Path, Ready, Request};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A world and its time.
pub struct World {
    now: u64,
    order: u64,
    queue: BinaryHeap<Entry>,
    hosts: Vec<Host>,
    up: Vec<Link>,
    down: Vec<Link>,
    ledger: Ledger,
    checker: Checker,
    chance: Chance,
    plan: Settings,
    trace: Trace,
    report: Report,
}

struct Settings {
    heals_at: u64,
    black_hole: bool,
    lose_frames: Vec<u64>,
    lies: bool,
}

/// What a run was like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub violation: Option<Violation>,
    /// A hash over every frame that was sent, and when.
    pub digest: u64,
    pub frames: u64,
    pub events: u64,
    /// Length of the world, ns.
    pub span: u64,
    pub bytes_read: u64,
    /// Bytes of TCP payload that were sent more than once.
    pub bytes_resent: u64,
    pub letters_read: u64,
    pub conversations_done: u64,
}

enum Event {
    Arrive { host: usize, frame: Vec<u8>, tag: Tag },
    Cross { to: usize, frame: Vec<u8>, tag: Tag },
    StopMerging { host: usize },
    Attack,
    Wake { host: usize },
    Call { host: usize, app: usize },
    Answer { host: usize, request: Request },
    TxDone { host: usize },
    Pause { host: usize, on: bool },
    Jump { host: usize, by: u64 },
    Mtu { host: usize, mtu: u32 },
    Longer,
    Calm,
}

struct Entry {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// The earliest first.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Runs a plan to its end.
pub fn run(plan: Plan, trace: Trace) -> (Report, Trace) {
    let mut world = World::new(plan, trace);
    world.live();
    (world.report, world.trace)
}

impl World {
    fn new(plan: Plan, trace: Trace) -> World {
        let seed = plan.seed;
        let stream = |kind: u64, i: usize| Chance::new(seed, 100 + kind * 64 + i as u64);
        let wires = |kind: u64| {
            let faults = plan.hosts.iter().map(|h| if kind == 0 { h.up.clone() } else { h.down.clone() });
            faults.enumerate().map(|(i, f)| Link::new(f, plan.heals_at, stream(kind, i))).collect::<Vec<_>>()
        };
        let (up, down) = (wires(0), wires(1));
        let delays: Vec<u64> = plan.hosts.iter().map(|h| h.up.delay_min() + h.down.delay_min()).collect();
        let is_steady = plan.hosts.iter().all(|h| h.up.rate_bps == 0 && h.down.rate_bps == 0);
        // Who reads the clock early measures less than it took.
        let stale = plan.hosts.iter().map(|h| h.stale_max).max().unwrap_or(0);
        let delay = |address: &u32| delays[(address & 0xff) as usize - 1];
        let hosts = plan.hosts.into_iter().enumerate().map(|(i, h)| Host::new(i, h, stream(2, i)));
        let mut world = World {
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            hosts: hosts.collect(),
            up,
            down,
            ledger: Ledger {
                conversations: plan
                    .conversations
                    .iter()
                    .enumerate()
                    .map(|(i, rude)| Conversation {
                        rude: *rude,
                        crowded: plan.crowded.contains(&i),
                        kept_alive: plan.kept_alive.contains(&i),
                        round_trip_min: plan.places[i]
                            .iter()
                            .map(|(address, _)| delay(address))
                            .sum::<u64>()
                            .saturating_sub(stale),
                        ..Conversation::default()
                    })
                    .collect(),
                letters: vec![Vec::new(); plan.senders],
                doubles: plan.doubles,
                is_steady,
                ..Ledger::default()
            },
            checker: Checker::new(plan.places),
            chance: stream(3, 0),
            plan: Settings {
                heals_at: plan.heals_at,
                black_hole: plan.black_hole,
                lose_frames: plan.lose_frames,
                lies: plan.lies,
            },
            trace,
            report: Report::default(),
        };
        for (host, (apps, starts)) in plan.apps.into_iter().zip(plan.starts).enumerate() {
            for (app, start) in starts.into_iter().enumerate() {
                world.push(start, Event::Call { host, app });
            }
            world.hosts[host].apps = apps;
            world.foresee(host);
        }
        for at in &plan.attacks {
            world.push(*at, Event::Attack);
        }
        world.push(plan.heals_at + CALM_AFTER, Event::Calm);
        world
    }

    /// What will happen to a host and its wires.
    fn foresee(&mut self, host: usize) {
        let plan = self.hosts[host].plan.clone();
        for (from, to) in plan.pauses {
            self.push(from, Event::Pause { host, on: true });
            self.push(to, Event::Pause { host, on: false });
        }
        for (at, by) in plan.jumps {
            self.push(at, Event::Jump { host, by });
        }
        for (at, mtu) in plan.mtus {
            self.push(at, Event::Mtu { host, mtu });
        }
        for (at, _) in plan.up.longer.iter().chain(&plan.down.longer) {
            self.push(*at, Event::Longer);
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.push(Entry { at: at.max(self.now), order: self.order, event });
    }

    /// Three ages: the plan happens; the sockets of listeners and writers close; nothing is left.
    fn live(&mut self) {
        self.run_until(self.plan.heals_at + AFTER_HEALING);
        self.check_done();
        for host in 0..self.hosts.len() {
            for app in 0..self.hosts[host].apps.len() {
                self.ledger.host = host;
                self.hosts[host].end(self.now, app, &mut self.ledger);
            }
            self.finish_turn(host);
        }
        self.run_until(self.now + AFTER_CLOSING);
        self.check_empty();
        self.report.violation = self.ledger.violation.take();
        self.report.span = self.now;
        self.report.bytes_resent = self.checker.resent();
        self.report.bytes_read = self.ledger.bytes_read;
        self.report.letters_read = self.ledger.letters_read;
    }

    /// Lets events happen until there are none before `end`, or something is wrong.
    fn run_until(&mut self, end: u64) {
        while self.ledger.violation.is_none() {
            match self.queue.peek() {
                Some(entry) if entry.at <= end => {}
                _ => break,
            }
            let Some(Entry { at, event, .. }) = self.queue.pop() else { break };
            self.now = at;
            self.ledger.now = at;
            self.report.events += 1;
            if self.report.events > EVENTS_MAX {
                self.ledger.host = usize::MAX;
                self.ledger
                    .alarm(|| format!("{EVENTS_MAX} events and no end: someone goes round in circles"));
            }
            self.happen(event);
        }
        if self.ledger.violation.is_none() {
            self.now = self.now.max(end);
            self.ledger.now = self.now;
        }
    }

    fn happen(&mut self, event: Event) {
        self.note_disturbance(&event);
        let host = match event {
            Event::Arrive { host, frame, tag } => {
                if self.hosts[host].paused {
                    return self.keep_for_later(host, frame, tag);
                }
                self.deliver(host, frame, tag);
                host
            }
            Event::Cross { to, frame, tag } => return self.descend(self.now, to, frame, tag),
            Event::Wake { host } => {
                if self.hosts[host].wake_at <= self.now {
                    self.hosts[host].wake_at = u64::MAX;
                }
                if self.hosts[host].paused {
                    return;
                }
                host
            }
            Event::Call { host, app } => {
                if self.hosts[host].paused {
                    return self.push(self.now + 1_000_000, Event::Call { host, app });
                }
                self.ledger.host = host;
                let healed = self.now >= self.plan.heals_at + CALM_AFTER;
                self.hosts[host].act(self.now, app, Ready::default(), healed, &mut self.ledger);
                host
            }
            Event::Answer { host, request } => {
                if self.hosts[host].paused {
                    return self.push(self.now + 1_000_000, Event::Answer { host, request });
                }
                self.answer(host, request);
                host
            }
            Event::TxDone { host } => {
                self.hosts[host].ring.empty();
                if self.hosts[host].paused {
                    return;
                }
                host
            }
            Event::Pause { host, on } => {
                self.trace.note(self.now, host, || format!("pause {on}"));
                self.hosts[host].paused = on;
                if on {
                    return;
                }
                while let Some((frame, tag)) = self.hosts[host].waiting.pop_front() {
                    self.deliver(host, frame, tag);
                }
                host
            }
            Event::Jump { host, by } => {
                self.trace.note(self.now, host, || format!("clock jumps by {} s", by as f64 / 1e9));
                self.hosts[host].ahead += by;
                if self.hosts[host].paused {
                    return;
                }
                host
            }
            Event::Mtu { host, mtu } => {
                self.trace.note(self.now, host, || format!("its interface's MTU becomes {mtu}"));
                self.hosts[host].change_mtu(mtu);
                if self.hosts[host].paused {
                    return;
                }
                host
            }
            Event::StopMerging { host } => {
                if self.hosts[host].paused {
                    return self.push(self.now + 1_000_000, Event::StopMerging { host });
                }
                self.hosts[host].stop_merging(self.now);
                host
            }
            Event::Longer => return,
            Event::Attack => return self.attack(),
            Event::Calm => return self.calm(),
        };
        self.finish_turn(host);
    }

    fn note_disturbance(&mut self, event: &Event) {
        if matches!(event, Event::Longer | Event::Pause { .. } | Event::Jump { .. } | Event::Mtu { .. }) {
            self.ledger.disturbed += 1;
        }
    }

    /// A frame arrives at a host that sleeps.
    fn keep_for_later(&mut self, host: usize, frame: Vec<u8>, tag: Tag) {
        if self.hosts[host].waiting.len() < RX_RING {
            self.hosts[host].waiting.push_back((frame, tag));
        } else {
            self.ledger.disturbed += 1;
        }
    }

    fn calm(&mut self) {
        self.trace.note(self.now, 0, || "the network is calm".to_string());
        for host in 0..self.hosts.len() {
            for app in 0..self.hosts[host].apps.len() {
                self.push(self.now, Event::Call { host, app });
            }
        }
    }

    fn answer(&mut self, host: usize, request: Request) {
        let h = &mut self.hosts[host];
        let clock = h.stale_clock(self.now);
        match request {
            Request::Path(query) => {
                let path = Path { next_hop: query.to, mtu: h.plan.mtu, elsewhere: false };
                h.stack.set_path(clock, query, Ok(path), &mut h.ring);
            }
            Request::Neighbour(to) => {
                let mac = host::mac(usize::from(to.octets()[3]) - 1);
                h.stack.set_neighbour(clock, to, Some(mac), &mut h.ring);
            }
        }
    }

    /// What the owner of a stack does in every turn, after what arrived.
    fn finish_turn(&mut self, host: usize) {
        self.ledger.host = host;
        let healed = self.now >= self.plan.heals_at + CALM_AFTER;
        let h = &mut self.hosts[host];
        h.fire(self.now);
        h.drain_events(self.now, healed, &mut self.ledger);
        h.flush(self.now);
        h.drain_events(self.now, healed, &mut self.ledger);
        while let Some(request) = self.hosts[host].take_request() {
            let delay = self.chance.magnitude(1, 2_000_000);
            self.push(self.now + delay, Event::Answer { host, request });
        }
        while let Some((span, app)) = self.hosts[host].take_alarm() {
            self.push(self.now + span, Event::Call { host, app });
        }
        let mut sent = std::mem::take(&mut self.hosts[host].ring.sent);
        for frame in sent.drain(..) {
            self.transmit(host, frame);
        }
        self.hosts[host].ring.sent = sent;
        let h = &self.hosts[host];
        if h.ring.was_full || h.ring.in_flight > 0 {
            let span = self.chance.magnitude(1000, 100_000);
            if !h.ring.is_draining() {
                self.hosts[host].ring.start_draining();
                self.push(self.now + span, Event::TxDone { host });
            }
        }
        if let Some(wrong) = self.hosts[host].take_wrong() {
            self.ledger.alarm(|| wrong);
        }
        self.check_memory(host);
        self.schedule_wake(host);
    }

    fn schedule_wake(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        let Some(due) = h.stack.next_timer() else { return };
        let mut at = due.0.saturating_sub(h.ahead).max(self.now);
        if at == self.now {
            h.spins += 1;
            at += 1;
            if h.spins > SPINS_MAX {
                self.ledger.alarm(|| format!("the timer of {} ns stays due after on_time", due.0));
            }
        } else {
            h.spins = 0;
            at += h.chance.below(h.plan.late_max + 1);
        }
        if at < h.wake_at {
            h.wake_at = at;
            self.push(at, Event::Wake { host });
        }
    }
}

/// Time for everything to get through after the network healed: retransmission timers may have backed off to two
/// minutes, zero window probes as well.
const AFTER_HEALING: u64 = 600_000_000_000;
/// Time for queues to run empty after the network healed, ns.
const CALM_AFTER: u64 = 10_000_000_000;
/// TIME-WAIT, FIN-WAIT-2, orphans' last retransmissions.
const AFTER_CLOSING: u64 = 2_000_000_000_000;
const EVENTS_MAX: u64 = 2_000_000;
const SPINS_MAX: u32 = 1000;
/// Frames that a paused host's card keeps.
const RX_RING: usize = 256;
