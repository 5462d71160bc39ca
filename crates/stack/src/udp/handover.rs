//! The kernel goes on with a socket: it is to have what waits here first, as packets, in their order.

use super::Datagram;
use crate::net::Net;
use crate::stack::Socket;
use crate::{Frame, SocketId, Stack};
use core::net::Ipv4Addr;
use wire::checksum::Sum;
use wire::ipv4;

const HEADER_LEN: usize = 8;
const CHECKSUM_AT: usize = 6;

impl<F: Frame> Stack<F> {
    /// From now on what waits in the socket is the kernel's ([`Stack::take_for_kernel`]), and what still comes for it
    /// follows, in order. Leaves the oldest `most`; those to groups, which the kernel gives to all that hear them
    /// there, only if nobody else does. Whether more wait.
    pub fn udp_hand_over(&mut self, id: SocketId, most: usize, heard: Heard) -> bool {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return false };
        udp.handed_over = Some(heard);
        for _ in 0..most {
            let Some(datagram) = udp.queue.pop_front() else { return false };
            udp.charged -= super::true_size(datagram.len);
            self.budget.release(&datagram.head, &mut udp.held);
            datagram.tail.iter().for_each(|frame| self.budget.release(frame, &mut udp.held));
            pass_on(&mut self.net, &datagram, heard);
        }
        true
    }
}

/// Who hears the groups that a socket hears, of those whom the kernel gives what comes to its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nobody else.
    Alone,
    /// Others, too.
    ByOthers,
}

/// The kernel is to have a datagram that came for a socket which it goes on with.
#[cold]
pub(super) fn pass_on<F: Frame>(net: &mut Net, datagram: &Datagram<F>, heard: Heard) {
    let to = datagram.to.ip();
    if net.is_local(*to) {
        net.leave_to_kernel(packet(datagram, datagram.ttl));
    } else if to.is_multicast() && heard == Heard::Alone {
        net.leave_to_kernel(packet(datagram, OWN_HOST));
    }
}

/// The TTL of what goes to a group's members on this host, and to nobody else (RFC 1112, 6.1).
const OWN_HOST: u8 = 0;

/// The datagram as it came, but for options of its IP header.
fn packet<F: Frame>(datagram: &Datagram<F>, ttl: u8) -> Vec<u8> {
    let (src, dst): (Ipv4Addr, Ipv4Addr) = (*datagram.from.ip(), *datagram.to.ip());
    let len = HEADER_LEN + datagram.len;
    let fields = ipv4::Fields {
        src,
        dst,
        protocol: ipv4::UDP,
        tos: datagram.tos,
        ttl,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: len,
    };
    let mut packet = fields.emit().to_vec();
    let ports = [datagram.from.port(), datagram.to.port(), len as u16, 0];
    ports.iter().for_each(|word| packet.extend_from_slice(&word.to_be_bytes()));
    let (offset, in_head) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
    packet.extend_from_slice(datagram.head.bytes().get(offset..offset + in_head).unwrap_or(&[]));
    datagram.tail.iter().for_each(|frame| packet.extend_from_slice(frame.bytes()));
    packet.truncate(ipv4::HEADER_LEN + len);
    let bytes = &mut packet[ipv4::HEADER_LEN..];
    // Zero would say that there is none.
    let sum = match Sum::pseudo(src, dst, ipv4::UDP, len).bytes(bytes).finish() {
        0 => u16::MAX,
        sum => sum,
    };
    bytes[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}
