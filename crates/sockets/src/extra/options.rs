//! The API's socket options (SOL_SOCKET, 2801 to 2821), its `ioctl`, and ring profiles. Nothing of this reaches the
//! kernel.

use crate::abi::{
    CMSG_USER_ALLOC, OPTIONS, RING_ALLOC_LOGIC_LEN, RingAllocLogic, RingType, SO_ACCELERATE, SO_FLOW_TAG,
    SO_RING_ALLOC_LOGIC, SO_RING_USER_MEMORY, SO_SHUTDOWN_RX, SO_USER_DATA, USER_ALLOC_LEN,
};
use crate::answer::Answer;
use crate::errno::fail;
use crate::locks::Rank;
use crate::message;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::{Asked, Runtime};
use core::sync::atomic::Ordering;
use libc::{c_int, c_void, cmsghdr, size_t, socklen_t};
use std::collections::VecDeque;

/// Members of `RingAllocLogic` that can be said to hold something.
const LOGIC_MASK: u32 = 0xf;

/// Profiles of rings that the program made; a key is an index plus 1.
static PROFILES: sys::Mutex<VecDeque<RingType>> = Rank::Extra.lock(VecDeque::new());
/// More than that nobody needs: each is another.
const PROFILES_MAX: usize = 1024;

/// In the child of a fork: another thread of the parent may have held the lock.
pub(super) fn after_fork(child: &sys::InChild) {
    PROFILES.take_over(child);
}

/// Whether an option is one of the API's.
#[inline]
pub(crate) fn is_option(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET && (OPTIONS.contains(&name) || name == SO_ACCELERATE)
}

/// setsockopt(2) of one of them.
pub(crate) fn set(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    name: c_int,
    value: Option<&[u8]>,
) -> Answer<c_int> {
    // sockperf has no value for this one, and means yes.
    let value = match value {
        Some(value) if name != SO_ACCELERATE || !value.is_empty() => value,
        _ if name == SO_ACCELERATE => &1i32.to_ne_bytes(),
        _ => return fail(libc::EINVAL),
    };
    let extra = object.extra_or_new();
    match name {
        SO_USER_DATA => {
            let Ok(word) = value.try_into().map(u64::from_ne_bytes) else { return fail(libc::EINVAL) };
            extra.user_data.store(word, Ordering::Relaxed);
            extra.has_user_data.store(true, Ordering::Relaxed);
        }
        SO_FLOW_TAG => {
            let Ok(tag) = value.try_into().map(u32::from_ne_bytes) else { return fail(libc::EINVAL) };
            extra.flow_tag.store(tag, Ordering::Relaxed);
        }
        SO_ACCELERATE => {
            if value.len() < size_of::<c_int>() {
                return fail(libc::EINVAL);
            }
            if value.iter().any(|byte| *byte != 0) {
                super::demand(runtime, object, fd);
            }
        }
        SO_RING_ALLOC_LOGIC => extra.lane.store(ring_alloc_logic(value)?, Ordering::Relaxed),
        SO_SHUTDOWN_RX => {
            if object.leg().is_none() {
                return fail(libc::EINVAL);
            }
            shutdown_receive(object);
        }
        // Packets lie in memory that the kernel and the processes of a family share.
        SO_RING_USER_MEMORY => return fail(libc::EOPNOTSUPP),
        _ => return fail(libc::ENOPROTOOPT),
    }
    Ok(0)
}

/// getsockopt(2) of one of them.
pub(crate) unsafe fn get(
    object: &'static Object,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    if len.is_null() || value.is_null() {
        return fail(libc::EINVAL);
    }
    let extra = object.extra_or_new();
    let bytes: &[u8] = match name {
        SO_USER_DATA => &extra.user_data.load(Ordering::Relaxed).to_ne_bytes(),
        SO_FLOW_TAG => &extra.flow_tag.load(Ordering::Relaxed).to_ne_bytes(),
        _ => return fail(libc::ENOPROTOOPT),
    };
    // SAFETY: the application's pointers, checked.
    unsafe {
        if (len.read_unaligned() as usize) < bytes.len() {
            return fail(libc::EINVAL);
        }
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), bytes.len());
        len.write_unaligned(bytes.len() as socklen_t);
    }
    Ok(0)
}

/// By which logic the socket gets its lane, as `Extra` has it. It holds for both directions, whichever is named: a lane
/// receives and sends.
fn ring_alloc_logic(value: &[u8]) -> Answer<u64> {
    if value.len() != RING_ALLOC_LOGIC_LEN {
        return fail(libc::EINVAL);
    }
    let word = |at: usize| {
        value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
    };
    let asked = RingAllocLogic { mask: word(0), logic: word(4), profile_key: word(8), user_id: word(12) };
    let is_known_profile =
        asked.mask & 1 == 0 || asked.profile_key == 0 || asked.profile_key as usize <= PROFILES.lock().len();
    let is_known = Asked::of(asked.logic, asked.user_id).is_some();
    if asked.mask & !LOGIC_MASK != 0 || !is_known || !is_known_profile {
        return fail(libc::EINVAL);
    }
    Ok(u64::from(asked.logic + 1) << 32 | u64::from(asked.user_id))
}

/// The socket receives nothing more: its packets are not steered here.
fn shutdown_receive(object: &'static Object) {
    object.shut.fetch_or(1, Ordering::Relaxed);
    if object.kind() == Kind::Stream {
        let _ = crate::tcp::shutdown(object, libc::SHUT_RD);
        return;
    }
    offload::unsteer(object);
    object.watch.wake_all();
}

/// vma_add_ring_profile: the key of a profile; the same one has the same key.
///
/// # Safety
/// `profile` and `key` are null or valid.
pub unsafe fn ring_profile(profile: *const RingType, key: *mut c_int) -> Answer<c_int> {
    if !message::plausible(profile, 1) || !message::plausible(key, 1) {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    let profile = unsafe { profile.read_unaligned() };
    match profile.kind {
        0 => {}
        1 => return fail(libc::EOPNOTSUPP),
        _ => return fail(libc::EINVAL),
    }
    let mut profiles = PROFILES.lock();
    let known = profiles.iter().position(|known| *known == profile);
    if known.is_none() {
        if profiles.len() >= PROFILES_MAX {
            return fail(libc::ENOSPC);
        }
        profiles.push_back(profile);
    }
    let index = known.unwrap_or(profiles.len() - 1);
    // SAFETY: as above.
    unsafe { key.write_unaligned(index as c_int + 1) };
    Ok(0)
}

/// `ioctl`: control messages. An allocator is judged as libvma judges it, and refused (EOPNOTSUPP): packets lie in
/// memory that the kernel and the processes of a family share. Other messages mean nothing.
///
/// # Safety
/// `messages` has `len` bytes.
pub unsafe fn ioctl(messages: *const c_void, len: size_t) -> Answer<c_int> {
    if !message::plausible(messages, len) {
        return fail(libc::EINVAL);
    }
    let mut at = 0usize;
    while len.saturating_sub(at) >= size_of::<cmsghdr>() {
        // SAFETY: the caller's promise, and just checked.
        let header = unsafe { messages.byte_add(at).cast::<cmsghdr>().read_unaligned() };
        let own = header.cmsg_len;
        if own < size_of::<cmsghdr>() || own > len - at {
            return fail(libc::EINVAL);
        }
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == CMSG_USER_ALLOC {
            let payload = at + size_of::<cmsghdr>();
            if own - size_of::<cmsghdr>() != USER_ALLOC_LEN {
                return fail(libc::EINVAL);
            }
            // SAFETY: as above.
            let bytes = unsafe { messages.byte_add(payload).cast::<[u8; USER_ALLOC_LEN]>().read_unaligned() };
            let has = |from: usize| bytes[from..from + 8].iter().any(|byte| *byte != 0);
            let is_meant = bytes[0] & 3 != 0 && has(1) && has(9);
            return fail(if is_meant { libc::EOPNOTSUPP } else { libc::EINVAL });
        }
        at += own.next_multiple_of(size_of::<usize>());
    }
    Ok(0)
}
