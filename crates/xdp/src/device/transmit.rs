//! Sending: frames written in place, handed to the kernel in batches, memory taken back when they are sent.
//!
//! A committed frame is never lost: what the kernel does not take now (EAGAIN, EBUSY, ENOBUFS: its budget, the
//! device's queue or its memory are used up) stays in the transmit ring and goes with the next kick.
//!
//! Where the device copies, the system call lasts as long as the delivery of the frames. Who shares the device shows
//! frames while it has the device ([`Device::show`]), and tells the kernel when it has let go of it ([`Bell`]).

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use super::Device;
use crate::arena::{Completed, FRAME};
use crate::if_xdp::Desc;
use capture::Direction;

/// Completions that are worth taking the rings' lock for.
const REAP_BATCH: u32 = 32;
/// System calls that one kick may make while the kernel gets on, and when it does not.
const CALLS_MAX: u32 = 64;
const STUCK_MAX: u32 = 3;

/// The state of sending. All of it goes through the first queue, so that frames keep their order.
pub(super) struct Transmit {
    /// Written to by the caller, not yet committed.
    pub(super) reserved: Option<u32>,
    /// In the ring, not yet shown to the kernel.
    committed: u32,
    /// Shown to the kernel, which did not take them at the last kick.
    left_behind: u32,
    /// Completions as they are taken.
    sent: Vec<u32>,
    /// See [`Sent`].
    pub(super) counts: Sent,
    /// Packets to be cut are taken; how many were refused in a row.
    pub(super) large: bool,
    pub(super) refused: u32,
    /// The last kick's error, if it was one that waiting does not cure.
    failed: Option<i32>,
}

/// Tells the kernel of frames that were shown: by any thread, without the device, once for all of them.
pub struct Bell {
    fd: i32,
    /// Frames were shown since it rang last.
    due: AtomicBool,
    rung: AtomicU64,
}

impl Bell {
    pub(super) fn new(fd: i32) -> Bell {
        Bell { fd, due: AtomicBool::new(false), rung: AtomicU64::new(0) }
    }

    /// Whether it is yet to ring for frames that were shown.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Never rings for what was shown so far: in the child of a fork the number may be another file's.
    pub fn silence(&self) {
        self.due.store(false, Ordering::Relaxed);
    }

    /// How often it rang.
    pub(super) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }

    /// Rings, if that is due. False: the kernel does not take everything; [`Device::kick`] is to go on.
    #[inline]
    pub fn ring(&self) -> bool {
        if !self.is_due() || !self.due.swap(false, Ordering::AcqRel) {
            return true;
        }
        self.rung.fetch_add(1, Ordering::Relaxed);
        sys::socket::send(self.fd, &[], libc::MSG_DONTWAIT).is_ok()
    }
}

/// What a device counts of its sending, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames committed.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls that told the kernel to send.
    pub kicks: u64,
    /// Packets that were left to the kernel to cut, beside the frames.
    pub large: u64,
    /// Frames refused since the ring was full.
    pub ring_full: u64,
    /// Frames refused since no memory was free.
    pub no_frame: u64,
}

impl Transmit {
    pub(super) fn new(frames: u32, large: bool) -> Transmit {
        Transmit {
            reserved: None,
            committed: 0,
            left_behind: 0,
            sent: Vec::with_capacity(frames as usize),
            counts: Sent::default(),
            large,
            refused: 0,
            failed: None,
        }
    }
}

impl Device {
    /// Memory for one frame of up to `len` bytes (at most 4096); `None`: rings or arena full (reap and kick were
    /// tried), or `len` is more than a frame. A frame that is not committed is what the next call returns.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > FRAME {
            return None;
        }
        if self.queues[0].socket.tx.room(1) == 0 {
            self.kick();
            if self.queues[0].socket.tx.room(1) == 0 {
                self.transmit.counts.ring_full += 1;
                return None;
            }
        }
        let frame = match self.transmit.reserved {
            Some(frame) => frame,
            None => self.free_frame()?,
        };
        self.transmit.reserved = Some(frame);
        // SAFETY: the frame is ours, inside the arena, and borrowed through `&mut self` until it is committed.
        Some(unsafe {
            core::slice::from_raw_parts_mut(self.pool.arena.umem().add(frame as usize * FRAME), len)
        })
    }

    /// Sends the first `len` bytes of the frame that was reserved last, with the next [`Device::kick`].
    #[inline]
    pub fn commit(&mut self, len: usize) {
        let Some(frame) = self.transmit.reserved.take() else { return };
        let len = len.min(FRAME) as u32;
        if self.tap.is_some() {
            self.show_sent(frame, len);
        }
        self.pool.arena.sending(frame, self.lane);
        self.queues[0].socket.tx.put(Desc { addr: u64::from(frame) * FRAME as u64, len, options: 0 });
        self.transmit.committed += 1;
        self.transmit.counts.frames += 1;
        self.transmit.counts.bytes += u64::from(len);
    }

    #[cold]
    fn show_sent(&mut self, frame: u32, len: u32) {
        let Some(tap) = &mut self.tap else { return };
        // SAFETY: the frame is ours until it is in the ring, inside the arena, and was reserved with this length.
        let bytes = unsafe {
            core::slice::from_raw_parts(self.pool.arena.umem().add(frame as usize * FRAME), len as usize)
        };
        tap.packet(Direction::Out, core::iter::once(bytes));
    }

    /// Frames committed and not yet taken by the kernel. Not 0 after a kick: kick again soon.
    #[inline]
    pub fn unkicked(&self) -> u32 {
        self.transmit.committed + self.transmit.left_behind
    }

    /// Why the kernel takes no frames any more (ENETDOWN, ENXIO: the interface is down or gone), if so.
    pub fn send_error(&self) -> Option<i32> {
        self.transmit.failed
    }

    /// Whether the kernel has not taken everything yet, committed, shown or left behind.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.unkicked() != 0 || self.queues[0].socket.tx.waiting() != 0
    }

    /// Hands committed frames to the kernel, and those that were shown (the system call, if the ring asks for it), and
    /// reaps completions.
    #[inline]
    pub fn kick(&mut self) {
        if self.is_sending() && self.publish() {
            self.bell.silence();
            self.wake_sender();
        }
        self.reap_many();
    }

    /// As [`Device::kick`], but leaves the system call to the [`Bell`].
    #[inline]
    pub fn show(&mut self) {
        if self.unkicked() != 0 && self.publish() {
            self.bell.due.store(true, Ordering::Release);
        }
        self.reap_many();
    }

    /// What [`Device::show`] leaves to others.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Shows the kernel what was committed; whether it must be told.
    #[inline]
    fn publish(&mut self) -> bool {
        self.queues[0].socket.tx.publish();
        self.transmit.committed = 0;
        self.transmit.left_behind = 0;
        self.queues[0].socket.tx.needs_wakeup()
    }

    #[inline]
    fn reap_many(&mut self) {
        if self.queues[0].completion.waiting() >= REAP_BATCH {
            self.reap();
        }
    }

    fn wake_sender(&mut self) {
        let (mut stuck, mut before) = (0, u32::MAX);
        self.transmit.failed = None;
        for _ in 0..CALLS_MAX {
            self.transmit.counts.kicks += 1;
            let outcome = sys::socket::send(self.queues[0].socket.fd.raw(), &[], libc::MSG_DONTWAIT);
            match outcome {
                // A copying send is done when it returns; a driver's is under way.
                Ok(_) => return,
                Err(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR | libc::ENOMEM) => {}
                Err(errno) => {
                    self.transmit.failed = Some(errno);
                    break;
                }
            }
            // The usual reason is a full completion ring.
            self.reap();
            let waiting = self.queues[0].socket.tx.waiting();
            if waiting == 0 {
                return;
            }
            stuck = if waiting < before { 0 } else { stuck + 1 };
            before = waiting;
            if stuck >= STUCK_MAX {
                break;
            }
        }
        self.transmit.left_behind = self.queues[0].socket.tx.waiting();
    }

    #[inline]
    fn free_frame(&mut self) -> Option<u32> {
        if let Some(frame) = self.free.pop() {
            return Some(frame);
        }
        self.free_frame_slowly()
    }

    #[cold]
    fn free_frame_slowly(&mut self) -> Option<u32> {
        self.reap();
        self.gather(1);
        if self.free.is_empty() && self.unkicked() != 0 {
            self.kick();
            self.reap();
        }
        self.transmit.counts.no_frame += u64::from(self.free.is_empty());
        self.free.pop()
    }

    /// Takes back the memory of what was sent. Completions of other lanes of the queue go to the arena.
    pub(super) fn reap(&mut self) {
        let arena = &self.pool.arena;
        let guard = arena.lock_rings();
        let ring = &mut self.queues[0].completion;
        ring.reload(true);
        for _ in 0..ring.filled() {
            let frame = (ring.take() / FRAME as u64) as u32;
            match arena.completed(frame, self.lane) {
                Some(Completed::Own) => self.free.push(frame),
                Some(Completed::Another) => self.transmit.sent.push(frame),
                None => {}
            }
        }
        ring.release();
        drop(guard);
        if !self.transmit.sent.is_empty() {
            arena.give(self.transmit.sent.drain(..));
        }
    }
}
