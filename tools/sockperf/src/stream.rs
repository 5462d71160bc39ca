//! A connection's bytes: as they are, or inside a TLS session. [`Reader`] hides which for what is received, and
//! [`wire`] for what is sent.

use std::ffi::c_int;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::calls::calls;
use crate::exit::{Code, Failure};
use crate::signals;
use crate::sockets::Socket;
use crate::tls::{Outgoing, RECORDS, Session, Tls};

/// Room that every read of a TLS session must offer, because one read empties the session: what lies decrypted in
/// there would not make the descriptor readable.
pub const SPACE: usize = RECORDS;
/// A peer that does not read for so long loses its connection, so that others are served.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// The receiving side of a connection.
pub struct Reader {
    fd: c_int,
    /// The session and what is read before it is decrypted: outside of the session, which stays free meanwhile.
    tls: Option<(Arc<Session>, Box<[u8]>)>,
}

impl Reader {
    /// A reader of `socket`.
    pub fn new(socket: &Socket) -> Reader {
        let tls = socket.session.as_ref();
        Reader { fd: socket.fd, tls: tls.map(|session| (Arc::clone(session), vec![0; RECORDS].into())) }
    }

    /// One read: the number of bytes that came into `space`, 0 at the end. [`ErrorKind::WouldBlock`] also says that
    /// what came is not all of a TLS record; what is no TLS at all is [`ErrorKind::InvalidData`].
    #[inline]
    pub fn read(&mut self, space: &mut [u8]) -> Result<usize> {
        match &mut self.tls {
            None => receive(self.fd, space),
            Some((session, records)) => open(self.fd, session, records, space),
        }
    }
}

#[inline]
fn receive(fd: c_int, space: &mut [u8]) -> Result<usize> {
    let null = std::ptr::null_mut();
    // SAFETY: `space` is writable for its length.
    let n = unsafe {
        (calls().recvfrom)(fd, space.as_mut_ptr().cast(), space.len(), 0, null, std::ptr::null_mut())
    };
    if n < 0 { Err(Error::last_os_error()) } else { Ok(n as usize) }
}

fn open(fd: c_int, session: &Session, records: &mut [u8], space: &mut [u8]) -> Result<usize> {
    let room = session.room().min(records.len());
    let came = receive(fd, &mut records[..room])?;
    if came == 0 {
        return Ok(0);
    }
    let got = session.open(&records[..came], space, &mut |answer| {
        send_all(fd, answer, PATIENCE);
    })?;
    if session.is_finished() {
        // The session's end becomes the stream's, which multiplexers see.
        // SAFETY: no pointers.
        unsafe { (calls().shutdown)(fd, libc::SHUT_RD) };
    }
    if got == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(got) }
}

/// What carries `message` on its connection: itself, or its TLS records, which are made in `room`. `None` when the
/// session is broken.
#[inline]
pub fn wire<'a>(session: Option<&Session>, message: &'a [u8], room: &'a mut Outgoing) -> Option<&'a [u8]> {
    match session {
        None => Some(message),
        Some(session) => session.seal(message, room),
    }
}

/// Sends all of `bytes`, as far as the peer takes them within `patience` of its last sign of reading.
#[inline]
pub fn send_all(fd: c_int, bytes: &[u8], patience: Duration) -> bool {
    let n = put(fd, bytes, 0);
    n as usize == bytes.len() || finish(fd, bytes, n, patience)
}

#[inline]
fn put(fd: c_int, bytes: &[u8], flags: c_int) -> isize {
    let flags = flags | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` outlive the call.
    unsafe { (calls().sendto)(fd, bytes.as_ptr().cast(), bytes.len(), flags, std::ptr::null(), 0) }
}

#[cold]
fn finish(fd: c_int, bytes: &[u8], first: isize, patience: Duration) -> bool {
    let (mut rest, mut n) = (bytes, first);
    let mut last_progress = Instant::now();
    loop {
        if n > 0 {
            rest = &rest[n as usize..];
            last_progress = Instant::now();
            if rest.is_empty() {
                return true;
            }
        } else {
            let kind = Error::last_os_error().kind();
            let left = patience.saturating_sub(last_progress.elapsed());
            if !matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
                || left.is_zero()
                || signals::stopped()
            {
                return false;
            }
            wait(fd, libc::POLLOUT, left);
        }
        n = put(fd, rest, libc::MSG_DONTWAIT);
    }
}

/// Waits until `fd` is ready for `events`, at most so long; false when it is not.
pub fn wait(fd: c_int, events: i16, patience: Duration) -> bool {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let ms = i32::try_from(patience.as_millis()).map_or(i32::MAX, |ms| ms.saturating_add(1));
    // SAFETY: one entry, which outlives the call.
    unsafe { (calls().poll)(&mut entry, 1, if patience.is_zero() { 0 } else { ms }) > 0 }
}

/// The client's handshake over `socket`, which is connected and blocking.
pub fn handshake(socket: &mut Socket, tls: &Tls, peer: &Address, timeout_ms: u32) -> crate::exit::Result<()> {
    let failed = |why: &dyn std::fmt::Display| {
        let hint = "the server needs --tls with a cipher that fits";
        Failure::new(Code::Socket, format!("no TLS with {peer}: {why} ({hint})"))
    };
    let session = Arc::new(tls.session().map_err(|e| failed(&e))?);
    socket.session = Some(Arc::clone(&session));
    let mut reader = Reader::new(socket);
    let mut space = vec![0; SPACE];
    let patience = Duration::from_millis(timeout_ms.into());
    let begin = Instant::now();
    let hello = session.open(&[], &mut [], &mut |hello| {
        send_all(socket.fd, hello, patience);
    });
    hello.map_err(|e| failed(&e))?;
    while !session.is_established() {
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() || signals::stopped() {
            let text = format!("no TLS with {peer}: no answer within {timeout_ms} msec");
            return Err(Failure::new(Code::Timeout, text));
        }
        if !wait(socket.fd, libc::POLLIN, left) {
            continue;
        }
        match reader.read(&mut space) {
            Ok(0) => return Err(failed(&"the connection was closed")),
            // It would be lost: nobody asked yet.
            Ok(_) => return Err(failed(&"the server speaks before it is asked")),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}

/// The session's last word, if the peer takes it at once.
pub fn goodbye(fd: c_int, session: &Session) {
    let mut room = Outgoing::default();
    let last = session.goodbye(&mut room);
    if !last.is_empty() {
        put(fd, last, libc::MSG_DONTWAIT);
    }
}
