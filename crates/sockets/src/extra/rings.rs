//! Which rings a socket stands on. A ring is a lane; its name is a descriptor that is readable while packets wait.

use crate::abi::{MODIFY_RING_ARM, MODIFY_RING_MODERATION, ModifyRing};
use crate::address::{self, Named};
use crate::answer::{Answer, Stop};
use crate::errno::fail;
use crate::fd_table;
use crate::lane::Lane;
use crate::lane::Moderator;
use crate::lookup::ours;
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime;
use libc::{c_int, sockaddr, socklen_t};
use xdp::Pace;

fn descriptor(lane: &'static Lane) -> Option<c_int> {
    lane.descriptors.first().copied()
}

fn rings(object: &Object) -> impl Iterator<Item = c_int> {
    object.legs().filter_map(|(lane, _)| descriptor(lane))
}

/// get_socket_rings_num: 0 of what is not accelerated.
pub fn rings_num(fd: c_int) -> Answer<c_int> {
    Ok(fd_table::socket(fd).map_or(0, |object| rings(object).count() as c_int))
}

/// get_socket_rings_fds: how many were written.
///
/// # Safety
/// `into` has room for `count`.
pub unsafe fn rings_fds(fd: c_int, into: *mut c_int, count: c_int) -> Answer<c_int> {
    if into.is_null() || count <= 0 {
        return fail(libc::EINVAL);
    }
    message::check_room(into, count as usize)?;
    let Some(object) = fd_table::socket(fd) else { return Ok(0) };
    let mut written = 0;
    for ring in rings(object).take(count as usize) {
        // SAFETY: the caller's promise.
        unsafe { into.add(written).write_unaligned(ring) };
        written += 1;
    }
    Ok(written as c_int)
}

/// get_socket_tx_ring_fd: of a datagram to this address. ENODATA: it leaves by none.
///
/// # Safety
/// `to` has `len` bytes.
pub unsafe fn tx_ring_fd(fd: c_int, to: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    let (runtime, object) = ours(fd).or_else(|_: Stop| fail(libc::EINVAL))?;
    if to.is_null() || object.kind() != Kind::Udp {
        return fail(libc::EINVAL);
    }
    message::check(to, len as usize)?;
    // SAFETY: the caller's promise.
    let Named::Inet(to) = (unsafe { address::read(to, len) }) else { return fail(libc::EINVAL) };
    let way = crate::udp_legs::lane_of(runtime, object, *to.ip()).and_then(descriptor);
    way.ok_or(Stop::Errno(libc::ENODATA))
}

/// vma_modify_ring: how often the interface of a ring interrupts.
///
/// # Safety
/// `change` is null or valid.
pub unsafe fn modify_ring(change: *const ModifyRing) -> Answer<c_int> {
    if !message::plausible(change, 1) {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    let change = unsafe { change.read_unaligned() };
    let Some(runtime) = runtime::get() else { return fail(libc::EINVAL) };
    let ring = runtime.lanes().find(|lane| descriptor(lane) == Some(change.ring));
    let first = ring.and_then(|ring| runtime.lanes_of_link(ring.link).find(|lane| lane.number == 0));
    let Some(first) = first else { return fail(libc::EINVAL) };
    if change.mask == 0 || change.mask & !(MODIFY_RING_MODERATION | MODIFY_RING_ARM) != 0 {
        return fail(libc::EINVAL);
    }
    if change.mask & MODIFY_RING_MODERATION != 0 {
        Moderator::say(first, Pace { period_usec: change.period_usec, count: change.count })
            .map_err(Stop::Errno)?;
    }
    Ok(0)
}
