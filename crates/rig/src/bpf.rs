//! A foreign XDP program: somebody else's, that lets every packet pass. Tests attach it to see how the product yields.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::{Context, Host, Result};

// linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;

/// `r0 = XDP_PASS; exit`.
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];

/// Attached as long as it lives.
#[derive(Debug)]
pub struct ForeignProgram {
    _link: OwnedFd,
}

/// `bpf_attr` of BPF_PROG_LOAD, as far as it is used.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// `bpf_attr` of BPF_LINK_CREATE, as far as it is used.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches a program that passes everything to the host's interface.
pub fn attach_foreign_program(host: &Host) -> Result<ForeignProgram> {
    let link = host.namespace.inside(|| {
        let name = std::ffi::CString::new(host.interface).map_err(io::Error::other)?;
        // SAFETY: a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let load = ProgramLoad {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: PASS.len() as u32,
            insns: PASS.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            ..ProgramLoad::default()
        };
        let program = bpf(BPF_PROG_LOAD, &load)?;
        let create = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: index,
            attach_type: BPF_XDP,
            flags: 0,
        };
        bpf(BPF_LINK_CREATE, &create)
    })?;
    Ok(ForeignProgram { _link: link.context("attach a foreign XDP program")? })
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are `repr(C)`, initialised, and what they point to outlives the call; both commands
    // return a descriptor that nobody else owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) as RawFd;
        crate::namespace::check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
