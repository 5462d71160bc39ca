//! Ethtool by ioctl: questions about an interface, and the few settings that the doctor changes.

use super::facts::{
    Channels, Coalesce, Driver, Feature, Features, Fec, Losses, Pause, Rings, Steering, TimeStamps,
};
use super::system::ethtool;
use std::collections::BTreeMap;

type Result<T> = core::result::Result<T, i32>;

const SCOALESCE: u32 = 0x0f;
const GCOALESCE: u32 = 0x0e;
const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
const STATISTICS: u32 = 1;
const FEATURES: u32 = 4;
/// Nothing has so many statistics, queues or features.
const MANY: u32 = 1 << 14;

/// A structure of `N` words: asks, and gives the words back.
fn get<const N: usize>(interface: &str, command: u32) -> Result<[u32; N]> {
    let mut words = [0; N];
    words[0] = command;
    ethtool(interface, &mut words)?;
    Ok(words)
}

pub(super) fn driver(interface: &str) -> Result<Driver> {
    let words: [u32; 49] = get(interface, 0x03)?;
    let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = |at: usize| text(&bytes[at * 32..][..32]);
    Ok(Driver { driver: text(0), version: text(1), firmware: text(2), bus: text(3) })
}

pub(crate) fn rings(interface: &str) -> Result<Rings> {
    let words: [u32; 9] = get(interface, GRINGPARAM)?;
    Ok(Rings { rx_max: words[1], tx_max: words[4], rx: words[5], tx: words[8] })
}

pub(crate) fn set_rings(interface: &str, rx: u32, tx: u32) -> Result<()> {
    let mut words: [u32; 9] = get(interface, GRINGPARAM)?;
    (words[0], words[5], words[8]) = (SRINGPARAM, rx, tx);
    ethtool(interface, &mut words)
}

pub(crate) fn coalesce(interface: &str) -> Result<Coalesce> {
    let words: [u32; 23] = get(interface, GCOALESCE)?;
    Ok(Coalesce {
        rx_usecs: words[1],
        rx_frames: words[2],
        tx_usecs: words[5],
        tx_frames: words[6],
        adaptive_rx: words[10] != 0,
        adaptive_tx: words[11] != 0,
    })
}

/// Sets what a [`Coalesce`] has, and leaves the rest as it is.
pub(crate) fn set_coalesce(interface: &str, to: &Coalesce) -> Result<()> {
    let mut words: [u32; 23] = get(interface, GCOALESCE)?;
    words[0] = SCOALESCE;
    (words[1], words[2], words[5], words[6]) = (to.rx_usecs, to.rx_frames, to.tx_usecs, to.tx_frames);
    (words[10], words[11]) = (to.adaptive_rx.into(), to.adaptive_tx.into());
    ethtool(interface, &mut words)
}

pub(super) fn channels(interface: &str) -> Result<Channels> {
    let words: [u32; 9] = get(interface, 0x3c)?;
    Ok(Channels {
        rx_max: words[1],
        tx_max: words[2],
        combined_max: words[4],
        rx: words[5],
        tx: words[6],
        combined: words[8],
    })
}

pub(super) fn pause(interface: &str) -> Result<Pause> {
    let words: [u32; 4] = get(interface, 0x12)?;
    Ok(Pause { autonegotiated: words[1] != 0, rx: words[2] != 0, tx: words[3] != 0 })
}

pub(super) fn fec(interface: &str) -> Result<Fec> {
    let words: [u32; 4] = get(interface, 0x50)?;
    Ok(Fec { active: fec_names(words[1]), configured: fec_names(words[2]) })
}

/// The names of what a mask of error corrections has; the lowest bit says that there is none.
fn fec_names(mask: u32) -> Vec<String> {
    let names = ["none", "auto", "off", "rs", "baser", "llrs"];
    let set = names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
    set.map(|(_, name)| (*name).to_owned()).collect()
}

pub(super) fn timestamps(interface: &str) -> Result<TimeStamps> {
    let words: [u32; 11] = get(interface, 0x41)?;
    let clock = words[2] as i32;
    Ok(TimeStamps {
        tx_hardware: words[1] & 1 != 0,
        rx_hardware: words[1] & 4 != 0,
        clock: u32::try_from(clock).ok(),
    })
}

pub(super) fn steering(interface: &str) -> Result<Steering> {
    // struct ethtool_rxnfc is 192 bytes; rule_cnt is at 184.
    let rules = get::<48>(interface, 0x2e).map_or(0, |words| words[46]);
    let size = get::<2>(interface, 0x38).map_or(0, |words| words[1]).min(MANY);
    let mut words = vec![0u32; size as usize + 2];
    (words[0], words[1]) = (0x38, size);
    let mut hashed_queues =
        if size > 0 && ethtool(interface, &mut words).is_ok() { words[2..].to_vec() } else { Vec::new() };
    hashed_queues.sort_unstable();
    hashed_queues.dedup();
    Ok(Steering { rules, hashed_queues })
}

/// The driver's counters whose names speak of loss, without those that are zero.
pub(super) fn losses(interface: &str) -> Result<Losses> {
    let names = strings(interface, STATISTICS)?;
    let mut words = vec![0u32; names.len() * 2 + 2];
    (words[0], words[1]) = (0x1d, names.len() as u32);
    ethtool(interface, &mut words)?;
    let values = words[2..].chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
    let speaks_of_loss = |name: &str| {
        let name = name.to_lowercase();
        let words = ["drop", "discard", "no_buf", "nobuf", "out_of_buffer", "missed", "overflow", "fifo_err"];
        words.iter().any(|word| name.contains(word))
    };
    let counters = names.into_iter().zip(values).filter(|(name, value)| *value != 0 && speaks_of_loss(name));
    Ok(Losses { counters: counters.collect() })
}

pub(crate) fn features(interface: &str) -> Result<Features> {
    let names = strings(interface, FEATURES)?;
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0u32; blocks * 4 + 2];
    (words[0], words[1]) = (0x3a, blocks as u32);
    ethtool(interface, &mut words)?;
    let mut all = BTreeMap::new();
    for (number, name) in names.into_iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        // Per block: available, requested, active, never changed.
        let block = &words[2 + number / 32 * 4..][..4];
        let bit = |word: u32| word >> (number % 32) & 1 != 0;
        all.insert(name, Feature { on: bit(block[2]), fixed: bit(block[3]) || !bit(block[0]) });
    }
    Ok(Features { all })
}

pub(crate) fn set_feature(interface: &str, name: &str, on: bool) -> Result<()> {
    let names = strings(interface, FEATURES)?;
    let number = names.iter().position(|one| one == name).ok_or(libc::EOPNOTSUPP)?;
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0u32; blocks * 2 + 2];
    (words[0], words[1]) = (0x3b, blocks as u32);
    let (block, bit) = (2 + number / 32 * 2, 1 << (number % 32));
    words[block] = bit;
    words[block + 1] = if on { bit } else { 0 };
    ethtool(interface, &mut words)
}

/// The names of a set.
fn strings(interface: &str, set: u32) -> Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, one size.
    let mut words = [0x37, 0, 1 << set, 0, 0];
    ethtool(interface, &mut words)?;
    if words[2] == 0 || words[4] == 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let count = words[4].min(MANY);
    let mut words = vec![0u32; count as usize * 8 + 3];
    (words[0], words[1], words[2]) = (0x1b, set, count);
    ethtool(interface, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes.chunks_exact(32).map(text).collect())
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_corrections_have_the_names_that_ethtool_takes() {
        assert_eq!(fec_names(0), [""; 0]);
        assert_eq!(fec_names(0b1010), ["auto", "rs"]);
        assert_eq!(fec_names(0b11_0100), ["off", "baser", "llrs"]);
    }
}
