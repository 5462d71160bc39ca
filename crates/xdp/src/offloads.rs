//! Receive offloads that the kernel switches off for a program in the generic hook, and leaves off when it is gone: the
//! driver's own merging of packets (LRO, GRO in hardware), by whatever name the driver knows it. They are given back
//! when all who use the interface are gone, however they ended.

use sys::Result;
use sys::afterwards::{Hold, Last, when_gone};

use crate::interface::{SIOCETHTOOL, ethtool, name_of, request_with};

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

/// struct ethtool_sfeatures: command, number of words, and for each word which to change, and to what.
type Switches = [u32; 2 + 2 * WORDS];

impl Offloads {
    /// Those that merge packets and are on. None of them where the kernel does not tell.
    pub(crate) fn merging(interface: u32) -> Offloads {
        Offloads::on(interface, &MERGING)
    }

    /// Those of these names that are on, and can be off.
    pub(crate) fn on(interface: u32, names: &[&[u8]]) -> Offloads {
        ask(interface, names).unwrap_or_default()
    }

    /// Has them switched on when this process, and whoever has a copy of what is returned, is gone. `None`: there are
    /// none, or there is no process for it, and they stay off.
    pub(crate) fn hold(self, interface: u32) -> Option<Hold> {
        if self.words == [0; WORDS] {
            return None;
        }
        let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
        let mut switches = self.switches(true);
        let mut request = request_with(&name_of(&socket, interface).ok()?, &mut switches).ok()?;
        let on = [Last::Ioctl(&socket, SIOCETHTOOL, &raw mut request as usize)];
        // SAFETY: a request, and the switches that it points to, are there.
        unsafe { when_gone(&on, &[]) }.ok()
    }

    fn switches(self, on: bool) -> Switches {
        let mut switches = [0; 2 + 2 * WORDS];
        switches[..2].copy_from_slice(&[ETHTOOL_SFEATURES, self.used as u32]);
        for (pair, word) in switches[2..].chunks_exact_mut(2).zip(self.words) {
            pair.copy_from_slice(&[word, if on { word } else { 0 }]);
        }
        switches
    }

    /// As the kernel does it for a program.
    #[cfg(test)]
    pub(crate) fn switch_off(self, interface: u32) -> Result<()> {
        let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        ethtool(&socket, &name_of(&socket, interface)?, &mut self.switches(false))
    }
}

fn ask(interface: u32, wanted: &[&[u8]]) -> Result<Offloads> {
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
        let block = &features[2 + bit / 32 * 4..];
        let active = block[0] & block[2];
        if wanted.contains(&text) {
            on.words[bit / 32] |= active & 1 << (bit % 32);
        }
    }
    Ok(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_and_one_that_merges_nothing_have_none_to_give_back() {
        assert_eq!(Offloads::merging(1).words, [0; WORDS], "loopback merges nothing");
        assert!(Offloads::merging(1).hold(1).is_none());
        assert_eq!(Offloads::merging(0x7fff_0000), Offloads::default());
    }
}
