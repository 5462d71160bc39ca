//! Sequence numbers: 32 bits on a circle (RFC 9293, 3.4). The only place that compares them.

use core::ops::{Add, AddAssign, Sub};

/// A sequence number. Comparisons are those of two numbers less than 2^31 apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub(crate) struct Seq(pub(crate) u32);

impl Seq {
    /// `self < other` on the circle.
    #[inline]
    pub(crate) fn before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self > other` on the circle.
    #[inline]
    pub(crate) fn after(self, other: Seq) -> bool {
        other.before(self)
    }

    /// The later of two.
    #[inline]
    pub(crate) fn max(self, other: Seq) -> Seq {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two.
    #[inline]
    pub(crate) fn min(self, other: Seq) -> Seq {
        if self.before(other) { self } else { other }
    }

    /// Signed distance from `origin` to `self`.
    #[inline]
    pub(crate) fn distance_from(self, origin: Seq) -> i32 {
        self.0.wrapping_sub(origin.0) as i32
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    #[inline]
    fn add(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;
    #[inline]
    fn sub(self, n: u32) -> Seq {
        Seq(self.0.wrapping_sub(n))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, n: u32) {
        self.0 = self.0.wrapping_add(n);
    }
}

/// Bytes from the right operand up to the left one, which must not be before it.
impl Sub<Seq> for Seq {
    type Output = u32;
    #[inline]
    fn sub(self, earlier: Seq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap_at_2_to_32() {
        let (a, b) = (Seq(u32::MAX - 1), Seq(3));
        assert!(a.before(b) && b.after(a) && !b.before(a) && !a.before(a));
        assert_eq!(b - a, 5);
        assert_eq!(a + 5, b);
        assert_eq!(a.max(b), b);
        assert_eq!(a.min(b), a);
        assert_eq!(a.distance_from(b), -5);
    }

    #[test]
    fn order_at_the_2_to_31_edge_is_decided_by_the_short_way() {
        let a = Seq(10);
        assert!(a.before(a + 0x7fff_ffff));
        assert!(!a.before(a + 0x8000_0001));
    }
}
