//! Blocks of pcapng (draft-ietf-opsawg-pcapng), as far as captures need them. In this machine's byte order, as the
//! format allows.

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;
const LINKTYPE_ETHERNET: u16 = 1;

/// Options, by the block that they are in.
const END: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const INTERFACE_FILTER: u16 = 11;
const PACKET_FLAGS: u16 = 2;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// A packet and what is known of it.
pub(super) struct Packet<'a> {
    /// The interface's number, in the order in which they were told.
    pub(super) interface: u32,
    pub(super) time_ns: u64,
    pub(super) is_inbound: bool,
    pub(super) original: u32,
    pub(super) bytes: &'a [u8],
    pub(super) comment: &'a str,
}

/// Writes blocks.
pub(super) struct Writer<W> {
    to: W,
    interfaces: u32,
    /// Reused between blocks.
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section.
    pub(super) fn new(to: W) -> io::Result<Writer<W>> {
        let mut writer = Writer { to, interfaces: 0, body: Vec::new() };
        writer.body.extend(0x1a2b_3c4d_u32.to_ne_bytes());
        writer.body.extend(1u16.to_ne_bytes());
        writer.body.extend(0u16.to_ne_bytes());
        // The section's length is not known.
        writer.body.extend(u64::MAX.to_ne_bytes());
        let application = concat!("sidestep capture ", env!("CARGO_PKG_VERSION"));
        writer.option(SECTION_APPLICATION, application.as_bytes());
        writer.option(END, b"");
        writer.block(SECTION)?;
        Ok(writer)
    }

    /// Tells of an interface; the answer is its number.
    pub(super) fn interface(&mut self, name: &str, snap: u32, filter: &str) -> io::Result<u32> {
        self.body.extend(LINKTYPE_ETHERNET.to_ne_bytes());
        self.body.extend(0u16.to_ne_bytes());
        self.body.extend(snap.to_ne_bytes());
        self.option(INTERFACE_NAME, name.as_bytes());
        // Nanoseconds.
        self.option(INTERFACE_RESOLUTION, &[9]);
        if !filter.is_empty() {
            // Its first byte: a text for libpcap.
            self.option(INTERFACE_FILTER, &[b"\0", filter.as_bytes()].concat());
        }
        self.option(END, b"");
        self.block(INTERFACE)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    pub(super) fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.body.extend(packet.interface.to_ne_bytes());
        self.time(packet.time_ns);
        self.body.extend((packet.bytes.len() as u32).to_ne_bytes());
        self.body.extend(packet.original.to_ne_bytes());
        self.body.extend(packet.bytes);
        self.fill();
        if !packet.comment.is_empty() {
            self.option(COMMENT, packet.comment.as_bytes());
        }
        let direction: u32 = if packet.is_inbound { 1 } else { 2 };
        self.option(PACKET_FLAGS, &direction.to_ne_bytes());
        self.option(END, b"");
        self.block(PACKET)
    }

    /// What became of an interface's packets, at the end.
    pub(super) fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        seen: u64,
        dropped: u64,
    ) -> io::Result<()> {
        self.body.extend(interface.to_ne_bytes());
        self.time(time_ns);
        self.option(STATISTICS_RECEIVED, &seen.to_ne_bytes());
        self.option(STATISTICS_DROPPED, &dropped.to_ne_bytes());
        self.option(END, b"");
        self.block(STATISTICS)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn time(&mut self, time_ns: u64) {
        self.body.extend(((time_ns >> 32) as u32).to_ne_bytes());
        self.body.extend((time_ns as u32).to_ne_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.body.extend(code.to_ne_bytes());
        self.body.extend((value.len() as u16).to_ne_bytes());
        self.body.extend(value);
        self.fill();
    }

    /// Everything begins at a whole word of four bytes.
    fn fill(&mut self) {
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn block(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.body.len() as u32 + 12).to_ne_bytes();
        self.to.write_all(&kind.to_ne_bytes())?;
        self.to.write_all(&length)?;
        self.to.write_all(&self.body)?;
        self.to.write_all(&length)?;
        self.body.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a file: their kind and body.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: &[u8]| u32::from_ne_bytes(at[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let length = word(&file[4..]) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(&file[length - 4..]) as usize, length, "the length stands at both ends");
            found.push((word(file), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        found
    }

    #[test]
    fn blocks_are_whole_words_between_equal_lengths() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        assert_eq!(writer.interface("eth0", 262_144, "udp port 53").unwrap(), 0);
        let packet = Packet {
            interface: 0,
            time_ns: 0x0001_0002_0003_0004,
            is_inbound: true,
            original: 99,
            bytes: b"seven b",
            comment: "prog[7] fd 3",
        };
        writer.packet(&packet).unwrap();
        writer.statistics(0, 1, 2, 3).unwrap();
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, STATISTICS]);
        let body = &blocks[2].1;
        assert_eq!(body[4..12], [2, 0, 1, 0, 4, 0, 3, 0], "the high half of the time first");
        assert_eq!((body[12], body[16], &body[20..28]), (7, 99, b"seven b\0".as_slice()));
        assert_eq!(body[28..32], [1, 0, 12, 0], "the comment and its length");
    }
}
