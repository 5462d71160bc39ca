//! A host: a stack, its card, its clock and its applications.

use crate::app::{App, Cx};
use crate::chance::Chance;
use crate::checker::Tag;
use crate::checker::keeps::Keeps;
use crate::checker::states::{Cause, States};
use crate::device::{Device, SimFrame, TxRing};
use crate::ledger::Ledger;
use crate::merge;
use crate::plan::HostPlan;
use stack::{Instant, MacAddr, Ready, Request, Stack};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// One host.
pub struct Host {
    pub stack: Stack<SimFrame>,
    pub device: Rc<Device>,
    pub ring: TxRing,
    pub plan: HostPlan,
    pub apps: Vec<App>,
    /// Frames that arrived while it was paused; more than the card's ring holds are lost.
    pub waiting: VecDeque<(Vec<u8>, Tag)>,
    /// Segments that are being joined.
    pub merging: Option<Vec<u8>>,
    pub paused: bool,
    /// Its clock is so far ahead of the world's, ns.
    pub ahead: u64,
    /// When a wake for its timers is pending, ns of the world.
    pub wake_at: u64,
    /// Wakes in a row whose timer stayed due.
    pub spins: u32,
    pub chance: Chance,
    states: States,
    keeps: Keeps,
    stale: Chance,
    tail: Vec<SimFrame>,
    alarms: Vec<(u64, usize)>,
    born: Vec<App>,
}

/// Address of host `index`.
pub fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, index as u8 + 1)
}

/// Hardware address of host `index`.
pub fn mac(index: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, index as u8 + 1])
}

impl Host {
    /// A host without applications. `seed` is the engine's secret.
    pub fn new(index: usize, plan: HostPlan, mut chance: Chance) -> Host {
        let mut seed = [0u8; 32];
        seed.chunks_mut(8).for_each(|word| word.copy_from_slice(&chance.next().to_le_bytes()));
        let mut cookie_key = [0; 16];
        cookie_key.copy_from_slice(&seed[8..24]);
        let config = stack::Config {
            seed,
            cookie_key,
            timestamp_key: cookie_key,
            mac: mac(index),
            mtu: plan.mtu,
            accept_partial_checksum: plan.partial,
            attached_frames_max: plan.attached_max,
            tcp: plan.tcp.clone(),
            udp: stack::udp::Settings { receive_buffer: 212_992 },
        };
        let ahead = plan.clock_start;
        let mut stack = Stack::new(config, Instant(ahead));
        stack.set_addresses(&[address(index)], &[]);
        let device = Rc::new(Device::default());
        let ring = TxRing::new(&device, plan.tx_ring, plan.cuts);
        Host {
            stack,
            ring,
            device,
            plan,
            apps: Vec::new(),
            waiting: VecDeque::new(),
            merging: None,
            paused: false,
            ahead,
            wake_at: u64::MAX,
            spins: 0,
            stale: Chance::new(chance.clone().next(), 3),
            chance,
            states: States::default(),
            keeps: Keeps::default(),
            tail: Vec::new(),
            alarms: Vec::new(),
            born: Vec::new(),
        }
    }

    /// The host's clock when the world's says `now`.
    pub fn clock(&self, now: u64) -> Instant {
        Instant(now + self.ahead)
    }

    /// The clock as a thread read it that then waited for others to be done with the stack.
    pub fn stale_clock(&mut self, now: u64) -> Instant {
        let by = if self.plan.stale_max == 0 { 0 } else { self.stale.below(self.plan.stale_max + 1) };
        Instant(self.clock(now).0.saturating_sub(by))
    }

    /// The interface takes packets of this size from now on, and routes change with it.
    pub fn change_mtu(&mut self, mtu: u32) {
        self.plan.mtu = mtu;
        self.stack.set_mtu(mtu);
        self.stack.forget_paths();
    }

    /// A packet from the wire. True if it waits for others to be joined with, and `stop_merging` must follow.
    pub fn receive(&mut self, now: u64, bytes: Vec<u8>) -> bool {
        if !self.plan.merge {
            self.enter(now, bytes);
            return false;
        }
        if let Some(whole) = &mut self.merging
            && merge::append(whole, &bytes)
        {
            return false;
        }
        self.stop_merging(now);
        if merge::may_begin(&bytes) {
            self.merging = Some(bytes);
            return true;
        }
        self.enter(now, bytes);
        false
    }

    /// What was joined enters the stack.
    pub fn stop_merging(&mut self, now: u64) {
        if let Some(mut whole) = self.merging.take() {
            if self.plan.partial {
                merge::seal(&mut whole, true);
            }
            self.enter(now, whole);
        }
    }

    /// A packet enters the stack, perhaps in pieces as a card with small buffers delivers it.
    fn enter(&mut self, now: u64, bytes: Vec<u8>) {
        let clock = self.stale_clock(now);
        let headers = header_len(&bytes);
        if self.plan.chunk != 0 && bytes.len() > headers + 1 && self.chance.one_in(2) {
            let cut = headers + self.chance.below((bytes.len() - headers) as u64) as usize;
            for piece in bytes[cut..].chunks(self.plan.chunk) {
                let mut buffer = self.device.buffer();
                buffer.extend_from_slice(piece);
                self.tail.push(self.device.receive(buffer));
            }
            let mut head = bytes;
            head.truncate(cut);
            let head = self.device.receive(head);
            self.stack.on_frame(clock, head, &mut self.tail, &mut self.ring);
            self.tail.clear();
        } else {
            let head = self.device.receive(bytes);
            self.stack.on_frame(clock, head, &mut self.tail, &mut self.ring);
        }
        self.look(Cause::Segment);
    }

    /// Fires what is due.
    pub fn fire(&mut self, now: u64) {
        let clock = self.clock(now);
        if self.stack.next_timer().is_some_and(|due| due <= clock) {
            self.stack.on_time(clock, &mut self.ring);
            self.look(Cause::Time);
        }
    }

    fn look(&mut self, cause: Cause) {
        self.states.look(&self.stack, cause);
        self.keeps.look(&self.stack);
    }

    /// What must not be of its connections, since the last call: a change of state, or what one keeps.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.states.take_wrong().or_else(|| self.keeps.take_wrong())
    }

    /// Hands events to their applications until there are none.
    pub fn drain_events(&mut self, now: u64, healed: bool, ledger: &mut Ledger) {
        let mut left = 10_000;
        while let Some(event) = self.stack.take_event() {
            let own = (event.token as usize).wrapping_sub(1);
            if own < self.apps.len() {
                self.act(now, own, event.edges, healed, ledger);
            }
            left -= 1;
            if left == 0 {
                return ledger.alarm(|| "events without end".to_string());
            }
        }
    }

    /// Calls one application.
    pub fn act(&mut self, now: u64, own: usize, edges: Ready, healed: bool, ledger: &mut Ledger) {
        self.with_app(now, own, healed, ledger, |app, cx| app.act(cx, edges));
        // A newborn looks at once: edges before its token was set went to nobody.
        let first = self.apps.len();
        self.apps.append(&mut self.born);
        for newborn in first..self.apps.len() {
            self.with_app(now, newborn, healed, ledger, |app, cx| {
                app.act(cx, Ready::IN | Ready::OUT | Ready::ERR);
            });
        }
    }

    /// Ends one application.
    pub fn end(&mut self, now: u64, own: usize, ledger: &mut Ledger) {
        self.with_app(now, own, true, ledger, |app, cx| app.end(cx));
    }

    fn with_app(
        &mut self,
        now: u64,
        own: usize,
        healed: bool,
        ledger: &mut Ledger,
        act: impl FnOnce(&mut App, &mut Cx<'_>),
    ) {
        let (clock, call) = (self.clock(now), self.stale_clock(now));
        let next = self.apps.len();
        let mut cx = Cx {
            stack: &mut self.stack,
            ring: &mut self.ring,
            now: clock,
            call,
            chance: &mut self.chance,
            ledger,
            alarms: &mut self.alarms,
            born: &mut self.born,
            states: &mut self.states,
            keeps: &mut self.keeps,
            own,
            next,
            healed,
        };
        act(&mut self.apps[own], &mut cx);
        self.look(Cause::Command);
    }

    /// Sends what waits, if the stack wants to.
    pub fn flush(&mut self, now: u64) {
        if self.stack.wants_flush() {
            let clock = self.stale_clock(now);
            self.stack.flush(clock, &mut self.ring);
        }
    }

    /// The next question of the stack.
    pub fn take_request(&mut self) -> Option<Request> {
        self.stack.take_request()
    }

    /// Wishes of applications to be called again: ns from now, and whose.
    pub fn take_alarm(&mut self) -> Option<(u64, usize)> {
        self.alarms.pop()
    }
}

/// All headers of a packet: a card's first buffer holds at least these.
fn header_len(frame: &[u8]) -> usize {
    let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
    let ip = 14 + usize::from(byte(14) & 15) * 4;
    let transport = match byte(23) {
        // A message is headers to its end.
        1 => frame.len(),
        6 => usize::from(byte(ip + 12) >> 4) * 4,
        _ => 8,
    };
    (ip + transport).clamp(42, frame.len().max(42))
}
