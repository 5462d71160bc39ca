//! Answers from inside the accelerator's receive callback: the packet never reaches a read.

use std::ffi::{c_int, c_void};

use libc::{iovec, size_t};

use crate::address::Address;
use crate::exit::Result;
use crate::extra_api::{self, PACKET_DROP, PACKET_RECV, PacketInfo};
use crate::message::{FROM_CLIENT, Header, WARM_UP};
use crate::server::Listener;
use crate::server::responder::Responder;

/// What the callback of one socket needs. The library calls it in the thread that polls, which is ours.
pub struct Filter {
    listener: *const Listener,
    responder: *mut Responder,
    scratch: Vec<u8>,
}

/// Registers the callback on every datagram socket. The filters must live as long as the sockets are read.
pub fn install(listeners: &[Listener], responder: &mut Responder) -> Result<Vec<Box<Filter>>> {
    let mut filters = Vec::new();
    for listener in listeners.iter().filter(|l| !l.endpoint.tcp) {
        let mut filter = Box::new(Filter { listener, responder, scratch: Vec::new() });
        extra_api::register(listener.socket.fd, on_packet, (&raw mut *filter).cast())?;
        filters.push(filter);
    }
    Ok(filters)
}

extern "C" fn on_packet(
    _fd: c_int,
    pieces: size_t,
    list: *mut iovec,
    info: *mut PacketInfo,
    context: *mut c_void,
) -> c_int {
    if pieces != 1 || list.is_null() || info.is_null() || context.is_null() {
        return PACKET_RECV;
    }
    // SAFETY: the library passes valid pointers for the duration of the call, and the context we registered.
    let (filter, piece, source) = unsafe { (&mut *context.cast::<Filter>(), &*list, (*info).source) };
    if source.is_null() {
        return PACKET_RECV;
    }
    // SAFETY: the library's address and piece are valid during the call.
    let (source, bytes) = unsafe {
        (source.read_unaligned(), std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len))
    };
    // Only plain messages are answered here; the rest takes the ordinary way.
    let plain = Header::read(bytes).is_some_and(|h| h.flags & (FROM_CLIENT | WARM_UP) == FROM_CLIENT);
    if !plain {
        return PACKET_RECV;
    }
    let ip = std::net::Ipv4Addr::from(source.sin_addr.s_addr.to_ne_bytes());
    let from = Address::from_ip((ip, u16::from_be(source.sin_port)).into());
    filter.scratch.clear();
    filter.scratch.extend_from_slice(bytes);
    // SAFETY: the callback runs inside this thread's own read call, during which nobody else uses the responder;
    // listener and responder outlive the filters.
    unsafe { (*filter.responder).datagram(&*filter.listener, &mut filter.scratch, &from) };
    PACKET_DROP
}
