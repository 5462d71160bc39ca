//! What the side that goes back to the socket has not read. Its peer sends that again by the socket, but may end before
//! it has, or have ended already; the kernel would have had it.
//!
//! So a copy stays in memory that children of a fork share: where the socket's stream ends, the bytes that it has given
//! since are counted, and what is missing is taken from here, by whichever process asks first.

use crate::tcp;
use core::sync::atomic::{AtomicU64, Ordering};
use sys::memory::Mapping;

/// In front of the bytes: how many of them were taken, by whatever process.
const HEAD: usize = size_of::<AtomicU64>();

/// Bytes of the segment that were unread when this side left it.
#[derive(Debug)]
pub struct Kept {
    /// Written once, but for the first word, before any other process has it.
    shared: Mapping,
    length: usize,
    /// How many bytes the socket has ever given when the first of these comes by it.
    before: u64,
}

impl Kept {
    /// `before`: bytes that the socket has ever given when the first of these comes by it. `fill` copies them, and says
    /// how many that were. `None`: no memory.
    pub(crate) fn new(length: usize, before: u64, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<Kept> {
        let shared = Mapping::shared_with_children(HEAD + length).ok()?;
        // SAFETY: behind the first word lie so many bytes, of which nobody else knows yet.
        let bytes = unsafe { core::slice::from_raw_parts_mut(shared.start().as_ptr().add(HEAD), length) };
        let length = fill(bytes);
        Some(Kept { shared, length, before })
    }

    fn taken(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins with it, on a page's boundary, and is only ever looked at as an atomic.
        unsafe { self.shared.start().cast().as_ref() }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes lie behind the first word, and nobody writes them any more.
        unsafe { core::slice::from_raw_parts(self.shared.start().as_ptr().add(HEAD), self.length) }
    }

    /// Whether the socket has given all of them.
    pub fn has_come(&self, tcp: i32) -> bool {
        tcp::read(tcp).is_ok_and(|read| read >= self.before + self.length as u64)
    }

    /// At the end of the socket's stream, which is read: what did not come by it, and was not taken yet. `by_reset`:
    /// that end was no FIN.
    pub fn missing(&self, tcp: i32, by_reset: bool) -> Missing<'_> {
        let taken = self.taken().load(Ordering::Acquire);
        let came = tcp::given(tcp, by_reset).and_then(|given| given.checked_sub(self.before));
        // Without what stood before them they are not what comes next.
        let from = came.map_or(self.length as u64, |came| came.max(taken).min(self.length as u64));
        Missing { kept: self, taken, from: from as usize }
    }
}

/// See [`Kept::missing`].
pub struct Missing<'a> {
    kept: &'a Kept,
    taken: u64,
    from: usize,
}

impl<'a> Missing<'a> {
    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        &self.kept.bytes()[self.from..]
    }

    /// Takes the first of them. False: another thread or process has taken some meanwhile.
    pub fn take(&self, count: usize) -> bool {
        let next = (self.from + count) as u64;
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.kept.taken().compare_exchange(self.taken, next, success, failure).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// What is kept, and a socket that its peer has sent `sent` by, and closed: 6 bytes come before what is kept.
    fn ended(sent: &[u8]) -> (Kept, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut own, _) = listener.accept().unwrap();
        peer.write_all(sent).unwrap();
        drop(peer);
        let kept = Kept::new(5, 6, |into| {
            into.copy_from_slice(b"bytes");
            into.len()
        });
        assert_eq!(own.read_to_end(&mut Vec::new()).unwrap(), sent.len());
        (kept.unwrap(), own)
    }

    #[test]
    fn what_the_socket_did_not_bring_is_given_once() {
        let (kept, own) = ended(b"beforeby");
        let late = kept.missing(own.as_raw_fd(), false);
        let first = kept.missing(own.as_raw_fd(), false);
        assert_eq!(first.bytes(), b"tes");
        assert!(first.take(2) && !late.take(1), "somebody else has taken some meanwhile");
        assert_eq!(kept.missing(own.as_raw_fd(), false).bytes(), b"s");
        assert!(!kept.has_come(own.as_raw_fd()));
    }

    #[test]
    fn what_the_socket_brought_is_not_given_again() {
        let (kept, own) = ended(b"beforebytes, and more");
        assert_eq!(kept.missing(own.as_raw_fd(), false).bytes(), b"");
        assert!(kept.has_come(own.as_raw_fd()));
    }

    #[test]
    fn nothing_is_given_behind_a_gap() {
        let (kept, own) = ended(b"befo");
        assert_eq!(kept.missing(own.as_raw_fd(), false).bytes(), b"");
    }
}
