//! A filter of the owner's between the queue and those who read: what arrives waits until the owner has looked at it
//! and let it pass. The owner takes a datagram out to look at it, so that the stack is free meanwhile.

use super::{Datagram, Queued, Udp, true_size};
use crate::stack::Socket;
use crate::{Frame, Ready, SocketId, Stack};

impl<F: Frame> Stack<F> {
    /// Begins or ends to filter. What waits when it begins is filtered too, and when it ends all of it has passed.
    pub fn udp_filter(&mut self, id: SocketId, on: bool) {
        let Some(udp) = self.udp_mut(id) else { return };
        udp.passed = on.then_some(0);
        if !on && !udp.queue.is_empty() {
            self.events.raise(id, Ready::IN);
        }
    }

    /// The oldest datagram that the filter has not seen: out of the queue, and `udp_pass` puts it back.
    pub fn udp_take_unseen(&mut self, id: SocketId) -> Option<Datagram<F>> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return None };
        let datagram = udp.queue.remove(udp.passed? as usize)?;
        udp.charged -= true_size(datagram.len);
        self.budget.release(&datagram.head, &mut udp.held);
        for frame in &datagram.tail {
            self.budget.release(frame, &mut udp.held);
        }
        Some(datagram)
    }

    /// A datagram that `udp_take_unseen` took out passes: it is the last that waits to be read.
    pub fn udp_pass(&mut self, id: SocketId, mut datagram: Datagram<F>) {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return };
        udp.charged += true_size(datagram.len);
        self.budget.admit(&mut datagram.head, &mut udp.held);
        for frame in &mut datagram.tail {
            self.budget.admit(frame, &mut udp.held);
        }
        let place = udp.readable();
        udp.queue.insert(place, datagram);
        if let Some(passed) = &mut udp.passed {
            *passed += 1;
        }
        self.events.raise(id, Ready::IN);
    }

    /// What a read finds.
    pub fn udp_readable(&self, id: SocketId) -> Queued {
        let Some(Socket::Udp(udp)) = self.sockets.get(id) else { return Queued::default() };
        let bytes = udp.queue.iter().take(udp.readable()).map(|datagram| datagram.len).sum();
        Queued { packets: udp.readable(), bytes }
    }

    fn udp_mut(&mut self, id: SocketId) -> Option<&mut Udp<F>> {
        match self.sockets.get_mut(id)? {
            Socket::Udp(udp) => Some(udp),
            _ => None,
        }
    }
}
