//! Sending packets larger than the MTU, which the kernel cuts, or hands over whole to a peer on this host.
//!
//! AF_XDP takes one frame for each packet on the wire, and in copying mode a kernel buffer is built for each: bulk data
//! then leaves slower than from the kernel's own TCP, which hands down 64 KiB at a time. So does a packet socket that
//! says where to cut (virtio_net_hdr). It sends only; what is received stays with AF_XDP. The packets take the way of
//! all others through the queueing discipline (veth has none): past it the kernel does not cut, but drops.

use std::io::IoSlice;

use sys::{Fd, Result};

use super::Device;
use crate::interface::Interface;
use capture::Direction;

/// linux/if_packet.h: a virtio_net_hdr precedes each packet.
const PACKET_VNET_HDR: i32 = 15;

/// linux/virtio_net.h
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
/// Where the checksum is in a TCP header.
const CHECKSUM_AT: u16 = 16;

/// What precedes a packet: how to complete its checksum, and how to cut it. In the byte order of this machine.
fn virtio_net_hdr(header_len: usize, transport: usize, mss: usize) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&[NEEDS_CSUM, GSO_TCPV4]);
    let words = [header_len as u16, mss as u16, transport as u16, CHECKSUM_AT];
    for (into, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
        into.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Payload that fits beside the longest headers into an IP packet.
const LARGE_MAX: usize = 65_535 - 20 - 60;

/// Refusals in a row after which it is given up.
const REFUSED_MAX: u32 = 16;

/// Pieces of payload that one packet may have.
const PIECES_MAX: usize = 30;

/// A packet socket on an interface that sends and never receives. EXDEV: the calling thread is in another network
/// namespace than `beside`, a socket of the interface's.
pub(super) fn open(interface: &Interface, beside: &Fd) -> Result<Fd> {
    let fd = sys::socket::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    if sys::socket::network_namespace(fd.raw())? != sys::socket::network_namespace(beside.raw())? {
        return Err(libc::EXDEV);
    }
    sys::socket::set_option(fd.raw(), libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: interface.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    sys::socket::bind(fd.raw(), &address)?;
    Ok(fd)
}

impl Device {
    /// Payload bytes that [`Device::send_large`] takes at most; 0: it is not there.
    #[inline]
    pub fn large_max(&self) -> usize {
        if self.transmit.large { LARGE_MAX } else { 0 }
    }

    /// Sends a TCP packet behind all frames that were committed, to be cut into segments of `mss` bytes of payload.
    /// `headers`: Ethernet, IPv4 and, from `transport` on, TCP, whose checksum field holds the folded sum of the pseudo
    /// header; `payload` is in 30 pieces at most. `false`: not now; or no more at all, see [`Device::large_max`].
    pub fn send_large(&mut self, headers: &[u8], transport: usize, payload: &[&[u8]], mss: usize) -> bool {
        self.kick();
        let Some(socket) = self.shared.large(&self.queues[0].socket.fd) else {
            self.transmit.large = false;
            return false;
        };
        if self.unkicked() != 0 {
            return false;
        }
        if payload.len() > PIECES_MAX {
            self.transmit.large = false;
            return false;
        }
        let how = virtio_net_hdr(headers.len(), transport, mss);
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX + 2];
        let all = [&how, headers].into_iter().chain(payload.iter().copied());
        let mut count = 0;
        let mut bytes = 0;
        for (into, piece) in pieces.iter_mut().zip(all) {
            *into = IoSlice::new(piece);
            count += 1;
            bytes += piece.len();
        }
        self.transmit.counts.kicks += 1;
        match sys::socket::send_pieces(socket.raw(), &pieces[..count], libc::MSG_DONTWAIT) {
            Ok(_) => {
                self.transmit.counts.large += 1;
                self.transmit.refused = 0;
                self.transmit.counts.bytes += (bytes - how.len()) as u64;
                if let Some(tap) = &mut self.tap {
                    tap.packet(Direction::Out, core::iter::once(headers).chain(payload.iter().copied()));
                }
                true
            }
            Err(errno) => {
                let may_pass = matches!(errno, libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR);
                self.transmit.refused += 1;
                // Frames will tell what is wrong with the interface, or work.
                self.transmit.large = may_pass && self.transmit.refused < REFUSED_MAX;
                false
            }
        }
    }
}
