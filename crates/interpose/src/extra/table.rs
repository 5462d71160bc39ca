//! The table: one function for each slot, behind the same guard as the hooks.

use crate::hooks::data;
use crate::inside::opening;
use crate::outcome::settle;
use crate::start::{ensure, running};
use core::ffi::CStr;
use libc::{c_char, c_int, c_uint, c_void, pthread_t, size_t, sockaddr, socklen_t, ssize_t};
use sockets::abi::{
    Buff, Completion, MSG_ZCOPY, MSG_ZCOPY_FORCE, PacketDescription, ReceiveCallback, RingType,
};
use sockets::calls;
use sockets::extra::{self, ZeroCopied};
use sockets::{Answer, Stop};

/// `vma_api_t`.
#[repr(C)]
pub(crate) struct Api {
    register_recv_callback: unsafe extern "C-unwind" fn(c_int, Option<ReceiveCallback>, *mut c_void) -> c_int,
    recvfrom_zcopy: unsafe extern "C-unwind" fn(
        c_int,
        *mut c_void,
        size_t,
        *mut c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    free_packets: unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> c_int,
    add_conf_rule: unsafe extern "C-unwind" fn(*const c_char) -> c_int,
    thread_offload: unsafe extern "C-unwind" fn(c_int, pthread_t) -> c_int,
    socketxtreme_poll: unsafe extern "C-unwind" fn(c_int, *mut Completion, c_uint, c_int) -> c_int,
    get_socket_rings_num: unsafe extern "C-unwind" fn(c_int) -> c_int,
    get_socket_rings_fds: unsafe extern "C-unwind" fn(c_int, *mut c_int, c_int) -> c_int,
    get_socket_tx_ring_fd: unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    socketxtreme_free_vma_packets: unsafe extern "C-unwind" fn(*const PacketDescription, c_int) -> c_int,
    socketxtreme_ref_vma_buff: unsafe extern "C-unwind" fn(*const Buff) -> c_int,
    socketxtreme_free_vma_buff: unsafe extern "C-unwind" fn(*const Buff) -> c_int,
    dump_fd_stats: unsafe extern "C-unwind" fn(c_int, c_int) -> c_int,
    vma_add_ring_profile: unsafe extern "C-unwind" fn(*const RingType, *mut c_int) -> c_int,
    get_socket_network_header: unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut u16) -> c_int,
    get_ring_direct_descriptors: unsafe extern "C-unwind" fn(c_int, *mut c_void) -> c_int,
    register_memory_on_ring: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, *mut u32) -> c_int,
    deregister_memory_on_ring: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> c_int,
    vma_modify_ring: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    supported: u64,
    ioctl: unsafe extern "C-unwind" fn(*const c_void, size_t) -> c_int,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Api>() == 168);
    assert!(offset_of!(Api, socketxtreme_poll) == 40 && offset_of!(Api, dump_fd_stats) == 96);
    assert!(offset_of!(Api, supported) == 152 && offset_of!(Api, ioctl) == 160);
};

/// Bits of what works: 0 to 13, 16 (ring profiles), 20 (moderation of a ring). Not: 14 descriptors of an adapter, 17
/// and 18 memory of the program's on a ring, 21 allocators. docs/extra-api.md says why.
const SUPPORTED: u64 = 0x3fff | 1 << 16 | 1 << 20;

pub(crate) static API: Api = Api {
    register_recv_callback,
    recvfrom_zcopy,
    free_packets,
    add_conf_rule,
    thread_offload,
    socketxtreme_poll,
    get_socket_rings_num,
    get_socket_rings_fds,
    get_socket_tx_ring_fd,
    socketxtreme_free_vma_packets,
    socketxtreme_ref_vma_buff,
    socketxtreme_free_vma_buff,
    dump_fd_stats,
    vma_add_ring_profile,
    get_socket_network_header,
    get_ring_direct_descriptors,
    register_memory_on_ring,
    deregister_memory_on_ring,
    vma_modify_ring,
    supported: SUPPORTED,
    ioctl,
};

/// As a hook, with the rest of this library behind it. Where it does not run (a process of another kind, a panic
/// before) nothing is accelerated, as EINVAL says.
fn answered(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    let settled = settle(|| {
        if !running() {
            return Err(Stop::Errno(libc::EINVAL));
        }
        match body() {
            Err(Stop::Kernel(_)) => Err(Stop::Errno(libc::EINVAL)),
            answer => answer,
        }
    });
    settled.unwrap_or(-1)
}

/// The same for what may be the first that a program asks: the socket layer is started for it.
fn first_answered(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    ensure();
    answered(body)
}

fn refused() -> c_int {
    settle(|| Err(Stop::Errno(libc::EOPNOTSUPP))).unwrap_or(-1)
}

unsafe extern "C-unwind" fn register_recv_callback(
    fd: c_int,
    callback: Option<ReceiveCallback>,
    context: *mut c_void,
) -> c_int {
    answered(|| extra::register(fd, callback, context))
}

unsafe extern "C-unwind" fn recvfrom_zcopy(
    fd: c_int,
    buffer: *mut c_void,
    size: size_t,
    flags: *mut c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: null, or the application's.
    let asked = if flags.is_null() { 0 } else { unsafe { flags.read_unaligned() } };
    let plain = asked & !(MSG_ZCOPY | MSG_ZCOPY_FORCE);
    let mut told = plain;
    let settled = settle(|| {
        if !running() {
            return Err(Stop::Kernel(sockets::Why::NotOurs));
        }
        // SAFETY: the application's arguments, as recvfrom(2) demands.
        match unsafe { extra::receive(fd, buffer, size, asked, from, from_len) }? {
            ZeroCopied::Ended => Ok(0),
            // SAFETY: as above.
            ZeroCopied::ToCopy => unsafe { calls::recvfrom(fd, buffer, size, plain, from, from_len) },
            ZeroCopied::Lent(bytes, truncated) => {
                told |= MSG_ZCOPY | if truncated { libc::MSG_TRUNC } else { 0 };
                Ok(bytes)
            }
        }
    });
    if !flags.is_null() {
        // SAFETY: as above.
        unsafe { flags.write_unaligned(told) };
    }
    match settled {
        Some(bytes) => bytes,
        None if asked & MSG_ZCOPY_FORCE != 0 => {
            settle::<ssize_t>(|| Err(Stop::Errno(libc::EIO))).unwrap_or(-1)
        }
        // SAFETY: as above.
        None => opening(|| unsafe { data::genuine::recvfrom(fd, buffer, size, plain, from, from_len) }),
    }
}

unsafe extern "C-unwind" fn free_packets(fd: c_int, packets: *const c_void, count: size_t) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::free_packets(fd, packets, count) })
}

unsafe extern "C-unwind" fn add_conf_rule(line: *const c_char) -> c_int {
    first_answered(|| {
        if line.is_null() {
            return Err(Stop::Errno(libc::EINVAL));
        }
        // SAFETY: a C string, says the header.
        let line = unsafe { CStr::from_ptr(line) }.to_str().map_err(|_| Stop::Errno(libc::EINVAL))?;
        extra::add_conf_rule(line.trim_end())
    })
}

unsafe extern "C-unwind" fn thread_offload(offload: c_int, thread: pthread_t) -> c_int {
    first_answered(|| extra::thread_offload(offload != 0, thread))
}

unsafe extern "C-unwind" fn socketxtreme_poll(
    ring: c_int,
    completions: *mut Completion,
    count: c_uint,
    _flags: c_int,
) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::poll(ring, completions, count) })
}

unsafe extern "C-unwind" fn get_socket_rings_num(fd: c_int) -> c_int {
    if running() { answered(|| extra::rings_num(fd)) } else { 0 }
}

unsafe extern "C-unwind" fn get_socket_rings_fds(fd: c_int, into: *mut c_int, count: c_int) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::rings_fds(fd, into, count) })
}

unsafe extern "C-unwind" fn get_socket_tx_ring_fd(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::tx_ring_fd(fd, to, len) })
}

unsafe extern "C-unwind" fn socketxtreme_free_vma_packets(
    packets: *const PacketDescription,
    count: c_int,
) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::free_packet_descriptions(packets, count) })
}

unsafe extern "C-unwind" fn socketxtreme_ref_vma_buff(buffer: *const Buff) -> c_int {
    answered(|| extra::ref_buff(buffer))
}

unsafe extern "C-unwind" fn socketxtreme_free_vma_buff(buffer: *const Buff) -> c_int {
    answered(|| extra::free_buff(buffer))
}

unsafe extern "C-unwind" fn dump_fd_stats(fd: c_int, level: c_int) -> c_int {
    answered(|| extra::dump_fd_stats(fd, level))
}

unsafe extern "C-unwind" fn vma_add_ring_profile(profile: *const RingType, key: *mut c_int) -> c_int {
    // SAFETY: the application's arguments.
    first_answered(|| unsafe { extra::ring_profile(profile, key) })
}

unsafe extern "C-unwind" fn get_socket_network_header(fd: c_int, into: *mut c_void, len: *mut u16) -> c_int {
    // SAFETY: the application's arguments.
    answered(|| unsafe { extra::network_header(fd, into, len) })
}

unsafe extern "C-unwind" fn get_ring_direct_descriptors(_ring: c_int, _into: *mut c_void) -> c_int {
    refused()
}

unsafe extern "C-unwind" fn register_memory_on_ring(
    _ring: c_int,
    _start: *mut c_void,
    _len: size_t,
    _key: *mut u32,
) -> c_int {
    refused()
}

unsafe extern "C-unwind" fn deregister_memory_on_ring(
    _ring: c_int,
    _start: *mut c_void,
    _len: size_t,
) -> c_int {
    refused()
}

unsafe extern "C-unwind" fn vma_modify_ring(change: *mut c_void) -> c_int {
    // SAFETY: the application's argument.
    first_answered(|| unsafe { extra::modify_ring(change.cast()) })
}

unsafe extern "C-unwind" fn ioctl(messages: *const c_void, len: size_t) -> c_int {
    // SAFETY: the application's arguments.
    first_answered(|| unsafe { extra::ioctl(messages, len) })
}
