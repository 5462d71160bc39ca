//! One turn of a lane, and when sent frames are handed to the kernel.
//!
//! A hand-over is a system call (about a microsecond with the delivery it drives), so a burst of sends shares one: the
//! first send after a turn goes at once, further ones gather for a few microseconds behind it, as they would behind
//! a busy transmit queue in the kernel (tcp_autocorking). Any call that receives, polls or waits hands over what
//! gathered, and the worker does where no call follows.
//!
//! A server that was told of many ready sockets at once answers them one by one and then waits again. Its answers share
//! hand-overs too: a round. It ends with the wait, and there is none where the last one took long: an answer is not to
//! stand behind another one's work.

mod changes;
mod left;
mod requests;

pub(crate) use left::{UNDER_WAY_NS, await_under_way};
pub(crate) use requests::remind;

use crate::background::BACKGROUND;
use crate::lane::{Frame, Inner, Lane, Tx};
use crate::object::Object;
use stack::tcp::Push;
use stack::{Instant, Ready};

/// Looks that empty the largest rings, where each takes in few.
const LOOKS_MAX: u32 = 256;

/// Frames that gather at the most before they are handed over.
const GATHER_FRAMES_MAX: u32 = 32;

impl Lane {
    /// One turn, if there is anything to do; see [`Inner::turn`].
    #[inline]
    pub(crate) fn turn(&self, now: u64) {
        self.briefly(|inner| {
            inner.turn(now);
            self.note(inner, now);
        });
    }
}

impl Inner {
    /// Frames in, timers, frames out, then tell who is ready. Bounded; allocates nothing in the steady state.
    pub(crate) fn turn(&mut self, now: u64) {
        self.gather.end_round(now);
        self.turn_within_round(now);
    }

    /// A turn by the background thread: of so many packets at the most (VMA_PROGRESS_ENGINE_WCE_MAX).
    pub(crate) fn turn_in_background(&mut self, now: u64) {
        let batch = self.intake.batch;
        self.intake.batch = batch.min(self.runtime.parameters.progress_engine_wce_max as usize);
        self.turn(now);
        self.intake.batch = batch;
    }

    /// A turn for a call that finds nothing and does not wait: while a round is on, what gathered goes on gathering.
    pub(crate) fn turn_within_round(&mut self, now: u64) {
        let at = Instant(now);
        self.counts.turns.one();
        if self.device.has_received() {
            self.receive(at);
        } else {
            self.counts.turns_idle.one();
        }
        self.fire(at);
        self.flush_unless_gathering(at);
        self.gather.sends = 0;
        self.deliver_events(now);
    }

    /// As many looks as it takes until nothing is left that had arrived: none of it may find its flow forgotten.
    pub(crate) fn look_at_all(&mut self, now: u64) {
        for _ in 0..LOOKS_MAX {
            self.turn_within_round(now);
            if !self.device.has_received() {
                return;
            }
        }
    }

    /// What has arrived, for a call that is about to say or do something that depends on it: a window, an error. Where
    /// there is nothing, a look at the ring.
    #[inline]
    pub(crate) fn take_in(&mut self, now: u64) {
        if self.device.has_received() {
            self.receive(Instant(now));
            self.deliver_events(now);
        }
    }

    /// For a receive whose socket may have data queued: takes in what has arrived, if that was not done for as long as
    /// VMA_RX_CQ_DRAIN_RATE_NSEC says.
    #[inline]
    pub(crate) fn drain(&mut self, now: u64) {
        let rate = self.intake.drain_rate;
        if rate != 0 && now.saturating_sub(self.intake.drained_at) >= rate {
            self.intake.drained_at = now;
            self.take_in(now);
        }
    }

    fn is_due(&self, at: Instant) -> bool {
        self.stack.next_timer().is_some_and(|due| due <= at)
    }

    fn fire(&mut self, at: Instant) {
        if self.is_due(at) {
            self.stack.on_time(at, &mut Tx(&mut self.device));
        }
    }

    fn receive(&mut self, at: Instant) {
        self.moved_at = at.0;
        let (mut frames, mut bytes) = (0, 0);
        for _ in 0..self.intake.batch {
            let Some(head) = self.device.next_packet(&mut self.chunks) else {
                self.device.caught_up();
                break;
            };
            frames += 1 + self.chunks.len();
            bytes += head.bytes().len() + self.chunks.iter().map(|chunk| chunk.bytes().len()).sum::<usize>();
            self.look_for_answers(at);
            self.tail.extend(self.chunks.drain(..).map(Frame::new));
            self.stack.on_frame(at, Frame::new(head), &mut self.tail, &mut Tx(&mut self.device));
            self.tail.clear();
        }
        self.counts.rx_frames.add(frames as u64);
        self.counts.rx_bytes.add(bytes as u64);
        self.counts.drained_max.seen(frames as u64);
        logger::finer!("interface {}: {frames} frames of {bytes} bytes in all came in", self.link);
        let asked = self.counts.interrupts_requested.value();
        if asked != self.intake.interrupts_asked {
            self.intake.interrupts_asked = asked;
            self.counts.interrupts_received.one();
        }
        self.device.refill();
    }

    /// Before the proof of a cookie is looked at, the engine must know that the program gave some away.
    #[inline]
    fn look_for_answers(&mut self, at: Instant) {
        let answered = self.device.answered();
        if answered != self.answered {
            self.answered = answered;
            self.stack.cookies_are_out(at);
        }
    }

    /// Flushes the engine and hands every committed frame to the kernel, or shows it: see [`Lane::briefly`].
    #[inline]
    pub(crate) fn flush(&mut self, at: Instant) {
        if self.stack.wants_flush() {
            self.stack.flush(at, &mut Tx(&mut self.device));
        }
        let is_needed = if self.shows_only { self.device.unkicked() > 0 } else { self.device.is_sending() };
        if is_needed {
            logger::finer!("interface {}: {} frames go out", self.link, self.device.unkicked());
            if self.shows_only {
                self.device.show();
            } else {
                self.device.kick();
            }
            self.gather.kicked = at.0;
            self.moved_at = at.0;
            BACKGROUND.rouse();
        }
    }

    /// As [`Inner::flush`], but for what gathers in a round.
    #[inline]
    pub(crate) fn flush_unless_gathering(&mut self, at: Instant) {
        if self.device.unkicked() >= self.gather.round {
            self.flush(at);
        }
    }

    /// How the engine should treat the tail of a stream sent now.
    #[inline]
    pub(crate) fn push(&self, now: u64) -> Push {
        if self.gather.is_open(now) { Push::Later } else { Push::Now }
    }

    /// After a send: hands over now, or lets it gather. Also takes in what came meanwhile, so that a sender that never
    /// receives still sees its acknowledgments.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64) {
        let most = if self.gather.is_open(now) { GATHER_FRAMES_MAX } else { self.gather.round };
        if self.device.unkicked() < most.min(GATHER_FRAMES_MAX) {
            self.gather.sends += 1;
            return;
        }
        let at = Instant(now);
        self.flush(at);
        self.gather.sends = self.gather.sends.saturating_add(1);
        self.gather.kicked = now;
        if self.gather.sends > 1 && (self.device.has_received() || self.is_due(at)) {
            self.receive(at);
            self.fire(at);
            self.flush(at);
        }
        self.deliver_events(now);
    }

    /// Passes on what the engine has to say: events to those who wait, requests to netlink.
    #[inline]
    pub(crate) fn deliver_events(&mut self, now: u64) {
        // Requests first: an answer may fail or free sockets, which is an event.
        while let Some(request) = self.stack.take_request() {
            self.answer(request, now);
        }
        if let Some(packet) = self.stack.take_for_kernel() {
            self.leave_to_kernel(&packet);
        }
        while let Some(event) = self.stack.take_event() {
            // SAFETY: tokens are set by this crate only: an object's, or 0.
            if let Some(object) = unsafe { Object::of_token(event.token) } {
                object.tell_owner(event.edges);
                self.completions.edge(object, event.edges);
                object.watch.edge(event.edges);
            }
            if event.edges == Ready::HUP {
                self.end_orphan(event.id);
            }
        }
    }
}
