//! One function per intercepted call, with libc's name and arguments. `Kernel` means: call the genuine function with
//! the same arguments. Null pointers are allowed wherever libc allows them.
//!
//! # Safety
//! All of these: pointers are the application's, valid as the call's manual page demands.
#![allow(clippy::missing_safety_doc)]

mod data;
mod descriptor;
mod passing;
mod process;
mod socket;
mod wait;

pub use crate::ending::exiting;
pub use data::{readv, recvfrom, recvmmsg, recvmsg, sendfile64, sendmmsg, sendmsg, sendto, splice, writev};
pub(crate) use descriptor::end_deferred;
pub use descriptor::{close, close_range, dup, dup3, fcntl, ioctl, is_internal, knows, recycled};
pub use passing::passing;
pub use process::{executing, fork_begins, fork_done, forked_child, panicked, start};
pub use socket::{
    accept4, bind, connect, getpeername, getsockname, getsockopt, listen, setsockopt, shutdown, socket,
};
pub use wait::{epoll_create1, epoll_ctl, epoll_pwait2, ppoll, pselect};

use crate::answer::{Answer, Stop, Why};
use crate::fd_table;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::{self, Runtime};
use crate::tcp;
use libc::c_int;

/// The runtime and the socket behind `fd`; "the kernel" if it is not ours.
#[inline]
fn ours(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    match (fd_table::socket(fd), runtime::get()) {
        (Some(object), Some(runtime)) => {
            if object.kind() == Kind::Lent && !runtime.relays.claim(runtime, object) {
                return kernel();
            }
            Ok((runtime, object))
        }
        _ => Err(Stop::Kernel(Why::NotOurs)),
    }
}

/// As [`ours`], for calls that hear what arrives: an inherited listener is adopted first, an inherited UDP socket given
/// back to the kernel.
#[inline]
pub(crate) fn hearing(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    let (runtime, object) = ours(fd)?;
    if object.kind() == Kind::Inherited {
        inherited(runtime, object)?;
    }
    Ok((runtime, object))
}

#[cold]
fn inherited(runtime: &'static Runtime, object: &'static Object) -> Answer<()> {
    if object.control.lock().backlog.is_some() && tcp::adopt(runtime, object) {
        return Ok(());
    }
    offload::give_back(object);
    kernel()
}

/// Shorthand: the kernel does it, as for any descriptor that is not ours.
fn kernel<T>() -> Answer<T> {
    Err(Stop::Kernel(Why::NotOurs))
}
