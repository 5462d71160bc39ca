//! Whether the interface is still what it was when it was opened. Queues may be added (`ethtool -L`): packets of our
//! flows that come by one without a socket of ours would be the kernel's, which resets or drops them. And a driver may
//! accept a program and never run it: packets pass by, and everything stands still.

use super::{Device, Queue};
use crate::interface::queues_now;
use crate::socket::{Binding, Origin};
use crate::{Refusal, query};
use sys::Fd;

/// Looks, one a second, at which packets came by a driver's hook and the program saw none. Drivers bring their counters
/// up to date only every other second.
const DEAF_LOOKS: u32 = 4;

/// What became of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has so many queues now, and all of them are ours.
    QueuesAdded(u32),
    /// It has so many queues now, and not all of them could be had: connections may stand still.
    QueuesMissed(u32),
    /// The driver did not run the program, which is in the generic hook now.
    MovedToGeneric,
    /// The driver did not run the program, which is gone: everything is the kernel's.
    Detached,
}

/// What was seen at the last look.
#[derive(Default)]
pub(super) struct Watch {
    queues: u32,
    /// What the kernel is asked by. It stays open: a new one for each look would take, for a moment, the lowest free
    /// number, which the program may just have counted on.
    questions: Option<Fd>,
    packets: Option<u64>,
    deaf: u32,
}

impl Watch {
    /// With so many queues.
    pub(super) fn new(queues: u32) -> Watch {
        let questions = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok();
        Watch { queues, questions, ..Watch::default() }
    }

    /// One look: packets that the interface has received, and whether the program ran since the last one. True: it is
    /// deaf.
    fn is_deaf(&mut self, packets: u64, ran: bool) -> bool {
        let came = self.packets.is_some_and(|before| packets > before);
        self.packets = Some(packets);
        if ran {
            self.deaf = 0;
        } else if came {
            self.deaf += 1;
        }
        self.deaf >= DEAF_LOOKS
    }
}

impl Device {
    /// Once a second or so. Only the device that opened the interface looks.
    pub fn look_after(&mut self) -> Option<Change> {
        self.look_for_queues().or_else(|| self.look_for_deafness())
    }

    fn look_for_queues(&mut self) -> Option<Change> {
        let watch = self.watch.as_mut()?;
        let now = queues_now(watch.questions.as_ref()?, self.shared.interface.index)?;
        if now == watch.queues {
            return None;
        }
        watch.queues = now;
        let ours = self.queues.len() as u32;
        if now <= ours {
            return None;
        }
        // Other lanes would need sockets on them, too; those of children cannot have them any more.
        let added = if self.shared.has_family() { Err(()) } else { self.add_queues(now).map_err(drop) };
        Some(if added.is_ok() { Change::QueuesAdded(now) } else { Change::QueuesMissed(now) })
    }

    fn add_queues(&mut self, count: u32) -> Result<(), Refusal> {
        if count > self.shared.interface.queues_max {
            return Err(Refusal::QueueBusy { queue: self.shared.interface.queues_max });
        }
        // All share what may be posted; those that were there before have more until it is used up.
        self.post_max = self.post_max.min(self.pool.arena.frames() / 2 / count).max(1);
        for queue in self.queues.len() as u32..count {
            let binding = Binding { post_max: self.post_max, ..self.shared.binding(queue) };
            let first = &self.queues[0].socket.fd;
            let origin = Origin::Interface(&self.shared.arena, first, &self.shared.owner);
            let opened = Queue::open(self.shared.socket()?, binding, origin)?;
            let inserted = self.shared.steering.insert_socket(self.lane, queue, &opened.socket.fd);
            inserted.map_err(|errno| Refusal::System { call: "bpf(BPF_MAP_UPDATE_ELEM)", errno })?;
            self.descriptors.push(opened.socket.fd.raw());
            self.queues.push(opened);
            // Wakes a driver that sleeps for want of frames.
            self.queues[queue as usize].taken = self.post_max;
        }
        self.refill();
        Ok(())
    }

    fn look_for_deafness(&mut self) -> Option<Change> {
        if !self.shared.is_native() {
            return None;
        }
        let watch = self.watch.as_mut()?;
        let packets = query::received_packets(self.shared.interface.index)?;
        let ran = self.shared.steering.flood.take_ran();
        if !watch.is_deaf(packets, ran) {
            return None;
        }
        watch.deaf = 0;
        Some(if self.shared.move_to_generic().is_ok() { Change::MovedToGeneric } else { Change::Detached })
    }

    /// For tests: as if the driver did not run the program.
    #[cfg(test)]
    pub(super) fn unhook(&self) {
        let _ = self.shared.link.lock().as_ref().map(crate::bpf::link_detach);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_deaf_if_packets_came_for_some_looks_and_the_program_ran_at_none() {
        let mut watch = Watch::new(1);
        assert!((0..10).all(|_| !watch.is_deaf(7, false)), "nothing came");
        for packets in 8..8 + u64::from(DEAF_LOOKS) - 1 {
            assert!(!watch.is_deaf(packets, false));
        }
        assert!(!watch.is_deaf(100, true), "it ran");
        for packets in 101..101 + u64::from(DEAF_LOOKS) - 1 {
            assert!(!watch.is_deaf(packets, false));
        }
        assert!(!watch.is_deaf(103, false), "nothing came in this second");
        assert!(watch.is_deaf(200, false));
    }
}
