//! The base header of the Sockets Direct Protocol (BSDH), which stands in front of every message. Big-endian.
//!
//! ```text
//!   0  MID    1  flags    2  bufs (16)    4  len (32)    8  mseq (32)    12  mseq_ack (32)
//! ```

/// Bytes of the header; `len` counts them.
pub(crate) const LEN: usize = 16;
/// A flag that SDP does not have.
const GROWS: u8 = 0x80;

/// What a message is (MID). Others end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The sender sends no more, as a FIN says.
    DisConn,
    /// As a RST.
    AbortConn,
    /// The sender takes its end back to the socket; the payload says how many bytes it has read.
    SuspComm,
    /// The answer: what comes behind it comes by the socket.
    SuspCommAck,
    /// The rest of the sender's stream comes by the socket: its direction parts. SDP has no such message.
    Parts,
    /// Bytes of the stream.
    Data,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::DisConn, Kind::AbortConn, Kind::SuspComm, Kind::SuspCommAck, Kind::Parts, Kind::Data];

    fn mid(self) -> u8 {
        match self {
            Kind::DisConn => 0x02,
            Kind::AbortConn => 0x03,
            Kind::SuspComm => 0x0d,
            Kind::SuspCommAck => 0x0e,
            Kind::Parts => 0x7f,
            Kind::Data => 0xff,
        }
    }

    fn of(mid: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.mid() == mid)
    }
}

/// One header, without `mseq`: that is written last, and says that the message is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    /// Payload may be added to it as long as it is not read to its end ([`crate::connection`]).
    pub grows: bool,
    /// Bytes behind the header.
    pub payload: u32,
    pub credit: Credit,
}

/// What one side grants the other: the number of the last message seen, and how many more it has buffers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    pub acknowledged: u32,
    pub buffers: u16,
}

impl Credit {
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.acknowledged) << 16 | u64::from(self.buffers)
    }

    pub(crate) fn of_word(word: u64) -> Credit {
        Credit { acknowledged: (word >> 16) as u32, buffers: word as u16 }
    }
}

impl Header {
    /// The bytes in front of `mseq`, and those behind.
    pub(crate) fn to_bytes(self) -> ([u8; 8], [u8; 4]) {
        let mut front = [0; 8];
        front[0] = self.kind.mid();
        front[1] = if self.grows { GROWS } else { 0 };
        front[2..4].copy_from_slice(&self.credit.buffers.to_be_bytes());
        front[4..8].copy_from_slice(&(self.payload + LEN as u32).to_be_bytes());
        (front, self.credit.acknowledged.to_be_bytes())
    }

    /// `None`: a kind or a flag that nobody agreed on, or a length below the header's. Of SDP's flags none is in use:
    /// urgent data goes by the socket, and nothing is pipelined.
    pub(crate) fn parse(front: [u8; 8], behind: [u8; 4]) -> Option<Header> {
        let len = u32::from_be_bytes([front[4], front[5], front[6], front[7]]);
        let kind = Kind::of(front[0])?;
        let grows = front[1] == GROWS && kind == Kind::Data;
        if front[1] != 0 && !grows {
            return None;
        }
        Some(Header {
            kind,
            grows,
            payload: len.checked_sub(LEN as u32)?,
            credit: Credit {
                acknowledged: u32::from_be_bytes(behind),
                buffers: u16::from_be_bytes([front[2], front[3]]),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_laid_out_as_the_protocol_says() {
        let credit = Credit { acknowledged: 0x0102_0304, buffers: 0x0506 };
        let (front, behind) = Header { kind: Kind::Data, grows: false, payload: 0x70, credit }.to_bytes();
        assert_eq!(front, [0xff, 0, 5, 6, 0, 0, 0, 0x80]);
        assert_eq!(behind, [1, 2, 3, 4]);
        for kind in Kind::ALL {
            let header = Header { kind, grows: kind == Kind::Data, payload: 9, credit };
            let (front, behind) = header.to_bytes();
            assert_eq!(Header::parse(front, behind), Some(header));
        }
    }

    #[test]
    fn what_nobody_agreed_on_is_refused() {
        assert_eq!(Header::parse([0xfe, 0, 0, 0, 0, 0, 0, 16], [0; 4]), None, "an unknown kind");
        assert_eq!(Header::parse([0xff, 1, 0, 0, 0, 0, 0, 16], [0; 4]), None, "a flag");
        assert_eq!(Header::parse([0x02, 0x80, 0, 0, 0, 0, 0, 16], [0; 4]), None, "an end that grows");
        assert_eq!(Header::parse([0xff, 0, 0, 0, 0, 0, 0, 15], [0; 4]), None, "shorter than itself");
        assert!(
            Header::parse([0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0; 4]).is_some(),
            "too long for here only"
        );
    }

    #[test]
    fn a_credit_survives_its_word() {
        for credit in [
            Credit { acknowledged: 0, buffers: 0 },
            Credit { acknowledged: u32::MAX, buffers: u16::MAX },
            Credit { acknowledged: 77, buffers: 256 },
        ] {
            assert_eq!(Credit::of_word(credit.to_word()), credit);
        }
    }
}
