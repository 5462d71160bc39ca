//! What the kernel of a namespace counted: the witness that packets went past it.

use std::collections::BTreeMap;

use crate::{Context, Namespace, Result};

/// `/proc/net/snmp` and `/proc/net/netstat` of a namespace and the packets of one interface, at one moment or as a
/// difference of two.
#[derive(Clone, Debug, Default)]
pub struct KernelCounters {
    values: BTreeMap<String, u64>,
}

impl KernelCounters {
    pub(crate) fn read(namespace: &Namespace, interface: &str) -> Result<KernelCounters> {
        let (snmp, dev) = namespace.inside(|| {
            let snmp =
                std::fs::read_to_string("/proc/thread-self/net/snmp").context("/proc/thread-self/net/snmp");
            let more = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
            let snmp = snmp.map(|snmp| snmp + &more);
            let dev =
                std::fs::read_to_string("/proc/thread-self/net/dev").context("/proc/thread-self/net/dev");
            (snmp, dev)
        })?;
        let mut values = parse_snmp(&snmp?);
        let dev = dev?;
        values.extend(parse_dev(&dev, interface, "if"));
        values.extend(parse_dev(&dev, "lo", "lo"));
        Ok(KernelCounters { values })
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &KernelCounters) -> KernelCounters {
        let difference =
            |(name, value): (&String, &u64)| (name.clone(), value.wrapping_sub(earlier.get(name)));
        KernelCounters { values: self.values.iter().map(difference).collect() }
    }

    /// A counter by its name in the kernel, `Udp.InDatagrams`; 0 if the kernel has none of that name.
    pub fn get(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// Datagrams that the kernel delivered to UDP sockets.
    pub fn udp_in(&self) -> u64 {
        self.get("Udp.InDatagrams")
    }

    /// Segments that the kernel's TCP received.
    pub fn tcp_in(&self) -> u64 {
        self.get("Tcp.InSegs")
    }

    /// Datagrams or segments that the kernel's own transports received from and sent to other hosts, together. What the
    /// host says to itself is not among them: a connection that one of our processes hands to another goes that way.
    pub fn transport_packets(&self) -> u64 {
        let all: u64 = ["Udp.InDatagrams", "Udp.OutDatagrams", "Tcp.InSegs", "Tcp.OutSegs"]
            .map(|name| self.get(name))
            .iter()
            .sum();
        all.saturating_sub(self.get("lo.rx_packets") + self.get("lo.tx_packets"))
    }

    /// Packets that came in and went out over the interface, whoever handled them.
    pub fn wire_packets(&self) -> u64 {
        self.get("if.rx_packets") + self.get("if.tx_packets")
    }
}

/// Pairs of lines: `Udp: names...` and `Udp: values...`.
fn parse_snmp(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let protocol = names.split(':').next().unwrap_or_default();
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()).skip(1) {
            // A few, like Tcp.MaxConn, are -1 for "no limit": not counters.
            if let Ok(number) = number.parse() {
                values.insert(format!("{protocol}.{name}"), number);
            }
        }
    }
    values
}

/// `name: rx_bytes rx_packets errs drop fifo frame compressed multicast tx_bytes tx_packets ...`,
/// named `prefix.rx_packets` and `prefix.tx_packets`.
fn parse_dev(text: &str, interface: &str, prefix: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if name.trim() == interface {
            let columns: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
            for (name, column) in [("rx_packets", 1), ("tx_packets", 9)] {
                values.insert(format!("{prefix}.{name}"), columns.get(column).copied().unwrap_or(0));
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snmp_lines_are_read_in_pairs() {
        let text = "Tcp: RtoMin MaxConn InSegs\nTcp: 200 -1 17\nUdp: InDatagrams NoPorts\nUdp: 5 6\n";
        let values = parse_snmp(text);
        assert_eq!(values.get("Tcp.InSegs"), Some(&17));
        assert_eq!(values.get("Udp.NoPorts"), Some(&6));
        assert_eq!(values.get("Tcp.MaxConn"), None);
    }

    #[test]
    fn what_a_host_says_to_itself_does_not_count_as_traffic() {
        let values = [("Tcp.InSegs", 30), ("Tcp.OutSegs", 31), ("lo.rx_packets", 20), ("lo.tx_packets", 20)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(KernelCounters { values }.transport_packets(), 21);
    }

    #[test]
    fn interface_line_gives_packets_of_both_directions() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  net0: 10 20 0 0 0 0 0 0 30 40 0 0 0 0 0 0\n";
        let values = parse_dev(text, "net0", "if");
        assert_eq!(values.get("if.rx_packets"), Some(&20));
        assert_eq!(values.get("if.tx_packets"), Some(&40));
    }
}
