//! What was sent and is not yet acknowledged, segment by segment: who was SACKed, who is thought lost, who was sent
//! again, and when (RFC 6675's scoreboard with the times that RFC 8985 needs).
//!
//! Segments are kept as they were sent and never split by what a peer claims: a SACK block that covers part of a
//! segment says nothing about it. So the table grows by our own sending only, and finding a block is a binary search.
//!
//! Bytes in flight, in Linux's terms: all − sacked − lost + retransmitted.

use super::seq::Seq;
use crate::Instant;
use crate::mutation::planted;
use std::collections::VecDeque;

/// Segments in flight at most, whatever the windows say: bounds what one ACK can make us walk.
pub(crate) const SEGMENTS_MAX: usize = 16_384;

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: Seq,
    /// Sequence space, a FIN included.
    pub(crate) len: u32,
    /// When it was sent last.
    pub(crate) at: Instant,
    pub(crate) sacked: bool,
    /// Thought lost, and...
    pub(crate) lost: bool,
    /// ...sent again since.
    pub(crate) resent: bool,
    /// Sent more than once in its life (Karn).
    pub(crate) ambiguous: bool,
}

impl Sent {
    #[inline]
    pub(crate) fn end(&self) -> Seq {
        self.start + self.len
    }
    #[inline]
    fn waits(&self) -> bool {
        self.lost && !self.resent
    }
}

/// What an acknowledgment delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Sequence space delivered now and not before, cumulatively or by SACK.
    pub(crate) bytes: u32,
    /// When the latest segment among those sent once was sent: gives a round trip.
    pub(crate) sent_once_at: Option<Instant>,
    /// The segment sent last of all delivered: its time, its end, whether it was sent more than once.
    pub(crate) newest: Option<(Instant, Seq, bool)>,
    /// A segment sent once came after one sent later: the network reorders. From its beginning to the
    /// end of what came before it, bytes; zero: none did.
    pub(crate) reordered: u32,
    /// A segment sent once and not SACKed before was among them (tells a spurious timeout, RFC 5682).
    pub(crate) original: bool,
}

impl Delivered {
    /// Out of line, so that it costs nothing where nothing is reordered.
    #[cold]
    fn note_reordering(&mut self, bytes: u32) {
        self.reordered = self.reordered.max(bytes);
    }
}

#[derive(Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    resent: u32,
    sacked_count: u32,
    /// Highest end that was SACKed or acknowledged (RACK.fack).
    fack: Seq,
    /// No segment before this waits for retransmission.
    hint: Seq,
    /// Blocks of the previous ACK, if it had any: what they covered need not be walked again.
    seen: Option<Box<[(Seq, Seq); 4]>>,
}

impl Scoreboard {
    /// Nothing in flight, next to be sent is `at`.
    pub(crate) fn reset(&mut self, at: Seq) {
        *self = Scoreboard { fack: at, hint: at, ..Scoreboard::default() };
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.sent.len() >= SEGMENTS_MAX
    }

    /// Segments in flight or lost.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.sent.len()
    }

    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    #[inline]
    pub(crate) fn sacked_count(&self) -> u32 {
        self.sacked_count
    }

    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    #[inline]
    pub(crate) fn resent(&self) -> u32 {
        self.resent
    }

    /// What of `outstanding` bytes (`snd_nxt - snd_una`) is thought to be in the network.
    #[inline]
    pub(crate) fn in_flight(&self, outstanding: u32) -> u32 {
        (outstanding + self.resent).saturating_sub(self.sacked + self.lost)
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&Sent> {
        self.sent.back()
    }

    /// A segment was sent for the first time; `start` is the end of the one before.
    #[inline]
    pub(crate) fn push(&mut self, start: Seq, len: u32, at: Instant) {
        if self.sent.capacity() == 0 {
            // What a connection of requests and answers needs, and keeps.
            self.sent.reserve_exact(1);
        }
        self.sent.push_back(Sent {
            start,
            len,
            at,
            sacked: false,
            lost: false,
            resent: false,
            ambiguous: false,
        });
    }

    /// A segment that somebody else sent, perhaps more than once, before `at`.
    pub(crate) fn push_doubtful(&mut self, start: Seq, len: u32, at: Instant) {
        self.push(start, len, at);
        if let Some(last) = self.sent.back_mut() {
            last.ambiguous = true;
        }
    }

    /// When the first of what is on its way left, for the last time each.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.sent.iter().map(|sent| sent.at).min()
    }

    /// Everything before `una` arrived.
    pub(crate) fn acknowledge(&mut self, una: Seq, delivered: &mut Delivered) {
        while let Some(first) = self.sent.front_mut() {
            if !first.start.before(una) {
                break;
            }
            if first.end().after(una) {
                // Part of a segment: what is left stays as it is.
                let gone = una - first.start;
                if first.sacked {
                    self.sacked -= gone;
                } else {
                    delivered.bytes += gone;
                }
                if first.lost {
                    self.lost -= gone;
                }
                if first.resent {
                    self.resent -= gone;
                }
                first.start = una;
                first.len -= gone;
                break;
            }
            let gone = *first;
            self.sent.pop_front();
            self.forget(&gone);
            if gone.sacked {
                self.sacked -= gone.len;
                self.sacked_count -= 1;
            } else {
                self.note(&gone, delivered);
            }
        }
        self.fack = self.fack.max(una);
        self.hint = self.hint.max(una);
        if self.sent.is_empty() && self.sent.capacity() > 64 {
            self.sent = VecDeque::new();
        }
    }

    /// Blocks of a SACK option, checked by the caller to lie in `(snd_una, snd_nxt]`.
    pub(crate) fn sack(&mut self, blocks: &[(Seq, Seq)], delivered: &mut Delivered) {
        for &(start, end) in blocks {
            let mut from = start;
            for &(old_start, old_end) in self.seen.iter().flat_map(|seen| seen.iter()) {
                if !from.before(old_start) && from.before(old_end) {
                    from = old_end;
                }
            }
            if from.before(end) {
                self.sack_block((start, end), from, delivered);
            }
        }
        let seen = self.seen.get_or_insert_default();
        **seen = [(Seq(0), Seq(0)); 4];
        for (slot, block) in seen.iter_mut().zip(blocks) {
            *slot = *block;
        }
    }

    /// A block whose part before `from` was told before; the segment that this ends in was not marked then.
    fn sack_block(&mut self, (start, end): (Seq, Seq), from: Seq, delivered: &mut Delivered) {
        let mut index = self.sent.partition_point(|s| !s.end().after(from));
        if self.sent.get(index).is_some_and(|s| s.start.before(start)) {
            index += 1;
        }
        while let Some(segment) = self.sent.get_mut(index) {
            if segment.end().after(end) {
                break;
            }
            index += 1;
            if segment.sacked {
                continue;
            }
            let before = *segment;
            segment.sacked = true;
            segment.lost = false;
            segment.resent = false;
            self.forget(&before);
            self.sacked += before.len;
            self.sacked_count += 1;
            self.note(&before, delivered);
            self.fack = self.fack.max(before.end());
        }
    }

    /// Takes a segment out of the sums of lost and resent.
    fn forget(&mut self, segment: &Sent) {
        if segment.lost {
            self.lost -= segment.len;
        }
        if segment.resent {
            self.resent -= segment.len;
        }
    }

    fn note(&mut self, segment: &Sent, delivered: &mut Delivered) {
        delivered.bytes += segment.len;
        if segment.end().before(self.fack) && !segment.ambiguous {
            delivered.note_reordering(self.fack - segment.start);
        }
        if !segment.ambiguous || planted!(NoKarn) {
            delivered.sent_once_at = delivered.sent_once_at.max(Some(segment.at));
            delivered.original = true;
        }
        if delivered.newest.is_none_or(|(at, end, _)| sent_after(segment.at, segment.end(), at, end)) {
            delivered.newest = Some((segment.at, segment.end(), segment.ambiguous));
        }
    }

    /// Index of the first segment that starts at `seq` or later.
    fn index_at(&self, seq: Seq) -> usize {
        self.sent.partition_point(|s| s.start.before(seq))
    }

    /// Thinks every segment that is not SACKed lost (a timeout); with `renege` also those that are (RFC 2018, 8).
    pub(crate) fn all_lost(&mut self, renege: bool) {
        if renege {
            self.sacked = 0;
            self.sacked_count = 0;
            self.seen = None;
        }
        self.resent = 0;
        self.lost = 0;
        for segment in &mut self.sent {
            if renege {
                segment.sacked = false;
            }
            segment.resent = false;
            segment.lost = !segment.sacked;
            if segment.lost {
                self.lost += segment.len;
            }
        }
        if let Some(first) = self.sent.front() {
            self.hint = first.start;
        }
    }

    /// Thinks the first segment that is not SACKed lost (three duplicate ACKs, or a partial one, without SACK).
    pub(crate) fn first_lost(&mut self) {
        if let Some(index) = self.sent.iter().position(|s| !s.sacked) {
            self.mark_lost(index);
        }
    }

    fn mark_lost(&mut self, index: usize) {
        let segment = &mut self.sent[index];
        if segment.resent {
            segment.resent = false;
            self.resent -= segment.len;
        }
        if !segment.lost {
            segment.lost = true;
            self.lost += segment.len;
        }
        self.hint = self.hint.min(segment.start);
    }

    /// A spurious recovery: nothing is lost after all.
    pub(crate) fn none_lost(&mut self) {
        for segment in &mut self.sent {
            if segment.waits() {
                segment.lost = false;
                self.lost -= segment.len;
            }
        }
    }

    /// RACK_detect_loss (RFC 8985, 6.2 step 5): what was sent before the newest delivered segment, by more than the
    /// reordering window, is lost. Answers when the next one will be if nothing arrives, and whether any was marked.
    pub(crate) fn detect_lost(
        &mut self,
        now: Instant,
        newest: (Instant, Seq),
        patience: u64,
    ) -> (Option<Instant>, bool) {
        let (mut timeout, mut marked) = (None, false);
        for index in 0..self.sent.len() {
            let segment = &self.sent[index];
            if !sent_after(newest.0, newest.1, segment.at, segment.end()) {
                if segment.resent {
                    continue;
                }
                // What follows was sent later still.
                if !segment.sacked && !segment.lost {
                    break;
                }
                continue;
            }
            if segment.sacked || segment.waits() {
                continue;
            }
            let due = Instant(segment.at.0.saturating_add(patience));
            if due <= now {
                self.mark_lost(index);
                marked = true;
            } else {
                timeout = timeout.max(Some(due));
            }
        }
        (timeout, marked)
    }

    /// The first segment that is lost and waits for retransmission.
    pub(crate) fn next_lost(&mut self) -> Option<Sent> {
        if self.lost == self.resent {
            return None;
        }
        let mut index = self.index_at(self.hint);
        while let Some(segment) = self.sent.get(index) {
            if segment.waits() {
                self.hint = segment.start;
                return Some(*segment);
            }
            index += 1;
        }
        None
    }

    /// The segment that starts at `start` was sent again, its first `len` bytes in one packet: the path's MTU may
    /// have shrunk since, then the rest becomes a segment of its own.
    pub(crate) fn sent_again(&mut self, start: Seq, len: u32, now: Instant) {
        let index = self.index_at(start);
        let Some(segment) = self.sent.get_mut(index) else { return };
        if len < segment.len {
            let rest = Sent { start: segment.start + len, len: segment.len - len, ..*segment };
            segment.len = len;
            self.sent.insert(index + 1, rest);
        }
        let segment = &mut self.sent[index];
        segment.at = now;
        segment.ambiguous = true;
        if segment.lost && !segment.resent {
            segment.resent = true;
            self.resent += segment.len;
        }
    }
}

/// RACK_sent_after: by time, then by sequence for those of one moment.
#[inline]
pub(crate) fn sent_after(at: Instant, end: Seq, other_at: Instant, other_end: Seq) -> bool {
    at > other_at || (at == other_at && end.after(other_end))
}

#[cfg(test)]
#[path = "scoreboard/tests.rs"]
mod tests;
