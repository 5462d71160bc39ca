//! SYN cookies (RFC 4987, 3.6): when the SYN queue is full, the handshake is remembered by the peer.
//!
//! ```text
//!   31          27 26     24 23                      0
//!  | minute mod 32 | MSS row |  keyed hash of all this |
//! ```
//! The hash is of both ends, the peer's initial number, minute and row, so a cookie is worth nothing for another flow
//! or another minute. Window scale, SACK and ECN ride in the low bits of our timestamp, when the peer uses timestamps.

use super::options::SynOptions;
use super::seq::Seq;
use super::shared::Shared;
use crate::mutation::planted;
use crate::{Duration, Endpoint, Instant};

/// How long a cookie is believed, roughly: this minute's and the last one's.
pub(crate) const LIFETIME: Duration = Duration::from_secs(120);

/// Segment sizes that a cookie can say; the largest that is not above the peer's is taken.
const ROWS: [u16; 8] = [88, 536, 1220, 1300, 1400, 1440, 1460, 8960];

const AHEAD: Duration = Duration::from_secs(1);

const STAMP_BITS: u32 = 6;
const STAMP_SACK: u32 = 1 << 4;
const STAMP_ECN: u32 = 1 << 5;
const STAMP_NO_SCALE: u32 = 15;

/// The program answers as well (`bpf/syn_cookie.h`), from the same hash: SipHash-1-3 of 24 bytes.
fn hash(shared: &Shared, minute: u64, row: u32, local: Endpoint, remote: Endpoint, irs: Seq) -> u32 {
    let mut message = [0; 24];
    message[..4].copy_from_slice(&local.ip().octets());
    message[4..8].copy_from_slice(&remote.ip().octets());
    message[8..10].copy_from_slice(&local.port().to_be_bytes());
    message[10..12].copy_from_slice(&remote.port().to_be_bytes());
    message[12..16].copy_from_slice(&irs.0.to_be_bytes());
    message[16..].copy_from_slice(&(minute << 3 | u64::from(row)).to_le_bytes());
    shared.cookie_key.hash(&message) as u32 & 0x00ff_ffff
}

fn minute_of(now: Instant) -> u64 {
    now.0 / 60_000_000_000
}

/// The minutes whose cookies are believed. The time of a turn may lie behind that of the program, which has made a
/// cookie in the meantime.
fn minutes(now: Instant) -> [u64; 2] {
    let minute = minute_of(now + AHEAD);
    [minute, minute.wrapping_sub(1)]
}

pub(crate) fn make(
    shared: &Shared,
    now: Instant,
    local: Endpoint,
    remote: Endpoint,
    irs: Seq,
    mss: Option<u16>,
) -> Seq {
    let mss = mss.unwrap_or(536);
    let row = ROWS.iter().rposition(|r| *r <= mss).unwrap_or(0) as u32;
    let minute = minute_of(now);
    Seq(((minute as u32 & 31) << 27) | (row << 24) | hash(shared, minute, row, local, remote, irs))
}

/// The MSS that a cookie of ours says; `None`: it is not ours, or too old.
pub(crate) fn check(
    shared: &Shared,
    now: Instant,
    local: Endpoint,
    remote: Endpoint,
    irs: Seq,
    cookie: Seq,
) -> Option<u16> {
    let row = (cookie.0 >> 24) & 7;
    minutes(now)
        .into_iter()
        .find(|m| {
            planted!(AnyCookie)
                || (*m as u32 & 31) == cookie.0 >> 27
                    && hash(shared, *m, row, local, remote, irs) == cookie.0 & 0x00ff_ffff
        })
        .map(|_| ROWS[row as usize])
}

/// Whether a number could be a cookie of this minute or the last one, by what it says of itself.
pub(crate) fn may_be_recent(now: Instant, cookie: Seq) -> bool {
    minutes(now).iter().any(|m| *m as u32 & 31 == cookie.0 >> 27)
}

/// Our timestamp with the peer's options in its low bits; never ahead of the clock.
pub(crate) fn stamp(now: Instant, offset: u32, peer: &SynOptions) -> u32 {
    let clock = (now.0 / 1_000_000) as u32;
    let bits = peer.window_scale.map_or(STAMP_NO_SCALE, |s| u32::from(s.min(14)))
        | if peer.sack_permitted { STAMP_SACK } else { 0 }
        | if peer.ecn { STAMP_ECN } else { 0 };
    let mask = (1 << STAMP_BITS) - 1;
    let mut stamp = (clock & !mask) | bits;
    if stamp > clock {
        stamp = stamp.wrapping_sub(1 << STAMP_BITS);
    }
    stamp.wrapping_add(offset)
}

pub(crate) fn read_stamp(echo: u32, offset: u32, peer: &mut SynOptions) {
    let bits = echo.wrapping_sub(offset) & ((1 << STAMP_BITS) - 1);
    let shift = bits & 15;
    peer.window_scale = (shift != STAMP_NO_SCALE).then_some(shift.min(14) as u8);
    peer.sack_permitted = bits & STAMP_SACK != 0;
    peer.ecn = bits & STAMP_ECN != 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddr;

    /// The same numbers are in `crates/xdp/src/program/tests/cookies.rs`, whose hash the program is tested against.
    #[test]
    fn a_cookie_is_the_number_that_the_program_makes() {
        let mut config = crate::testing::config(MacAddr([2, 0, 0, 0, 0, 1]));
        config.cookie_key = core::array::from_fn(|i| i as u8);
        let shared = Shared::new(&config);
        let now = Instant(1234 * 60_000_000_000 + 5);
        let ends = |a, b| Endpoint::new([10, 0, 0, a].into(), b);
        let cookie = make(&shared, now, ends(1, 7), ends(2, 9), Seq(0xfeed_f00d), Some(1460));
        assert_eq!(cookie.0, 0x96c9_f311);
        assert_eq!(check(&shared, now, ends(1, 7), ends(2, 9), Seq(0xfeed_f00d), cookie), Some(1460));
        let just_before = Instant(1234 * 60_000_000_000 - 1000);
        assert!(may_be_recent(just_before, cookie), "the program's clock may be ahead of a turn's");
    }
}
