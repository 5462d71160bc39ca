//! The steering program: the committed object file, linked with its maps, loaded and attached.
//!
//! The object (`bpf/steer.o`, made from `bpf/steer.bpf.c` by `bpf/build.sh`) is part of this library, so reading it
//! is not reading foreign input; still everything is checked, because a wrong build must be an error and no crash.

use sys::{Fd, Result};

use crate::bpf;

const OBJECT: &[u8] = include_bytes!("../../../bpf/steer.o");

/// Section that holds the program, and the one that holds its relocations.
const SECTION: &[u8] = b"xdp.frags";
const RELOCATIONS: &[u8] = b".relxdp.frags";

/// The call of bpf_check_mtu, and what stands for it: opcode 8 | registers 8 | offset 16 | immediate 32.
const CALL_CHECK_MTU: u64 = 163 << 32 | 0x85;
const RESULT_IS_0: u64 = 0xb7;

/// In the source register of a 64-bit load: the immediate is the descriptor of a map.
const PSEUDO_MAP_FD: u64 = 1;
/// `R_BPF_64_64`: the address of a symbol in a 64-bit load.
const RELOCATION_ADDRESS: u32 = 1;

/// Loads the program over the maps that `map` has by their names.
pub(crate) fn load(map: impl Fn(&[u8]) -> Option<i32>, multi_buffer: bool) -> Result<Fd> {
    let mut instructions = link(OBJECT, map).ok_or(libc::ENOEXEC)?;
    match bpf::program_load(&instructions, multi_buffer) {
        Err(libc::EINVAL) => {
            without_mtu(&mut instructions);
            bpf::program_load(&instructions, multi_buffer)
        }
        loaded => loaded,
    }
}

/// For Linux before 5.12, which does not know the helper: each packet is as if it fitted the MTU. Datagrams that were
/// sent as one then arrive as one.
fn without_mtu(instructions: &mut [u64]) {
    for one in instructions.iter_mut().filter(|one| **one == CALL_CHECK_MTU) {
        *one = RESULT_IS_0;
    }
}

/// The program's instructions with the descriptors of its maps filled in. `None`: not an object that we made.
fn link(object: &[u8], map: impl Fn(&[u8]) -> Option<i32>) -> Option<Vec<u64>> {
    let elf = Elf { object };
    let code = elf.section(SECTION)?;
    let mut instructions: Vec<u64> =
        code.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    for entry in elf.section(RELOCATIONS)?.chunks_exact(16) {
        let (offset, kind, symbol) = (u64_at(entry, 0)?, u32_at(entry, 8)?, u32_at(entry, 12)?);
        if kind != RELOCATION_ADDRESS {
            return None;
        }
        let fd = map(elf.symbol_name(symbol)?)?;
        // opcode 8 | destination 4 | source 4 | offset 16 | immediate 32
        let load = instructions.get_mut(offset as usize / 8)?;
        *load = *load & 0x0000_0000_ffff_0fff | PSEUDO_MAP_FD << 12 | (fd as u64) << 32;
    }
    Some(instructions)
}

/// A 64-bit little-endian ELF file.
struct Elf<'a> {
    object: &'a [u8],
}

impl<'a> Elf<'a> {
    /// Header number `index` of the section table.
    fn header(&self, index: usize) -> Option<&'a [u8]> {
        let table = u64_at(self.object, 40)? as usize;
        let (size, count) = (u16_at(self.object, 58)? as usize, u16_at(self.object, 60)? as usize);
        let start = table.checked_add(index.checked_mul(size)?)?;
        if index < count { self.object.get(start..start.checked_add(64)?) } else { None }
    }

    fn content(&self, header: &[u8]) -> Option<&'a [u8]> {
        let (offset, size) = (u64_at(header, 24)? as usize, u64_at(header, 32)? as usize);
        self.object.get(offset..offset.checked_add(size)?)
    }

    fn section(&self, name: &[u8]) -> Option<&'a [u8]> {
        let names = self.content(self.header(u16_at(self.object, 62)? as usize)?)?;
        let headers = (0..).map_while(|index| self.header(index));
        let found = headers.into_iter().find(|header| {
            u32_at(header, 0).and_then(|offset| text_at(names, offset as usize)) == Some(name)
        })?;
        self.content(found)
    }

    fn symbol_name(&self, index: u32) -> Option<&'a [u8]> {
        let symbol = self.section(b".symtab")?.chunks_exact(24).nth(index as usize)?;
        text_at(self.section(b".strtab")?, u32_at(symbol, 0)? as usize)
    }
}

fn text_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    strings.get(offset..)?.split(|&byte| byte == 0).next()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "program/tests.rs"]
mod tests;
