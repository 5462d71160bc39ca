//! In the child of a fork: a wait uses what it waits for. Sockets of the parent's are claimed, and an epoll set with
//! such in it parts from the parent's, of which `wait/epoll/fork.rs` tells.

use crate::answer::Stop;
use crate::fd_table::{self, Entry};
use crate::lookup::hearing;
use crate::object::Kind;
use crate::object::set::{Held, Registered, Set};
use crate::runtime::Runtime;
use crate::wait::epoll::registered;
use core::sync::atomic::Ordering;
use libc::{EPOLL_CTL_ADD, c_int, epoll_event};

/// What a wait says about a descriptor that is polled: the child of a fork uses it, and a set is watched from outside.
pub(crate) fn prepare(runtime: &'static Runtime, fd: i32) {
    if let Ok((_, object)) = hearing(fd) {
        object.is_polled.store(true, Ordering::Relaxed);
    }
    if let Some(set) = fd_table::epoll(fd) {
        set.before_wait(runtime);
        set.mark_nested();
    }
}

impl Set {
    /// What a wait says about the set's sockets: the child of a fork uses them.
    pub(crate) fn before_wait(&'static self, runtime: &'static Runtime) {
        if self.has_held.load(Ordering::Relaxed) {
            self.part(runtime);
        }
    }

    /// Before the set changes: one of ours must not come into a set of the parent.
    pub(crate) fn before_change(&'static self, runtime: &'static Runtime, fd: i32) {
        if self.is_parents.load(Ordering::Relaxed) && fd_table::entry(fd).is_some() {
            self.part(runtime);
        }
    }

    /// In the child of a fork: makes the set the child's own.
    #[cold]
    fn part(&'static self, runtime: &'static Runtime) {
        let mut held = self.held.lock();
        if !self.is_parents.load(Ordering::Relaxed) {
            return;
        }
        self.has_held.store(false, Ordering::Relaxed);
        let number = self.fd.load(Ordering::Relaxed);
        let own = registered(number).and_then(|all| Some((all, sys::poll::epoll().ok()?)));
        let Some((all, own)) = own else {
            // Heard through the kernel, whose set it stays.
            let parents: Vec<Held> = held.drain(..).collect();
            drop(held);
            for held in parents.iter().filter(|held| held.object.kind() == Kind::Inherited) {
                let _ = hearing(held.registered.fd);
            }
            return;
        };
        for fd in (0..fd_table::end()).filter(|fd| names(*fd, self)) {
            let flags = sys::fd::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            let cloexec = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
            runtime.os.duplicate_onto(own.raw(), fd, cloexec);
        }
        let private = self.secret.swap(0, Ordering::Relaxed);
        self.wake.store(-1, Ordering::Relaxed);
        *self.side.lock() = None;
        self.is_parents.store(false, Ordering::Relaxed);
        let parents: Vec<Held> = held.drain(..).collect();
        // Handlers may run while a connection is claimed.
        drop(held);
        let held = parents;
        let is_held = |fd| held.iter().any(|held| held.registered.fd == fd);
        for one in all.iter().filter(|one| one.data != private && !is_held(one.fd)) {
            if let Some(inner) = fd_table::epoll(one.fd) {
                inner.before_wait(runtime);
            }
            self.register_anew(runtime, one);
        }
        for Held { registered, disarmed, .. } in held {
            let _ = hearing(registered.fd);
            self.register_anew(runtime, &registered);
            let mut items = self.items.lock();
            if let Some(slot) = fd_table::socket(registered.fd)
                .filter(|_| disarmed)
                .and_then(|object| items.slot_of(object, registered.fd))
                && let Some(item) = items.get_mut(slot)
            {
                item.disarmed = true;
            }
        }
    }

    fn register_anew(&'static self, runtime: &Runtime, one: &Registered) {
        let os = &runtime.os;
        let event = epoll_event { events: one.events, u64: one.data };
        if let Err(Stop::Kernel(_)) = self.control(os, EPOLL_CTL_ADD, one.fd, Some(event)) {
            let number = self.fd.load(Ordering::Relaxed);
            let _ = os.epoll_control(number, EPOLL_CTL_ADD, one.fd, one.events, one.data);
        }
    }
}

fn names(fd: c_int, set: &Set) -> bool {
    matches!(fd_table::entry(fd), Some(Entry::Epoll(known)) if core::ptr::eq(known, set))
}
