//! Receive offloads that the kernel switches off for a program in the generic hook, and leaves off when it is gone: the
//! driver's own merging of packets (LRO, GRO in hardware), by whatever name the driver knows it. What was lost is given
//! back by a process that ends; not by one that is killed.

use sys::Result;

use crate::interface::{ethtool, name_of};

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The set of strings that names features.
const ETH_SS_FEATURES: u32 = 4;

const MERGING: [&[u8]; 2] = [b"rx-lro", b"rx-gro-hw"];

/// Words of 32 features that there is room for; Linux 6.18 has two.
const WORDS: usize = 4;
const NAME: usize = 32;

/// Some of an interface's features, a bit for each, in the kernel's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offloads {
    words: [u32; WORDS],
    /// So many words are the kernel's.
    used: usize,
}

impl Offloads {
    /// Those that merge packets and are on. None of them where the kernel does not tell.
    pub(crate) fn merging(interface: u32) -> Offloads {
        ask(interface).unwrap_or_default()
    }

    /// Those that are not on any more.
    pub(crate) fn lost(self, interface: u32) -> Offloads {
        let now = Self::merging(interface);
        let mut words = self.words;
        words.iter_mut().zip(now.words).for_each(|(word, now)| *word &= !now);
        Offloads { words, ..self }
    }

    /// Switches them on.
    pub(crate) fn restore(self, interface: u32) -> Result<()> {
        if self.words == [0; WORDS] {
            return Ok(());
        }
        let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // struct ethtool_sfeatures: command, number of words, and for each word which to change, and to what.
        let mut data = [0u32; 2 + 2 * WORDS];
        data[..2].copy_from_slice(&[ETHTOOL_SFEATURES, self.used as u32]);
        for (pair, word) in data[2..].chunks_exact_mut(2).zip(self.words) {
            pair.fill(word);
        }
        ethtool(&socket, &name_of(&socket, interface)?, &mut data)
    }
}

fn ask(interface: u32) -> Result<Offloads> {
    let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let name = name_of(&socket, interface)?;
    // struct ethtool_sset_info: command, reserved, 64 bits of sets, and the number of strings of each.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ethtool(&socket, &name, &mut info)?;
    let count = info[4] as usize;
    if count > WORDS * 32 {
        return Err(libc::E2BIG);
    }
    let used = count.div_ceil(32);
    // struct ethtool_gstrings: command, set, number, and 32 bytes for each.
    let mut names = [0u32; 3 + WORDS * 32 * NAME / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ethtool(&socket, &name, &mut names)?;
    // struct ethtool_gfeatures: command, number of words, and for each available, requested, active, never changed.
    let mut features = [0u32; 2 + 4 * WORDS];
    features[..2].copy_from_slice(&[ETHTOOL_GFEATURES, used as u32]);
    ethtool(&socket, &name, &mut features)?;

    let mut on = Offloads { words: [0; WORDS], used };
    for (bit, name) in names[3..].chunks_exact(NAME / 4).take(count).enumerate() {
        let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        let active = features[2 + bit / 32 * 4 + 2];
        if MERGING.contains(&text) {
            on.words[bit / 32] |= active & 1 << (bit % 32);
        }
    }
    Ok(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_is_not_restored_and_a_missing_interface_has_none() {
        assert_eq!(Offloads::merging(1).words, [0; WORDS], "loopback merges nothing");
        assert_eq!(Offloads::merging(1).lost(1).restore(1), Ok(()));
        assert_eq!(Offloads::merging(0x7fff_0000), Offloads::default());
    }
}
