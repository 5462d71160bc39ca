//! Packets whose sender must be reachable the right way before they are heard: first segments, since the answer may
//! have to leave by another interface, where the kernel makes the connection; and datagrams, where the interface takes
//! only what answers could go back to (net.ipv4.conf.*.rp_filter). While routing is asked they wait here.

use crate::ingress::{Drop, IpMeta};
use crate::net::Back;
use crate::{Frame, Instant, Outlet, Query, Stack};
use core::ops::Range;
use std::collections::VecDeque;
use wire::checksum::Sum;
use wire::ipv4;

/// What is asked of the senders of packets (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// Nothing.
    #[default]
    Off,
    /// That answers would go back by the interface that the packet came by.
    Strict,
    /// That answers would go back by some interface.
    Loose,
}

/// What waits, oldest first, and what it is measured by.
pub(crate) struct Unrouted<F> {
    waiting: VecDeque<Waiting<F>>,
    pub(crate) rule: ReversePath,
}

impl<F> Default for Unrouted<F> {
    fn default() -> Self {
        Unrouted { waiting: VecDeque::new(), rule: ReversePath::Off }
    }
}

struct Waiting<F> {
    query: Query,
    meta: IpMeta,
    head: F,
    range: Range<usize>,
    tail: Vec<F>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is heard.
    Heard,
    /// It waits until routing has answered.
    Waits,
    /// It is the kernel's: answers leave by another interface.
    Kernels,
    /// Nobody may come from there.
    Martian,
}

impl ReversePath {
    /// The rule for a packet that begins something to which answers go back so.
    pub(crate) fn verdict(self, back: Back) -> Verdict {
        match (back, self) {
            (Back::Unknown, _) => Verdict::Waits,
            (Back::Elsewhere, ReversePath::Strict) => Verdict::Martian,
            (Back::Nowhere, ReversePath::Strict | ReversePath::Loose) => Verdict::Martian,
            (Back::Elsewhere, _) => Verdict::Kernels,
            (Back::Here | Back::Nowhere, _) => Verdict::Heard,
        }
    }
}

impl<F: Frame> Stack<F> {
    /// What is asked of the senders of packets from now on.
    pub fn set_reverse_path(&mut self, rule: ReversePath) {
        self.unrouted.rule = rule;
    }

    /// An IP packet that the kernel is to have: its way is another interface's, or it came for a connection that was
    /// handed over.
    pub fn take_for_kernel(&mut self) -> Option<Vec<u8>> {
        self.net.take_for_kernel()
    }

    /// Keeps a packet until routing has answered; its IP payload begins at `range` of `head` and goes on in `tail`.
    #[cold]
    pub(crate) fn hold_unrouted(
        &mut self,
        query: Query,
        meta: &IpMeta,
        mut head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
    ) {
        if self.unrouted.waiting.len() >= WAITING_MAX {
            self.unrouted.waiting.pop_front();
        }
        // Gaps in the owner's attention do not pin the device's frames.
        head.detach();
        let mut tail = core::mem::take(tail);
        tail.iter_mut().for_each(Frame::detach);
        self.unrouted.waiting.push_back(Waiting { query, meta: *meta, head, range, tail });
    }

    /// Routing has answered: what waited for it goes on.
    pub(crate) fn take_in_held(&mut self, now: Instant, query: Query, out: &mut impl Outlet) {
        let mut rest = self.unrouted.waiting.len();
        while rest > 0 && !self.unrouted.waiting.is_empty() {
            rest -= 1;
            let Some(held) = self.unrouted.waiting.pop_front() else { return };
            if held.query != query {
                self.unrouted.waiting.push_back(held);
                continue;
            }
            let Waiting { meta, head, range, mut tail, .. } = held;
            if let Err(why) = self.deliver(now, &meta, head, range, &mut tail, out) {
                self.dropped.count(why);
            }
        }
    }

    /// A segment for an address of this host goes to the kernel, as it came but for the link's header and IP options.
    #[cold]
    pub(crate) fn pass_to_kernel(&mut self, meta: &IpMeta, payload: &[u8], tail: &[F]) {
        let fields = ipv4::Fields {
            src: meta.src,
            dst: meta.dst,
            protocol: meta.protocol,
            tos: meta.tos,
            ttl: meta.ttl,
            ident: 0,
            fragment: ipv4::Fragment::DONT,
            payload_len: meta.len,
        };
        let mut packet = fields.emit().to_vec();
        packet.extend_from_slice(payload);
        tail.iter().for_each(|frame| packet.extend_from_slice(frame.bytes()));
        // That of a local peer may be left to hardware, which the kernel would not believe of this way in.
        if let Some(segment) = packet.get_mut(ipv4::HEADER_LEN..)
            && let Some(field) = segment.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2)
        {
            field.fill(0);
            let sum = Sum::pseudo(meta.src, meta.dst, meta.protocol, meta.len).bytes(segment).finish();
            segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        }
        self.net.leave_to_kernel(packet);
    }

    /// Whether a datagram's sender may be heard; it is taken if it must wait.
    #[cold]
    pub(crate) fn vet(
        &mut self,
        now: Instant,
        meta: &IpMeta,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
    ) -> Result<Option<F>, Drop> {
        // To a group, an answer could come from any address of ours.
        let from = if self.net.is_local(meta.dst) { meta.dst } else { core::net::Ipv4Addr::UNSPECIFIED };
        let query = Query::new(from, meta.src);
        match self.unrouted.rule.verdict(self.net.back(now, query)) {
            Verdict::Heard | Verdict::Kernels => Ok(Some(head)),
            Verdict::Martian => Err(Drop::Martian),
            Verdict::Waits => {
                self.hold_unrouted(query, meta, head, range, tail);
                Ok(None)
            }
        }
    }
}

/// Where TCP's header has its checksum.
const CHECKSUM_AT: usize = 16;

/// Packets that wait at the most: routing answers within the turn.
const WAITING_MAX: usize = 256;

#[cfg(test)]
mod tests;
