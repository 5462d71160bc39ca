//! A keeper is gone, and another one takes over: the programs have all that it takes, and hand it over. So they go on
//! as if nothing had been, new ones join them, and somebody looks after the dead.
//!
//! What is handed over is what was handed out, without the socket for large packets. The new keeper believes nobody:
//! the program and its maps must be those on the interface, which only a keeper can have put there.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use sys::Fd;

use super::kept::{COMMON, common, describe, read};
use super::shared::Shared;
use super::{Device, Kept};
use crate::Refusal;
use crate::owner::Owner;
use crate::steering::Steering;

/// What a process hands over.
pub struct HandOver {
    /// See [`Handout`](super::Handout).
    pub description: Vec<u8>,
    /// In the same order. They are the device's, which has them as long as its process lives.
    pub descriptors: Vec<i32>,
}

impl Device {
    /// Now and then: what a keeper is to have that does not know the sockets of this process.
    pub fn to_hand_over(&self) -> Option<HandOver> {
        let (shared, arena) = (&self.shared, &self.shared.arena);
        let is_known = shared.known_to.load(Ordering::Relaxed) == arena.keeper() && arena.has_keeper();
        if !shared.is_kept || shared.is_of_family || is_known {
            return None;
        }
        let descriptors = [common(shared).as_slice(), &self.descriptors].concat();
        Some(HandOver { description: describe(shared), descriptors })
    }

    /// It has it.
    pub fn handed_over(&self) {
        self.shared.known_to.store(self.shared.arena.keeper(), Ordering::Relaxed);
    }
}

impl Kept {
    /// An interface that another keeper held, by what a process of its hands over.
    pub fn restore(
        interface: u32,
        description: &[u8],
        descriptors: Vec<Fd>,
        process: i32,
    ) -> Result<Kept, Refusal> {
        let sockets = check(interface, description, &descriptors)?;
        let handed = duplicates(&descriptors[sockets..])?;
        let mut shared = Shared::received(description, descriptors)?;
        if shared.arena.has_keeper() {
            return Err(refused(libc::EBUSY));
        }
        shared.owner = Arc::new(Owner::claim(interface)?);
        shared.bound.lock().clear();
        let kept = Kept::of(Arc::new(shared), Vec::new());
        kept.has_handed(process, handed);
        Ok(kept)
    }

    /// Another process hands over the same.
    pub fn join(&self, description: &[u8], descriptors: &[Fd], process: i32) -> Result<(), Refusal> {
        let sockets = check(self.shared.interface.index, description, descriptors)?;
        if !self.shared.arena.is_in(descriptors[0].raw()) || self.has_enough(process) {
            return Err(refused(libc::EBUSY));
        }
        self.has_handed(process, duplicates(&descriptors[sockets..])?);
        Ok(())
    }
}

/// Where the process' own sockets begin, one for each queue. EPROTO, EPERM: it is not what a keeper of this interface
/// handed out.
fn check(interface: u32, description: &[u8], descriptors: &[Fd]) -> Result<usize, Refusal> {
    let described = read(description).ok_or(refused(libc::EPROTO))?;
    let (index, queues) = (described.interface.index, described.interface.queues as usize);
    if index != interface || descriptors.len() != described.common() + queues {
        return Err(refused(libc::EPROTO));
    }
    let [_, _, _, program, maps @ ..] = descriptors.first_chunk::<COMMON>().ok_or(refused(libc::EPROTO))?;
    match Steering::are_of(interface, program, maps) {
        true => Ok(described.common()),
        false => Err(refused(libc::EPERM)),
    }
}

fn duplicates(sockets: &[Fd]) -> Result<Vec<Fd>, Refusal> {
    sockets.iter().map(Fd::duplicate).collect::<sys::Result<_>>().map_err(refused)
}

fn refused(errno: i32) -> Refusal {
    Refusal::System { call: "handed over", errno }
}
