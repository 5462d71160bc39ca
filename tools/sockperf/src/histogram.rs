//! Latencies in constant memory: a log-linear histogram in the manner of HdrHistogram.
//!
//! ```text
//!  value      0 .. 4095            exact
//!             4096 .. 8191         2 per bucket      relative width never above 1/2048
//!             8192 .. 16383        4 per bucket      ...
//! ```
//! Values are ticks. Minimum, maximum, mean and standard deviation are exact; percentiles are the middle of
//! their bucket, at most 0.025 % off.

/// Exact values below 2^12; half as many buckets for each doubling above.
const PRECISION_BITS: u32 = 12;
const HALF: usize = 1 << (PRECISION_BITS - 1);
/// 2^46 ticks are five hours at 4 GHz; longer values land in the last bucket.
const MAX_BITS: u32 = 46;
const BUCKETS: usize = ((MAX_BITS - PRECISION_BITS) as usize + 2) * HALF;

/// Counts of values by magnitude.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum: u64,
    squares: u128,
    min: u64,
    max: u64,
}

/// One bucket that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value of the bucket.
    pub low: u64,
    /// Largest value of the bucket.
    pub high: u64,
    /// How many values fell into it.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            total: 0,
            sum: 0,
            squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let index = index_of(value);
        self.counts[index] += 1;
        self.total += 1;
        self.sum += value;
        self.squares += u128::from(value) * u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Smallest value, 0 when empty.
    pub fn min(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min }
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Arithmetic mean, 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// Sample standard deviation.
    pub fn deviation(&self) -> f64 {
        if self.total < 2 {
            return 0.0;
        }
        let n = self.total as f64;
        let mean = self.mean();
        ((self.squares as f64 - n * mean * mean).max(0.0) / (n - 1.0)).sqrt()
    }

    /// The value at rank `floor(0.5 + p/100 * n)`, as the original ranks them; `None` below the first.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let rank = (0.5 + p / 100.0 * self.total as f64) as u64;
        if rank == 0 { None } else { Some(self.at_rank(rank.min(self.total))) }
    }

    /// Mean of |x - mean| and 1.4826 times the median of |x - median|, by buckets.
    pub fn absolute_deviations(&self) -> (f64, f64) {
        let Some(median) = self.percentile(50.0) else { return (0.0, 0.0) };
        let mean = self.mean();
        let mut sum = 0.0;
        let mut around_median: Vec<(u64, u64)> = Vec::new();
        for bucket in self.buckets() {
            let middle = bucket.low.midpoint(bucket.high);
            sum += (middle as f64 - mean).abs() * bucket.count as f64;
            around_median.push((middle.abs_diff(median), bucket.count));
        }
        around_median.sort_unstable();
        let mut rest = self.total.div_ceil(2);
        let mut median_deviation = 0;
        for (distance, count) in around_median {
            median_deviation = distance;
            if count >= rest {
                break;
            }
            rest -= count;
        }
        (sum / self.total as f64, median_deviation as f64 * 1.4826)
    }

    /// The buckets that are not empty, in order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, count)| {
            let (low, high) = bounds_of(index);
            Bucket { low, high, count: *count }
        })
    }

    fn at_rank(&self, rank: u64) -> u64 {
        if rank == self.total {
            return self.max;
        }
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen >= rank {
                return bucket.low.midpoint(bucket.high).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

#[inline]
fn index_of(value: u64) -> usize {
    let value = value.min((1 << MAX_BITS) - 1);
    let shift = (64 - PRECISION_BITS).saturating_sub((value | 1).leading_zeros());
    shift as usize * HALF + (value >> shift) as usize
}

fn bounds_of(index: usize) -> (u64, u64) {
    let shift = (index / HALF).saturating_sub(1) as u32;
    let low = ((index - shift as usize * HALF) as u64) << shift;
    (low, low + (1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Random;

    #[test]
    fn every_value_lies_in_its_own_bucket() {
        let mut values: Vec<u64> = (0..10_000).collect();
        for bit in 12..46 {
            values.extend([(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        }
        for value in values {
            let (low, high) = bounds_of(index_of(value));
            assert!(low <= value && value <= high, "{value} in {low}..={high}");
            assert!((high - low) as f64 <= value as f64 / 2048.0, "{value}");
        }
    }

    #[test]
    fn percentiles_agree_with_sorted_values_within_the_bucket_width() {
        let mut random = Random::new(7);
        let mut values: Vec<u64> = (0..20_000).map(|_| random.next() % 5_000_000 + 10).collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|v| histogram.record(*v));
        values.sort_unstable();
        for p in [0.1, 25.0, 50.0, 90.0, 99.0, 99.9, 99.999] {
            let exact = values[((0.5 + p / 100.0 * 20_000.0) as usize).clamp(1, 20_000) - 1] as f64;
            let found = histogram.percentile(p).unwrap() as f64;
            assert!((found / exact - 1.0).abs() < 0.0005, "p{p}: {found} for {exact}");
        }
        let mean = values.iter().sum::<u64>() as f64 / 20_000.0;
        let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / 19_999.0;
        assert!((histogram.mean() - mean).abs() < 1e-3);
        assert!((histogram.deviation() / variance.sqrt() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn values_beyond_the_range_are_counted_in_the_last_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX >> 16);
        assert_eq!((histogram.len(), histogram.max()), (1, u64::MAX >> 16));
        assert_eq!(histogram.buckets().count(), 1);
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let histogram = Histogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.min(), histogram.max()), (None, 0, 0));
    }

    #[test]
    fn percentile_below_the_first_observation_is_omitted() {
        let mut histogram = Histogram::default();
        histogram.record(5);
        assert_eq!(histogram.percentile(25.0), None);
        assert_eq!(histogram.percentile(50.0), Some(5));
    }
}
