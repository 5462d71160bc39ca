//! CUBIC (RFC 9438): the window as a cubic function of the time since the last loss, flat around the window of then.

use crate::{Duration, Instant};

/// RFC 9438, 4.6 and 5: beta and C.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// Windows here are in segments, times in seconds: the RFC's units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    w_max: f64,
    k: f64,
    /// When this epoch of growth began; `None` before the first acknowledgment after a loss.
    epoch: Option<Instant>,
    /// The window that a Reno flow would have by now.
    w_est: f64,
}

impl Cubic {
    /// Bytes to be acknowledged for each segment of growth (RFC 9438, 4.2 to 4.5).
    pub(crate) fn bytes_per_segment(
        &mut self,
        now: Instant,
        cwnd: u32,
        mss: u32,
        acked: u32,
        srtt: Duration,
    ) -> u32 {
        let (window, mss_f) = (f64::from(cwnd) / f64::from(mss), f64::from(mss));
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(window);
                self.epoch = Some(now);
                now
            }
        };
        let t = now.since(epoch).as_secs_f64();
        let alpha = if self.w_est >= self.w_max { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
        self.w_est += alpha * f64::from(acked) / mss_f / window;
        let curve = |t: f64| C * (t - self.k).powi(3) + self.w_max;
        let target = if curve(t) < self.w_est {
            self.w_est
        } else {
            curve(t + srtt.as_secs_f64()).clamp(window, 1.5 * window)
        };
        let growth = (target - window) / window;
        // Growth of a segment per window's worth of acknowledgments divided by `growth`; at least one in a hundred.
        (f64::from(mss) / growth.max(0.01 / window)).min(f64::from(u32::MAX / 2)) as u32
    }

    fn begin(&mut self, window: f64) {
        if window < self.w_max {
            self.k = ((self.w_max - window) / C).cbrt();
        } else {
            self.k = 0.0;
            self.w_max = window;
        }
        self.w_est = window;
    }

    /// The threshold after a loss, bytes (RFC 9438, 4.6 and 4.7: fast convergence).
    pub(crate) fn on_loss(&mut self, cwnd: u32, mss: u32) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss);
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.epoch = None;
        (f64::from(cwnd) * BETA).round() as u32
    }

    /// Time in which nothing was sent does not count as growth (RFC 9438, 5.8).
    pub(crate) fn shift(&mut self, now: Instant, idle: Duration) {
        if let Some(epoch) = self.epoch {
            self.epoch = Some((epoch + idle).min(now));
        }
    }
}
