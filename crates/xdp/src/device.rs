//! An interface under our program: opened, asked, steered. Packets are moved in `receive` and `transmit`.

mod census;
mod half_open;
mod handover;
mod hook;
mod kept;
mod large;
mod open;
mod receive;
mod shared;
mod transmit;
mod watch;

pub use census::Census;
pub use half_open::{ByKernel, HalfOpen};
pub use handover::{HandOver, Passed};
pub use hook::Hook;
pub use kept::{Handout, Kept, Leftovers, interface_name};
pub use transmit::{Bell, Sent};
pub use watch::Change;

use core::sync::atomic::Ordering;
use std::sync::Arc;

use sys::Result as SysResult;

use crate::arena;
use crate::pool::{Pool, RxFrame};
use crate::rings::Ring;
use crate::socket::{QueueRings, Socket};
use crate::{Flow, Mode, Statistics};
pub use shared::Inherited;
use shared::Shared;

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where the program is attached.
    pub mode: Mode,
    /// Frames of the arena (4096 bytes each), for all queues together: half of them are posted for receiving at
    /// most, the rest is for sending and for what the application has not read yet. 0: as many as the receive rings
    /// need. The kernel clears and pins all of them while the interface is opened.
    pub frames: u32,
    /// Entries of each receive ring; a power of two.
    pub rx_ring: u32,
    /// Entries of each transmit ring; a power of two.
    pub tx_ring: u32,
    /// Whether packets larger than the MTU are sent where that pays.
    pub large: bool,
    /// Whether the frames are in huge pages, as far as the kernel has them. Those that were given to the host of a
    /// virtual machine cost many times what small ones do, which the kernel mostly has from others.
    pub huge_pages: bool,
    /// The MSS that the program announces when it answers SYNs itself, with cookies, because too many come at a time.
    /// 0: it drops them.
    pub answer_mss: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Auto,
            frames: 0,
            rx_ring: 2048,
            tx_ring: 1024,
            large: true,
            huge_pages: false,
            answer_mss: 0,
        }
    }
}

/// An interface under our program. Used under one lock by its owner (the lane).
///
/// Dropping the last one of all processes detaches the program: from then on the kernel gets all packets.
/// [`RxFrame`]s may outlive it, so the arena stays mapped for the life of the process.
///
/// In the child of a fork it must be [inherited](Device::inherit) before anything else happens; the child opens a
/// device of its own from that.
pub struct Device {
    shared: Arc<Shared>,
    queues: Vec<Queue>,
    descriptors: Vec<i32>,
    pool: &'static Pool,
    /// Our number in the arena: the owner of our frames.
    lane: u32,
    /// Free frames of ours.
    free: Vec<u32>,
    /// Frames that may be posted in one fill ring.
    post_max: u32,
    /// Further chunks of a packet, as `receive` hands them on.
    tail: Vec<RxFrame>,
    /// The queue to look at first, in turn.
    next_queue: usize,
    transmit: transmit::Transmit,
    bell: Arc<Bell>,
    /// Connections of processes that were killed.
    half_open: half_open::Untold,
    /// Of the one that opened the interface.
    watch: Option<watch::Watch>,
    /// Where copies of all frames go, while somebody captures.
    tap: Option<Box<capture::Writer>>,
}

/// A socket on one queue, the queue's rings, and the packet that is being put together from its descriptors.
struct Queue {
    socket: Socket,
    rings: QueueRings,
    fill: Ring<u64>,
    completion: Ring<u64>,
    head: Option<RxFrame>,
    tail: Vec<RxFrame>,
    /// Received since the fill ring was filled last.
    taken: u32,
}

impl Device {
    /// Before a fork, in the parent: makes what the child's device is opened from.
    pub fn before_fork(&self) {
        self.shared.make_anchors(&self.queues);
        self.shared.large(&self.queues[0].socket.fd);
    }

    /// What further devices are opened from, of this process ([`Device::attach`]) as those of its children.
    pub fn beside(&self) -> Inherited {
        self.shared.make_anchors(&self.queues);
        Inherited { shared: self.shared.clone() }
    }

    /// The process begins to end: a successor that opens the interface waits until it is free.
    pub fn ending(&self) {
        self.shared.owner.release();
    }

    /// At the end of the process: program and sockets go soon after it. Closing each takes the kernel a grace period,
    /// for which nobody must wait. Until then packets of flows that are still steered are dropped.
    pub fn leave(&mut self) {
        self.leave_frames();
        self.pool.arena.end(self.lane);
        let mut slow = self.shared.slow_to_close();
        slow.extend(&self.descriptors);
        // Else they are closed while the process ends.
        let _ = sys::socket::close_after_exit(&slow);
    }

    /// In the child of a fork, first of all: closes the child's copies of the sockets, so that they end with the
    /// parent, and tells what a device of its own is opened from. Of this one only [`Device::unsteer`] is of use: it
    /// takes a flow from the parent.
    pub fn inherit(&mut self, child: &sys::InChild) -> Inherited {
        self.queues.clear();
        self.descriptors.clear();
        self.tap = None;
        sys::thread::after_fork();
        Inherited::new(&self.shared, child)
    }

    /// Is it one of several that share the arena?
    pub fn is_attached(&self) -> bool {
        self.shared.is_inherited.load(Ordering::Relaxed)
    }

    /// Does a keeper hold the interface?
    pub fn is_kept(&self) -> bool {
        self.shared.is_kept && !self.shared.is_of_family
    }

    /// This process becomes another program, which looks after nobody.
    pub fn leave_children(&self) {
        self.shared.arena.stop_keeping();
    }

    /// What sends IP packets by way of the kernel's routes. EPERM: this process has not got the privilege (any more).
    pub fn by_kernel(&self) -> SysResult<ByKernel> {
        ByKernel::open(&self.shared)
    }

    /// Once a second or so: lanes of processes that died are taken out of the steering, and after a while their
    /// frames are taken back. What was told to nobody is [half-open](Device::half_open) then.
    pub fn bury_dead(&mut self) {
        self.shared.owner.hear();
        // Completions that lie there are not to outlast the grace of whose frames they are. Who is idle shares here.
        self.collect();
        if !self.shared.is_tended() {
            self.half_open.extend(kept::bury(&self.shared));
            self.pool.arena.take_back_left(arena::seconds());
        }
        self.fill_for_the_dead();
    }

    /// So many, at the most, of the connections that died with their process: their peers are to be told by now,
    /// without the lane's lock.
    pub fn half_open(&mut self, most: usize) -> Option<HalfOpen> {
        self.half_open.take(most, sys::clock::monotonic(), &self.shared)
    }

    /// Where the program is attached: `Native` or `Generic`.
    pub fn mode(&self) -> Mode {
        if self.shared.is_native() { Mode::Native } else { Mode::Generic }
    }

    /// Do packets move without a copy?
    pub fn is_zero_copy(&self) -> bool {
        self.queues[0].socket.is_zero_copy()
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.shared.interface.index
    }

    /// The interface's address at the time of opening.
    pub fn mac(&self) -> [u8; 6] {
        self.shared.interface.mac
    }

    /// The interface's MTU at the time of opening.
    pub fn mtu(&self) -> u32 {
        self.shared.interface.mtu
    }

    /// A virtual device whose kernel peers leave partial checksums: their TCP and UDP checksum fields may hold the
    /// sum of the pseudo header only. (In the generic hook any driver may have left the checksum to us.)
    pub fn checksums_may_be_partial(&self) -> bool {
        self.shared.interface.driver == "veth" || !self.shared.is_native()
    }

    /// Frames of the arena.
    pub fn frames(&self) -> u32 {
        self.pool.arena.frames()
    }

    /// The AF_XDP sockets: each is readable (level-triggered) while its receive ring holds something.
    pub fn descriptors(&self) -> &[i32] {
        &self.descriptors
    }

    /// From now on packets of this flow come to us: a flow with a remote side to us alone, one without to all lanes
    /// that steer it, by the hash of the remote side. `Err` is errno (E2BIG: too many flows or lanes).
    pub fn steer(&self, flow: Flow) -> SysResult<()> {
        if flow.remote.is_some() {
            self.shared.steering.steer(&flow, self.lane)?;
            return self.shared.steered();
        }
        if flow.protocol == libc::IPPROTO_TCP as u8 {
            // A server may give up the privilege for it before it has much to send.
            self.shared.large(&self.queues[0].socket.fd);
        }
        {
            let _lock = self.pool.arena.lock_steering();
            self.shared.steering.join(&flow, self.lane)?;
        }
        self.shared.steered()
    }

    /// From now on packets of this flow go to the other lanes that steer it, else to the kernel.
    pub fn unsteer(&self, flow: Flow) {
        if flow.remote.is_some() {
            return self.shared.steering.unsteer(&flow);
        }
        let _lock = self.pool.arena.lock_steering();
        self.shared.steering.leave(&flow, self.lane);
    }

    /// New connections to a listener's flow are the kernel's from now on; [`Device::unsteer`] follows, once those that
    /// are under way have come.
    pub fn leave_new_to_kernel(&self, flow: &Flow) {
        let _lock = self.pool.arena.lock_steering();
        self.shared.steering.leave_new_to_kernel(flow);
    }

    /// A connection's flow is the kernel's as soon as that has a connection of the same endpoints.
    pub fn yield_to_kernel(&self, flow: &Flow) {
        self.shared.steering.leave_new_to_kernel(flow);
    }

    /// Whether this connection's packets go to another lane, of this process or of one of its family.
    pub fn is_of_another(&self, connection: &Flow) -> bool {
        self.shared.steering.lane_of(connection).is_some_and(|lane| lane != self.lane)
    }

    /// Whether another process, which lives, has this connection. Its entry is not for us to replace.
    pub fn is_of_another_process(&self, connection: &Flow) -> bool {
        let lane = self.shared.steering.lane_of(connection);
        lane.is_some_and(|lane| lane != self.lane && self.pool.arena.is_of_another_process(lane))
    }

    /// Packets and bytes that the program redirected for a flow; `None` if it is not steered.
    pub fn flow_counters(&self, flow: Flow) -> Option<(u64, u64)> {
        self.shared.steering.counters(&flow)
    }

    /// First segments of connections that the program dropped on this interface: too many came at a time, and they
    /// could not be answered.
    pub fn refused(&self) -> u64 {
        self.shared.steering.flood.refused()
    }

    /// First segments of connections that the program answered itself on this interface.
    #[inline]
    pub fn answered(&self) -> u64 {
        self.shared.steering.flood.answered()
    }

    /// The lane has found nothing more to receive: the program may give it first segments again.
    #[inline]
    pub fn caught_up(&self) {
        self.shared.steering.flood.caught_up(self.lane);
    }

    /// The interface has another address: the program answers first segments that are for it.
    pub fn set_mac(&self, mac: [u8; 6]) {
        self.shared.steering.flood.set_mac(mac);
    }

    /// The key of the cookies in those answers: SipHash-1-3 of what `bpf/syn_cookie.h` says.
    pub fn cookie_key(&self) -> [u8; 16] {
        self.shared.steering.flood.key()
    }

    /// From now on every frame is copied there; the answer is where they went until now.
    pub fn set_tap(&mut self, tap: Option<Box<capture::Writer>>) -> Option<Box<capture::Writer>> {
        core::mem::replace(&mut self.tap, tap)
    }

    /// What was sent since the device was opened.
    pub fn sent(&self) -> Sent {
        Sent { kicks: self.transmit.counts.kicks + self.bell.rung(), ..self.transmit.counts }
    }

    /// Free frames at the device's own hand, for sending at once.
    pub fn free_frames(&self) -> usize {
        self.free.len() + usize::from(self.transmit.reserved.is_some())
    }

    /// Takes back every frame that was dropped or sent, which otherwise happens when there is need, and leaves what is
    /// too many to the other lanes. Then each frame is free, posted for receiving, with a caller, or being sent.
    pub fn collect(&mut self) {
        self.reap();
        self.pool.take_returned(&mut self.free);
        self.share();
    }

    /// What the kernel counted, summed over the queues.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for queue in &self.queues {
            sum.add(&queue.socket.fd);
        }
        sum
    }
}

#[cfg(test)]
mod tests;
