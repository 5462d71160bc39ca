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

use super::{Frame, Inner, Tx};
use crate::background::BACKGROUND;
use crate::object::Object;
use config::Parameters;
use stack::tcp::Push;
use stack::{Instant, Ready};

/// Looks that empty the largest rings, where each takes in few.
const LOOKS_MAX: u32 = 256;

/// Frames that gather at the most before they are handed over.
const GATHER_FRAMES_MAX: u32 = 32;

/// Of the sockets that a wait reported, so large a part shares a hand-over: the peers' next requests come while the
/// others are served, so that neither side waits for the other.
const ROUND_PART: u32 = 4;

/// What a round may take for each socket, from wait to wait, nanoseconds, if the next one is to gather.
const ROUND_QUICK_NS: u64 = 20_000;

/// When sends share a hand-over.
pub(crate) struct Gather {
    /// How long sends may gather, nanoseconds; 0: never.
    span: u64,
    /// When frames were handed over last.
    kicked: u64,
    /// Sends since the last turn.
    sends: u32,
    /// Frames that share a hand-over until the next wait; 0: no round is on.
    round: u32,
    /// When the last wait reported sockets, and how many; whether what followed the one before was quick.
    round_began: u64,
    round_of: u32,
    round_was_quick: bool,
}

impl Gather {
    /// By SIDESTEP_TX_COALESCE_USEC.
    pub(crate) fn new(parameters: &Parameters) -> Gather {
        Gather {
            span: u64::from(parameters.tx_coalesce_usec) * 1000,
            kicked: 0,
            sends: 0,
            round: 0,
            round_began: 0,
            round_of: 0,
            round_was_quick: false,
        }
    }

    /// A wait reported `count` sockets of the lane.
    pub(crate) fn begin_round(&mut self, count: u32, now: u64) {
        (self.round_began, self.round_of) = (now, count);
        self.round = if self.round_was_quick && self.span > 0 { count / ROUND_PART } else { 0 };
    }

    /// The application waits again, or does what ends a round anyway.
    #[inline]
    fn end_round(&mut self, now: u64) {
        if self.round_began != 0 {
            let spent = now.saturating_sub(self.round_began);
            self.round_was_quick = spent <= u64::from(self.round_of) * ROUND_QUICK_NS;
            (self.round_began, self.round) = (0, 0);
        }
    }

    /// How a send at `now` should treat a partial segment.
    #[inline]
    fn is_open(&self, now: u64) -> bool {
        self.sends >= 1 && now.wrapping_sub(self.kicked) < self.span
    }
}

/// How frames are taken in.
pub(super) struct Intake {
    /// Packets that one turn takes at the most, so that a flood cannot hold the lock for ever (VMA_CQ_POLL_BATCH_MAX).
    batch: usize,
    /// See [`Inner::drain`]; 0: never.
    drain_rate: u64,
    drained_at: u64,
    /// Interrupts that were asked for when frames came last.
    interrupts_asked: u64,
}

impl Intake {
    pub(super) fn new(parameters: &Parameters) -> Intake {
        Intake {
            batch: parameters.cq_poll_batch_max as usize,
            drain_rate: u64::from(parameters.rx_cq_drain_rate_nsec),
            drained_at: 0,
            interrupts_asked: 0,
        }
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

    /// Flushes the engine and hands every committed frame to the kernel, or shows it: see [`super::Lane::briefly`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_a_hand_over_after_a_quick_round_only() {
        let mut gather = Gather::new(&Parameters::default());
        let mut round = |began: u64, took: u64| {
            gather.begin_round(16, began);
            let frames = gather.round;
            gather.end_round(began + took);
            assert_eq!(gather.round, 0, "the wait ends it");
            frames
        };
        assert_eq!(round(1_000, 50_000), 0, "nothing is known yet");
        assert_eq!(round(100_000, 16 * ROUND_QUICK_NS + 1), 16 / ROUND_PART);
        assert_eq!(round(900_000, 1_000), 0, "the last one was slow");
        assert_eq!(round(901_000, 1_000), 16 / ROUND_PART);
    }

    #[test]
    fn without_coalescing_there_are_no_rounds() {
        let mut gather = Gather::new(&Parameters { tx_coalesce_usec: 0, ..Parameters::default() });
        gather.begin_round(16, 1);
        gather.end_round(2);
        gather.begin_round(16, 3);
        assert_eq!(gather.round, 0);
    }
}
