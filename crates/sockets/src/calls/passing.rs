//! Descriptors that leave the process, in a message (SCM_RIGHTS) or with a program that is started, or that are used
//! where no hook sees it: the kernel's socket is all that is there, so it becomes the socket.

use super::process::is_lost;
use crate::answer::Why;
use crate::expel::expel;
use crate::family::{self, FAMILY, Patience};
use crate::fd_table;
use crate::message::plausible;
use crate::object::set::Set;
use crate::object::{Kind, Object, Pin};
use crate::runtime::{self, Runtime};
use crate::udp_legs;
use crate::{carrier, offload, tcp};
use core::sync::atomic::Ordering;
use libc::{SCM_RIGHTS, SOL_SOCKET, c_int, msghdr};
use stats::Verdict;

/// A message goes out through the kernel. Sockets that it carries are the kernel's from now on, for both processes: a
/// connection moves there, the others are no longer steered to us.
///
/// # Safety
/// As sendmsg(2): the message is null, invalid in a way that the kernel refuses, or valid.
pub unsafe fn passing(message: *const msghdr) {
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
                    hand_on(fds.add(index).read_unaligned(), Why::Passed);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// The socket behind `fd` is the kernel's from now on, for all who have it: a connection moves there, or begins anew
/// there while it is being made; a listener and a UDP socket are no longer steered to us.
pub fn hand_on(fd: c_int, why: Why) {
    let (Some(object), Some(runtime)) = (fd_table::socket(fd), runtime::get()) else { return };
    match object.kind() {
        Kind::Lent | Kind::Inherited => _ = FAMILY.claim(runtime, object, Patience::Long),
        Kind::Stream if tcp::connect_in_kernel(runtime, object, fd, why) => {}
        Kind::Stream if is_lost(object) && !FAMILY.to_kernel(runtime, object, why) => {
            let remote = object.control.lock().remote;
            logger::warning!(
                "fd {fd}, connected to {}, is {} and cannot move into the kernel, where it would be found: that needs \
                 CAP_NET_ADMIN",
                remote.map_or_else(|| "nobody".into(), |remote| remote.to_string()),
                why.text()
            );
        }
        Kind::Carried | Kind::Moving | Kind::Memory => _ = expel(runtime, object, why),
        Kind::Listener | Kind::Udp => {
            let Some(_pin) = Pin::by(object, fd) else { return };
            match object.kind() {
                Kind::Listener if why == Why::Passed => family::share(object),
                Kind::Udp => udp_legs::detach_queue(object),
                _ => offload::unsteer(object),
            }
            carrier::stays(object, Verdict::OthersHaveIt);
        }
        _ => {}
    }
}

/// Before a program is started beside this one: it gets the connections whose descriptors are not close-on-exec.
/// `is_got` tells whether the descriptor is what it is for this process.
pub fn starting_program(is_got: impl Fn(c_int) -> bool) {
    for fd in 0..fd_table::end() {
        let is_connection = fd_table::socket(fd).is_some_and(|object| match object.kind() {
            Kind::Lent | Kind::Carried | Kind::Moving | Kind::Memory => true,
            _ => is_lost(object),
        });
        if is_connection && !is_close_on_exec(fd) && is_got(fd) {
            hand_on(fd, Why::Executed);
        }
    }
}

/// Before a child is made that has all descriptors and runs no code of ours: it could claim nothing.
pub fn copying() {
    let Some(runtime) = runtime::get() else { return };
    FAMILY.before_fork(runtime);
    // Listeners are the kernel's by now, and may be everybody's there.
    let is_other = |fd: &c_int| fd_table::socket(*fd).is_some_and(|object| !carrier::is_listener(object));
    (0..fd_table::end()).filter(is_other).for_each(|fd| hand_on(fd, Why::Inherited));
}

/// Whether exec closes it.
pub(super) fn is_close_on_exec(fd: c_int) -> bool {
    sys::fd::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC != 0)
}

/// The socket is the kernel's from now on, for `why`: somebody uses it there of whom nothing is seen here. A request of
/// io_uring or of asynchronous I/O is about it, or a set of epoll that was made past every hook. Of an epoll set: so is
/// what is in it, from now on.
pub fn used_by(fd: c_int, why: Why) {
    if let Some(set) = fd_table::epoll(fd) {
        return set_used_by(set, why);
    }
    let (Some(object), Some(runtime)) = (fd_table::socket(fd), runtime::get()) else { return };
    if !matches!(object.kind(), Kind::Udp | Kind::Listener | Kind::TcpIdle) {
        return hand_on(fd, why);
    }
    let Some(_pin) = Pin::by(object, fd) else { return };
    match object.kind() {
        Kind::Udp => udp_legs::detach(object),
        Kind::Listener => {
            // They are told at once, and come again.
            tcp::refuse_queued(object);
            tcp::detach(object);
        }
        _ => {}
    }
    let _ = offload::fall_back::<()>(runtime, object, why, "socket");
}

fn set_used_by(set: &'static Set, why: Why) {
    if set.is_unseen.swap(true, Ordering::SeqCst) {
        return;
    }
    let inside: Vec<&Object> = set.items.lock().iter().map(|(_, item)| item.object).collect();
    inside.into_iter().for_each(|object| used_by(object.fd.load(Ordering::Relaxed), why));
    let inner = set.relations.lock().inner.clone();
    inner.into_iter().for_each(|set| set_used_by(set, why));
}

/// The program has rings of io_uring whose requests are not seen: all sockets are the kernel's.
pub fn rings_are_unseen() {
    let Some(runtime) = runtime::get() else { return };
    runtime.has_unseen_rings.store(true, Ordering::Relaxed);
    (0..fd_table::end()).for_each(|fd| used_by(fd, Why::IoUring));
}

/// A socket has become descriptor 0, 1 or 2, by duplication: stdio, and programs that are started, read and write there
/// past every hook.
pub(super) fn became_standard(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if !matches!(object.kind(), Kind::Udp | Kind::TcpIdle) {
        return hand_on(fd, Why::StandardStream);
    }
    let Some(_pin) = Pin::by(object, fd) else { return };
    match object.kind() {
        Kind::Udp => udp_legs::detach(object),
        _ => tcp::detach(object),
    }
    let _ = offload::fall_back::<()>(runtime, object, Why::StandardStream, "socket");
}
