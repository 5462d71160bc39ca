//! The out-of-order store: what arrived beyond a hole, and what of it SACK options say.
//!
//! A tree of disjoint pieces: a segment costs the logarithm of what is stored (CVE-2018-5390 was a list). Each piece is
//! charged more than its payload, so that what the store may hold bounds their number, too.

use super::{BLOCK, Data, Piece, SACK_BLOCKS, TINY, Taken};
use crate::Frame;
use std::collections::BTreeMap;

/// See the module's page.
pub(super) struct Later<F> {
    pub(super) pieces: BTreeMap<u64, Piece<F>>,
    /// What the pieces are charged: see [`PIECE_COST`].
    cost: u64,
    /// Ranges in `pieces`, latest first, as far as a SACK option reaches.
    ranges: [(u64, u64); SACK_BLOCKS],
    range_count: u8,
}

impl<F> Default for Later<F> {
    fn default() -> Self {
        Later { pieces: BTreeMap::new(), cost: 0, ranges: [(0, 0); SACK_BLOCKS], range_count: 0 }
    }
}

impl<F: Frame> Later<F> {
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.range_count)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether nothing is stored before `end`.
    pub(super) fn begins_at(&self, end: u64) -> bool {
        self.pieces.first_key_value().is_none_or(|(stored, _)| *stored >= end)
    }

    /// Takes the first piece out, if it begins at `next` or before.
    pub(super) fn take_up_to(&mut self, next: u64) -> Option<(u64, Piece<F>)> {
        let entry = self.pieces.first_entry().filter(|entry| *entry.key() <= next)?;
        let (at, piece) = entry.remove_entry();
        self.cost = self.cost.saturating_sub(piece.len() as u64 + PIECE_COST);
        Some((at, piece))
    }

    pub(super) fn forget_ranges_before(&mut self, next: u64) {
        let mut kept = 0;
        for i in 0..usize::from(self.range_count) {
            if self.ranges[i].0 > next {
                self.ranges[kept] = self.ranges[i];
                kept += 1;
            }
        }
        self.range_count = kept as u8;
    }

    /// Puts `start..end` into the store, as far as it is not there yet.
    pub(super) fn store(
        &mut self,
        mut start: u64,
        end: u64,
        mut piece: Piece<F>,
        memory: u64,
        taken: &mut Taken,
    ) {
        let whole = (start, end);
        let alone = self.pieces.range(start..end).next().is_none();
        if let Some((at, before)) = self.pieces.range_mut(..=start).next_back() {
            let covered = at + before.len() as u64;
            if covered > start {
                taken.duplicate = Some((start, covered.min(end)));
                if covered >= end {
                    self.remember(whole.0, whole.1);
                    return;
                }
                piece.start += (covered - start) as u32;
                start = covered;
            } else if covered == start
                && piece.len() <= TINY
                && alone
                && let Data::Bytes(bytes) = &before.data
                && bytes.len() + piece.len() <= BLOCK
            {
                return self.extend(start, end, piece, memory);
            }
        }
        while start < end {
            let next = self.pieces.range(start..end).next().map(|(at, p)| (*at, *at + p.len() as u64));
            let gap_end = next.map_or(end, |(at, _)| at);
            if gap_end > start {
                let n = (gap_end - start) as u32;
                let last = next.is_none_or(|(_, covered)| covered >= end);
                let data =
                    if last && n as usize > TINY { None } else { Some(piece.bytes()[..n as usize].to_vec()) };
                if self.cost + u64::from(n) + PIECE_COST > memory {
                    return;
                }
                self.cost += u64::from(n) + PIECE_COST;
                match data {
                    Some(bytes) => {
                        let copy = Piece { data: Data::Bytes(bytes), start: 0, end: n };
                        self.pieces.insert(start, copy);
                        piece.start += n;
                    }
                    None => {
                        piece.end = piece.start + n;
                        let overlap = next.map(|(at, covered)| (at, covered.min(end)));
                        taken.duplicate = taken.duplicate.or(overlap);
                        piece.detach();
                        self.pieces.insert(start, piece);
                        self.remember(whole.0, whole.1);
                        return;
                    }
                }
            }
            let Some((at, covered)) = next else { break };
            taken.duplicate = taken.duplicate.or(Some((at, covered.min(end))));
            piece.start += (covered.min(end) - at) as u32;
            start = covered;
        }
        self.remember(whole.0, whole.1);
    }

    /// Appends a tiny piece to the copied one that ends where it begins.
    fn extend(&mut self, start: u64, end: u64, piece: Piece<F>, memory: u64) {
        let n = end - start;
        if self.cost + n > memory {
            return;
        }
        if let Some((_, before)) = self.pieces.range_mut(..start).next_back()
            && let Data::Bytes(bytes) = &mut before.data
        {
            bytes.extend_from_slice(piece.bytes());
            before.end += n as u32;
            self.cost += n;
        }
        self.remember(start, end);
    }

    /// Notes a stored range for the SACK option: merged with those it touches, in front.
    fn remember(&mut self, mut start: u64, mut end: u64) {
        let mut others = [(0, 0); SACK_BLOCKS];
        let mut count = 0;
        for &(a, b) in &self.ranges[..usize::from(self.range_count)] {
            if a <= end && b >= start {
                start = start.min(a);
                end = end.max(b);
            } else {
                others[count] = (a, b);
                count += 1;
            }
        }
        let kept = count.min(SACK_BLOCKS - 1);
        self.ranges[0] = (start, end);
        self.ranges[1..=kept].copy_from_slice(&others[..kept]);
        self.range_count = kept as u8 + 1;
    }
}

/// What a stored out-of-order piece is charged beyond its payload: its frame's slack and the tree's node.
pub(super) const PIECE_COST: u64 = 256;
