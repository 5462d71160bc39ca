//! A socket for questions: one request, its replies, its end.

use sys::Fd;

use crate::message::{Message, NLM_F_DUMP_INTR, Request};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Larger than any one datagram of the kernel's (it fills up to 32 KiB of what the reader offers).
const BUFFER: usize = 64 << 10;
/// Tries of a dump that changes always hit.
const DUMP_TRIES: u32 = 8;

/// A socket for questions.
pub struct Netlink {
    socket: Fd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the network namespace of this thread.
    pub fn open() -> Result<Netlink, i32> {
        Self::open_for(libc::NETLINK_ROUTE)
    }

    pub(crate) fn open_for(protocol: i32) -> Result<Netlink, i32> {
        let socket = sys::socket::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        Ok(Netlink { socket, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// The socket's number.
    pub fn descriptor(&self) -> i32 {
        self.socket.raw()
    }

    /// Asks until a dump came whole, collecting with `each`.
    pub(crate) fn dump<T>(
        &mut self,
        mut request: Request,
        each: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, i32> {
        let mut all = Vec::new();
        for _ in 0..DUMP_TRIES {
            all.clear();
            let whole = self.ask(&mut request, |message| all.extend(each(message)))?;
            if whole {
                break;
            }
        }
        Ok(all)
    }

    /// Sends a request (a dump, or one that asks for an acknowledgment) and hands every reply to `each`. True: the
    /// table did not change meanwhile.
    pub(crate) fn ask(
        &mut self,
        request: &mut Request,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<bool, i32> {
        self.sequence = self.sequence.wrapping_add(1);
        let dump = request.is_dump();
        sys::socket::send(self.socket.raw(), request.finish(self.sequence), 0)?;
        let mut whole = true;
        loop {
            let got = match sys::socket::receive(self.socket.raw(), &mut self.buffer, 0) {
                Err(libc::EINTR) => continue,
                got => got?,
            };
            let mut rest = &self.buffer[..got];
            while let Some((message, after)) = Message::first(rest) {
                rest = after;
                if message.sequence != self.sequence {
                    // The end of an earlier request that failed half way.
                    continue;
                }
                whole &= message.flags & NLM_F_DUMP_INTR == 0;
                match message.kind {
                    // Both begin with an error code: 0, or minus errno.
                    NLMSG_ERROR | NLMSG_DONE => {
                        let code = crate::message::u32_at(message.body, 0).unwrap_or(0) as i32;
                        return if code < 0 { Err(-code) } else { Ok(whole) };
                    }
                    _ => each(&message),
                }
            }
            if got == 0 {
                return Err(if dump { libc::EIO } else { libc::EPROTO });
            }
        }
    }
}
