//! The wire format: a 14-byte big-endian header, then payload.
//!
//! ```text
//!  0               8       10           14
//!  | sequence u64  | flags | length u32 | payload ...
//! ```
//! `length` counts the header. Everything here comes from a peer and is checked before use: a datagram or a
//! stream that lies about its length is told apart, never waited for.

/// Bytes of the header, and the smallest message.
pub const HEADER: usize = 14;
/// Largest UDP message.
pub const MAX_DATAGRAM: usize = 65_507;
/// Largest TCP message (2^20 - 1).
pub const MAX_STREAM: usize = 1_048_575;

/// The message comes from a client.
pub const FROM_CLIENT: u16 = 1;
/// The client asks for an answer.
pub const WANTS_REPLY: u16 = 2;
/// Sent before the test; not counted.
pub const WARM_UP: u16 = 4;

/// The header in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// First data message is 1; warm-up is 0.
    pub seq: u64,
    /// [`FROM_CLIENT`], [`WANTS_REPLY`], [`WARM_UP`].
    pub flags: u16,
    /// Whole message, header included.
    pub length: u32,
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Fewer bytes than a header.
    Short,
    /// `length` is below the header's own size.
    LengthBelowHeader,
    /// `length` says more than the datagram holds.
    Truncated,
    /// `length` is above what this side accepts.
    TooLong,
}

impl Header {
    /// Reads the header of `bytes`; `None` when there are fewer than 14.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let head: &[u8; HEADER] = bytes.first_chunk()?;
        Some(Header {
            seq: u64::from_be_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]),
            flags: u16::from_be_bytes([head[8], head[9]]),
            length: u32::from_be_bytes([head[10], head[11], head[12], head[13]]),
        })
    }

    /// Writes the header at the front of `bytes`, which must hold 14.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) {
        // One check of the bounds for all of them.
        let head = &mut bytes[..HEADER];
        head[..8].copy_from_slice(&self.seq.to_be_bytes());
        head[8..10].copy_from_slice(&self.flags.to_be_bytes());
        head[10..].copy_from_slice(&self.length.to_be_bytes());
    }
}

/// The first message of `datagram`: its header, or why it is refused. `limit` is the longest accepted.
#[inline]
pub fn in_datagram(datagram: &[u8], limit: usize) -> Result<Header, Bad> {
    let header = Header::read(datagram).ok_or(Bad::Short)?;
    let length = header.length as usize;
    if length < HEADER {
        return Err(Bad::LengthBelowHeader);
    }
    if length > datagram.len() {
        return Err(if length > limit { Bad::TooLong } else { Bad::Truncated });
    }
    if length > limit { Err(Bad::TooLong) } else { Ok(header) }
}

/// True for the host-byte-order frames which the original's dummy-send lets out on a plain kernel.
pub fn is_byte_swapped_dummy(datagram: &[u8]) -> bool {
    let Some(head) = datagram.first_chunk::<HEADER>() else { return false };
    let flags = u16::from_le_bytes([head[8], head[9]]);
    let length = u32::from_le_bytes([head[10], head[11], head[12], head[13]]);
    flags & FROM_CLIENT != 0 && flags <= 7 && length as usize == datagram.len()
}

/// Clears the client bit in place: the only change between a request and its reply.
#[inline]
pub fn turn_into_reply(message: &mut [u8]) {
    message[9] &= !(FROM_CLIENT as u8);
}

/// Fills `payload` from a small generator; `seed` 0 and 1 give the same, fixed bytes on every run.
pub fn fill_payload(payload: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    for byte in payload {
        *byte = random.next() as u8;
    }
}

/// xorshift64*: sizes and payload need spread, not secrecy.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds give equal streams.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }
}

/// Bytes of a TCP connection on their way to messages.
pub struct Framer {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    limit: usize,
}

/// Room for several reads beside the longest message, so that small messages are parsed in batches.
const FRAMER_SPARE: usize = 64 * 1024;

impl Framer {
    /// A framer that accepts messages up to `limit` bytes.
    pub fn new(limit: usize) -> Framer {
        Framer { buffer: vec![0; limit + FRAMER_SPARE], begin: 0, end: 0, limit }
    }

    /// Where the next read goes; never empty.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < FRAMER_SPARE / 2 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        &mut self.buffer[self.end..]
    }

    /// `n` bytes were read into [`space`](Self::space).
    #[inline]
    pub fn filled(&mut self, n: usize) {
        self.end = (self.end + n).min(self.buffer.len());
    }

    /// Appends `bytes` as if they had been read; what does not fit is refused as too long.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let space = self.space();
        let Some(room) = space.get_mut(..bytes.len()) else { return Err(Bad::TooLong) };
        room.copy_from_slice(bytes);
        self.filled(bytes.len());
        Ok(())
    }

    /// The next whole message, `None` when more bytes are needed, or why the stream is broken for good.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(Header, &mut [u8])>, Bad> {
        let pending = &self.buffer[self.begin..self.end];
        let Some(header) = Header::read(pending) else { return Ok(None) };
        let length = header.length as usize;
        if length < HEADER {
            return Err(Bad::LengthBelowHeader);
        }
        if length > self.limit {
            return Err(Bad::TooLong);
        }
        if length > pending.len() {
            return Ok(None);
        }
        let at = self.begin;
        self.begin += length;
        Ok(Some((header, &mut self.buffer[at..at + length])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64, flags: u16, length: u32, size: usize) -> Vec<u8> {
        let mut bytes = vec![0xaa; size];
        Header { seq, flags, length }.write(&mut bytes);
        bytes
    }

    #[test]
    fn header_is_written_as_the_original_puts_it_on_the_wire() {
        let bytes = message(4, FROM_CLIENT | WANTS_REPLY, 20, 20);
        assert_eq!(bytes[..14], [0, 0, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0, 20]);
    }

    #[test]
    fn reply_differs_from_request_in_one_bit() {
        let request = message(7, 3, 20, 20);
        let mut reply = request.clone();
        turn_into_reply(&mut reply);
        let differing: u32 = request.iter().zip(&reply).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((differing, Header::read(&reply).unwrap().flags), (1, WANTS_REPLY));
    }

    #[test]
    fn datagrams_that_lie_about_their_length_are_refused() {
        assert_eq!(in_datagram(&[0; 5], 100), Err(Bad::Short));
        assert_eq!(in_datagram(&message(1, 1, 0, 14), 100), Err(Bad::LengthBelowHeader));
        assert_eq!(in_datagram(&message(1, 1, 1, 14), 100), Err(Bad::LengthBelowHeader));
        assert_eq!(in_datagram(&message(1, 1, 60, 14), 100), Err(Bad::Truncated));
        assert_eq!(in_datagram(&message(1, 1, 60_000, 14), 100), Err(Bad::TooLong));
        assert_eq!(in_datagram(&message(1, 1, 120, 120), 100), Err(Bad::TooLong));
    }

    #[test]
    fn host_order_frames_of_dummy_send_are_recognised() {
        let mut swapped = vec![0u8; 14];
        swapped[0] = 1;
        swapped[8] = 1;
        swapped[10] = 14;
        assert!(is_byte_swapped_dummy(&swapped));
        assert!(!is_byte_swapped_dummy(&message(1, 1, 14, 14)));
    }

    #[test]
    fn framer_gives_the_same_messages_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for seq in 1..=50u64 {
            let size = 14 + (seq as usize * 37) % 300;
            stream.extend(message(seq, 3, size as u32, size));
        }
        for cut in [1, 3, 13, 14, 15, 100, stream.len()] {
            let mut framer = Framer::new(400);
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                framer.append(piece).unwrap();
                while let Some((header, _)) = framer.next().unwrap() {
                    seen.push(header.seq);
                }
            }
            assert_eq!(seen, (1..=50).collect::<Vec<_>>(), "cut at {cut}");
        }
    }

    #[test]
    fn framer_refuses_a_length_it_cannot_hold() {
        for length in [0, 13, 401, u32::MAX] {
            let mut framer = Framer::new(400);
            framer.append(&message(1, 1, length, 14)).unwrap();
            assert!(framer.next().is_err(), "length {length}");
        }
    }
}
