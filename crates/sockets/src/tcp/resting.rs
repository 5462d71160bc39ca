//! Listeners that several processes have. One that forked lets its own rest: it leaves new connections to the children
//! that ask for them, until it asks itself.

use crate::object::{Kind, Object};
use core::sync::atomic::{AtomicBool, Ordering};
use xdp::Part;

/// Those of this process.
pub(crate) struct Resting {
    /// There may be some: the common case of none costs one load.
    any: AtomicBool,
    /// May name objects that are something else by now: objects are never freed.
    listeners: sys::Mutex<Vec<&'static Object>>,
}

impl Resting {
    /// None yet.
    pub(crate) const fn new() -> Resting {
        Resting { any: AtomicBool::new(false), listeners: sys::Mutex::new(Vec::new()) }
    }

    /// Several processes listen, this one too.
    pub(crate) fn share(&self, object: &'static Object) {
        let mut listeners = self.listeners.lock();
        if !listeners.iter().any(|known| core::ptr::eq(*known, object)) {
            listeners.push(object);
        }
        self.any.store(true, Ordering::Release);
    }

    /// This process forks: those who ask for this listener's connections come first.
    pub(crate) fn rest(&self, object: &'static Object) {
        object.shared.store(true, Ordering::Relaxed);
        if !object.resting.swap(true, Ordering::AcqRel) {
            self.share(object);
            take_part(object, Part::Idle);
        }
    }

    /// Calls `with` with each that several processes have.
    #[inline]
    pub(crate) fn each(&self, with: impl FnMut(&'static Object)) {
        if self.any.load(Ordering::Acquire) {
            self.each_of_some(with);
        }
    }

    #[cold]
    fn each_of_some(&self, mut with: impl FnMut(&'static Object)) {
        let mut listeners = self.listeners.lock();
        let listens =
            |object: &Object| object.kind() == Kind::Listener && object.shared.load(Ordering::Acquire);
        listeners.retain(|object| listens(object));
        listeners.iter().for_each(|object| with(object));
        self.any.store(!listeners.is_empty(), Ordering::Release);
    }

    /// In the child of a fork: what rests is the parent's.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.listeners.take_over(child);
        self.listeners.lock().clear();
        self.any.store(false, Ordering::Release);
    }
}

/// The listener is asked for connections: if it rested, it does no more.
#[inline]
pub(crate) fn attend(object: &Object) {
    if object.resting.load(Ordering::Relaxed) && object.resting.swap(false, Ordering::AcqRel) {
        take_part(object, Part::Active);
    }
}

#[cold]
fn take_part(object: &Object, part: Part) {
    let control = object.control.lock();
    let legs: Vec<_> = object.legs().collect();
    for (leg, flow) in &control.flows {
        if let Some((lane, _)) = legs.get(usize::from(*leg)) {
            let _ = lane.lock().device.take_part(*flow, part);
        }
    }
}
