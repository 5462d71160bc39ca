//! Sends that stop before the device: dummy sends, which leave the caches warm, and the headers that the next packet
//! would have.

use crate::answer::{Answer, Stop};
use crate::errno::fail;
use crate::lane::Inner;
use crate::lookup::ours;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use libc::{c_int, c_void, ssize_t};
use stack::{Endpoint, Instant, Outlet, SendError, SocketId, Source};
use std::net::SocketAddrV4;

/// The transmit side of a device, but for the last step: what is written there is written over by the next frame.
struct Dry<'a>(&'a mut xdp::Device);

impl Outlet for Dry<'_> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.reserve(len)
    }

    fn commit(&mut self, _: usize) {}
}

/// A send with VMA_SND_FLAGS_DUMMY. EAGAIN: a real one would not go at once and in one packet.
#[cold]
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    to: Option<SocketAddrV4>,
    data: &mut impl Source,
) -> Answer<ssize_t> {
    super::demand(runtime, object, fd);
    let now = sys::clock::now();
    let result = match object.kind() {
        Kind::Stream => {
            let Some((lane, id)) = object.leg() else { return fail(libc::EINVAL) };
            let mut guard = lane.lock();
            let inner = &mut *guard;
            inner.take_in(now);
            inner.stack.tcp_rehearse(Instant(now), id, data, &mut Dry(&mut inner.device))
        }
        Kind::Udp => {
            let Some((lane, id)) = way(runtime, object, to) else { return fail(libc::EINVAL) };
            let mut guard = lane.lock();
            let inner = &mut *guard;
            let to = to.or_else(|| inner.stack.remote(id));
            let Some(to) = to else { return fail(libc::EDESTADDRREQ) };
            datagram(inner, id, to, data, now)
        }
        _ => return fail(libc::EINVAL),
    };
    match result {
        Ok(sent) => {
            object.counts().tx_dummy.one();
            Ok(sent as ssize_t)
        }
        Err(error) => fail(error.errno()),
    }
}

/// By which lane a datagram leaves, and the socket's leg there.
pub(super) fn way(
    runtime: &'static Runtime,
    object: &'static Object,
    to: Option<SocketAddrV4>,
) -> Option<(&'static crate::lane::Lane, SocketId)> {
    let Some(to) = to else { return object.leg() };
    let lane = crate::udp_legs::lane_of(runtime, object, *to.ip())?;
    Some((lane, object.leg_on(lane)?))
}

fn datagram(
    inner: &mut Inner,
    id: SocketId,
    to: Endpoint,
    data: &mut impl Source,
    now: u64,
) -> Result<usize, SendError> {
    inner.stack.udp_rehearse(Instant(now), id, None, to, data, &mut Dry(&mut inner.device))
}

/// Keeps what a frame begins with.
struct Copy {
    bytes: [u8; FRAME],
    len: usize,
}

const FRAME: usize = 2048;
/// Ethernet and the least IPv4 header.
const LINK: usize = 14;
const IP: usize = 20;

impl Outlet for Copy {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(..len)
    }

    fn commit(&mut self, len: usize) {
        self.len = len;
    }
}

/// get_socket_network_header: Ethernet, IP and transport headers of the next packet, without options of TCP. With
/// `into` null the length alone.
///
/// # Safety
/// `into` is null or has `*len` bytes; `len` is valid.
pub unsafe fn network_header(fd: c_int, into: *mut c_void, len: *mut u16) -> Answer<c_int> {
    let (runtime, object) = ours(fd).or_else(|_: Stop| fail(libc::EINVAL))?;
    if len.is_null() {
        return fail(libc::EINVAL);
    }
    super::demand(runtime, object, fd);
    let Some((lane, id)) = object.leg() else { return fail(libc::ENOTCONN) };
    let now = sys::clock::now();
    let mut copy = Copy { bytes: [0; FRAME], len: 0 };
    let mut nothing: &[u8] = &[];
    let (result, transport) = {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        match (object.kind(), inner.stack.remote(id)) {
            (Kind::Stream, Some(_)) => {
                (inner.stack.tcp_rehearse(Instant(now), id, &mut nothing, &mut copy), wire::tcp::HEADER_LEN)
            }
            (Kind::Udp, Some(peer)) => (
                inner.stack.udp_rehearse(Instant(now), id, None, peer, &mut nothing, &mut copy),
                wire::udp::HEADER_LEN,
            ),
            _ => return fail(libc::ENOTCONN),
        }
    };
    let headers = LINK + IP + transport;
    if result.is_err() || copy.len < headers {
        return fail(libc::ENOTCONN);
    }
    // SAFETY: the caller's promise.
    let room = usize::from(unsafe { len.read_unaligned() });
    if !into.is_null() {
        if room < headers {
            return fail(libc::ENOBUFS);
        }
        // SAFETY: as above; just checked.
        unsafe { core::ptr::copy_nonoverlapping(copy.bytes.as_ptr(), into.cast::<u8>(), headers) };
    }
    // SAFETY: as above.
    unsafe { len.write_unaligned(headers as u16) };
    Ok(0)
}
