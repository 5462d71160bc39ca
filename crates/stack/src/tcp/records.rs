//! Ends of records (MSG_EOR): no segment holds bytes of two records. Segments that are sent again are those of the
//! first time, so only what is not sent yet needs its ends known.

use super::seq::Seq;
use std::collections::VecDeque;

/// Ends in what is not sent yet, in order. Hardly any connection has some.
#[derive(Default)]
pub(crate) struct Records(VecDeque<Seq>);

impl Records {
    /// A record ends before `end`, behind all that was noted before.
    pub(crate) fn end_before(&mut self, end: Seq) {
        if self.0.back() != Some(&end) {
            self.0.push_back(end);
        }
    }

    /// How much of the `len` bytes from `snd_nxt` on belongs to one record.
    #[inline]
    pub(crate) fn within(&mut self, snd_nxt: Seq, len: u32) -> u32 {
        if self.0.is_empty() { len } else { self.within_first(snd_nxt, len) }
    }

    #[cold]
    fn within_first(&mut self, snd_nxt: Seq, len: u32) -> u32 {
        while self.0.pop_front_if(|end| !end.after(snd_nxt)).is_some() {}
        self.0.front().map_or(len, |end| len.min(*end - snd_nxt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_bounds_what_may_share_a_segment_until_it_is_sent() {
        let mut records = Records::default();
        assert_eq!(records.within(Seq(5), 100), 100);
        let start = Seq(u32::MAX - 9);
        records.end_before(start + 20);
        records.end_before(start + 20);
        records.end_before(start + 50);
        assert_eq!(records.within(start, 100), 20);
        assert_eq!(records.within(start + 5, 7), 7);
        assert_eq!(records.within(start + 20, 100), 30);
        assert_eq!(records.within(start + 50, 100), 100);
        assert!(records.0.is_empty());
    }
}
