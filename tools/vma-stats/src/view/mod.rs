//! What is printed: a file per view, each a pure function of a snapshot.

pub(crate) mod basic;
pub(crate) mod full;
pub(crate) mod json;
pub(crate) mod multicast;
pub(crate) mod netstat;
pub(crate) mod why;

use crate::cli::Options;
use stats::segment::address_of;
use stats::{Snapshot, Socket};
use std::net::Ipv4Addr;

/// One look and how to print it.
pub(crate) struct Frame<'a> {
    /// Totals, or what happened in the interval.
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) options: &'a Options,
    /// The how manieth look, from 0.
    pub(crate) number: u64,
}

impl Frame<'_> {
    /// A count, as it is or per second.
    pub(crate) fn rate(&self, count: u64) -> u64 {
        if self.options.deltas { count / self.options.interval_s.max(1) } else { count }
    }

    /// What follows the name of a rate.
    pub(crate) fn per_second(&self) -> &'static str {
        if self.options.deltas { "/s" } else { "" }
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

/// The descriptor; the block keeps it plus 1.
pub(crate) fn fd(socket: &Socket) -> i64 {
    i64::try_from(socket.fd.value()).map_or(-1, |named| named - 1)
}

/// Whether a flag is set.
pub(crate) fn has(socket: &Socket, flag: u64) -> bool {
    socket.flags.value() & flag != 0
}

/// `tcp` or `udp`.
pub(crate) fn protocol(socket: &Socket) -> &'static str {
    if has(socket, stats::flag::TCP) { "tcp" } else { "udp" }
}

/// `address:port`, or `*:*` if there is none.
pub(crate) fn end(word: u64) -> String {
    if word == 0 {
        return "*:*".to_owned();
    }
    address_of(word).to_string()
}

/// Multicast groups of a socket.
pub(crate) fn groups(socket: &Socket) -> Vec<Ipv4Addr> {
    let words = [socket.groups_first.value(), socket.groups_second.value()];
    let halves = words.iter().flat_map(|word| [(word >> 32) as u32, *word as u32]);
    halves.filter(|group| *group != 0).map(Ipv4Addr::from_bits).collect()
}

/// Share of hits in percent; nothing is 0.
pub(crate) fn percent(hits: u64, misses: u64) -> f64 {
    let all = hits + misses;
    if all == 0 { 0.0 } else { hits as f64 * 100.0 / all as f64 }
}

/// States of TCP by number, RFC 9293's names as netstat(8) writes them.
pub(crate) fn tcp_state(number: u64) -> &'static str {
    const STATES: [&str; 11] = [
        "CLOSED",
        "LISTEN",
        "SYN_SENT",
        "SYN_RCVD",
        "ESTABLISHED",
        "FIN_WAIT_1",
        "FIN_WAIT_2",
        "CLOSE_WAIT",
        "CLOSING",
        "LAST_ACK",
        "TIME_WAIT",
    ];
    usize::try_from(number).ok().and_then(|number| STATES.get(number)).copied().unwrap_or("?")
}

/// Widths of numbers: what does not fit is not cut.
pub(crate) fn kilo(bytes: u64) -> u64 {
    bytes / 1024
}
