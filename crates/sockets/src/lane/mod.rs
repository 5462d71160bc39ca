//! A lane: an AF_XDP device of one interface, the engine behind it, one lock. An interface has one, or several that
//! share its packet memory (`runtime/allocation.rs`).
//!
//! Whoever holds the lock runs to completion in its own thread: frames in, timers, frames out, events. Lanes are
//! leaked: opened once, never freed.

mod addresses;
pub(crate) mod capture;
mod completions;
mod counts;
mod gate;
mod gather;
mod hook;
mod moderation;
mod orphans;

pub(crate) use crate::frame::{Frame, Tx};
pub(crate) use completions::Completions;
pub(crate) use gather::{Gather, Intake};
pub(crate) use moderation::Moderator;
pub(crate) use orphans::Orphan;

use crate::background::BACKGROUND;
use crate::locks::Rank;
use crate::runtime::Runtime;
use core::ffi::CStr;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use stack::{SocketId, Stack};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

/// See the module's page.
pub(crate) struct Lane {
    /// Its place in the runtime's table.
    pub slot: usize,
    /// The interface.
    pub link: u32,
    /// Its number among the lanes of that.
    pub number: u32,
    /// Its name when it was opened.
    pub name: String,
    /// What to sleep on: readable while frames wait.
    pub descriptors: Vec<i32>,
    /// Whom a packet wakes.
    pub gate: gate::Gate,
    /// When the last turn ended, for the worker: lanes that the application turns need no help.
    pub turned: AtomicU64,
    /// Sends gather: a later call, or the worker, hands them over.
    pub gathering: AtomicBool,
    /// Threads of the application asleep on the lane's descriptors: they, not the worker, take the packets in.
    pub sleepers: AtomicU32,
    /// The device or the engine failed: sockets fail, new ones go to the kernel.
    pub fenced: AtomicBool,
    /// The interface was deleted. What stood here is the kernel's, as soon as that has a route for it again.
    pub gone: AtomicBool,
    /// Of an interface's first lane: there can be no further ones.
    pub is_last: AtomicBool,
    /// Each packet is copied between the device and us: bulk is cheaper by the kernel, which moves 64 KiB at a time.
    pub copies: bool,
    /// Its statistics.
    pub counts: &'static stats::Lane,
    /// The moderation of its interface's interrupts, where that was asked for; of the first lane there.
    pub moderator: OnceLock<Moderator>,
    /// Who looks at its frames.
    pub capture: sys::Mutex<Option<capture::Running>>,
    /// Tells the kernel of frames that were shown.
    pub bell: Arc<xdp::Bell>,
    /// Whether the program is on the interface.
    pub hook: hook::Hook,
    inner: sys::Mutex<Inner>,
}

/// What the lock protects.
pub(crate) struct Inner {
    /// The device.
    pub device: xdp::Device,
    /// The engine.
    pub stack: Stack<Frame>,
    /// Addresses of the interface.
    pub addresses: Vec<Ipv4Addr>,
    /// Addresses of this host's other interfaces, with their links.
    pub elsewhere: Vec<(u32, Ipv4Addr)>,
    /// See `orphans.rs`: the longest unlooked at first.
    pub orphans: VecDeque<Orphan>,
    /// Steering entries of those that have one of their own.
    pub orphan_flows: HashMap<SocketId, xdp::Flow>,
    /// How many of them have a reservation.
    pub reserved: usize,
    /// See `turn/left.rs`.
    pub left: Left,
    /// When the kernel was reminded of the neighbours in use last.
    pub reminded_at: u64,
    /// Reused between packets.
    pub chunks: Vec<xdp::RxFrame>,
    pub tail: Vec<Frame>,
    /// What the program was lent.
    pub lent: crate::lent::Lent,
    /// What it is told by socketxtreme.
    pub completions: Completions,
    /// When sends share a hand-over.
    pub gather: Gather,
    /// Frames are shown only: who has the lock rings for them afterwards ([`Lane::briefly`]).
    pub shows_only: bool,
    /// When a frame last came or went.
    pub moved_at: u64,
    /// How frames are taken in.
    pub intake: Intake,
    /// SYNs that the program had answered when the engine heard of it last.
    pub answered: u64,
    /// The lane's statistics.
    pub counts: &'static stats::Lane,
    pub link: u32,
    pub runtime: &'static Runtime,
}

/// UDP sockets that were left to the kernel (`turn/left.rs`).
#[derive(Default)]
pub(crate) struct Left {
    /// Engine sockets without an owner, and until when something may come for them.
    pub sockets: Vec<(u64, SocketId)>,
    /// Until when something may come for one that was left to the kernel, whether it has an owner still or not.
    pub until: u64,
}

impl Lane {
    /// A lane over an open device: its slot, and its number among the interface's lanes.
    pub(crate) fn new(
        (slot, number): (usize, u32),
        link: &netlink::Link,
        addresses: &[netlink::Address],
        device: xdp::Device,
        runtime: &'static Runtime,
    ) -> Lane {
        let now = stack::Instant(sys::clock::now());
        // Workers of one server share the arena, and so do its threads.
        let shares = device.is_attached() || runtime.allocation.has_several();
        let stack = engine(link, &device, runtime, device.frames() / if shares { 8 } else { 2 }, now);
        let frames = device.frames() / if shares { 4 } else { 1 };
        let block = crate::counts::made_segment().lane(slot);
        counts::describe(block, link, &device);
        let gate = gate::Gate::new(device.descriptors());
        let lane = Lane {
            slot,
            link: link.index,
            number,
            name: link.name.clone(),
            descriptors: gate.descriptors(),
            gate,
            turned: AtomicU64::new(now.0),
            gathering: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            fenced: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            copies: !device.is_zero_copy(),
            counts: block,
            moderator: (number == 0)
                .then(|| Moderator::begin(runtime, link, &device, block))
                .flatten()
                .map_or_else(OnceLock::new, OnceLock::from),
            capture: Rank::Capture.lock(None),
            bell: device.bell(),
            hook: hook::Hook::new(device.hook()),
            inner: Rank::Lane.lock(Inner {
                device,
                stack,
                addresses: Vec::new(),
                elsewhere: Vec::new(),
                orphans: VecDeque::new(),
                orphan_flows: HashMap::new(),
                reserved: 0,
                left: Left::default(),
                reminded_at: now.0,
                chunks: Vec::new(),
                tail: Vec::new(),
                lent: crate::lent::Lent::new(slot, frames),
                completions: Completions::new(runtime.parameters.socketxtreme),
                gather: Gather::new(&runtime.parameters),
                shows_only: false,
                moved_at: now.0,
                intake: Intake::new(&runtime.parameters),
                // Those that were answered before there was this lane may be proven to it.
                answered: 0,
                counts: block,
                link: link.index,
                runtime,
            }),
        };
        lane.lock().learn_addresses(addresses);
        lane.lock().learn_reverse_path();
        lane
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn lock(&self) -> sys::MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Takes the lock beside those of lanes before it in the table.
    pub(crate) fn lock_beside(&self) -> sys::MutexGuard<'_, Inner> {
        self.inner.lock_beside()
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<sys::MutexGuard<'_, Inner>> {
        self.inner.try_lock()
    }

    /// Takes the lock, unless it stays held beyond `deadline`: see [`sys::Mutex::lock_until`].
    pub(crate) fn lock_until(&self, deadline: u64) -> Option<sys::MutexGuard<'_, Inner>> {
        self.inner.lock_until(deadline)
    }

    /// Whether somebody has the lock just now.
    pub(crate) fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// What a call does that sends, receives or waits. The kernel is told of its frames when the lock is free again:
    /// delivering them takes longer than all else here, and whom that wakes may take the processor.
    #[inline]
    pub(crate) fn briefly<R>(&self, act: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        inner.shows_only = true;
        let result = act(&mut inner);
        inner.shows_only = false;
        drop(inner);
        self.ring();
        result
    }

    /// Tells the kernel of frames that were shown, if nobody else has.
    #[inline]
    fn ring(&self) {
        if !self.bell.ring() {
            self.lock().device.kick();
        }
    }

    /// Publishes what the worker looks at; called before the lock is let go.
    #[inline]
    pub(crate) fn note(&self, inner: &Inner, now: u64) {
        self.gate.turned(self.turned.load(Ordering::Relaxed));
        if self.gate.is_idle(now) {
            self.gate.unwatch(&self.sleepers);
        }
        self.turned.store(now, Ordering::Relaxed);
        self.publish(inner);
    }

    /// A thread is about to sleep on the lane: packets wake it, or those who poll the lane do.
    pub(crate) fn before_sleep(&self, now: u64) {
        if self.gate.is_polled_by_others(self.turned.load(Ordering::Relaxed), now) || !self.gate.arm(now) {
            BACKGROUND.hurry();
        }
    }

    /// A thread slept on the lane. One that has it to itself leaves the gate armed, for its next sleep.
    pub(crate) fn after_sleep(&self, now: u64) {
        self.gate.slept(now);
        if self.sleepers.load(Ordering::Acquire) != 0
            || self.gate.is_polled_by_others(self.turned.load(Ordering::Relaxed), now)
        {
            self.gate.woken();
        }
    }

    /// Sleepers whom no packet would wake, and nobody who polls: arms the gate. Whether the worker must look again
    /// soon.
    pub(crate) fn look_after_sleepers(&self, now: u64) -> bool {
        if self.sleepers.load(Ordering::Acquire) == 0 || self.gate.is_armed() {
            return false;
        }
        now.saturating_sub(self.turned.load(Ordering::Relaxed)) < gate::POLLED_NS || !self.gate.arm(now)
    }

    /// Nobody polls, and the gate could not be armed for those who sleep.
    pub(crate) fn is_stranded(&self, now: u64) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
            && !self.gate.is_armed()
            && now.saturating_sub(self.turned.load(Ordering::Relaxed)) >= gate::POLLED_NS
    }

    /// Whether sends gather; the worker is told when they begin to.
    #[inline]
    pub(crate) fn publish(&self, inner: &Inner) {
        let gathering = inner.device.unkicked() > 0 || inner.stack.wants_flush();
        if gathering != self.gathering.load(Ordering::Relaxed) {
            self.gathering.store(gathering, Ordering::Relaxed);
            if gathering {
                BACKGROUND.hurry();
            }
        }
    }

    /// Fences the lane off in the child of a fork: device and engine are the parent's.
    pub(crate) fn disown(&self) {
        self.fenced.store(true, Ordering::Release);
        self.bell.silence();
    }

    /// Whether the lane can no longer be used.
    #[inline]
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }
}

/// An engine that lets so many frames of the device wait unread.
fn engine(
    link: &netlink::Link,
    device: &xdp::Device,
    runtime: &Runtime,
    attached_frames_max: u32,
    now: stack::Instant,
) -> Stack<Frame> {
    let mut seed = [0u8; 32];
    // Without entropy the kernel itself would not have booted; zeros would still be correct, only guessable.
    let _ = sys::process::random(&mut seed);
    let config = stack::Config {
        seed,
        cookie_key: device.cookie_key(),
        timestamp_key: timestamp_key(&seed),
        mac: stack::MacAddr(device.mac()),
        mtu: runtime.mtu(link.mtu),
        accept_partial_checksum: device.checksums_may_be_partial(),
        attached_frames_max,
        tcp: runtime.tcp_settings().clone(),
        udp: runtime.udp_settings().clone(),
    };
    Stack::new(config, now)
}

/// From what the host keeps from boot to boot, and tells nobody outside; `else_from` where there is no /proc.
fn timestamp_key(else_from: &[u8; 32]) -> [u8; 16] {
    const BOOT_ID: &CStr = c"/proc/sys/kernel/random/boot_id";
    let mut key = [0; 16];
    key.copy_from_slice(&else_from[..16]);
    let mut text = [0; 40];
    let read = sys::file::read_to(BOOT_ID, &mut text).unwrap_or(0);
    let digits = text[..read].iter().filter_map(|byte| char::from(*byte).to_digit(16));
    for (at, digit) in digits.enumerate().take(32) {
        key[at / 2] = key[at / 2] << 4 | digit as u8;
    }
    key
}
