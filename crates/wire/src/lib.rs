//! Header views and values of the wire formats, and checksums.
//!
//! A view borrows bytes that were checked once, when it was made: its getters cannot fail. A value (`ipv4::Fields`,
//! `tcp::Fields`, ...) is plain data that can always be written. Nothing here knows sockets or policy: a view only
//! guarantees that lengths are consistent with the bytes that hold them.
//!
//! Reading order: [`ethernet`], [`ipv4`], [`udp`], [`tcp`], [`icmpv4`]; [`checksum`] serves all of them.
#![forbid(unsafe_code)]
#![no_std]

pub mod addr;
pub mod checksum;
pub mod ethernet;
pub mod half_open;
pub mod icmpv4;
pub mod ipv4;
pub mod tcp;
pub mod udp;

/// The big-endian 16-bit word at `at`; the caller knows that it is there.
#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit word at `at`; the caller knows that it is there.
#[inline(always)]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
