//! Time as a value: nanoseconds on a monotone clock that the owner reads. Never a clock itself.

/// A moment: nanoseconds since an epoch that the owner chose. Monotone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

/// A span of time.
pub type Duration = core::time::Duration;

impl Instant {
    /// The epoch.
    pub const ZERO: Instant = Instant(0);

    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is later. Cheaper than a [`Duration`].
    #[inline]
    pub fn nanos_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}
