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

/// What a process passed to hand an interface over, after a look at it: a description, and descriptors each of which
/// is of the kind that a keeper hands out in its place. Whoever looks at it lets go of it as well, however long that
/// takes: what is made of it is made of copies, so that none of them is the last one of anything.
pub struct Passed {
    interface: u32,
    description: Vec<u8>,
    descriptors: Vec<Fd>,
    /// Descriptors that all have: behind them are the process' own sockets, one for each queue.
    common: usize,
}

impl Passed {
    /// EPROTO, EPERM: it is not what a keeper of this interface handed out.
    pub fn look_at(interface: u32, description: &[u8], descriptors: Vec<Fd>) -> Result<Passed, Refusal> {
        let described = read(description).ok_or(refused(libc::EPROTO))?;
        let (index, queues) = (described.interface.index, described.interface.queues as usize);
        let common = described.common();
        if index != interface || descriptors.len() != common + queues {
            return Err(refused(libc::EPROTO));
        }
        let parts = (descriptors.first_chunk::<COMMON>(), &descriptors[COMMON..]);
        let (Some([file, maker, link, program, maps @ ..]), behind) = parts else {
            return Err(refused(libc::EPROTO));
        };
        let (anchors, behind) = behind.split_at(queues);
        let (offloads, own) = behind.split_at(behind.len() - queues);
        let is_right = is_memory(file)
            && is_socket(maker, libc::AF_UNIX)
            && Steering::are_of(interface, program, maps)
            && Steering::is_link(interface, program, link)
            && offloads.iter().all(|end| sys::pipe::is_pipe(end.raw()))
            && anchors.iter().chain(own).all(|socket| is_socket(socket, libc::AF_XDP));
        match is_right {
            true => Ok(Passed { interface, description: description.to_vec(), descriptors, common }),
            false => Err(refused(libc::EPERM)),
        }
    }

    fn own_sockets(&self) -> Result<Vec<Fd>, Refusal> {
        duplicates(&self.descriptors[self.common..])
    }
}

// A look takes no call that a stranger's file could answer: seals, sizes of pipes, options of sockets and what bpf(2)
// tells are the kernel's own.

fn is_memory(file: &Fd) -> bool {
    let seals = sys::fd::fcntl(file.raw(), libc::F_GET_SEALS, 0).unwrap_or(0);
    seals as i32 & libc::F_SEAL_SHRINK != 0
}

/// (An AF_XDP socket tells nobody which queue it is bound to: getsockname(2) is not supported.)
fn is_socket(socket: &Fd, domain: i32) -> bool {
    sys::socket::option(socket.raw(), libc::SOL_SOCKET, libc::SO_DOMAIN, 0i32) == Ok(domain)
}

impl Kept {
    /// An interface that another keeper held, by what a process of its hands over.
    pub fn restore(passed: &Passed, process: i32) -> Result<Kept, Refusal> {
        let handed = passed.own_sockets()?;
        let mut shared = Shared::received(&passed.description, duplicates(&passed.descriptors)?)?;
        if shared.arena.has_keeper() {
            return Err(refused(libc::EBUSY));
        }
        shared.owner = Arc::new(Owner::claim(passed.interface)?);
        shared.bound.lock().clear();
        let kept = Kept::of(Arc::new(shared), Vec::new());
        kept.has_handed(process, handed);
        Ok(kept)
    }

    /// Another process hands over the same.
    pub fn join(&self, passed: &Passed, process: i32) -> Result<(), Refusal> {
        let is_this = passed.interface == self.shared.interface.index
            && self.shared.arena.is_in(passed.descriptors[0].raw());
        if !is_this || self.has_enough(process) {
            return Err(refused(libc::EBUSY));
        }
        self.has_handed(process, passed.own_sockets()?);
        Ok(())
    }
}

fn duplicates(sockets: &[Fd]) -> Result<Vec<Fd>, Refusal> {
    sockets.iter().map(Fd::duplicate).collect::<sys::Result<_>>().map_err(refused)
}

fn refused(errno: i32) -> Refusal {
    Refusal::System { call: "handed over", errno }
}
