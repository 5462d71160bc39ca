//! A mutual exclusion lock over a futex. No poisoning: what a panic leaves behind is the decision of who catches it,
//! who asks [`tore`].
//!
//! std's lock is not used because it sleeps through libc's `syscall`, which we hook.

use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::futex::{self, Scope};
use crate::order;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep for it.
const CONTENDED: u32 = 2;

/// Looks before the first sleep. A turn of a lane takes a few microseconds; sleeping and waking takes five.
static SPINS: AtomicU32 = AtomicU32::new(200);

/// Who finds a lock held sleeps at once, from now on: for programs with more threads than processors.
pub fn never_spin() {
    SPINS.store(0, Ordering::Relaxed);
}

/// A lock around a value.
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    /// Its place in the order in which locks are taken (`order.rs`).
    #[cfg(debug_assertions)]
    rank: u8,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one thread at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

thread_local! {
    static TORE: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, since the last question, let go of a lock: what that guards may be half changed.
pub fn tore() -> bool {
    TORE.replace(false)
}

/// Proof that this is the child of a fork, that it has one thread, and that this is it: nobody is inside any lock.
pub struct InChild(());

impl InChild {
    /// # Safety
    /// As the type says, and no guard of the calling thread may be in use.
    pub unsafe fn new() -> InChild {
        InChild(())
    }
}

impl<T> Mutex<T> {
    /// A free lock, whose order nobody looks at.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex::ranked(order::NONE, value)
    }

    /// A free lock that is taken after those of lower ranks, which are from 1 to 63. Debug builds assert it.
    #[cfg_attr(not(debug_assertions), allow(unused_variables))]
    pub const fn ranked(rank: u8, value: T) -> Mutex<T> {
        Mutex {
            state: AtomicU32::new(FREE),
            #[cfg(debug_assertions)]
            rank,
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock: spins shortly, then sleeps.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        order::waits_for(self.rank, false);
        self.lock_in_order()
    }

    /// As [`Mutex::lock`], beside others of its rank: every thread takes those in the same order.
    pub fn lock_beside(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        order::waits_for(self.rank, true);
        self.lock_in_order()
    }

    #[inline]
    fn lock_in_order(&self) -> MutexGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(self.guard()),
            Err(_) => None,
        }
    }

    /// Waits for the lock, but not beyond `deadline` (of [`crate::clock::now`]): for who may be a signal handler that
    /// interrupted the holder.
    pub fn lock_until(&self, deadline: u64) -> Option<MutexGuard<'_, T>> {
        if let Some(guard) = self.try_lock() {
            return Some(guard);
        }
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            let left = deadline.checked_sub(crate::clock::now()).filter(|left| *left > 0)?;
            let _ = futex::wait(&self.state, CONTENDED, Some(left), Scope::Private);
        }
        Some(self.guard())
    }

    /// Does anybody hold it, at this moment?
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE
    }

    /// The value without locking: `&mut` proves that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Frees the lock whoever holds it: for the child of a fork, where the holder was a thread of the parent. What that
    /// one may have left half changed is forgotten, undropped, and a default takes its place.
    pub fn take_over(&self, _proof: &InChild)
    where
        T: Default,
    {
        if self.is_locked() {
            // SAFETY: this is the only thread, and by the proof it has no guard. What is there is not looked at.
            unsafe { self.value.get().write(T::default()) };
        }
        self.state.store(FREE, Ordering::Release);
    }

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        for _ in 0..SPINS.load(Ordering::Relaxed) {
            core::hint::spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE
                && let Some(guard) = self.try_lock()
            {
                return guard;
            }
        }
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            let _ = futex::wait(&self.state, CONTENDED, None, Scope::Private);
        }
        self.guard()
    }

    /// For who has just made the lock its own.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        order::took(self.rank);
        MutexGuard { lock: self, not_send: core::marker::PhantomData }
    }

    #[inline]
    fn unlock(&self) {
        #[cfg(debug_assertions)]
        order::freed(self.rank);
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            futex::wake(&self.state, 1, Scope::Private);
        }
    }
}

/// The right to the value, until dropped.
#[must_use]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    not_send: core::marker::PhantomData<*const ()>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            TORE.set(true);
        }
        self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_lose_no_increment() {
        let counter = Mutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        *counter.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*counter.lock(), 80_000);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn who_goes_down_in_the_order_of_locks_is_stopped() {
        let [low, other, high] = [1, 2, 2].map(|rank| Mutex::ranked(rank, ()));
        let goes = |wait: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait)).is_ok();
        let held = low.lock();
        assert!(goes(&|| drop(high.lock())), "up");
        assert!(goes(&|| drop(Mutex::new(()).lock())), "nobody looks");
        drop(held);
        let held = high.lock();
        assert!(!goes(&|| drop(low.lock())), "down");
        assert!(!goes(&|| drop(other.lock())), "beside");
        assert!(goes(&|| drop(other.lock_beside())), "beside, in an order of their own");
        assert!(goes(&|| drop(low.try_lock())), "who does not wait");
        drop(held);
        assert!(goes(&|| drop(low.lock())), "nothing is held");
        tore();
    }

    #[test]
    fn a_panic_tears_what_it_held_and_nothing_else() {
        let lock = Mutex::new(());
        let panics = |holds: bool| {
            let panic = std::panic::AssertUnwindSafe(|| {
                let guard = lock.lock();
                let _held = holds.then_some(guard);
                panic!("on purpose");
            });
            let _ = std::panic::catch_unwind(panic);
        };
        panics(false);
        assert!(!tore());
        panics(true);
        assert!(tore() && !tore());
    }

    #[test]
    fn waiting_for_a_lock_ends_at_the_deadline_or_with_the_lock() {
        let lock = Mutex::new(());
        let held = lock.lock();
        let begin = crate::clock::now();
        assert!(lock.lock_until(begin + 3_000_000).is_none());
        assert!(crate::clock::now() >= begin + 3_000_000);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock.lock_until(u64::MAX).is_some());
            drop(held);
            assert!(waits.join().unwrap());
        });
        assert!(lock.lock_until(0).is_some(), "a free lock is taken however late it is");
    }

    #[test]
    fn a_held_lock_cannot_be_taken_until_it_is_forced() {
        let lock = Mutex::new(7);
        core::mem::forget(lock.lock());
        assert!(lock.try_lock().is_none());
        // SAFETY: the guard was forgotten, nobody is inside.
        let child = unsafe { InChild::new() };
        lock.take_over(&child);
        assert_eq!(*lock.lock(), 0, "it may be half changed");
        *lock.lock() = 7;
        lock.take_over(&child);
        assert_eq!(*lock.lock(), 7);
    }
}
