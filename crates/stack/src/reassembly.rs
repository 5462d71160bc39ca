//! Datagrams that came in fragments (RFC 791, 3.2; RFC 815).
//!
//! Bounded in every direction: datagrams, fragments of each, and time. Fragments wait in ordinary memory, so that
//! gaps which are never filled do not pin the device's frames. Overlaps are refused with their whole datagram
//! (RFC 5722, which Linux applies to IPv4 too): they are made by attackers only.

use crate::ingress::{Drop, IpMeta};
use crate::mutation::planted;
use crate::{Duration, Frame, Instant, Outlet, Stack};
use core::net::Ipv4Addr;
use core::ops::Range;
use wire::ipv4;

/// Fragments that wait for the rest of their datagrams, oldest datagram first.
pub(crate) struct Reassembly<F: Frame> {
    partial: Vec<Partial<F>>,
}

struct Partial<F: Frame> {
    key: Key,
    deadline: Instant,
    /// From the fragment at offset 0, once it came.
    meta: Option<IpMeta>,
    /// Where the datagram ends, once its last fragment came.
    end: Option<usize>,
    /// In order of offset, disjoint.
    pieces: Vec<Piece<F>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    protocol: u8,
    ident: u16,
}

struct Piece<F> {
    offset: usize,
    frame: F,
}

/// Where a fragment belongs, from its IP header.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) ident: u16,
    pub(crate) offset: usize,
    pub(crate) more: bool,
}

impl Place {
    pub(crate) fn of(header: &ipv4::Header) -> Place {
        Place { ident: header.ident(), offset: header.fragment_offset(), more: header.more_fragments() }
    }
}

impl<F: Frame> Stack<F> {
    /// One fragment, whose payload is `range` of its only frame.
    #[cold]
    pub(crate) fn take_fragment(
        &mut self,
        now: Instant,
        meta: IpMeta,
        place: Place,
        mut frame: F,
        range: Range<usize>,
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        frame.narrow(range);
        frame.detach();
        let Some((meta, pieces)) = self.reassembly.take(now, meta, place, frame)? else { return Ok(()) };
        let mut frames = pieces.into_iter().map(|piece| piece.frame);
        let head = frames.next().ok_or(Drop::Fragments)?;
        let range = 0..head.bytes().len();
        self.deliver(now, &meta, head, range, &mut frames.collect(), out)
    }
}

impl<F: Frame> Reassembly<F> {
    /// Datagrams that wait for fragments.
    pub(crate) fn len(&self) -> usize {
        self.partial.len()
    }

    pub(crate) fn new() -> Self {
        Reassembly { partial: Vec::new() }
    }

    /// When `expire` must be called next.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.partial.first().filter(|_| !planted!(NoReassemblyTimer)).map(|partial| partial.deadline)
    }

    /// Forgets datagrams that took too long; tells how many.
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        let late = self.partial.iter().take_while(|partial| partial.deadline <= now).count();
        self.partial.drain(..late).count()
    }

    /// Takes a fragment in; `Some`: its datagram is complete, and these are its pieces in order.
    #[allow(clippy::type_complexity)]
    fn take(
        &mut self,
        now: Instant,
        meta: IpMeta,
        place: Place,
        frame: F,
    ) -> Result<Option<(IpMeta, Vec<Piece<F>>)>, Drop> {
        let key = Key { src: meta.src, dst: meta.dst, protocol: meta.protocol, ident: place.ident };
        let len = frame.bytes().len();
        if len == 0
            || place.more && !len.is_multiple_of(8)
            || place.offset + len > ipv4::LEN_MAX - ipv4::HEADER_LEN
        {
            return Err(Drop::Fragments);
        }
        let at = match self.partial.iter().position(|partial| partial.key == key) {
            Some(at) => at,
            None => {
                if self.partial.len() >= DATAGRAMS_MAX {
                    self.partial.remove(0);
                }
                let deadline = now + LIFETIME;
                self.partial.push(Partial { key, deadline, meta: None, end: None, pieces: Vec::new() });
                self.partial.len() - 1
            }
        };
        let partial = &mut self.partial[at];
        if partial.insert(meta, place, frame).is_err() {
            self.partial.remove(at);
            return Err(Drop::Fragments);
        }
        let have: usize = partial.pieces.iter().map(|piece| piece.frame.bytes().len()).sum();
        if partial.end != Some(have) {
            return Ok(None);
        }
        let partial = self.partial.remove(at);
        // Complete and disjoint: the piece at offset 0 is there, and with it `meta`.
        Ok(partial.meta.map(|meta| (IpMeta { len: have, ..meta }, partial.pieces)))
    }
}

/// The whole datagram is to be refused.
struct Refused;

impl<F: Frame> Partial<F> {
    fn insert(&mut self, meta: IpMeta, place: Place, frame: F) -> Result<(), Refused> {
        let (start, end) = (place.offset, place.offset + frame.bytes().len());
        let index = self.pieces.partition_point(|piece| piece.offset < start);
        let before = index.checked_sub(1).map(|index| &self.pieces[index]);
        let after = self.pieces.get(index);
        // A repetition is the network's doing, not an attack: the first one counts.
        let repeats = |piece: &Piece<F>| piece.offset <= start && end <= piece.end();
        if before.is_some_and(repeats) || after.is_some_and(repeats) {
            return Ok(());
        }
        let overlaps =
            before.is_some_and(|piece| piece.end() > start) || after.is_some_and(|piece| piece.offset < end);
        let last = self.pieces.last().map_or(0, Piece::end);
        let contradicts = match (place.more, self.end) {
            (false, Some(known)) => known != end,
            (false, None) => last > end,
            (true, Some(known)) => end >= known,
            (true, None) => false,
        };
        if overlaps || contradicts || self.pieces.len() >= PIECES_MAX {
            return Err(Refused);
        }
        if !place.more {
            self.end = Some(end);
        }
        if start == 0 {
            self.meta = Some(meta);
        }
        self.pieces.insert(index, Piece { offset: start, frame });
        Ok(())
    }
}

impl<F: Frame> Piece<F> {
    fn end(&self) -> usize {
        self.offset + self.frame.bytes().len()
    }
}

/// Datagrams in the making: with the next limit and their largest size, about Linux's ipfrag_high_thresh (4 MiB).
const DATAGRAMS_MAX: usize = 64;
/// Fragments of one datagram: 64 KiB over the smallest path MTU that we believe (552 bytes).
const PIECES_MAX: usize = 128;
/// Linux's ipfrag_time.
const LIFETIME: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
