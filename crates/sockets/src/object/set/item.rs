//! The items of an epoll set and the list of those that may be ready.

use crate::object::Object;
use stack::Ready;
use std::collections::{HashMap, VecDeque};

/// A socket in a set.
pub(crate) struct Item {
    /// The socket.
    pub object: &'static Object,
    /// The descriptor it was added by. As in the kernel, number and socket together name the registration, which stays
    /// when the number is closed and a duplicate is there.
    pub fd: i32,
    /// Stands for that number once it is closed.
    duplicate: Option<sys::Fd>,
    /// What the application asked for: EPOLL* with flags.
    pub events: u32,
    /// The application's word.
    pub data: u64,
    /// Registered in the kernel's set.
    pub in_kernel: bool,
    /// For these events. A registration that is made again reports again.
    pub registered: Option<u32>,
    /// How often the application said what it asks for.
    pub asked: u32,
    /// Its connection's bell hangs in the private set.
    pub has_bell: bool,
    /// The object has legs: readiness is computed here.
    pub active: bool,
    /// EPOLLONESHOT, reported.
    pub disarmed: bool,
    queued: bool,
}

impl Item {
    /// An item that is registered nowhere yet.
    pub(crate) fn new(object: &'static Object, fd: i32, events: u32, data: u64) -> Item {
        Item {
            object,
            fd,
            duplicate: None,
            events,
            data,
            in_kernel: false,
            registered: None,
            asked: 0,
            has_bell: false,
            active: false,
            disarmed: false,
            queued: false,
        }
    }

    /// The descriptor by which the kernel's set knows it, or is told of it.
    pub(crate) fn descriptor(&self) -> i32 {
        self.duplicate.as_ref().map_or(self.fd, sys::Fd::raw)
    }

    /// The number is about to be closed, or means something else from now on.
    pub(crate) fn put_aside(&mut self, duplicate: sys::Fd) {
        self.duplicate = Some(duplicate);
    }

    /// Whether the number that it was added by still names its socket.
    pub(crate) fn has_number(&self) -> bool {
        self.duplicate.is_none()
    }

    fn is_merged(&self) -> bool {
        self.in_kernel && self.active
    }
}

/// Bits of a slot that are its place; the others say how often the place was given out.
const PLACE_BITS: u32 = 22;

/// Where an item stands in its set. A place is given out again, to an item of any socket; so who comes with a slot that
/// it read before the item was removed finds nothing, and changes nobody else's.
#[derive(Default)]
struct Place {
    item: Option<Item>,
    /// How often it was given out, in the bits of a slot above [`PLACE_BITS`].
    given: u32,
}

fn place(slot: u32) -> usize {
    (slot & ((1 << PLACE_BITS) - 1)) as usize
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Items {
    places: Vec<Place>,
    /// Places without an item.
    free: Vec<u32>,
    by_name: HashMap<(i32, u64), u32>,
    queue: VecDeque<u32>,
    /// Slots of the merged form: few, among many connections.
    merged: Vec<u32>,
    /// Items whose readiness is computed here.
    active: u32,
    /// The set's eventfd was written for what is queued, and not read since (see [`super::Set::show`]).
    pub(super) is_shown: bool,
}

/// What a look at the queue takes out.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub slot: u32,
    pub object: &'static Object,
    pub events: u32,
    pub data: u64,
    pub in_kernel: bool,
    pub descriptor: i32,
    pub asked: u32,
}

impl Items {
    /// The item of a socket that was added by this number.
    pub(crate) fn slot_of(&self, object: &'static Object, fd: i32) -> Option<u32> {
        self.by_name.get(&(fd, object.token())).copied()
    }

    /// The item in a slot.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Item> {
        self.place_mut(slot)?.item.as_mut()
    }

    fn get(&self, slot: u32) -> Option<&Item> {
        let place = self.places.get(place(slot)).filter(|place| place.given == slot >> PLACE_BITS)?;
        place.item.as_ref()
    }

    fn place_mut(&mut self, slot: u32) -> Option<&mut Place> {
        self.places.get_mut(place(slot)).filter(|place| place.given == slot >> PLACE_BITS)
    }

    /// The form that an item is in now: registered in the kernel, and with legs.
    pub(crate) fn take_form(&mut self, slot: u32, registered: Option<u32>, active: bool) {
        let Some(item) = self.get_mut(slot) else { return };
        let was = item.is_merged();
        let was_active = item.active;
        (item.in_kernel, item.registered, item.active) = (registered.is_some(), registered, active);
        let is_merged = item.is_merged();
        self.active = self.active - u32::from(was_active) + u32::from(active);
        match (was, is_merged) {
            (false, true) => self.merged.push(slot),
            (true, false) => self.merged.retain(|merged| *merged != slot),
            _ => {}
        }
    }

    /// The items of the merged form.
    pub(crate) fn merged(&self) -> impl Iterator<Item = &Item> {
        self.merged.iter().filter_map(|slot| self.get(*slot))
    }

    /// Of the items of the merged form that report once and have this word, the one behind `passed` others.
    pub(crate) fn merged_once(&self, word: u64, passed: usize) -> Option<u32> {
        let is_it = |slot: &&u32| {
            self.get(**slot)
                .is_some_and(|item| item.data == word && item.events & libc::EPOLLONESHOT as u32 != 0)
        };
        self.merged.iter().filter(is_it).nth(passed).copied()
    }

    /// Adds an item; its slot.
    pub(crate) fn insert(&mut self, item: Item) -> u32 {
        let name = (item.fd, item.object.token());
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.places.push(Place::default());
                (self.places.len() - 1) as u32
            }
        };
        let place = &mut self.places[at as usize];
        place.given = (place.given + 1) & (u32::MAX >> PLACE_BITS);
        place.item = Some(item);
        let slot = place.given << PLACE_BITS | at;
        self.by_name.insert(name, slot);
        slot
    }

    /// Takes an item out.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Item> {
        let item = self.place_mut(slot)?.item.take()?;
        self.active -= u32::from(item.active);
        if item.queued {
            self.queue.retain(|queued| *queued != slot);
        }
        if item.is_merged() {
            self.merged.retain(|merged| *merged != slot);
        }
        self.by_name.remove(&(item.fd, item.object.token()));
        self.free.push(place(slot) as u32);
        Some(item)
    }

    /// Every item.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Item)> {
        self.places.iter().zip(0..).filter_map(|(place, at): (&Place, u32)| {
            place.item.as_ref().map(|item| (place.given << PLACE_BITS | at, item))
        })
    }

    /// Whether there is one whose readiness is computed here.
    pub(crate) fn any_active(&self) -> bool {
        self.active > 0
    }

    /// Whether something may be ready.
    pub(crate) fn any_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// An edge: queues the item if the application asked for it. Whether it was queued.
    pub(crate) fn edge(&mut self, slot: u32, edges: Ready) -> bool {
        let Some(item) = self.get_mut(slot) else { return false };
        if !item.active || item.disarmed || epoll_bits(edges, item.events) == 0 {
            return false;
        }
        self.requeue(slot)
    }

    /// Puts an item at the queue's end, if it is not queued already.
    pub(crate) fn requeue(&mut self, slot: u32) -> bool {
        let Some(item) = self.get_mut(slot) else { return false };
        if !item.queued {
            item.queued = true;
            self.queue.push_back(slot);
        }
        true
    }

    /// How many may be ready.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Takes the oldest candidate of the first `budget` that are queued, which is lowered by all that are passed: those
    /// behind may have been queued again meanwhile, and are not to be seen twice.
    pub(crate) fn pop(&mut self, budget: &mut usize) -> Option<Candidate> {
        while *budget > 0 {
            *budget -= 1;
            let slot = self.queue.pop_front()?;
            let Some(item) = self.get_mut(slot) else { continue };
            item.queued = false;
            if item.disarmed || !item.active {
                continue;
            }
            let Item { object, events, data, in_kernel, asked, .. } = *item;
            let descriptor = item.descriptor();
            return Some(Candidate { slot, object, events, data, in_kernel, descriptor, asked });
        }
        None
    }
}

/// Readiness as epoll reports it to one who asked for `events`.
#[inline]
pub(crate) fn epoll_bits(ready: Ready, events: u32) -> u32 {
    // EPOLL* and POLL* have the same values for these.
    let poll = revents(ready, (events & 0xffff) as i16);
    u32::from(poll as u16)
}

/// Readiness as poll(2) reports it to one who asked for `events`.
#[inline]
pub(crate) fn revents(ready: Ready, events: i16) -> i16 {
    let mut bits = 0;
    for (flag, poll) in [
        (Ready::IN, libc::POLLIN | libc::POLLRDNORM),
        (Ready::OUT, libc::POLLOUT | libc::POLLWRNORM),
        (Ready::RDHUP, libc::POLLRDHUP),
        (Ready::PRI, libc::POLLPRI),
        (Ready::HUP, libc::POLLHUP),
        (Ready::ERR, libc::POLLERR),
    ] {
        if ready.has(flag) {
            bits |= poll;
        }
    }
    bits & (events | libc::POLLERR | libc::POLLHUP)
}
