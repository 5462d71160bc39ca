//! The path's MTU by probing (RFC 4821), as Linux's tcp_mtu_probing, for paths whose routers drop what is too big
//! without a word. A probe is a segment of the stream that is larger than the others; when it alone is lost, that says
//! something about the path and nothing about congestion.
//!
//! ```text
//!   88 ... low ............. size of the next probe ............. high ... MTU of the interface
//!          got through, or is assumed to                          not refuted yet
//! ```

use super::control_block::{Cx, MSS_MIN, Recovery, Tcb};
use super::seq::Seq;
use crate::{Duration, Frame, Instant};

/// What probes are sent for and how: the sysctl of each name.
#[derive(Clone, Copy, Debug)]
pub struct MtuProbing {
    /// tcp_mtu_probing.
    pub when: MtuProbes,
    /// tcp_base_mss: payload that is assumed to get through.
    pub base_mss: u32,
    /// tcp_mtu_probe_floor: payload below which no path is suspected.
    pub floor: u32,
    /// tcp_probe_threshold: bounds so close that the search is over, bytes.
    pub threshold: u32,
    /// tcp_probe_interval: when it begins anew.
    pub interval: Duration,
}

/// The values of tcp_mtu_probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuProbes {
    /// 0, Linux's default: path MTUs come from ICMP alone.
    Never,
    /// 1: once a connection seems to be stuck in a black hole.
    AfterBlackHole,
    /// 2: from the beginning of each connection.
    Always,
}

impl Default for MtuProbing {
    /// As Linux's.
    fn default() -> MtuProbing {
        MtuProbing {
            when: MtuProbes::Never,
            base_mss: 1024,
            floor: 48,
            threshold: 8,
            interval: Duration::from_secs(600),
        }
    }
}

/// A connection's search. Sizes are those of IP packets.
pub(crate) struct Search {
    low: u32,
    high: u32,
    probe: Option<Probe>,
    since: Instant,
}

/// The probe that is on its way, or what is sent again of one that was lost.
struct Probe {
    start: Seq,
    end: Seq,
    size: u32,
    failed: bool,
}

impl Search {
    /// Nothing above `mtu` is tried; answers the segment size that may be used meanwhile.
    pub(super) fn limit(&mut self, mtu: u32) -> u32 {
        self.high = self.high.min(mtu);
        self.low - 40
    }
}

impl<F: Frame> Tcb<F> {
    /// At the beginning of a connection.
    pub(super) fn begin_search(&mut self, now: Instant, rules: &MtuProbing) {
        if rules.when == MtuProbes::Always {
            self.search_from(now, rules.base_mss.max(MSS_MIN));
        }
    }

    fn search_from(&mut self, now: Instant, payload: u32) {
        if self.options.discover_mtu && self.sack_ok {
            let (low, high) = (payload.min(65_495) + self.headers_len(), self.size_max());
            self.search = Some(Box::new(Search { low: low.min(high), high, probe: None, since: now }));
        }
    }

    /// Headers of a full segment.
    fn headers_len(&self) -> u32 {
        40 + self.mss - self.payload_max()
    }

    /// The largest packet that the peer and the application allow.
    fn size_max(&self) -> u32 {
        let asked = u32::from(self.options.mss_max);
        40 + if asked == 0 { self.peer_mss } else { self.peer_mss.min(asked) }
    }

    /// From now on segments are as large as the path takes, as far as is known, or as the search says.
    #[cold]
    pub(super) fn follow_path<O>(&mut self, cx: &mut Cx<'_, O>) {
        let mtu = cx.net.path_mtu(cx.now, &mut self.route);
        self.set_mtu(mtu);
        self.control.set_mss(self.payload_max(), false);
    }

    /// Nothing gets through for long: perhaps since it is too big. What is sent again is smaller, if what is stuck is
    /// large enough for that to be the reason.
    pub(super) fn suspect_black_hole<O>(&mut self, cx: &mut Cx<'_, O>) {
        let rules = cx.shared.settings.mtu_probing;
        let stuck = self.board.first().map_or(0, |first| first.len);
        let payload = self.payload_max();
        let floor = rules.floor.max(MSS_MIN);
        let smaller = if payload > rules.base_mss { rules.base_mss } else { payload / 2 }.max(floor);
        if rules.when == MtuProbes::Never || stuck <= smaller {
            return;
        }
        self.search_from(cx.now, smaller);
        self.follow_path(cx);
    }

    /// Payload of the probe that is to be the next new segment; `room` is that of an ordinary one. So much must wait
    /// behind it that its loss is noticed, as with Linux.
    pub(super) fn probe_len<O>(&mut self, cx: &mut Cx<'_, O>, unsent: u32, room: u32) -> Option<u32> {
        let window = (self.snd_una + self.snd_wnd).distance_from(self.snd_nxt).max(0) as u32;
        let quiet = self.recovery == Recovery::Open && self.board.lost() | self.board.sacked() == 0;
        let (headers, payload, size_max) = (self.headers_len(), self.payload_max(), self.size_max());
        if !quiet || room != payload || self.control.window() < WINDOW_MIN * payload {
            return None;
        }
        let mtu = cx.net.path_mtu(cx.now, &mut self.route);
        let search = self.search.as_deref_mut().filter(|search| search.probe.is_none())?;
        let rules = &cx.shared.settings.mtu_probing;
        search.high = search.high.min(mtu);
        if search.high < search.low.saturating_add(rules.threshold) {
            if cx.now.since(search.since) < rules.interval {
                return None;
            }
            search.since = cx.now;
            search.high = size_max.min(mtu);
        }
        let probe = (search.low + search.high) / 2 - headers;
        let needed = probe + BEHIND * payload;
        let fits = probe > payload && unsent.min(window) >= needed && probe <= self.control.window() / 2;
        fits.then_some(probe)
    }

    pub(super) fn note_probe(&mut self, start: Seq, len: u32) {
        let size = len + self.headers_len();
        if let Some(search) = &mut self.search {
            search.probe = Some(Probe { start, end: start + len, size, failed: false });
        }
    }

    /// Something was sent again: what becomes of a probe says nothing any more.
    #[inline]
    pub(super) fn forget_probe(&mut self) {
        if let Some(search) = &mut self.search {
            search.probe.take_if(|probe| !probe.failed);
        }
    }

    /// New data was acknowledged: with it a probe, perhaps.
    #[cold]
    pub(super) fn judge_probe<O>(&mut self, cx: &mut Cx<'_, O>) {
        let Some(search) = &mut self.search else { return };
        if let Some(probe) = search.probe.take_if(|probe| !self.snd_una.before(probe.end))
            && !probe.failed
        {
            search.low = probe.size;
            self.follow_path(cx);
        }
    }

    /// Whether what was lost is a probe and nothing else: no reason to slow down (RFC 4821, 7.6.2). Its bytes that are
    /// sent again in one turn with newer ones may look lost once more.
    pub(super) fn forgives_probe(&mut self) -> bool {
        let (una, lost) = (self.snd_una, self.board.lost());
        let Some(search) = &mut self.search else { return false };
        let Some(probe) = &mut search.probe else { return false };
        let alone = match probe.failed {
            false => una == probe.start && lost == probe.end - una,
            true => una.before(probe.end) && lost <= probe.end - una,
        };
        if alone && !probe.failed {
            probe.failed = true;
            search.high = probe.size - 1;
        }
        alone
    }
}

/// A window below this has no room for experiments (Linux: eleven packets).
const WINDOW_MIN: u32 = 11;
/// Segments that follow a probe, so that it is told from reordering.
const BEHIND: u32 = 4;
