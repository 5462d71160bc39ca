//! Who sent how much, and what is missing in between. Bounded: the sources of datagrams cost nothing to invent.

use std::collections::HashMap;

use crate::address::Address;
use crate::report::say;

/// Peers told apart; later ones share the first entry.
const MOST: usize = 4096;

/// Counts of one peer.
struct Peer {
    key: u64,
    messages: u64,
    bytes: u64,
    gaps: Option<Session>,
}

/// All peers of one thread.
pub struct Peers {
    list: Vec<Peer>,
    index: HashMap<u64, usize>,
    last: usize,
    /// Sessions of a client with several sockets see every nth number.
    strided: bool,
}

impl Peers {
    /// An empty table; `strided` when clients may spread their numbers over several sockets of ours.
    pub fn new(strided: bool) -> Peers {
        let others = Peer { key: u64::MAX, messages: 0, bytes: 0, gaps: None };
        Peers { list: vec![others], index: HashMap::new(), last: 0, strided }
    }

    /// Counts one message of `bytes` from the peer with this key.
    #[inline]
    pub fn count(&mut self, key: u64, bytes: usize) {
        if self.list[self.last].key != key {
            self.last = self.find(key);
        }
        let peer = &mut self.list[self.last];
        peer.messages += 1;
        peer.bytes += bytes as u64;
    }

    #[cold]
    fn find(&mut self, key: u64) -> usize {
        if let Some(index) = self.index.get(&key) {
            return *index;
        }
        if self.list.len() >= MOST {
            return 0;
        }
        self.list.push(Peer { key, messages: 0, bytes: 0, gaps: None });
        self.index.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Messages and bytes from `host` at any of `ports`.
    pub fn sum(&self, host: &Address, ports: &[u16]) -> (u64, u64) {
        let Some(mut ip) = host.ip() else { return (0, 0) };
        let mut sum = (0, 0);
        for port in ports {
            ip.set_port(*port);
            if let Some(index) = self.index.get(&Address::from_ip(ip).key()) {
                sum.0 += self.list[*index].messages;
                sum.1 += self.list[*index].bytes;
            }
        }
        sum
    }

    /// Takes note of a sequence number, after [`count`](Self::count) of the same message.
    pub fn sequence(&mut self, from: &Address, seq: u64) {
        if self.last != 0 {
            let strided = self.strided;
            self.list[self.last].gaps.get_or_insert_with(|| Session::new(from, strided)).take(seq);
        }
    }

    /// A warm-up message: a client begins anew.
    pub fn warm_up(&mut self, from: &Address) {
        let index = self.find(from.key());
        if index == 0 {
            return;
        }
        if let Some(session) = &self.list[index].gaps {
            if session.taken == 0 {
                return;
            }
            session.summary();
        }
        self.list[index].gaps = Some(Session::new(from, self.strided));
    }

    /// Prints every session's sum.
    pub fn summary(&self) {
        self.list.iter().filter_map(|p| p.gaps.as_ref()).for_each(Session::summary);
    }
}

/// The sequence of one client socket.
struct Session {
    name: String,
    stride: u64,
    last: u64,
    taken: u64,
    missing: u64,
    /// The first numbers, until the stride is known.
    early: Option<Vec<u64>>,
}

impl Session {
    fn new(from: &Address, strided: bool) -> Session {
        let name = format!("[{from}]");
        say(&format!("sockperf: Starting new session: {name:<23}"));
        Session { name, stride: 1, last: 0, taken: 0, missing: 0, early: strided.then(Vec::new) }
    }

    fn take(&mut self, seq: u64) {
        self.taken += 1;
        let Some(early) = &mut self.early else { return self.judge(seq) };
        early.push(seq);
        if let [a, b, c] = early[..] {
            // Three numbers in equal steps, beginning within the first round: one of several sockets.
            let step = b.wrapping_sub(a);
            if step > 1 && c.wrapping_sub(b) == step && a <= step {
                self.stride = step;
                self.last = a.wrapping_sub(step);
            }
            let held = self.early.take().unwrap_or_default();
            held.into_iter().for_each(|seq| self.judge(seq));
        }
    }

    fn judge(&mut self, seq: u64) {
        let expected = self.last.wrapping_add(self.stride);
        if seq == expected {
            self.last = seq;
        } else if seq > self.last || self.last > u64::MAX - self.stride {
            let gap = seq.saturating_sub(expected).div_ceil(self.stride).max(1);
            self.missing = self.missing.saturating_add(gap);
            self.last = seq;
            let bracket = format!("({gap})");
            say(&format!(
                "sockperf: {:<23} Total Dropped/OOO: {:<12}GAP:{bracket:<8}[{expected} - {}]",
                self.name,
                self.missing,
                seq - 1
            ));
        }
    }

    fn summary(&self) {
        say(&format!("sockperf: {:<23} Summary: Total Dropped/OOO: {}", self.name, self.missing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(strided: bool, numbers: &[u64]) -> u64 {
        let mut session = Session::new(&Address::from_ip("10.0.0.1:5".parse().unwrap()), strided);
        numbers.iter().for_each(|n| session.take(*n));
        session.missing
    }

    #[test]
    fn jumps_forward_are_gaps_and_late_numbers_are_not_counted_twice() {
        assert_eq!(missing(false, &[1, 2, 3, 6, 4, 5, 7]), 2);
        assert_eq!(missing(false, &[3]), 2);
    }

    #[test]
    fn a_client_with_four_sockets_has_no_gaps() {
        assert_eq!(missing(true, &[2, 6, 10, 14, 18]), 0);
        assert_eq!(missing(true, &[2, 6, 10, 18, 22]), 1);
        assert_eq!(missing(true, &[1, 2, 3, 5]), 1);
    }

    #[test]
    fn numbers_at_the_end_of_the_range_do_not_overflow() {
        assert!(missing(false, &[u64::MAX, 1, u64::MAX - 1, u64::MAX]) > 0);
        assert!(missing(true, &[u64::MAX, 1, u64::MAX]) > 0);
    }

    #[test]
    fn peers_are_bounded_and_summed_by_host_and_port() {
        let mut peers = Peers::new(false);
        let host = Address::from_ip("10.0.0.1:7".parse().unwrap());
        peers.count(host.key(), 100);
        peers.count(host.key(), 50);
        for port in 0..10_000u64 {
            peers.count(1 << 40 | port, 1);
        }
        assert!(peers.list.len() <= MOST);
        assert_eq!(peers.sum(&host, &[7, 8]), (2, 150));
    }
}
