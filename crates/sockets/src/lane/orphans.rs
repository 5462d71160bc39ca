//! Closed TCP sockets that the engine still serves, and what is let go when it is done with them: the steering entry, and
//! the duplicate of the shadow that keeps the port reserved.
//!
//! A server closes thousands of connections a second. To let go of them all at once, with the lane's lock held, kept
//! everybody else from the lane for tens of milliseconds; so each close lets go of a few, and the worker of what is left,
//! one by one.

use super::{Inner, Lane};

/// Old ones that a close looks at: more than the one that it adds.
const LOOKS: usize = 2;

/// See the module's page.
pub(crate) struct Orphan {
    /// The engine's socket.
    pub id: stack::SocketId,
    /// Its steering entry.
    pub flow: Option<xdp::Flow>,
    /// Keeps the port reserved in the kernel; held, never read.
    pub _shadow: Option<sys::Fd>,
}

impl Inner {
    /// Lets go of some that are done with, for one that is added now and then. The caller drops them when it no longer
    /// holds the lock: closing a shadow takes time.
    #[must_use]
    pub(crate) fn take_some_finished(&mut self) -> [Option<Orphan>; LOOKS] {
        let mut looks = LOOKS;
        core::array::from_fn(|_| self.take_finished(&mut looks))
    }

    /// The oldest that the engine is done with, no longer steered, of the first so many; they are counted down, and those
    /// that it still serves go to the end.
    fn take_finished(&mut self, looks: &mut usize) -> Option<Orphan> {
        while *looks > 0 {
            *looks -= 1;
            let orphan = self.orphans.pop_front()?;
            if self.stack.tcp_closing(orphan.id) {
                self.orphans.push_back(orphan);
                continue;
            }
            if let Some(flow) = orphan.flow {
                self.device.unsteer(flow);
            }
            return Some(orphan);
        }
        None
    }
}

impl Lane {
    /// Lets go of all that the engine is done with. Others may have the lock in between.
    pub(crate) fn sweep_orphans(&self) {
        let mut looks = self.try_lock().map_or(0, |inner| inner.orphans.len());
        while let Some(finished) = self.try_lock().and_then(|mut inner| inner.take_finished(&mut looks)) {
            drop(finished);
        }
    }
}
