//! The calls of bpf(2) that we need: maps, loading a program, attaching it by a link, running it for a test.

use core::ffi::CStr;
use core::mem::size_of;

use sys::raw::syscall;
use sys::{Fd, Result};

use crate::locking;

pub(crate) const MAP_TYPE_HASH: u32 = 1;
pub(crate) const MAP_TYPE_ARRAY: u32 = 2;
/// Forgets the least recently used when it is full.
pub(crate) const MAP_TYPE_LRU_HASH: u32 = 9;
pub(crate) const MAP_TYPE_XSKMAP: u32 = 17;
/// Elements are allocated when they are inserted.
pub(crate) const NO_PREALLOC: u32 = 1;
/// Values can be mapped.
pub(crate) const MAPPABLE: u32 = 1 << 10;
/// Attach to the driver's hook, or to the generic one.
pub(crate) const FLAG_GENERIC: u32 = 1 << 1;
pub(crate) const FLAG_NATIVE: u32 = 1 << 2;

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program can take packets of several buffers.
const XDP_HAS_FRAGS: u32 = 1 << 5;

#[repr(C)]
#[derive(Clone, Copy)]
struct Element {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn bpf<T>(command: i32, attributes: &mut T) -> Result<usize> {
    let pointer = core::ptr::from_mut(attributes) as usize;
    // SAFETY: attributes live for the call and have the size said; those with pointers are made below, from
    // references that outlive the call.
    unsafe { syscall(libc::SYS_bpf, [command as usize, pointer, size_of::<T>(), 0, 0, 0]) }
}

/// What maps and programs may take of the limit of locked memory, at the most.
const CHARGED: u64 = 64 << 20;

/// As [`bpf`], for what old kernels charge to the limit of locked memory: they say EPERM.
fn bpf_charged<T>(command: i32, attributes: &mut T) -> Result<usize> {
    match bpf(command, attributes) {
        Err(libc::EPERM) if locking::allow(CHARGED) => bpf(command, attributes),
        outcome => outcome,
    }
}

/// BPF_MAP_CREATE.
pub(crate) fn map_create(kind: u32, key: usize, value: usize, entries: u32, flags: u32) -> Result<Fd> {
    // With the name, and all before it that valgrind looks at.
    let mut attributes = [0; 12];
    attributes[..5].copy_from_slice(&[kind, key as u32, value as u32, entries, flags]);
    Fd::made(|| bpf_charged(0, &mut attributes))
}

/// What the kernel says of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapInfo {
    pub(crate) id: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
}

/// BPF_OBJ_GET_INFO_BY_FD of a map.
pub(crate) fn map_info(map: &Fd) -> Result<MapInfo> {
    // struct bpf_map_info: type, id, key_size, value_size, ...
    let mut info = [0u32; 32];
    object_info(map, &mut info)?;
    Ok(MapInfo { id: info[1], key: info[2], value: info[3] })
}

/// What the kernel says of the link of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkInfo {
    pub(crate) program: u32,
    pub(crate) interface: u32,
}

/// BPF_OBJ_GET_INFO_BY_FD of a link. EINVAL: it is another kind of link, or none.
pub(crate) fn link_info(link: &Fd) -> Result<LinkInfo> {
    const LINK_TYPE_XDP: u32 = 6;
    // struct bpf_link_info: type, id, prog_id, a gap, and of XDP the interface. Of a program or a map other things
    // stand there, which are no program with this number on this interface.
    let mut info = [0u32; 32];
    object_info(link, &mut info)?;
    let [kind, _, program, _, interface, ..] = info;
    if kind == LINK_TYPE_XDP { Ok(LinkInfo { program, interface }) } else { Err(libc::EINVAL) }
}

/// The id of a program, and those of its maps.
pub(crate) fn program_info(program: &Fd) -> Result<(u32, Vec<u32>)> {
    /// Words of struct bpf_prog_info: of the number of maps, and of the address that their ids are written to.
    const COUNT: usize = 13;
    const IDS: usize = 14;
    let mut ids = [0u32; 16];
    let mut info = [0u32; 64];
    let address = ids.as_mut_ptr() as u64;
    info[COUNT] = ids.len() as u32;
    (info[IDS], info[IDS + 1]) = (address as u32, (address >> 32) as u32);
    object_info(program, &mut info)?;
    let count = (info[COUNT] as usize).min(ids.len());
    Ok((info[1], ids[..count].to_vec()))
}

fn object_info<const WORDS: usize>(of: &Fd, info: &mut [u32; WORDS]) -> Result<()> {
    let address = info.as_mut_ptr() as u64;
    let mut attributes =
        [of.raw() as u32, size_of::<[u32; WORDS]>() as u32, address as u32, (address >> 32) as u32];
    bpf(15, &mut attributes).map(drop)
}

/// BPF_MAP_LOOKUP_ELEM; `V` has exactly the size of the map's values.
pub(crate) fn map_lookup<K: Copy, V: Copy + Default>(map: &Fd, key: &K) -> Option<V> {
    let mut value = V::default();
    bpf(1, &mut element(map, key, &raw mut value as u64)).ok().map(|_| value)
}

/// BPF_MAP_UPDATE_ELEM, inserting or replacing.
pub(crate) fn map_update<K: Copy, V: Copy>(map: &Fd, key: &K, value: &V) -> Result<()> {
    bpf(2, &mut element(map, key, core::ptr::from_ref(value) as u64)).map(|_| ())
}

/// BPF_MAP_DELETE_ELEM.
pub(crate) fn map_delete<K: Copy>(map: &Fd, key: &K) -> Result<()> {
    bpf(3, &mut element(map, key, 0)).map(|_| ())
}

/// BPF_MAP_GET_NEXT_KEY: the key behind `key`, the first one without.
pub(crate) fn map_next_key<K: Copy>(map: &Fd, key: Option<&K>) -> Option<K> {
    let mut next = core::mem::MaybeUninit::<K>::uninit();
    let from = key.map_or(0, |key| core::ptr::from_ref(key) as u64);
    let mut attributes =
        Element { map_fd: map.raw() as u32, pad: 0, key: from, value: next.as_mut_ptr() as u64, flags: 0 };
    bpf(4, &mut attributes).ok()?;
    // SAFETY: the kernel wrote a key, which has the size of K.
    Some(unsafe { next.assume_init() })
}

fn element<K>(map: &Fd, key: &K, value: u64) -> Element {
    Element { map_fd: map.raw() as u32, pad: 0, key: core::ptr::from_ref(key) as u64, value, flags: 0 }
}

/// BPF_PROG_LOAD of an XDP program; one that takes packets of several buffers, or must not be given any.
pub(crate) fn program_load(instructions: &[u64], multi_buffer: bool) -> Result<Fd> {
    const LICENCE: &CStr = c"Dual MIT/GPL";
    #[repr(C)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    let mut load = Load {
        prog_type: PROG_TYPE_XDP,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: if multi_buffer { XDP_HAS_FRAGS } else { 0 },
        prog_name: *b"sidestep_steer\0\0",
        prog_ifindex: 0,
        expected_attach_type: ATTACH_XDP,
    };
    Fd::made(|| bpf_charged(5, &mut load))
}

/// BPF_LINK_CREATE on an interface: the program is attached until the last descriptor of the link is closed.
pub(crate) fn link_create(program: &Fd, interface: u32, flags: u32) -> Result<Fd> {
    let mut attributes = [program.raw() as u32, interface, ATTACH_XDP, flags, 0, 0, 0, 0];
    Fd::made(|| bpf(28, &mut attributes))
}

/// BPF_LINK_DETACH (Linux 5.9): the program is gone from the interface, whoever has a descriptor of the link.
pub(crate) fn link_detach(link: &Fd) -> Result<()> {
    bpf(34, &mut [link.raw() as u32]).map(|_| ())
}

/// BPF_PROG_TEST_RUN: the program's answer to a packet, and the nanoseconds one of `repeat` runs took. `packet` is
/// what the program made of it.
#[cfg(test)]
pub(crate) fn program_run(program: &Fd, packet: &mut Vec<u8>, repeat: u32) -> Result<(u32, u32)> {
    #[repr(C)]
    struct Run {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        rest: [u32; 10],
    }
    let mut out = vec![0; packet.len() + 64];
    let mut run = Run {
        prog_fd: program.raw() as u32,
        retval: 0,
        data_size_in: packet.len() as u32,
        data_size_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        duration: 0,
        rest: [0; 10],
    };
    bpf(10, &mut run)?;
    out.truncate(run.data_size_out as usize);
    *packet = out;
    Ok((run.retval, run.duration))
}
