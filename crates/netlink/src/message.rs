//! The netlink format: messages of a header, a family header and attributes. What the kernel sends is still checked:
//! a message that ends early is ignored as a whole.

use core::net::Ipv4Addr;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// The bits of an attribute's type that are its type.
const KIND: u16 = 0x3fff;

pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_ACK: u16 = 4;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
/// In a reply: the table changed while it was dumped.
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;

/// A message being written.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(kind: u16, flags: u16, family_header: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(family_header);
        Request { bytes }
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        self.bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn is_dump(&self) -> bool {
        u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) & NLM_F_DUMP == NLM_F_DUMP
    }

    /// The bytes to send, under a sequence number.
    pub(crate) fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }
}

/// A message as received.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// Family header and attributes.
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The first message of `bytes`, and the bytes after it.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<(Message<'a>, &'a [u8])> {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let (kind, flags, sequence) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?, u32_at(bytes, 8)?);
        let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Message { kind, flags, sequence, body }, rest))
    }

    /// The attributes behind a family header of so many bytes.
    pub(crate) fn attributes(&self, family_header: usize) -> Attributes<'a> {
        Attributes(self.body.get(family_header..).unwrap_or_default())
    }
}

/// Attributes, in order: type and value.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The first of a type.
    pub(crate) fn find(self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self;
        all.find_map(|(found, value)| (found == kind).then_some(value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = u16_at(self.0, 0)? as usize;
        let kind = u16_at(self.0, 2)? & KIND;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

pub(crate) fn ipv4(value: &[u8]) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?))
}

pub(crate) fn mac(value: &[u8]) -> Option<[u8; 6]> {
    value.try_into().ok()
}
