//! Descriptors that leave the process in a message (SCM_RIGHTS): who receives one has the kernel's socket.

use super::process::is_lost;
use crate::answer::Why;
use crate::fd_table;
use crate::message::plausible;
use crate::object::Kind;
use crate::offload;
use crate::runtime::{self, Runtime};
use libc::{SCM_RIGHTS, SOL_SOCKET, c_int, msghdr};

/// A message goes out through the kernel. Sockets that it carries are the kernel's from now on, for both processes: a
/// connection moves there, the others are no longer steered to us.
///
/// # Safety
/// As sendmsg(2): the message is null, invalid in a way that the kernel refuses, or valid.
pub unsafe fn passing(message: *const msghdr) {
    let Some(runtime) = runtime::get() else { return };
    if !plausible(message, 1) {
        return;
    }
    // SAFETY: by the caller.
    let control = unsafe { &*message };
    if control.msg_controllen < size_of::<libc::cmsghdr>()
        || !plausible(control.msg_control.cast::<u8>(), control.msg_controllen)
    {
        return;
    }
    // SAFETY: by the caller; CMSG_NXTHDR stays within the length.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == SOL_SOCKET && (*header).cmsg_type == SCM_RIGHTS {
                let room =
                    control.msg_control as usize + control.msg_controllen - libc::CMSG_DATA(header) as usize;
                let bytes = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize).min(room);
                let fds = libc::CMSG_DATA(header).cast::<c_int>();
                for index in 0..bytes / size_of::<c_int>() {
                    passed(runtime, fds.add(index).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

fn passed(runtime: &'static Runtime, fd: c_int) {
    let Some(object) = fd_table::socket(fd) else { return };
    match object.kind() {
        Kind::Lent => _ = runtime.relays.claim(runtime, object),
        Kind::Stream if is_lost(object) && !runtime.relays.to_kernel(runtime, object, Why::Passed) => {
            let remote = object.control.lock().remote;
            logger::warning!(
                "fd {fd}, connected to {}, is passed to another process and stays here: that needs CAP_NET_ADMIN",
                remote.map_or_else(|| "nobody".into(), |remote| remote.to_string())
            );
        }
        Kind::Listener | Kind::Udp => _ = offload::unsteer(object),
        _ => {}
    }
}
