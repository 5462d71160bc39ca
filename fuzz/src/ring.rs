//! One side of a connection in shared memory, whose peer is a program of the input: it keeps to the rules, forges
//! messages, and writes anywhere. What comes from an honest peer must be what was sent.

use crate::input::Input;
use memory::{Broken, Connection, PAYLOAD_MAX, Ring, SLOTS, Segment, Side, Wants};

struct World {
    ours: Connection,
    /// Keeps to the rules, as far as its memory is not overwritten.
    theirs: Connection,
    /// Bytes that the peer sent by the rules, and that we read.
    sent: u64,
    read: u64,
    /// The peer wrote something against the rules.
    is_hostile: bool,
}

/// The byte of the stream at a place.
fn byte(at: u64) -> u8 {
    (at ^ at >> 7) as u8
}

pub(crate) fn run(bytes: &[u8]) {
    let Ok((made, file)) = Segment::make() else { return };
    let Ok(joined) = Segment::join(&file) else { return };
    let mut world = World {
        ours: Connection::new(made, Side::Maker),
        theirs: Connection::new(joined, Side::Guest),
        sent: 0,
        read: 0,
        is_hostile: false,
    };
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        world.step(&mut input);
        world.check();
    }
    world.end();
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..=2 => self.they_send(usize::from(input.u16())),
            3 => _ = self.ours.send(&vec![7; usize::from(input.u16())]),
            4 | 5 => self.read(usize::from(input.u16())),
            6 => {
                let mut buffer = vec![0; usize::from(input.u8()) * 64];
                let skip = usize::from(input.u16());
                let got = self.ours.peek(skip, &mut buffer);
                assert!(got <= self.ours.unread().saturating_sub(skip));
            }
            7 => {
                let _ = self.theirs.take_in();
                let mut buffer = vec![0; usize::from(input.u16())];
                let _ = self.theirs.receive(&mut buffer);
            }
            8 => _ = self.ours.is_writable(),
            9 => {
                self.ours.want(Wants::BOTH);
                let _ = self.ours.take_in();
                self.ours.want_no_more(Wants::BOTH);
            }
            10 => {
                let _: Ring = match input.u8() % 8 {
                    0 => self.ours.shut(),
                    1 => self.theirs.shut(),
                    2 => self.ours.leave(),
                    3 => self.theirs.leave(),
                    4 => self.theirs.abort(),
                    5 => self.ours.abort(),
                    6 if input.u8() & 1 == 0 => self.ours.part(),
                    6 => self.theirs.part(),
                    _ => self.ours.discard(0).1,
                };
            }
            11 => {
                let number = u64::from(input.u16());
                let at = self.ours.segment().slot_at(Side::Guest, number) + usize::from(input.u8() % 32);
                self.scribble(at, input.bytes(8));
            }
            12 => {
                let at = self.ours.segment().credit_at(Side::Guest);
                self.scribble(at, input.bytes(8));
            }
            13 => self.forge(input),
            14 if input.u8() & 1 == 0 => {
                let number = self.ours.arrived() + u64::from(input.u8() & 1);
                let at = self.ours.segment().extent_at(Side::Guest, number);
                self.scribble(at, input.bytes(4));
            }
            14 => {
                let at = input.u32() as usize;
                self.scribble(at, input.bytes(16));
            }
            _ => _ = self.ours.take_in(),
        }
    }

    fn they_send(&mut self, count: usize) {
        let stream: Vec<u8> = (self.sent..self.sent + count as u64).map(byte).collect();
        self.sent += self.theirs.send(&stream).0 as u64;
    }

    fn read(&mut self, count: usize) {
        let _ = self.ours.take_in();
        let mut buffer = vec![0; count];
        let (got, _) = self.ours.receive(&mut buffer);
        if !self.is_hostile {
            assert!(buffer[..got].iter().zip(self.read..).all(|(got, at)| *got == byte(at)), "other bytes");
        }
        self.read += got as u64;
    }

    fn scribble(&mut self, at: usize, bytes: &[u8]) {
        self.is_hostile |= !bytes.is_empty();
        self.ours.segment().scribble(at, bytes);
    }

    /// A message whose parts are mostly possible, in the slot that is looked at next or near it.
    fn forge(&mut self, input: &mut Input<'_>) {
        let number = self.ours.arrived() + 1 + u64::from(input.u8() & 3);
        let at = self.ours.segment().slot_at(Side::Guest, number);
        let mut header = [0; 24];
        header[0] = input.one_of(&[0xff, 0xff, 0x02, 0x03, 0x0d, 0x0e, 0x7f, 0xfe]);
        header[1] = input.one_of(&[0, 0, 0, 0x80, 0x80, 1]);
        header[2..4].copy_from_slice(&input.u16().to_be_bytes());
        let payload = match input.u8() % 4 {
            0 => u32::from(input.u8()),
            1 => PAYLOAD_MAX as u32,
            2 => 8,
            _ => input.u32(),
        };
        header[4..8].copy_from_slice(&payload.wrapping_add(16).to_be_bytes());
        header[8..12].copy_from_slice(&(number as u32).to_be_bytes());
        header[12..16].copy_from_slice(&input.u32().to_be_bytes());
        header[16..20].copy_from_slice(&u32::from(input.u8()).to_be_bytes());
        self.scribble(at, &header);
        let payload = input.bytes(8);
        self.scribble(at + 24, payload);
    }

    fn check(&self) {
        assert!(self.ours.unread() <= SLOTS as usize * PAYLOAD_MAX);
        if !self.is_hostile {
            let contradicts = |broken| matches!(broken, Some(Broken::Peer(_)));
            assert!(
                !contradicts(self.ours.broken()) && !contradicts(self.theirs.broken()),
                "rules kept, and refused"
            );
            assert!(self.read + self.ours.unread() as u64 <= self.sent);
        }
    }

    /// Everything that is left can be read, and what is owed copied.
    fn end(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..=SLOTS {
            self.read(1 << 16);
        }
        let mut paid = 0;
        loop {
            match self.ours.owed(paid, &mut buffer) {
                0 => break,
                count => paid += count as u64,
            }
            assert!(paid <= u64::from(SLOTS) * PAYLOAD_MAX as u64, "owes more than was on the way");
        }
    }
}
