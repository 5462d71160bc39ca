//! What several processes have of a fork: it is the kernel's, where all may use it, and who has a connection alone
//! takes it to a lane of its own.

use super::carried::{stays, wait_while_moving};
use super::datagrams::waits;
use super::holders;
use crate::address;
use crate::fd_table;
use crate::memory;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use stats::Verdict;

/// Before a fork, in the parent. A process that forks and has a listener is a server, whose children will want lanes:
/// they can have them beside its own only.
pub(crate) fn before_fork(runtime: &'static Runtime) {
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        // The first of its descriptors speaks for all.
        let is_first = object.fd.load(Ordering::Relaxed) == fd;
        if is_first && object.kind() == Kind::Udp && waits(object) && !holders::share(object) {
            stays(object, Verdict::OthersHaveIt);
        }
        if !is_first || !matches!(object.kind(), Kind::Carried | Kind::Moving) {
            continue;
        }
        wait_while_moving(object);
        if object.kind() != Kind::Carried {
            continue;
        }
        if is_listener(object) {
            if runtime.sdp.is_none() && runtime.lanes().next().is_none() && !runtime.has_asked_for_lanes() {
                open_for_children(runtime, fd);
            }
        } else if !holders::share(object) {
            stays(object, Verdict::OthersHaveIt);
        }
    }
}

fn open_for_children(runtime: &'static Runtime, fd: i32) {
    if let Ok(local) = address::of_shadow(&runtime.os, fd)
        && !local.ip().is_loopback()
    {
        // A failure is told with the first connection that would move.
        let _ = offload::lanes_at(runtime, *local.ip());
    }
}

/// In the child of a fork. True: what the kernel carries is known here, too.
pub(crate) fn after_fork(object: &'static Object, child: &sys::InChild) -> bool {
    let is_kernels = object.kind() == Kind::Carried || object.kind() == Kind::Udp && waits(object);
    if !is_kernels {
        return false;
    }
    memory::after_fork(object, child);
    object.keep(child);
    true
}

/// Whether it is a listener, whoever has its queue.
pub(crate) fn is_listener(object: &Object) -> bool {
    object.control.lock().queue.is_some()
}
