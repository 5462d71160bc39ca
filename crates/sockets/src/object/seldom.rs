//! What hardly any socket has, and is made when it is first needed.

use super::room::Room;
use super::{Extra, Object};
use crate::runtime::Asked;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, Ordering};

/// A value that hardly any socket has: nothing is kept until it is written to.
pub(crate) struct Rarely<T>(Option<Box<T>>);

/// What a [`Rarely`] shows that holds nothing.
pub(crate) trait Empty: Default + 'static {
    /// The default.
    const EMPTY: &'static Self;
}

impl<T> Default for Rarely<T> {
    fn default() -> Self {
        Rarely(None)
    }
}

impl<T: Empty> Deref for Rarely<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty> DerefMut for Rarely<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl Object {
    /// What is known of its way through memory, if it could ever go there.
    #[inline]
    pub(crate) fn room(&self) -> Option<&'static Room> {
        // SAFETY: null, or leaked by `room_or_new`.
        unsafe { self.room.load(Ordering::Acquire).as_ref() }
    }

    /// The same, made if there is none.
    pub(crate) fn room_or_new(&self) -> &'static Room {
        // SAFETY: `made_once` leaks what it stores.
        unsafe { made_once(&self.room) }
    }

    /// What the extra API knows of it, if it was used on it.
    #[inline]
    pub(crate) fn extra(&self) -> Option<&'static Extra> {
        // SAFETY: null, or leaked by `extra_or_new`.
        unsafe { self.extra.load(Ordering::Acquire).as_ref() }
    }

    /// The lane that the program asks for, for this socket.
    pub(crate) fn asked_lane(&self) -> Option<Asked> {
        self.extra()?.asked_lane()
    }

    /// What the API has of it, made if there is none.
    pub(crate) fn extra_or_new(&self) -> &'static Extra {
        // SAFETY: `made_once` leaks what it stores.
        unsafe { made_once(&self.extra) }
    }

    /// Whether the program looks at what arrives before it can be read (filter.rs).
    #[inline]
    pub(crate) fn is_filtered(&self) -> bool {
        self.extra().is_some_and(Extra::is_filtered)
    }
}

/// What stands in a place that is null until this is first called, and never freed.
///
/// # Safety
/// The place holds null, or what an earlier call stored there.
unsafe fn made_once<T: Default>(place: &AtomicPtr<T>) -> &'static T {
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: by the caller.
        return unsafe { &*known };
    }
    let made = Box::into_raw(Box::<T>::default());
    match place.compare_exchange(core::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: never freed from here on.
        Ok(_) => unsafe { &*made },
        Err(others) => {
            // SAFETY: ours alone, and another thread's is in its place, which is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*others
            }
        }
    }
}
