//! What all TCP sockets of a stack share: settings, send blocks, secrets, and the limits that hold for all together.

use super::send_buffer::Pool;
use super::seq::Seq;
use super::{Refused, Settings};
use crate::{Config, Duration, Endpoint, Instant, SocketId};
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    key: SipHasher13,
    /// Of SYN cookies; see [`Config::cookie_key`].
    pub(crate) cookie_key: SipHasher13,
    /// When somebody else answered by cookies for us.
    pub(crate) cookies_elsewhere: Option<Instant>,
    /// Connections in TIME-WAIT, oldest first; those that ended early are skipped.
    pub(crate) time_wait: VecDeque<SocketId>,
    /// Answers to segments of no connection.
    pub(crate) resets: RateLimit,
    /// Closed sockets that still deliver, or wait for the peer's FIN.
    pub(crate) orphans: u32,
    pub(crate) refused: Refused,
}

impl Shared {
    pub(crate) fn new(config: &Config, now: Instant) -> Shared {
        let mut key = [0; 16];
        for (slot, (a, b)) in key.iter_mut().zip(config.seed.iter().zip(&config.seed[16..])) {
            *slot = a ^ b.rotate_left(3);
        }
        Shared {
            settings: config.tcp.clone(),
            pool: Pool::default(),
            key: SipHasher13::new_with_key(&key),
            cookie_key: SipHasher13::new_with_key(&config.cookie_key),
            cookies_elsewhere: None,
            time_wait: VecDeque::new(),
            resets: RateLimit::new(now, RESETS_PER_SECOND),
            orphans: 0,
            refused: Refused::default(),
        }
    }

    /// Whether closed sockets are more than the limit. One whose `faults` speak against it must go the sooner: as if
    /// there were two, four times as many (Linux's tcp_too_many_orphans).
    pub(crate) fn has_too_many_orphans(&self, faults: u32) -> bool {
        u64::from(self.orphans) << faults > u64::from(self.settings.orphans_max)
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
        self.hash(2, Endpoint::new(*local.ip(), 0), Endpoint::new(*remote.ip(), 0)) as u32
    }
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

/// Resets to strangers: enough for a busy host's clients of a closed port, too few to be somebody's amplifier.
const RESETS_PER_SECOND: u32 = 1000;
