//! What all TCP sockets of a stack share: settings, send blocks, secrets, and the limits that hold for all together.

use super::send_buffer::Pool;
use super::seq::Seq;
use super::{Refused, Settings};
use crate::{Config, Duration, Endpoint, Instant, SocketId};
use core::hash::Hasher;
use core::net::Ipv4Addr;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    key: SipHasher13,
    /// Of SYN cookies; see [`Config::cookie_key`].
    pub(crate) cookie_key: SipHasher13,
    /// See [`Config::timestamp_key`].
    timestamp_key: SipHasher13,
    /// When somebody else answered by cookies for us.
    pub(crate) cookies_elsewhere: Option<Instant>,
    /// Connections in TIME-WAIT, oldest first; those that ended early are skipped.
    pub(crate) time_wait: VecDeque<SocketId>,
    resets: Resets,
    /// Closed sockets that still deliver, or wait for the peer's FIN.
    pub(crate) orphans: u32,
    pub(crate) refused: Refused,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Shared {
        let mut key = [0; 16];
        for (slot, (a, b)) in key.iter_mut().zip(config.seed.iter().zip(&config.seed[16..])) {
            *slot = a ^ b.rotate_left(3);
        }
        Shared {
            settings: config.tcp.clone(),
            pool: Pool::default(),
            key: SipHasher13::new_with_key(&key),
            cookie_key: SipHasher13::new_with_key(&config.cookie_key),
            timestamp_key: SipHasher13::new_with_key(&config.timestamp_key),
            cookies_elsewhere: None,
            time_wait: VecDeque::new(),
            resets: Resets { second: 0, left: [RESETS_PER_SECOND; ADDRESSES] },
            orphans: 0,
            refused: Refused::default(),
        }
    }

    /// Whether closed sockets are more than the limit. One whose `faults` speak against it must go the sooner: as if
    /// there were two, four times as many (Linux's tcp_too_many_orphans).
    pub(crate) fn has_too_many_orphans(&self, faults: u32) -> bool {
        u64::from(self.orphans) << faults > u64::from(self.settings.orphans_max)
    }

    /// Whether a segment of no connection is answered; counts the answer.
    pub(crate) fn may_reset(&mut self, now: Instant, to: Ipv4Addr) -> bool {
        let second = now.0 / 1_000_000_000;
        if self.resets.second != second {
            self.resets = Resets { second, left: [RESETS_PER_SECOND; ADDRESSES] };
        }
        let mut hasher = self.key;
        hasher.write(&[4]);
        hasher.write(&to.octets());
        hasher.write(&second.to_ne_bytes());
        let left = &mut self.resets.left[hasher.finish() as usize % ADDRESSES];
        let may = *left > 0;
        *left -= u16::from(may);
        may
    }

    /// A keyed hash of a connection's four-tuple, for one purpose.
    pub(crate) fn hash(&self, purpose: u8, local: Endpoint, remote: Endpoint) -> u64 {
        let mut hasher = self.key;
        hasher.write(&[purpose]);
        hasher.write(&local.ip().octets());
        hasher.write(&remote.ip().octets());
        hasher.write(&local.port().to_be_bytes());
        hasher.write(&remote.port().to_be_bytes());
        hasher.finish()
    }

    /// Initial sequence number: a clock of 4 us and a keyed hash of the connection (RFC 6528).
    pub(crate) fn isn(&self, now: Instant, local: Endpoint, remote: Endpoint) -> Seq {
        let clock = (now.0 / 4_096) as u32;
        Seq((self.hash(1, local, remote) as u32).wrapping_add(clock))
    }

    /// Offset of the timestamp clock: per pair of addresses, so that it goes on over connections (RFC 7323, 5.4).
    pub(crate) fn timestamp_offset(&self, local: Endpoint, remote: Endpoint) -> u32 {
        let mut hasher = self.timestamp_key;
        hasher.write(&local.ip().octets());
        hasher.write(&remote.ip().octets());
        hasher.finish() as u32
    }
}

/// What is left of this second's answers to segments of no connection. The allowance is by the address that is
/// answered, so that a flood in somebody's name takes no answer from others, and that nobody learns from his own
/// answers what others were not told (CVE-2016-5696: a limit in common says who talks to whom). Addresses share places
/// by a keyed hash that is another one each second, which bounds the answers altogether.
struct Resets {
    second: u64,
    left: [u16; ADDRESSES],
}

/// So many a second, with bursts of as many.
pub(crate) struct RateLimit {
    per_second: u32,
    left: u32,
    since: Instant,
}

impl RateLimit {
    pub(crate) fn new(now: Instant, per_second: u32) -> RateLimit {
        RateLimit { per_second, left: per_second, since: now }
    }

    /// Whether one more is allowed; counts it.
    pub(crate) fn allow(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.left = self.per_second;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Resets to one address, or those that share its place: enough for a proxy whose server began anew. An answer is what
/// a stray segment costs most: a place in the transmit ring, and the kernel's work in copy mode.
const RESETS_PER_SECOND: u16 = 1000;
const ADDRESSES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddr;

    #[test]
    fn the_next_process_of_a_host_goes_on_with_the_timestamps_of_the_last_and_begins_other_sequence_numbers()
    {
        let config = crate::testing::config(MacAddr([2, 0, 0, 0, 0, 1]));
        let (first, next) = (Shared::new(&config), Shared::new(&Config { seed: [8; 32], ..config.clone() }));
        let host = |last| Endpoint::new(Ipv4Addr::new(10, 0, 0, last), 4000);
        assert_eq!(first.timestamp_offset(host(1), host(2)), next.timestamp_offset(host(1), host(2)));
        assert_ne!(first.timestamp_offset(host(1), host(2)), first.timestamp_offset(host(1), host(3)));
        assert_ne!(first.isn(Instant(0), host(1), host(2)), next.isn(Instant(0), host(1), host(2)));
    }
}
