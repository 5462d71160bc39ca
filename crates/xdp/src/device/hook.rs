//! The program's place in the interface's generic hook. While it is there every packet pays for it, whoever's it is:
//! what is not linear, or shared with the sender's queue, is copied before any program may look at it. Over veth that
//! is a quarter of the bulk throughput and a tenth of the round trips of all programs. So where nothing is steered the
//! program is off, and is put on again for the next flow.
//!
//! In a driver's own hook it stays: some drivers take their link down for seconds when one is attached. And where other
//! processes may steer, as they would not know.

use core::sync::atomic::{Ordering, fence};
use std::sync::Arc;

use sys::Result as SysResult;

use super::Device;
use super::shared::Shared;
use crate::bpf;

/// See the module's page. Used without the lane's lock: the kernel takes its time for either change.
pub struct Hook(Arc<Shared>);

impl Device {
    /// The hook of its interface.
    pub fn hook(&self) -> Hook {
        Hook(self.shared.clone())
    }
}

impl Hook {
    /// Whether no packet comes to the program, as nothing is steered.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.0.is_off.load(Ordering::Relaxed)
    }

    /// Takes the program off. False: something is steered, or it is to stay for another reason.
    pub fn take_off(&self) -> bool {
        let shared = &self.0;
        let link = shared.link.lock();
        let is_others = shared.is_kept || shared.is_inherited.load(Ordering::Relaxed) || shared.has_family();
        if is_others || shared.is_native() || self.is_off() {
            return false;
        }
        // Who steers looks at this behind its entry ([`Shared::steered`]): one of the two sees the other.
        shared.is_off.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_taken =
            shared.steering.is_empty() && link.as_ref().is_some_and(|link| bpf::link_detach(link).is_ok());
        shared.is_off.store(is_taken, Ordering::SeqCst);
        is_taken
    }

    /// Puts the program on, if it is off: takes the kernel a grace period. `Err` is errno; EBUSY: another program has
    /// the hook by now.
    pub fn put_on(&self) -> SysResult<()> {
        self.0.put_on()
    }
}

impl Shared {
    pub(super) fn put_on(&self) -> SysResult<()> {
        let mut link = self.link.lock();
        if self.is_off.load(Ordering::SeqCst) {
            *link = Some(bpf::link_create(&self.program, self.interface.index, bpf::FLAG_GENERIC)?);
            self.is_off.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    /// There is a new entry in the steering, which the program is to see.
    pub(super) fn steered(&self) -> SysResult<()> {
        fence(Ordering::SeqCst);
        if self.is_off.load(Ordering::SeqCst) { self.put_on() } else { Ok(()) }
    }
}
