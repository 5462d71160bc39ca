//! Answers from inside the accelerator's receive callback: the packet never reaches a read.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

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
    /// Not the one of the read loop, which is borrowed while the library runs.
    responder: Rc<RefCell<Responder>>,
    scratch: Vec<u8>,
}

/// The callbacks of one thread's sockets; they must live as long as the sockets are read.
#[derive(Default)]
pub struct Filters {
    /// Boxed, because the library holds their addresses.
    #[allow(clippy::vec_box, reason = "the addresses are registered")]
    list: Vec<Box<Filter>>,
}

impl Filters {
    /// Registers a callback on every datagram socket. `responder` answers.
    pub fn install(listeners: &[Listener], responder: Responder) -> Result<Filters> {
        let responder = Rc::new(RefCell::new(responder));
        let mut filters = Filters::default();
        for listener in listeners.iter().filter(|l| !l.endpoint.tcp) {
            let mut filter =
                Box::new(Filter { listener, responder: Rc::clone(&responder), scratch: Vec::new() });
            extra_api::register(listener.socket.fd, on_packet, (&raw mut *filter).cast())?;
            filters.list.push(filter);
        }
        Ok(filters)
    }

    /// Prints what was missing, by client.
    pub fn summary(&self) {
        if let Some(filter) = self.list.first() {
            filter.responder.borrow().summary();
        }
    }
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
    // SAFETY: the library passes valid pointers for the duration of the call.
    let (piece, source) = unsafe { (&*list, (*info).source) };
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
    // SAFETY: the context is the filter we registered; a nested call leaves before it touches `scratch`.
    let filter = unsafe { &mut *context.cast::<Filter>() };
    // Sending the answer may make the library poll, and call again: that packet waits for a read.
    let Ok(mut responder) = filter.responder.try_borrow_mut() else { return PACKET_RECV };
    filter.scratch.clear();
    filter.scratch.extend_from_slice(bytes);
    // SAFETY: the listener outlives the filters.
    responder.datagram(unsafe { &*filter.listener }, &mut filter.scratch, &from);
    PACKET_DROP
}
