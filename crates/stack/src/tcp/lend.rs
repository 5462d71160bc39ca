//! Pieces of the receive queue that leave it whole: for reads without a copy, and for a filter of the owner's, which
//! looks at each piece before it can be read.
//!
//! What is lent counts as unread for the window, so that a peer cannot send ahead of a program that keeps everything;
//! beyond half of the receive buffer nothing more is lent, and the connection goes on by copies.

use super::State;
use super::control_block::{Fate, Tcb};
use super::receive::{Hold, Piece};
use super::seldom::Filter;
use crate::{Frame, Instant, Outlet, Ready, RecvError, SocketId, Stack};

impl<F: Frame> Stack<F> {
    /// Takes up to `pieces` pieces with `bytes` bytes at most. How many bytes, 0 at the end of the stream; `None`: what
    /// is next can only be read by a copy.
    pub fn tcp_take(
        &mut self,
        now: Instant,
        id: SocketId,
        (pieces, bytes): (usize, usize),
        into: &mut Vec<Piece<F>>,
        out: &mut impl Outlet,
    ) -> Result<Option<usize>, RecvError> {
        let now = self.reach(now);
        let mut answer = Err(RecvError::NoSocket);
        self.with_tcp(now, id, out, |tcb, cx| {
            let mut hold = Hold { budget: cx.budget, pool: &mut cx.shared.pool };
            answer = tcb.take(&mut hold, pieces, bytes, into);
            if let Ok(Some(taken @ 1..)) = answer {
                tcb.seldom().lent += taken as u32;
                tcb.after_reading(cx, taken as u32);
            }
            Fate::Stays
        });
        answer
    }

    /// So many bytes that were taken came back.
    pub fn tcp_give_back(&mut self, now: Instant, id: SocketId, bytes: u32, out: &mut impl Outlet) {
        let now = self.reach(now);
        self.with_tcp(now, id, out, |tcb, cx| {
            let seldom = tcb.seldom();
            seldom.lent = seldom.lent.saturating_sub(bytes);
            if tcb.state() != State::Closed && !tcb.fin_received {
                tcb.offer_room(cx);
            }
            Fate::Stays
        });
    }

    /// Begins or ends to filter. What waits when it begins is filtered too, and when it ends all of it has passed.
    pub fn tcp_filter(&mut self, id: SocketId, on: bool) {
        let Some(crate::stack::Socket::Tcp(tcb)) = self.sockets.get_mut(id) else { return };
        match &mut tcb.seldom().filter {
            Some(filter) if filter.looks => filter.ends = !on,
            filter => *filter = on.then(Filter::default),
        }
        if !on && tcb.readable() > 0 {
            self.events.raise(id, Ready::IN);
        }
    }

    /// What comes next, if everything that passed the filter was read: out of the queue, until one of the three below
    /// says what becomes of it.
    pub fn tcp_take_unseen(&mut self, id: SocketId) -> Option<Piece<F>> {
        let Some(crate::stack::Socket::Tcp(tcb)) = self.sockets.get_mut(id) else { return None };
        let filter = tcb.seldom.as_mut()?.filter.as_mut()?;
        if filter.passed > 0 || filter.looks {
            return None;
        }
        let piece = tcb
            .rx
            .take_front(&mut Hold { budget: &mut self.budget, pool: &mut self.tcp.pool }, usize::MAX)?;
        filter.looks = true;
        Some(piece)
    }

    /// It passes.
    pub fn tcp_pass(&mut self, id: SocketId, piece: Piece<F>) {
        let Some(crate::stack::Socket::Tcp(tcb)) = self.sockets.get_mut(id) else { return };
        let len = piece.bytes().len() as u32;
        tcb.rx.put_front(&mut Hold { budget: &mut self.budget, pool: &mut self.tcp.pool }, piece);
        tcb.has_looked(len);
        self.events.raise(id, Ready::IN);
    }

    /// It does not: its bytes are skipped. `lent`: the owner keeps it for a while (`tcp_give_back`).
    pub fn tcp_skip(&mut self, now: Instant, id: SocketId, bytes: u32, lent: bool, out: &mut impl Outlet) {
        let now = self.reach(now);
        self.with_tcp(now, id, out, |tcb, cx| {
            let seldom = tcb.seldom();
            seldom.lent += if lent { bytes } else { 0 };
            tcb.has_looked(0);
            // Others may wait for what comes behind it: more, or the end.
            cx.events.raise(cx.id, Ready::IN);
            tcb.after_reading(cx, bytes);
            Fate::Stays
        });
    }
}

impl<F: Frame> Tcb<F> {
    fn take(
        &mut self,
        hold: &mut Hold<'_>,
        pieces: usize,
        bytes: usize,
        into: &mut Vec<Piece<F>>,
    ) -> Result<Option<usize>, RecvError> {
        if self.state() == State::SynSent && self.error.is_none() {
            return Err(RecvError::WouldBlock);
        }
        let passed = self.passed()?;
        if self.rx.len() == 0 {
            return self.receive_nothing().map(Some);
        }
        let lent = self.seldom.as_ref().map_or(0, |seldom| seldom.lent);
        let may_lend = (self.rx_capacity / 2).saturating_sub(lent) as usize;
        if self.urgent.mark.is_some() {
            return Ok(None);
        }
        let mut left = bytes.min(may_lend).min(passed);
        let before = left;
        for _ in 0..pieces {
            let Some(piece) = self.rx.take_front(hold, left) else { break };
            left -= piece.bytes().len();
            into.push(piece);
        }
        let taken = before - left;
        if passed != usize::MAX {
            self.passed_was_read(taken as u32);
        }
        Ok((taken > 0).then_some(taken))
    }

    /// The owner has looked at a piece, of which so many bytes pass.
    fn has_looked(&mut self, passed: u32) {
        let seldom = self.seldom();
        seldom.filter =
            seldom.filter.filter(|filter| !filter.ends).map(|_| Filter { passed, ..Filter::default() });
    }

    /// The owner of a filter looks at a piece.
    pub(super) fn is_looked_at(&self) -> bool {
        self.seldom.as_ref().and_then(|seldom| seldom.filter).is_some_and(|filter| filter.looks)
    }

    /// Bytes that a read may take: with a filter those that passed it, else all there are. While the filter looks at
    /// what comes next, there is nothing yet.
    #[inline]
    pub(super) fn passed(&self) -> Result<usize, RecvError> {
        match self.seldom.as_ref().and_then(|seldom| seldom.filter) {
            None => Ok(usize::MAX),
            Some(Filter { passed: 0, looks, .. }) if looks || self.rx.len() > 0 => Err(RecvError::WouldBlock),
            Some(filter) => Ok(filter.passed as usize),
        }
    }

    #[cold]
    pub(super) fn passed_was_read(&mut self, bytes: u32) {
        if let Some(filter) = &mut self.seldom().filter {
            filter.passed = filter.passed.saturating_sub(bytes);
        }
    }

    /// Bytes that a read finds.
    #[inline]
    pub(crate) fn readable(&self) -> usize {
        self.passed().map_or(0, |passed| passed.min(self.rx.len()))
    }
}
