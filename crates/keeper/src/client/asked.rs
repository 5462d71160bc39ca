//! A question that was sent, and its answer. What else comes by the connection is passed over; who answers in another
//! version, or not in time, is given up.

use super::{Attached, Error, LONG_PATIENCE_NS, Result};
use crate::mutation::planted;
use crate::protocol::{Kind, LEN, MORE_MAX, Packet, VERSION};
use sys::Fd;

/// A question whose answer is waited for.
pub(super) struct Asked {
    pub(super) connection: i32,
    pub(super) question: Packet,
}

impl Asked {
    /// The answer; what is behind it and beside it goes to `more` and `descriptors`, which take no memory if there is
    /// nothing.
    pub(super) fn answer(
        &self,
        patience_ns: u64,
        more: &mut Vec<u8>,
        descriptors: &mut Vec<Fd>,
    ) -> Result<Packet> {
        let Asked { connection: fd, question } = *self;
        let deadline = sys::clock::monotonic() + patience_ns;
        let mut bytes = [0; LEN + MORE_MAX];
        // Each look ends by the socket's own timeout.
        while sys::clock::monotonic() < deadline {
            if !planted!(KeepsDescriptors) {
                descriptors.clear();
            }
            let length = match sys::socket::receive_descriptors(fd, &mut bytes, descriptors, 0) {
                Ok(0) => return Err(Error::Absent),
                // A reset is said once, where the keeper left a question unread; its answers come behind.
                Err(libc::ECONNRESET | libc::EINTR | libc::EAGAIN) => continue,
                Ok(length) => length,
                Err(_) => return Err(Error::Silent),
            };
            let (packet, behind) = bytes[..length].split_at(length.min(LEN));
            let answer = Packet::read(packet).filter(|packet| packet.is_answer).ok_or(Error::Silent)?;
            if answer.version != VERSION && !planted!(AnyVersion) {
                return Err(Error::Version(answer.version));
            }
            match (answer.kind, answer.value) {
                (Kind::Hello, 0) => {}
                // Asked by people, whom the keeper need not admit.
                (Kind::Hello, _) if question.kind == Kind::Status => {}
                (Kind::Hello, libc::EACCES) => return Err(Error::Denied),
                (Kind::Hello, libc::EMFILE) => return Err(Error::Full),
                (Kind::Hello, errno) => return Err(Error::Errno(errno)),
                _ if answer.number == question.number || planted!(AnyNumber) => {
                    more.extend_from_slice(behind);
                    return Ok(answer);
                }
                // Of a question whose asker was given up.
                _ => {}
            }
        }
        Err(Error::Silent)
    }

    /// What is said to Attach: the interface, or in words why not.
    pub(super) fn hear_attached(&self) -> Result<core::result::Result<Attached, String>> {
        let (mut more, mut descriptors) = (Vec::new(), Vec::new());
        let answer = self.answer(LONG_PATIENCE_NS, &mut more, &mut descriptors)?;
        Ok(match answer {
            Packet { value: 0, detail, .. } => {
                Ok(Attached { description: more, descriptors, has_policies: detail != 0 })
            }
            _ => Err(String::from_utf8_lossy(&more).into_owned()),
        })
    }
}
