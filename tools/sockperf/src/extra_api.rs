//! The accelerator's extra API, found through `getsockopt(-1, SOL_SOCKET, 2800)` and absent on a plain kernel.
//!
//! The layout is that of `vma_extra.h` (9.3 and later): packed, 21 slots of eight bytes. Its structures come from a
//! library in our own process, so they are trusted for addresses, but counts are bounded by what we gave.

use std::ffi::{c_int, c_void};

use libc::{iovec, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t};

use crate::address::Address;
use crate::calls::calls;
use crate::client::no_extra_api;
use crate::exit::Result;
use crate::iomux::Kind;
use crate::settings::Settings;
use crate::sockets::Socket;

const SO_GET_API: c_int = 2800;
const MSG_ZCOPY: c_int = 0x0004_0000;
const EVENT_PACKET: u64 = 1 << 32;
const EVENT_ACCEPTED: u64 = 1 << 33;
const EVENT_GONE: u64 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u64;
/// Callback's verdict: the library frees the packet.
pub const PACKET_DROP: c_int = 0;
/// Callback's verdict: the library queues the packet for a read.
pub const PACKET_RECV: c_int = 1;

/// Called by the library for every packet of a socket.
pub type ReceiveCallback = extern "C" fn(c_int, size_t, *mut iovec, *mut PacketInfo, *mut c_void) -> c_int;

/// `vma_info_t`, as far as it is used.
#[repr(C, packed)]
pub struct PacketInfo {
    struct_size: size_t,
    packet_id: *mut c_void,
    /// Sender.
    pub source: *const sockaddr_in,
}

#[repr(C)]
struct Buffer {
    next: *mut Buffer,
    payload: *mut u8,
    len: u16,
}

#[repr(C)]
struct PacketDescriptor {
    buffers: size_t,
    total_len: u16,
    list: *mut Buffer,
    timestamp: libc::timespec,
}

#[repr(C)]
struct Completion {
    packet: PacketDescriptor,
    events: u64,
    user_data: u64,
    source: sockaddr_in,
    listen_fd: c_int,
}

/// A slot that is not called.
type Unused = usize;

#[repr(C, packed)]
struct Table {
    register_recv_callback: extern "C" fn(c_int, Option<ReceiveCallback>, *mut c_void) -> c_int,
    recvfrom_zcopy:
        extern "C" fn(c_int, *mut c_void, size_t, *mut c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    free_packets: extern "C" fn(c_int, *mut c_void, size_t) -> c_int,
    add_conf_rule: Unused,
    thread_offload: Unused,
    socketxtreme_poll: extern "C" fn(c_int, *mut Completion, u32, c_int) -> c_int,
    get_socket_rings_num: extern "C" fn(c_int) -> c_int,
    get_socket_rings_fds: extern "C" fn(c_int, *mut c_int, c_int) -> c_int,
    get_socket_tx_ring_fd: Unused,
    socketxtreme_free_packets: extern "C" fn(*mut PacketDescriptor, c_int) -> c_int,
}

const _: () = assert!(size_of::<Completion>() == 80 && size_of::<PacketDescriptor>() == 40);

/// The library's table, `None` without one.
fn table() -> Option<&'static Table> {
    let mut pointer: *const Table = std::ptr::null();
    let mut len = size_of::<*const Table>() as socklen_t;
    // SAFETY: pointer and length are those of `pointer`; descriptor -1 makes a plain kernel answer EBADF.
    let rc = unsafe {
        (calls().getsockopt)(-1, libc::SOL_SOCKET, SO_GET_API, (&raw mut pointer).cast(), &mut len)
    };
    if rc != 0 || pointer.is_null() {
        return None;
    }
    // SAFETY: the library's table is static and has at least the slots named here.
    Some(unsafe { &*pointer })
}

/// True when an accelerator with the extra API is there.
pub fn is_present() -> bool {
    table().is_some()
}

/// Refuses options that need the API when it is absent.
pub fn check(s: &Settings) -> Result<()> {
    let wanted = [
        (s.zcopy_read, "--zcopyread"),
        (s.rx_filter, "--rxfiltercb"),
        (s.mux == Kind::Socketxtreme, "-F socketxtreme"),
    ];
    match wanted.iter().find(|(wanted, _)| *wanted) {
        Some((_, option)) if !is_present() => Err(no_extra_api(option)),
        _ => Ok(()),
    }
}

/// Registers `callback` with `context` for every packet of `fd`.
pub fn register(fd: c_int, callback: ReceiveCallback, context: *mut c_void) -> Result<()> {
    let table = table().ok_or_else(|| no_extra_api("--rxfiltercb"))?;
    let register = table.register_recv_callback;
    if register(fd, Some(callback), context) != 0 {
        return Err(crate::exit::Failure::socket(
            "cannot register the receive callback (is the socket offloaded?)",
        ));
    }
    Ok(())
}

/// Reads without a copy; falls back to a copy where the library does.
pub struct ZeroCopy {
    table: &'static Table,
    buffer: Vec<u8>,
}

impl ZeroCopy {
    /// A reader, if the library is there.
    pub fn new() -> Result<ZeroCopy> {
        let table = table().ok_or_else(|| no_extra_api("--zcopyread"))?;
        Ok(ZeroCopy { table, buffer: vec![0; 128 * 1024] })
    }

    /// One read: every piece goes to `handle`; returns what the call returned.
    pub fn read(&mut self, fd: c_int, handle: &mut impl FnMut(&[u8], &Address)) -> isize {
        let mut flags = 0;
        let mut from = Address::default();
        let (address, len) = from.as_out();
        let (read, free) = (self.table.recvfrom_zcopy, self.table.free_packets);
        let n = read(fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), &mut flags, address, len);
        if n <= 0 {
            return n;
        }
        if flags & MSG_ZCOPY == 0 {
            handle(&self.buffer[..(n as usize).min(self.buffer.len())], &from);
            return n;
        }
        // The buffer now holds: packet count, then for each packet its id, its piece count and its iovecs.
        let word = |at: usize| {
            self.buffer.get(at..at + 8).map_or(0, |b| usize::from_ne_bytes(b.try_into().unwrap_or_default()))
        };
        let packets = word(0);
        let mut at = 8;
        for _ in 0..packets {
            let pieces = word(at + 8);
            at += 16;
            for _ in 0..pieces {
                let (base, len) = (word(at), word(at + 8));
                at += 16;
                if base != 0 && at <= self.buffer.len() {
                    // SAFETY: the library keeps the piece alive until free_packets below.
                    handle(unsafe { std::slice::from_raw_parts(base as *const u8, len) }, &from);
                }
            }
        }
        free(fd, self.buffer[8..].as_mut_ptr().cast(), packets);
        n
    }
}

/// One thing that happened on a socket.
pub struct Event<'a> {
    /// The socket.
    pub fd: c_int,
    /// What came, possibly nothing.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: Address,
    /// The peer is gone.
    pub closed: bool,
    /// The socket was just accepted by this listener.
    pub accepted_by: Option<c_int>,
}

/// Completions of all rings of a set of sockets (socketxtreme).
pub struct Completions {
    table: &'static Table,
    rings: Vec<c_int>,
    batch: Vec<Completion>,
    scratch: Vec<u8>,
}

// SAFETY: pointers in `batch` are set and used within one `poll`, on one thread.
unsafe impl Send for Completions {}

const BATCH: usize = 32;

impl Completions {
    /// Finds the rings of `sockets`.
    pub fn of(sockets: &[Socket]) -> Result<Completions> {
        let table = table().ok_or_else(|| no_extra_api("-F socketxtreme"))?;
        let (count, fds) = (table.get_socket_rings_num, table.get_socket_rings_fds);
        let mut rings = Vec::new();
        for socket in sockets {
            let n = count(socket.fd).clamp(0, 64);
            let mut of_socket = vec![-1; n as usize];
            if n > 0 {
                let got = fds(socket.fd, of_socket.as_mut_ptr(), n).clamp(0, n);
                rings.extend(of_socket.iter().take(got as usize).filter(|fd| **fd >= 0));
            }
        }
        rings.sort_unstable();
        rings.dedup();
        if rings.is_empty() {
            let hint = "bind to an accelerated address (--client_ip) and set VMA_SOCKETXTREME=1";
            return Err(crate::exit::Failure::new(
                crate::exit::Code::Fatal,
                format!("socketxtreme found no ring for these sockets: {hint}"),
            ));
        }
        // SAFETY: all-zero is a valid completion.
        let batch = (0..BATCH).map(|_| unsafe { std::mem::zeroed() }).collect();
        Ok(Completions { table, rings, batch, scratch: Vec::new() })
    }

    /// Takes what is there, without waiting.
    pub fn poll(&mut self, handle: &mut impl FnMut(&Event)) {
        let (poll, free) = (self.table.socketxtreme_poll, self.table.socketxtreme_free_packets);
        for ring in &self.rings {
            let n = poll(*ring, self.batch.as_mut_ptr(), BATCH as u32, 0);
            for completion in self.batch.iter_mut().take(n.max(0) as usize) {
                let has_packet = completion.events & EVENT_PACKET != 0;
                let bytes = if has_packet { gather(&completion.packet, &mut self.scratch) } else { &[] };
                let accepted = completion.events & EVENT_ACCEPTED != 0;
                let ip = std::net::Ipv4Addr::from(completion.source.sin_addr.s_addr.to_ne_bytes());
                let from = Address::from_ip((ip, u16::from_be(completion.source.sin_port)).into());
                handle(&Event {
                    fd: completion.user_data as c_int,
                    bytes,
                    from,
                    closed: completion.events & EVENT_GONE != 0,
                    accepted_by: accepted.then_some(completion.listen_fd),
                });
                if has_packet {
                    free(&mut completion.packet, 1);
                }
            }
        }
    }
}

/// The packet's bytes: in place when it has one buffer, copied together otherwise.
fn gather<'a>(packet: &'a PacketDescriptor, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if packet.list.is_null() {
        return &[];
    }
    // SAFETY: the library's buffer list is valid until the packet is freed.
    let piece = |buffer: *mut Buffer| unsafe {
        let buffer = &*buffer;
        (std::slice::from_raw_parts(buffer.payload, usize::from(buffer.len)), buffer.next)
    };
    if packet.buffers <= 1 {
        return piece(packet.list).0;
    }
    scratch.clear();
    let mut next = packet.list;
    for _ in 0..packet.buffers {
        if next.is_null() {
            break;
        }
        let (bytes, after) = piece(next);
        scratch.extend_from_slice(bytes);
        next = after;
    }
    scratch
}
