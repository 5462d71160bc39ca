//! VMA's extra API as C calls it: the table of `include/mellanox/vma_extra.h`, how it is found, and the functions
//! behind it. What they mean is `sockets::extra`'s.
//!
//! A program finds the table by `getsockopt(-1, SOL_SOCKET, 2800)`, before it has made any socket, or by the name
//! `vma_get_api`.

mod table;

pub(crate) use table::API;

use crate::start::enabled;
use libc::{c_int, c_void, socklen_t};
use sockets::abi::SO_GET_API;
use sockets::{Answer, Stop, Why};

/// The exports of this room.
pub(crate) const SYMBOLS: &[&str] = &["vma_get_api"];

/// The table; null where hooks do nothing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn vma_get_api() -> *const table::Api {
    if enabled() { &raw const API } else { core::ptr::null() }
}

/// getsockopt(2) that asks for the table: `Kernel` if it asks for something else.
///
/// # Safety
/// As getsockopt(2).
#[inline]
pub(crate) unsafe fn asked_for(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let is_asked = fd == -1 && level == libc::SOL_SOCKET && name == SO_GET_API;
    if !is_asked || value.is_null() || len.is_null() {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    let size = size_of::<*const table::Api>() as socklen_t;
    // SAFETY: the caller's pointers, of which neither is null.
    unsafe {
        if len.read_unaligned() < size {
            return Err(Stop::Errno(libc::EINVAL));
        }
        value.cast::<*const table::Api>().write_unaligned(&raw const API);
        len.write_unaligned(size);
    }
    Ok(0)
}
