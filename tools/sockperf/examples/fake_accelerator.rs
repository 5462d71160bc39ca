//! A stand-in for an accelerator, for tests: kernel sockets behind the extra API's table.
//!
//! Zero-copy reads are ordinary reads into a buffer of its own; a registered callback sees each datagram before the
//! reader does; a socket is its own ring; dummy sends are swallowed. Each path says once on standard error that it
//! was used, which is what the tests look for.

#![allow(unreachable_pub, missing_docs)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::{iovec, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t};

type Callback = extern "C" fn(c_int, size_t, *mut iovec, *mut Info, *mut c_void) -> c_int;

#[repr(C, packed)]
pub struct Info {
    size: size_t,
    id: *mut c_void,
    source: *const sockaddr_in,
    rest: [u8; 56],
}

#[repr(C)]
pub struct Buffer {
    next: *mut Buffer,
    payload: *mut u8,
    len: u16,
}

#[repr(C)]
pub struct Packet {
    buffers: size_t,
    total_len: u16,
    list: *mut Buffer,
    time: libc::timespec,
}

#[repr(C)]
pub struct Completion {
    packet: Packet,
    events: u64,
    user_data: u64,
    source: sockaddr_in,
    listen_fd: c_int,
}

#[repr(C, packed)]
struct Table {
    register: extern "C" fn(c_int, Option<Callback>, *mut c_void) -> c_int,
    zcopy: unsafe extern "C" fn(
        c_int,
        *mut c_void,
        size_t,
        *mut c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    free: extern "C" fn(c_int, *mut c_void, size_t) -> c_int,
    unused1: [usize; 2],
    poll: unsafe extern "C" fn(c_int, *mut Completion, u32, c_int) -> c_int,
    rings_num: extern "C" fn(c_int) -> c_int,
    rings: unsafe extern "C" fn(c_int, *mut c_int, c_int) -> c_int,
    unused2: usize,
    free_completions: extern "C" fn(*mut Packet, c_int) -> c_int,
    unused3: [usize; 9],
    mask: u64,
    unused4: usize,
}

const _: () = assert!(size_of::<Table>() == 168 && size_of::<Info>() == 80 && size_of::<Completion>() == 80);

static TABLE: Table = Table {
    register,
    zcopy,
    free,
    unused1: [0; 2],
    poll,
    rings_num,
    rings,
    unused2: 0,
    free_completions,
    unused3: [0; 9],
    mask: 0x377fff,
    unused4: 0,
};

static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static CONTEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static SAID: AtomicU32 = AtomicU32::new(0);
static mut PLACE: [u8; 70_000] = [0; 70_000];

fn once(bit: u32, what: &str) {
    if SAID.fetch_or(1 << bit, Ordering::Relaxed) & (1 << bit) == 0 {
        eprintln!("fake accelerator: {what}");
    }
}

/// The kernel's recvfrom, without going through the hook below.
unsafe fn kernel_recv(
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    flags: c_int,
    a: *mut sockaddr,
    l: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's pointers are recvfrom's.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, n, flags, a, l) as ssize_t }
}

/// # Safety
/// As getsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's pointers are getsockopt's.
    unsafe {
        if fd == -1 && level == libc::SOL_SOCKET && name == 2800 {
            value.cast::<*const Table>().write_unaligned(&raw const TABLE);
            return 0;
        }
        libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int
    }
}

/// # Safety
/// As sendto(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    m: *const c_void,
    n: size_t,
    flags: c_int,
    a: *const sockaddr,
    l: socklen_t,
) -> ssize_t {
    if flags & 0x400 != 0 {
        once(0, "dummy send");
        return n as ssize_t;
    }
    once(1, "sendto");
    // SAFETY: the caller's pointers are sendto's.
    unsafe { libc::syscall(libc::SYS_sendto, fd, m, n, flags, a, l) as ssize_t }
}

/// # Safety
/// As recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    flags: c_int,
    a: *mut sockaddr,
    l: *mut socklen_t,
) -> ssize_t {
    loop {
        // SAFETY: the caller's pointers are recvfrom's; the callback was registered for this layout.
        unsafe {
            let got = kernel_recv(fd, to, n, flags, a, l);
            let callback = CALLBACK.load(Ordering::Relaxed);
            if got <= 0 || callback.is_null() || a.is_null() {
                return got;
            }
            let callback = std::mem::transmute::<*mut c_void, Callback>(callback);
            let mut piece = iovec { iov_base: to, iov_len: got as usize };
            let mut info = Info { size: 80, id: std::ptr::null_mut(), source: a.cast(), rest: [0; 56] };
            if callback(fd, 1, &mut piece, &mut info, CONTEXT.load(Ordering::Relaxed)) != 0 {
                return got;
            }
            once(2, "packet dropped by the callback");
        }
    }
}

extern "C" fn register(_fd: c_int, callback: Option<Callback>, context: *mut c_void) -> c_int {
    CONTEXT.store(context, Ordering::Relaxed);
    CALLBACK.store(callback.map_or(std::ptr::null_mut(), |c| c as *mut c_void), Ordering::Relaxed);
    0
}

unsafe extern "C" fn zcopy(
    fd: c_int,
    to: *mut c_void,
    _n: size_t,
    flags: *mut c_int,
    a: *mut sockaddr,
    l: *mut socklen_t,
) -> ssize_t {
    // SAFETY: tests read with one thread; `to` has room for one packet with two pieces.
    unsafe {
        let place = (&raw mut PLACE).cast::<c_void>();
        let got = kernel_recv(fd, place, 70_000, 0, a, l);
        if got <= 0 {
            return got;
        }
        once(3, "zero-copy read");
        *flags |= 0x40000;
        let words = [1, place as usize, 1, place as usize, got as usize];
        std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), to.cast::<u8>(), 40);
        got
    }
}

extern "C" fn free(_fd: c_int, _packets: *mut c_void, count: size_t) -> c_int {
    if count == 1 { 0 } else { -1 }
}

extern "C" fn rings_num(_fd: c_int) -> c_int {
    1
}

unsafe extern "C" fn rings(fd: c_int, fds: *mut c_int, _n: c_int) -> c_int {
    // SAFETY: the caller gives room for at least one.
    unsafe { fds.write(fd) };
    1
}

unsafe extern "C" fn poll(fd: c_int, to: *mut Completion, _n: u32, _flags: c_int) -> c_int {
    static BUFFERS: AtomicPtr<Buffer> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: tests poll with one thread and free each completion before the next poll.
    unsafe {
        let place = (&raw mut PLACE).cast::<u8>();
        let mut source: sockaddr_in = std::mem::zeroed();
        let mut len = size_of::<sockaddr_in>() as socklen_t;
        let got =
            kernel_recv(fd, place.cast(), 65_000, libc::MSG_DONTWAIT, (&raw mut source).cast(), &mut len);
        if got <= 0 {
            return 0;
        }
        once(4, "completion");
        // Two buffers, so that the reader must gather.
        let half = got as u16 / 2;
        let second = Box::into_raw(Box::new(Buffer {
            next: std::ptr::null_mut(),
            payload: place.add(half.into()),
            len: got as u16 - half,
        }));
        let first = Box::into_raw(Box::new(Buffer { next: second, payload: place, len: half }));
        BUFFERS.store(first, Ordering::Relaxed);
        let packet = Packet { buffers: 2, total_len: got as u16, list: first, time: std::mem::zeroed() };
        to.write(Completion { packet, events: 1 << 32 | 1, user_data: fd as u64, source, listen_fd: 0 });
        1
    }
}

extern "C" fn free_completions(packet: *mut Packet, _n: c_int) -> c_int {
    // SAFETY: the packet's two buffers were boxed by `poll`.
    unsafe {
        let first = Box::from_raw((*packet).list);
        drop(Box::from_raw(first.next));
    }
    0
}
