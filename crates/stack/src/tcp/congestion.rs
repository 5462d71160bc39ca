//! Congestion control: how many bytes may be in flight. Windows are in bytes.
//!
//! One value per connection, one arm per algorithm; `congestion/*.rs` hold what differs: growth in avoidance and the
//! answer to a loss.

mod cubic;

use super::Congestion;
use crate::{Duration, Instant};
use cubic::Cubic;

/// Segments that a connection begins with (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;
/// No window is larger: far beyond any buffer, far from wrapping.
const CWND_MAX: u32 = 1 << 30;

/// State of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// Congestion window, bytes.
    pub(crate) cwnd: u32,
    /// Slow start threshold, bytes.
    pub(crate) ssthresh: u32,
    /// Acknowledged bytes not yet worth a segment of growth (RFC 3465).
    credit: u32,
    mss: u32,
    algorithm: Algorithm,
}

#[derive(Clone, Debug)]
enum Algorithm {
    NewReno,
    /// Its state begins with the first loss or the end of slow start, which most connections never see.
    Cubic(Option<Box<Cubic>>),
    None,
}

/// What a spurious recovery gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved {
    cwnd: u32,
    ssthresh: u32,
}

impl Control {
    pub(crate) fn new(which: Congestion, mss: u32) -> Control {
        let algorithm = match which {
            Congestion::Cubic => Algorithm::Cubic(None),
            Congestion::NewReno => Algorithm::NewReno,
            Congestion::None => Algorithm::None,
        };
        let mut control = Control { cwnd: 0, ssthresh: CWND_MAX, credit: 0, mss: mss.max(1), algorithm };
        control.cwnd = control.initial();
        control
    }

    /// Another algorithm from now on; windows stay.
    pub(crate) fn switch(&mut self, which: Congestion) {
        let (cwnd, ssthresh, mss) = (self.cwnd, self.ssthresh, self.mss);
        *self = Control { cwnd: cwnd.max(self.mss), ssthresh, ..Control::new(which, mss) };
    }

    /// Goes on with the windows that a connection had elsewhere, bytes.
    pub(crate) fn resume(&mut self, cwnd: u32, ssthresh: u32) {
        self.cwnd = cwnd.clamp(self.mss, CWND_MAX);
        self.ssthresh = ssthresh.clamp(2 * self.mss, CWND_MAX);
    }

    /// The segment size became known or changed. Before data was sent the window starts over.
    pub(crate) fn set_mss(&mut self, mss: u32, fresh: bool) {
        self.mss = mss.max(1);
        if fresh {
            self.cwnd = self.initial();
        }
    }

    pub(crate) fn initial(&self) -> u32 {
        (INITIAL_SEGMENTS * self.mss).min((2 * self.mss).max(14_600))
    }

    #[inline]
    pub(crate) fn window(&self) -> u32 {
        if matches!(self.algorithm, Algorithm::None) { CWND_MAX } else { self.cwnd }
    }

    /// The slow start threshold, once something was lost or given up.
    pub(crate) fn threshold(&self) -> Option<u32> {
        (self.ssthresh != CWND_MAX).then_some(self.ssthresh)
    }

    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `acked` bytes were delivered outside of recovery, while the window was what limited us.
    pub(crate) fn on_ack(&mut self, now: Instant, acked: u32, srtt: Duration) {
        let mut acked = acked;
        if self.in_slow_start() {
            // A stretch ACK grows the window by what it acknowledges, as if it had come in pieces; never past the
            // threshold.
            let grow = acked.min(self.ssthresh - self.cwnd);
            self.cwnd = (self.cwnd + grow).min(CWND_MAX);
            acked -= grow;
            if acked == 0 {
                return;
            }
        }
        let per_segment = match &mut self.algorithm {
            Algorithm::Cubic(cubic) => {
                let cubic = cubic.get_or_insert_default();
                cubic.bytes_per_segment(now, self.cwnd, self.mss, acked, srtt)
            }
            Algorithm::NewReno | Algorithm::None => self.cwnd,
        };
        self.credit = self.credit.saturating_add(acked);
        let per_segment = per_segment.max(self.mss);
        if self.credit >= per_segment {
            let segments = self.credit / per_segment;
            self.credit -= segments * per_segment;
            self.cwnd = self.cwnd.saturating_add(segments.saturating_mul(self.mss)).min(CWND_MAX);
        }
    }

    /// A loss was found: sets the threshold. The window follows by PRR, or falls to one segment after a timeout.
    pub(crate) fn on_loss(&mut self) -> Saved {
        let saved = Saved { cwnd: self.cwnd, ssthresh: self.ssthresh };
        self.ssthresh = match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.get_or_insert_default().on_loss(self.cwnd, self.mss),
            Algorithm::NewReno | Algorithm::None => self.cwnd / 2,
        }
        .max(2 * self.mss);
        self.credit = 0;
        saved
    }

    /// The retransmission timer expired (RFC 5681, 3.1).
    pub(crate) fn on_timeout(&mut self) {
        self.cwnd = self.mss;
        self.credit = 0;
    }

    /// The loss was none.
    pub(crate) fn undo(&mut self, saved: Saved) {
        self.cwnd = self.cwnd.max(saved.cwnd);
        self.ssthresh = self.ssthresh.max(saved.ssthresh);
    }

    /// Nothing was sent for `idle`, one or more timeouts: the window decays (RFC 2861, as Linux does).
    pub(crate) fn on_idle(&mut self, now: Instant, idle: Duration, rto: Duration) {
        let restart = self.initial().min(self.cwnd);
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let mut left = idle;
        while left > rto && self.cwnd > restart {
            self.cwnd /= 2;
            left -= rto;
        }
        self.cwnd = self.cwnd.max(restart);
        if let Algorithm::Cubic(Some(cubic)) = &mut self.algorithm {
            cubic.shift(now, idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1460;
    const RTT: Duration = Duration::from_millis(100);

    fn one_round(control: &mut Control, now: Instant) {
        let mut left = control.cwnd;
        while left > 0 {
            let n = left.min(2 * MSS);
            control.on_ack(now, n, RTT);
            left -= n;
        }
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip() {
        for which in [Congestion::Cubic, Congestion::NewReno] {
            let mut control = Control::new(which, MSS);
            assert_eq!(control.cwnd, 10 * MSS);
            one_round(&mut control, Instant(0));
            assert_eq!(control.cwnd, 20 * MSS);
        }
    }

    #[test]
    fn reno_halves_on_loss_and_grows_a_segment_in_a_round_trip() {
        let mut control = Control::new(Congestion::NewReno, MSS);
        control.cwnd = 100 * MSS;
        control.on_loss();
        assert_eq!(control.ssthresh, 50 * MSS);
        control.cwnd = control.ssthresh;
        one_round(&mut control, Instant(0));
        assert_eq!(control.cwnd, 51 * MSS);
    }

    #[test]
    fn cubic_keeps_seven_tenths_and_comes_back_to_the_old_window() {
        let mut control = Control::new(Congestion::Cubic, MSS);
        control.cwnd = 1000 * MSS;
        control.on_loss();
        assert_eq!(control.ssthresh, 700 * MSS);
        control.cwnd = control.ssthresh;
        // K = cubic_root(1000 * 0.3 / 0.4) = 9.09 s.
        let at = |control: &mut Control, from: u64, to: u64| {
            for ms in (from..to).step_by(100) {
                one_round(control, Instant(ms * 1_000_000));
            }
            control.cwnd / MSS
        };
        let half = at(&mut control, 0, 4500);
        assert!((930..1000).contains(&half), "{half}");
        let full = at(&mut control, 4500, 9200);
        assert!((985..1015).contains(&full), "{full}");
        let beyond = at(&mut control, 9200, 15_000);
        assert!(beyond > 1050, "{beyond}");
    }

    #[test]
    fn windows_never_fall_below_two_segments_of_threshold_nor_one_of_window() {
        for which in [Congestion::Cubic, Congestion::NewReno] {
            let mut control = Control::new(which, MSS);
            for _ in 0..20 {
                control.on_loss();
                control.on_timeout();
            }
            assert_eq!((control.cwnd, control.ssthresh), (MSS, 2 * MSS));
        }
    }

    #[test]
    fn an_undone_loss_gives_the_window_back() {
        let mut control = Control::new(Congestion::Cubic, MSS);
        control.cwnd = 64 * MSS;
        let saved = control.on_loss();
        control.on_timeout();
        control.undo(saved);
        assert_eq!(control.cwnd, 64 * MSS);
        assert!(control.in_slow_start());
    }

    #[test]
    fn idleness_decays_the_window_to_the_initial_one() {
        let mut control = Control::new(Congestion::NewReno, MSS);
        control.cwnd = 100 * MSS;
        control.on_idle(Instant(0), 20 * RTT, RTT);
        assert_eq!(control.cwnd, 10 * MSS);
    }
}
