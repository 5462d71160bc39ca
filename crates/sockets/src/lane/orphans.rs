//! Closed TCP sockets that the engine still serves, and what is let go when it is done with them: the steering entry,
//! and the duplicate of the shadow that keeps the port reserved.
//!
//! A server closes thousands of connections a second. To let go of them all at once, with the lane's lock held, kept
//! everybody else from the lane for tens of milliseconds; so each close lets go of a few, and the worker of what is
//! left, one by one.
//!
//! Peers may take their time, and descriptors are the application's: of many orphans only some have a reservation. The
//! others' flows yield to a connection that the kernel makes of the same endpoints, should it come to that, and a
//! connect of this process passes over them (`tcp/port.rs`).

use super::{Inner, Lane};

/// Old ones that a close looks at: more than the one that it adds.
const LOOKS: usize = 2;

/// So many reservations are nobody's loss; beyond, they take a part of the descriptors that the process may have.
const RESERVED_ALWAYS: usize = 32;
const RESERVED_PART: u64 = 8;

/// See the module's page.
pub(crate) struct Orphan {
    /// The engine's socket.
    pub id: stack::SocketId,
    /// Keeps the port reserved in the kernel; held, never read.
    shadow: Option<sys::Fd>,
}

impl Inner {
    /// A connection has data on its way that its last descriptor will not see acknowledged. `shadow`: the descriptor,
    /// if the port is the connection's own.
    pub(crate) fn keep_orphan(&mut self, id: stack::SocketId, flow: Option<xdp::Flow>, shadow: Option<i32>) {
        let reserved = shadow.filter(|_| self.may_reserve()).and_then(|fd| sys::Fd::duplicate_of(fd).ok());
        if let (Some(_), None, Some(flow)) = (shadow, &reserved, &flow) {
            self.device.yield_to_kernel(flow);
        }
        if let Some(flow) = flow {
            self.orphan_flows.insert(id, flow);
        }
        self.reserved += usize::from(reserved.is_some());
        self.orphans.push_back(Orphan { id, shadow: reserved });
    }

    /// The engine is done with a closed socket: its flow is the kernel's at once, since a listener there may hear from
    /// the same peer next.
    pub(crate) fn end_orphan(&mut self, id: stack::SocketId) {
        if let Some(flow) = self.orphan_flows.remove(&id) {
            self.device.unsteer(flow);
        }
    }

    fn may_reserve(&self) -> bool {
        let limit = || sys::process::limit(libc::RLIMIT_NOFILE as i32).map_or(0, |limit| limit.soft);
        self.reserved < RESERVED_ALWAYS || (self.reserved as u64) < limit() / RESERVED_PART
    }

    /// Lets go of some that are done with, for one that is added now and then. The caller drops them when it no longer
    /// holds the lock: closing a shadow takes time.
    #[must_use]
    pub(crate) fn take_some_finished(&mut self) -> [Option<Orphan>; LOOKS] {
        let mut looks = LOOKS;
        core::array::from_fn(|_| self.take_finished(&mut looks))
    }

    /// The oldest that the engine is done with, no longer steered, of the first so many; they are counted down, and
    /// those that it still serves go to the end.
    fn take_finished(&mut self, looks: &mut usize) -> Option<Orphan> {
        while *looks > 0 {
            *looks -= 1;
            let orphan = self.orphans.pop_front()?;
            if self.stack.tcp_closing(orphan.id) {
                self.orphans.push_back(orphan);
                continue;
            }
            self.reserved -= usize::from(orphan.shadow.is_some());
            self.end_orphan(orphan.id);
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
