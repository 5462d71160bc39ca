//! What is printed: a file per view, each a pure function of a snapshot.

pub(crate) mod basic;
pub(crate) mod full;
pub(crate) mod json;
pub(crate) mod multicast;
pub(crate) mod netstat;
pub(crate) mod why;

use crate::cli::Options;
use stats::report::{Rate, fd};
use stats::{Snapshot, Socket};

/// One look and how to print it.
pub(crate) struct Frame<'a> {
    /// Totals, or what happened in the interval.
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) options: &'a Options,
    /// The how manieth look, from 0.
    pub(crate) number: u64,
}

impl Frame<'_> {
    /// How counts are shown.
    pub(crate) fn rates(&self) -> Rate {
        Rate { interval_s: self.options.deltas.then_some(self.options.interval_s) }
    }

    /// A count, as it is or per second.
    pub(crate) fn rate(&self, count: u64) -> u64 {
        self.rates().of(count)
    }

    /// What follows the name of a rate.
    pub(crate) fn per_second(&self) -> &'static str {
        self.rates().suffix()
    }

    /// The sockets that are asked for, by descriptor.
    pub(crate) fn sockets(&self) -> Vec<&Socket> {
        chosen(self.snapshot, &self.options.sockets)
    }
}

/// The sockets in these ranges of descriptors, in order; all if there are no ranges.
pub(crate) fn chosen<'a>(snapshot: &'a Snapshot, ranges: &[(i32, i32)]) -> Vec<&'a Socket> {
    let asked = |socket: &&Socket| {
        let fd = fd(socket);
        ranges.is_empty()
            || ranges.iter().any(|(low, high)| (i64::from(*low)..=i64::from(*high)).contains(&fd))
    };
    let mut sockets: Vec<&Socket> = snapshot.sockets.iter().filter(asked).collect();
    sockets.sort_by_key(|socket| socket.fd.value());
    sockets
}
