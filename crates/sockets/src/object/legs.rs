//! The legs of a socket: engine sockets, one for each lane that it stands on. The first is in the object, since most
//! sockets have no other.

use super::{IS, Object, Pin, WAS};
use crate::counts;
use crate::lane::{Inner, Lane};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use stack::SocketId;

/// Interfaces that one socket may stand on. Bound to every address on more: the first ones are accelerated.
pub(crate) const LEGS_MAX: usize = 8;

/// A socket of one lane's engine.
#[derive(Default)]
pub(crate) struct Leg {
    lane: AtomicPtr<Lane>,
    id: AtomicU64,
}

impl Leg {
    #[inline]
    fn load(&self) -> Option<(&'static Lane, SocketId)> {
        let lane = self.lane.load(Ordering::Acquire);
        // SAFETY: lanes are leaked and live for ever; `add_leg` stored one.
        let lane = unsafe { lane.as_ref() }?;
        Some((lane, SocketId::from_bits(self.id.load(Ordering::Relaxed))))
    }
}

impl Object {
    /// The lanes and engine sockets it stands on.
    #[inline]
    pub(crate) fn legs(&self) -> impl Iterator<Item = (&'static Lane, SocketId)> + '_ {
        let count = self.leg_count.load(Ordering::Acquire) as usize;
        (0..count).filter_map(|index| self.leg_at(index)?.load())
    }

    #[inline]
    fn leg_at(&self, index: usize) -> Option<&Leg> {
        if index == 0 {
            return Some(&self.first_leg);
        }
        // SAFETY: null, or legs that were leaked by `room_for_leg`.
        unsafe { self.more_legs.load(Ordering::Acquire).as_ref() }?.get(index - 1)
    }

    /// The place of a leg to be added. Callers hold `control`.
    fn room_for_leg(&self, index: usize) -> Option<&Leg> {
        if index > 0 && self.more_legs.load(Ordering::Acquire).is_null() {
            let more: &'static mut [Leg; LEGS_MAX - 1] = Box::leak(Box::default());
            self.more_legs.store(more, Ordering::Release);
        }
        self.leg_at(index)
    }

    /// The first leg: the only one of a stream.
    #[inline]
    pub(crate) fn leg(&self) -> Option<(&'static Lane, SocketId)> {
        if self.leg_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.first_leg.load()
    }

    /// The engine of a stream, locked, and its socket there, which nobody takes out meanwhile: it may have gone while
    /// the lock was waited for. `None`: no engine has it.
    #[inline]
    pub(crate) fn engine(&self) -> Option<(&'static Lane, sys::MutexGuard<'static, Inner>, SocketId)> {
        loop {
            let (lane, id) = self.leg()?;
            let inner = lane.lock();
            if self.leg_on(lane) == Some(id) {
                return Some((lane, inner, id));
            }
        }
    }

    /// The leg on `lane`, if there is one.
    #[inline]
    pub(crate) fn leg_on(&self, lane: &'static Lane) -> Option<SocketId> {
        self.legs().find(|(l, _)| core::ptr::eq(*l, lane)).map(|(_, id)| id)
    }

    /// Of the lanes of `lane`'s interface the one that it stands on.
    #[inline]
    pub(crate) fn lane_beside(&self, lane: &'static Lane) -> &'static Lane {
        self.legs().map(|(own, _)| own).find(|own| own.link == lane.link).unwrap_or(lane)
    }

    /// Adds a leg and returns its index; `None` if there are too many. Callers hold `control`, and a pin: a socket that
    /// ended meanwhile would be another's by then.
    pub(crate) fn add_leg(&self, _: &Pin, lane: &'static Lane, id: SocketId) -> Option<u8> {
        let count = self.leg_count.load(Ordering::Relaxed);
        let leg = self.room_for_leg(count as usize)?;
        leg.id.store(id.to_bits(), Ordering::Relaxed);
        leg.lane.store(core::ptr::from_ref(lane).cast_mut(), Ordering::Release);
        self.leg_count.store(count + 1, Ordering::Release);
        let before = self.accelerated.swap(IS, Ordering::Relaxed);
        if before != IS {
            counts::accelerated(self.counts(), before == WAS);
        }
        Some(count as u8)
    }

    /// Removes all legs (the caller closed them in their engines). Callers hold `control`.
    pub(crate) fn drop_legs(&self) {
        self.leg_count.store(0, Ordering::Release);
    }
}
