//! UDP sockets of the engine that the kernel goes on with: it gets what waits in them, oldest first, and what still
//! comes.
//!
//! The program on the interface may have redirected a datagram before its steering entry went, and the ring has it a
//! little later. So the engine's socket stays for a while, and passes on what comes (`Stack::udp_hand_over`).

use crate::lane::{Inner, Lane};
use crate::runtime::Runtime;
use stack::udp::Heard;
use stack::{Instant, SocketId};

/// How long packets may be under way to the ring after their flow was taken out of the steering, nanoseconds: by far
/// longer than the kernel takes for one round of an interface's packets, at whose end the ring has them.
pub(crate) const UNDER_WAY_NS: u64 = 10_000_000;

/// No more at once than the engine keeps for the kernel.
const AT_ONCE: usize = 64;

impl Inner {
    /// The kernel goes on with a UDP socket: it gets what waits here. The steering entry follows, then
    /// [`Inner::pass_on`].
    pub(crate) fn begin_leaving(&mut self, id: SocketId, heard: Heard) {
        let now = sys::clock::now();
        self.look_at_all(now);
        while self.stack.udp_hand_over(id, AT_ONCE, heard) {
            self.deliver_events(now);
        }
        self.deliver_events(now);
    }

    /// What the ring has by now for sockets that were left is the kernel's. What they sent leaves before what they send
    /// there.
    pub(crate) fn pass_on(&mut self) -> u64 {
        let now = sys::clock::now();
        self.look_at_all(now);
        self.flush(Instant(now));
        self.left.until = now + UNDER_WAY_NS;
        now
    }

    /// Nobody has this socket any more, for which something may still come.
    pub(crate) fn close_later(&mut self, id: SocketId) {
        self.stack.set_token(id, 0);
        self.left.sockets.push((self.left.until, id));
    }

    /// Closes those for which nothing comes any more.
    pub(crate) fn close_left(&mut self, now: u64) {
        if self.left.sockets.is_empty() {
            return;
        }
        self.look_at_all(now);
        let stack = &mut self.stack;
        self.left.sockets.retain(|(until, id)| {
            if now >= *until {
                stack.udp_close(*id);
            }
            now < *until
        });
    }
}

/// The process goes on as another program, or ends, and its rings go: waits for what is under way to sockets that were
/// left to the kernel, and passes it on.
pub(crate) fn await_under_way(runtime: &'static Runtime) {
    let lanes = || runtime.lanes().filter(|lane| !lane.is_fenced());
    let until = |lane: &'static Lane| lane.try_lock().map_or(0, |inner| inner.left.until);
    let rest = lanes().map(until).max().unwrap_or(0).saturating_sub(sys::clock::now());
    if rest == 0 {
        return;
    }
    sys::thread::sleep(rest.min(UNDER_WAY_NS));
    for lane in lanes() {
        if let Some(mut inner) = lane.lock_until(sys::clock::now() + UNDER_WAY_NS) {
            inner.look_at_all(sys::clock::now());
        }
    }
}
