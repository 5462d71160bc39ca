//! epoll_ctl(2), and the form that each item has in the kernel's set.

use super::{Set, fork};
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::fd_table::{self, Entry};
use crate::object::set::Item;
use crate::object::{Kind, Object, in_flight};
use crate::os::Os;
use crate::wait::in_memory;
use crate::wait::{is_active, ready, shadow_contributes};
use core::sync::atomic::Ordering;
use libc::epoll_event;

/// Why an item is brought into another form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// The application asks for it in this call.
    Asked,
    /// Something else carries its object.
    Changed,
    /// Its object goes back to the kernel for good: the item ends.
    Leaves,
}

impl Set {
    /// epoll_ctl(2) for a descriptor that may be ours.
    pub(crate) fn control(
        &'static self,
        os: &Os,
        operation: i32,
        fd: i32,
        event: Option<epoll_event>,
    ) -> Answer<i32> {
        let object = match fd_table::entry(fd) {
            Some(Entry::Socket(object)) => object,
            Some(Entry::Epoll(inner)) => {
                let epoll_event { events, u64: data } = event.unwrap_or(epoll_event { events: 0, u64: 0 });
                os.epoll_control(self.fd.load(Ordering::Relaxed), operation, fd, events, data)
                    .map_err(Stop::Errno)?;
                match operation {
                    libc::EPOLL_CTL_ADD => {
                        self.has_foreign.store(true, Ordering::Relaxed);
                        self.take_in(os, inner);
                    }
                    libc::EPOLL_CTL_DEL => {
                        self.part_from(inner);
                        inner.part_from(self);
                    }
                    _ => {}
                }
                return Ok(0);
            }
            None => {
                self.has_foreign.store(true, Ordering::Relaxed);
                return Err(Stop::Kernel(Why::NotOurs));
            }
        };
        match (operation, event) {
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some(event))
                if !exclusive_is_well(operation, event.events) =>
            {
                fail(libc::EINVAL)
            }
            (libc::EPOLL_CTL_DEL, _) => self.remove(os, object, fd),
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some(event)) => {
                // Nobody takes the socket out of the kernel's sets before it is there.
                let _in_flight = in_flight::looks(object);
                if operation == libc::EPOLL_CTL_ADD {
                    self.add(os, object, fd, event)
                } else {
                    self.modify(os, object, fd, event)
                }
            }
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, None) => fail(libc::EFAULT),
            _ => Err(Stop::Kernel(Why::NotOurs)),
        }
    }

    fn add(&'static self, os: &Os, object: &'static Object, fd: i32, event: epoll_event) -> Answer<i32> {
        let slot = {
            let mut items = self.items.lock();
            if items.slot_of(object, fd).is_some() {
                return fail(libc::EEXIST);
            }
            items.insert(Item::new(object, fd, event.events, event.u64))
        };
        object.is_polled.store(true, Ordering::Relaxed);
        object.watch.add_set(self, slot);
        if let Err(stop) = self.reclassify(os, slot, Because::Asked) {
            object.watch.remove_set(self, slot);
            self.items.lock().remove(slot);
            return Err(stop);
        }
        Ok(0)
    }

    fn modify(&'static self, os: &Os, object: &'static Object, fd: i32, event: epoll_event) -> Answer<i32> {
        let slot = {
            let _one_at_a_time = self.settling.lock();
            let mut items = self.items.lock();
            let Some(slot) = items.slot_of(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
            let Some(item) = items.get_mut(slot) else { return fail(libc::ENOENT) };
            if item.events & libc::EPOLLEXCLUSIVE as u32 != 0 {
                return fail(libc::EINVAL);
            }
            item.events = event.events;
            item.data = event.u64;
            item.disarmed = false;
            item.registered = None;
            item.asked = item.asked.wrapping_add(1);
            slot
        };
        self.reclassify(os, slot, Because::Asked)?;
        Ok(0)
    }

    fn remove(&'static self, os: &Os, object: &'static Object, fd: i32) -> Answer<i32> {
        let item = {
            let mut items = self.items.lock();
            let Some(slot) = items.slot_of(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
            items.remove(slot).map(|item| (slot, item))
        };
        let Some((slot, item)) = item else { return fail(libc::ENOENT) };
        object.watch.remove_set(self, slot);
        self.take_down_bell(os, object);
        self.settling.lock().forget(item.descriptor());
        if item.in_kernel {
            let set = self.fd.load(Ordering::Relaxed);
            let _ = os.epoll_control(set, libc::EPOLL_CTL_DEL, item.descriptor(), 0, 0);
        }
        Ok(0)
    }

    /// The number that an item was added by is about to be closed, or to mean another file, and its socket has others:
    /// the registration stays. The kernel's moves to a descriptor of our own, a duplicate of `known`, by which it can
    /// still be changed.
    pub(crate) fn put_aside(&'static self, os: &Os, slot: u32, fd: i32, known: i32) {
        let _one_at_a_time = self.settling.lock();
        let (object, events, data, in_kernel, active, disarmed) = {
            let mut items = self.items.lock();
            let Some(item) = items.get_mut(slot).filter(|item| item.fd == fd && item.has_number()) else {
                return;
            };
            let Ok(duplicate) = sys::Fd::duplicate_of(known) else { return };
            item.put_aside(duplicate);
            let Item { object, events, data, in_kernel, active, disarmed, .. } = *item;
            (object, events, data, in_kernel, active, disarmed)
        };
        if !in_kernel {
            return;
        }
        let want = if disarmed { Some(0) } else { form(object, events, active) };
        let _ = os.epoll_control(self.fd.load(Ordering::Relaxed), libc::EPOLL_CTL_DEL, fd, 0, 0);
        let descriptor = self.items.lock().get_mut(slot).map(|item| item.descriptor());
        if let Some(descriptor) = descriptor {
            let _ = self.register(os, descriptor, false, want, data);
        }
    }

    /// The last descriptor of a socket was closed: its item goes. The kernel's registration goes with the file, unless
    /// calls that wait keep that.
    pub(crate) fn forget(&self, os: &Os, object: &Object, slot: u32) {
        let item = self.items.lock().remove(slot);
        object.watch.remove_set(self, slot);
        if let Some(item) = item.filter(|item| item.in_kernel && object.users.load(Ordering::SeqCst) > 0) {
            let set = self.fd.load(Ordering::Relaxed);
            let _ = os.epoll_control(set, libc::EPOLL_CTL_DEL, item.descriptor(), 0, 0);
        }
    }

    /// Brings an item into the form that its object is in now (see the page of `epoll`), and queues it if it is ready.
    pub(super) fn reclassify(&'static self, os: &Os, slot: u32, because: Because) -> Answer<()> {
        let mut one_at_a_time = self.settling.lock();
        let (object, fd, events, data, in_kernel, registered, disarmed) = {
            let mut items = self.items.lock();
            let Some(item) = items.get_mut(slot) else { return Ok(()) };
            let Item { object, events, data, in_kernel, registered, disarmed, .. } = *item;
            (object, item.descriptor(), events, data, in_kernel, registered, disarmed)
        };
        let is_last = because == Because::Leaves;
        let active = is_active(object) && !is_last;
        let want = form(object, events, active);
        let mut want = if disarmed { want.map(|_| 0) } else { want };
        if in_kernel && want.is_some() && registered.is_some() && self.was_told(slot) {
            // The kernel reports nothing of it until the application asks anew.
            want = registered;
        } else if registered.is_none() || registered != want {
            one_at_a_time.forget(fd);
            match (self.register(os, fd, in_kernel, want, data), want) {
                (Err(Stop::Errno(errno)), Some(events)) if because != Because::Asked => {
                    self.owe(&mut one_at_a_time, fd, events, data, errno);
                    want = None;
                }
                (result, _) => result?,
            }
        }
        {
            let mut items = self.items.lock();
            items.take_form(slot, want, active);
            if is_last {
                items.remove(slot);
            }
        }
        drop(one_at_a_time);
        if is_last {
            object.watch.remove_set(self, slot);
        }
        if active {
            self.hang_bell(os, slot, object)?;
            for (lane, _) in object.legs() {
                self.add_lane(os, lane)?;
            }
            self.edge(slot, ready(object));
        }
        Ok(())
    }

    /// Whether an item that reports once (EPOLLONESHOT) has done so, be it by the kernel's set, which alone knows that.
    /// Who calls holds `settling`: what is asked of the kernel is what the item says.
    pub(super) fn was_told(&self, slot: u32) -> bool {
        let (fd, asked) = {
            let mut items = self.items.lock();
            let Some(item) = items.get_mut(slot) else { return false };
            if item.events & libc::EPOLLONESHOT as u32 == 0 || item.disarmed {
                return item.disarmed;
            }
            if item.registered.is_none() {
                return false;
            }
            (item.descriptor(), item.asked)
        };
        let is_told = fork::is_disarmed(self.fd.load(Ordering::Relaxed), fd) == Some(true);
        let mut items = self.items.lock();
        match items.get_mut(slot).filter(|item| is_told && item.asked == asked) {
            Some(item) => {
                item.disarmed = true;
                true
            }
            None => false,
        }
    }

    /// The kernel's set lets go of an item.
    pub(super) fn take_from_kernel(&'static self, os: &Os, slot: u32) {
        let mut items = self.items.lock();
        let Some((fd, true)) = items.get_mut(slot).map(|item| (item.descriptor(), item.in_kernel)) else {
            return;
        };
        items.take_form(slot, None, false);
        drop(items);
        let _ = self.register(os, fd, true, None, 0);
    }

    /// Makes the kernel's registration of `fd` what it should be.
    pub(super) fn register(&self, os: &Os, fd: i32, is: bool, want: Option<u32>, data: u64) -> Answer<()> {
        let operation = match (is, want) {
            (false, None) => return Ok(()),
            (false, Some(_)) => libc::EPOLL_CTL_ADD,
            (true, Some(_)) => libc::EPOLL_CTL_MOD,
            (true, None) => libc::EPOLL_CTL_DEL,
        };
        let result =
            os.epoll_control(self.fd.load(Ordering::Relaxed), operation, fd, want.unwrap_or(0), data);
        match result {
            Err(errno) if want.is_some() => fail(errno),
            _ => Ok(()),
        }
    }
}

/// What the kernel's set is asked of a socket; `None`: it is not in it.
fn form(object: &Object, events: u32, active: bool) -> Option<u32> {
    match (active, shadow_contributes(object)) {
        (false, _) => Some(events),
        (true, _) if object.kind() == Kind::Memory => part(object, events),
        (true, true) => Some(events & !(libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32),
        (true, false) => None,
    }
}

/// Of a connection in memory the kernel's socket tells what it still carries, with the application's flags.
fn part(object: &Object, events: u32) -> Option<u32> {
    let mine = in_memory::kernel_part(object, events as u16 as i16);
    (mine != 0).then_some(events & !0xffff | u32::from(mine as u16))
}

/// What the kernel allows beside EPOLLEXCLUSIVE, and when it allows it at all.
fn exclusive_is_well(operation: i32, events: u32) -> bool {
    const BESIDE: i32 = libc::EPOLLIN
        | libc::EPOLLOUT
        | libc::EPOLLERR
        | libc::EPOLLHUP
        | libc::EPOLLWAKEUP
        | libc::EPOLLET
        | libc::EPOLLEXCLUSIVE;
    events & libc::EPOLLEXCLUSIVE as u32 == 0
        || operation == libc::EPOLL_CTL_ADD && events & !(BESIDE as u32) == 0
}
