//! The lean loops: one datagram socket, or one listener and its connections, with blocking reads.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use crate::address::Address;
use crate::calls::calls;
use crate::exit::Result;
use crate::extra_api::ZeroCopy;
use crate::message::Framer;
use crate::server::responder::{Responder, Route, datagram_buffer, limit_sends};
use crate::server::{Listener, broken, many};
use crate::settings::Settings;
use crate::signals;
use crate::sockets::{self, Socket};
use crate::stream::{self, Reader};

/// How often a quiet connection makes room to look for another.
const LOOK_MS: u32 = 100;
/// How many reads of a busy connection pass between two looks.
const LOOK_READS: u32 = 1024;

/// An accepted connection.
pub struct Connection {
    /// The socket.
    pub socket: Socket,
    /// Its receiving side.
    pub reader: Reader,
    /// Its bytes on the way to messages.
    pub framer: Framer,
    /// The client.
    pub from: Address,
}

impl Connection {
    /// A connection with nothing read yet.
    pub fn new(socket: Socket, framer: Framer, from: Address) -> Connection {
        Connection { reader: Reader::new(&socket), socket, framer, from }
    }
}

/// What a read said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Something came.
    Data,
    /// Nothing yet.
    Nothing,
    /// The connection is over.
    Closed,
}

/// Serves one datagram socket.
pub fn datagrams(s: &Settings, listener: &Listener, responder: &mut Responder) -> Result<()> {
    if s.zcopy_read {
        return datagrams_zero_copy(listener, responder);
    }
    if sockets::needs_packet_info(&listener.endpoint) {
        return datagrams_with_destination(listener, responder);
    }
    let mut buffer = datagram_buffer();
    let mut from = Address::default();
    while !signals::stopped() {
        if read_datagram(listener, responder, &mut buffer, &mut from) == Read::Closed {
            return Err(broken("datagrams"));
        }
    }
    Ok(())
}

/// One read of a datagram socket, and its answers.
#[inline]
pub fn read_datagram(
    listener: &Listener,
    responder: &mut Responder,
    buffer: &mut [u8],
    from: &mut Address,
) -> Read {
    let (address, len) = from.as_out();
    // SAFETY: buffer and address are writable for the lengths given.
    let n = unsafe {
        (calls().recvfrom)(listener.socket.fd, buffer.as_mut_ptr().cast(), buffer.len(), 0, address, len)
    };
    if n < 0 {
        return after_error(&Error::last_os_error());
    }
    responder.datagram(listener, &mut buffer[..n as usize], from);
    Read::Data
}

#[cold]
fn after_error(error: &Error) -> Read {
    match error.kind() {
        // Refused: an earlier answer met no listener.
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Read::Nothing,
        _ => Read::Closed,
    }
}

fn datagrams_zero_copy(listener: &Listener, responder: &mut Responder) -> Result<()> {
    let mut zero_copy = ZeroCopy::new()?;
    let mut copy = Vec::new();
    while !signals::stopped() {
        let n = zero_copy.read(listener.socket.fd, &mut |piece, from| {
            // The answer differs from the question in one bit, and the library's buffer is not ours to change.
            copy.clear();
            copy.extend_from_slice(piece);
            responder.datagram(listener, &mut copy, from);
        });
        if n < 0 && after_error(&Error::last_os_error()) == Read::Closed {
            return Err(broken("datagrams"));
        }
    }
    Ok(())
}

/// On a host with several addresses: answers leave from the address the client wrote to.
fn datagrams_with_destination(listener: &Listener, responder: &mut Responder) -> Result<()> {
    listener.socket.set(libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32, "IP_PKTINFO")?;
    let fd = listener.socket.fd;
    let mut buffer = datagram_buffer();
    let mut from = Address::default();
    let mut control = [0u64; 16];
    while !signals::stopped() {
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let (name, len) = from.as_out();
        // SAFETY: every pointer is to a live buffer of the length given; control headers are walked by the macros.
        let (n, destination) = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_name = name.cast();
            header.msg_namelen = *len;
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control);
            let n = (calls().recvmsg)(fd, &mut header, 0);
            *len = header.msg_namelen;
            (n, if n < 0 { None } else { destination_of(&header) })
        };
        if n < 0 {
            if after_error(&Error::last_os_error()) == Read::Closed {
                return Err(broken("datagrams"));
            }
            continue;
        }
        let message = &mut buffer[..n as usize];
        match destination {
            Some(local) => responder.datagram_by(listener, message, &from, Route::From(fd, &from, local)),
            None => responder.datagram(listener, message, &from),
        }
    }
    Ok(())
}

/// # Safety
/// `header` was filled by a successful recvmsg and its buffers are alive.
unsafe fn destination_of(header: &libc::msghdr) -> Option<libc::in_addr> {
    // SAFETY: by the contract above, the macros stay within the control buffer.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = next.as_ref() {
            if control.cmsg_level == libc::IPPROTO_IP && control.cmsg_type == libc::IP_PKTINFO {
                return Some(libc::CMSG_DATA(next).cast::<libc::in_pktinfo>().read_unaligned().ipi_spec_dst);
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    None
}

/// Serves one listener: a single connection with blocking reads, several with epoll.
pub fn streams(s: &Settings, listener: &Listener, responder: &mut Responder) -> Result<()> {
    let mut zero_copy = if s.zcopy_read { Some(ZeroCopy::new()?) } else { None };
    let mut connections: Vec<Connection> = Vec::new();
    // A receive time-out costs the kernel a timer for each message; a signal from the listener costs nothing.
    let by_signal = signals::are_reliable() && announce(listener);
    while !signals::stopped() {
        if by_signal {
            // Before the look below: a connection that comes after it starts the interruptions anew.
            signals::interrupt_after(0.0);
        }
        match connections.as_mut_slice() {
            [_] if is_pending(listener) => connections.extend(accept(s, listener, responder)?),
            [] => connections.extend(accept(s, listener, responder)?),
            [only] => {
                if !by_signal {
                    only.socket.receive_timeout(LOOK_MS)?;
                }
                let mut reads = 0;
                let mut last = Read::Data;
                while last == Read::Data && reads < LOOK_READS && !signals::stopped() {
                    last = read_stream(only, responder, &mut zero_copy);
                    reads += 1;
                }
                if last == Read::Closed {
                    connections.clear();
                }
            }
            _ => connections = many::until_one_is_left(s, listener, connections, responder)?,
        }
    }
    Ok(())
}

/// Takes one connection; `None` when there is none after all.
pub fn accept(s: &Settings, listener: &Listener, responder: &Responder) -> Result<Option<Connection>> {
    let mut from = Address::default();
    let (address, len) = from.as_out();
    // SAFETY: the address pointers are into `from`.
    let fd = unsafe { (calls().accept)(listener.socket.fd, address, len) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                // Level-triggered: without a pause the loop would spin until a connection closes.
                signals::sleep(0.05);
                Ok(None)
            }
            Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP) => {
                Err(broken("connections"))
            }
            _ => Ok(None),
        };
    }
    // A client that is gone already makes the options fail; that is its loss only.
    let Ok(socket) = sockets::accepted(s, fd) else { return Ok(None) };
    limit_sends(&socket);
    Ok(Some(Connection::new(socket, responder.framer(), from)))
}

/// Lets the listener send SIGIO when a connection waits. The handler repeats it until it was taken, because one
/// signal may come just before a read blocks.
fn announce(listener: &Listener) -> bool {
    // SAFETY: no pointers.
    unsafe {
        let fd = listener.socket.fd;
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETOWN, libc::getpid()) == 0
            && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC) == 0
    }
}

fn is_pending(listener: &Listener) -> bool {
    stream::wait(listener.socket.fd, libc::POLLIN, Duration::ZERO)
}

/// One read of a connection, and its answers.
#[inline]
pub fn read_stream(
    connection: &mut Connection,
    responder: &mut Responder,
    zero_copy: &mut Option<ZeroCopy>,
) -> Read {
    let Connection { socket, reader, framer, from } = connection;
    if let Some(zero_copy) = zero_copy {
        let mut fine = true;
        let n = zero_copy.read(socket.fd, &mut |piece, _| {
            for part in piece.chunks(16 * 1024) {
                fine = fine && framer.append(part).is_ok() && responder.stream(framer, socket, from);
            }
        });
        return match n {
            0 => Read::Closed,
            n if n < 0 => after_error(&Error::last_os_error()),
            _ if fine => Read::Data,
            _ => Read::Closed,
        };
    }
    match reader.read(framer.space()) {
        Ok(0) => Read::Closed,
        Ok(n) => {
            framer.filled(n);
            if responder.stream(framer, socket, from) { Read::Data } else { Read::Closed }
        }
        Err(error) => {
            if error.kind() == ErrorKind::InvalidData {
                responder.count_malformed();
            }
            after_error(&error)
        }
    }
}
