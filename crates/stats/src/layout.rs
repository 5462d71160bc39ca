//! Where things stand in a segment.
//!
//! ```text
//! 0         header      identity of the layout, the process, places and sizes
//! 512       control     wishes of a reader: the only words that anybody else writes
//! 576       groups      memberships of multicast groups: block and group
//! ...       process     one block
//! ...       why         one counter per reason
//! ...       lanes       blocks
//! ...       sockets     blocks; one more at the end, for the sockets that found no block
//! ...       baseline    as process .. sockets: the counters when a reader last set them to zero
//! ```

use crate::counters::{Lane, Process, Socket};
use crate::table::{Column, Kind};
use crate::verdict::{Carrier, Verdict};
use crate::why::Why;
use core::mem::size_of;

/// First word of a segment: "VMASTATS" in memory.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"VMASTATS");
/// Changes with the header or the order of the parts; the tables have their hash.
pub(crate) const VERSION: u64 = 2;
pub(crate) const HEADER: usize = 512;
pub(crate) const CONTROL: usize = 64;
/// Memberships of multicast groups that the process can show: of several feeds with hundreds of groups each.
pub(crate) const GROUPS: usize = 4096;
/// Bytes of the program's name.
pub(crate) const PROGRAM: usize = 64;

/// Words of the header, in order; the program's name follows.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Word {
    Magic,
    Version,
    TableHash,
    Pid,
    StartedNs,
    Lanes,
    Sockets,
    Total,
}

/// Byte of the header where the program's name begins.
pub(crate) const PROGRAM_AT: usize = 64;

/// Places of the parts, for a number of lanes and sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) groups: usize,
    pub(crate) process: usize,
    pub(crate) why: usize,
    pub(crate) lanes: usize,
    pub(crate) sockets: usize,
    pub(crate) baseline: usize,
    pub(crate) total: usize,
}

impl Places {
    /// `None` if the numbers are absurd.
    pub(crate) fn new(lanes: usize, sockets: usize) -> Option<Places> {
        if lanes > LANES_MAX || sockets > SOCKETS_MAX {
            return None;
        }
        let groups = HEADER + CONTROL;
        let process = groups + GROUPS * 8;
        let why = process + size_of::<Process>();
        let lanes_at = why + (Why::COUNT * 8).next_multiple_of(64);
        let sockets_at = lanes_at + lanes * size_of::<Lane>();
        let baseline = sockets_at + (sockets + 1) * size_of::<Socket>();
        let total = baseline + (baseline - process);
        Some(Places { groups, process, why, lanes: lanes_at, sockets: sockets_at, baseline, total })
    }
}

/// More than any process has; a bound for what a reader believes.
pub(crate) const LANES_MAX: usize = 1024;
/// VMA_STATS_FD_NUM's limit.
pub(crate) const SOCKETS_MAX: usize = 1024;

/// Identity of the tables: two programs with the same hash agree on every column.
pub const TABLE_HASH: u64 = {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    hash = columns(hash, Process::COLUMNS);
    hash = columns(hash, Lane::COLUMNS);
    hash = columns(hash, Socket::COLUMNS);
    let mut number = 0;
    while number < Why::COUNT {
        hash = text(hash, Why::ALL[number].name());
        number += 1;
    }
    number = 0;
    while number < Verdict::COUNT {
        hash = text(hash, Verdict::ALL[number].name());
        number += 1;
    }
    hash = byte(hash, Carrier::ALL.len() as u8);
    hash
};

const fn columns(mut hash: u64, columns: &[Column]) -> u64 {
    let mut number = 0;
    while number < columns.len() {
        hash = text(hash, columns[number].name);
        hash = byte(
            hash,
            match columns[number].kind {
                Kind::Count => 1,
                Kind::Level => 2,
                Kind::Peak => 3,
                Kind::State => 4,
            },
        );
        number += 1;
    }
    byte(hash, 0xff)
}

const fn text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut number = 0;
    while number < bytes.len() {
        hash = byte(hash, bytes[number]);
        number += 1;
    }
    byte(hash, 0)
}

/// One step of FNV-1a.
const fn byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3)
}
