//! What the kernel's own stack of a host received and sent, by port: the witness that the packets of a test, each of
//! them, went past it. Frames that XDP redirected or AF_XDP sent never come by the hooks that count here.

use std::collections::BTreeMap;

use crate::namespace::Namespace;
use crate::two_hosts::Host;
use crate::{Error, Result};

/// Counted are UDP datagrams, TCP segments with data, and those that open a connection; not what the kernel says or
/// hears about connections that are not its own (acknowledgments, resets, a SYN to a port that is closed). Fragments
/// have no ports and are always the kernel's, so neither they nor datagrams that will be cut into them count.
const RULES: &str = "\
table ip witness {
  set handled {
    type inet_service
    size 65535
    flags dynamic
    counter
  }
  WITH_DATA
  chain count {
    add @handled { th dport }
    add @handled { th sport }
  }
  chain received {
    type filter hook prerouting priority raw
    iifname != INTERFACE return
    ip frag-off & 0x3fff != 0 return
    meta l4proto udp goto count
    tcp flags & (syn | ack) == syn | ack goto count
    tcp doff . meta length @with_data goto count
  }
  chain sent {
    type filter hook output priority raw
    oifname != INTERFACE return
    meta l4proto udp meta length > MTU return
    meta l4proto udp goto count
    tcp flags & syn == syn goto count
    tcp doff . meta length @with_data goto count
  }
}
";

/// What both tables know as `with_data`: each length of a TCP header, in words, with the lengths of an IPv4 packet that
/// has more in it.
const WITH_DATA: &str = "\
set with_data {
    typeof tcp doff . meta length
    flags interval
    elements = {
      5 . 41-65535, 6 . 45-65535, 7 . 49-65535, 8 . 53-65535, 9 . 57-65535, 10 . 61-65535, 11 . 65-65535,
      12 . 69-65535, 13 . 73-65535, 14 . 77-65535, 15 . 81-65535
    }
  }";

/// Bytes of segments with data that a host's kernel sends to the host itself, by port.
const LOOPBACK_RULES: &str = "\
table ip loopback_witness {
  set carried {
    type inet_service
    size 65535
    flags dynamic
    counter
  }
  WITH_DATA
  chain count {
    add @carried { th dport }
    add @carried { th sport }
  }
  chain sent {
    type filter hook output priority raw
    oifname != lo return
    tcp doff . meta length @with_data goto count
  }
}
";

/// What a host sends to itself, from the making of this on.
#[derive(Debug)]
pub struct LoopbackBytes<'a> {
    namespace: &'a Namespace,
}

impl LoopbackBytes<'_> {
    /// Begins to count.
    pub fn watch(host: &Host) -> Result<LoopbackBytes<'_>> {
        load(&host.namespace, LOOPBACK_RULES)?;
        Ok(LoopbackBytes { namespace: &host.namespace })
    }

    /// Bytes of packets by each of their two ports, since the last call.
    pub fn take(&self) -> Result<BTreeMap<u16, u64>> {
        take(self.namespace, "loopback_witness carried", "bytes")
    }
}

/// The counts of one host, from the making of this on.
#[derive(Debug)]
pub struct KernelFlows<'a> {
    namespace: &'a Namespace,
}

impl KernelFlows<'_> {
    /// Begins to count on the host's interface, whose packets have at most `mtu` bytes.
    pub fn watch(host: &Host, mtu: u32) -> Result<KernelFlows<'_>> {
        let rules = RULES.replace("INTERFACE", host.interface).replace("MTU", &mtu.to_string());
        load(&host.namespace, &rules)?;
        Ok(KernelFlows { namespace: &host.namespace })
    }

    /// Packets by each of their two ports, since the last call.
    pub fn take(&self) -> Result<BTreeMap<u16, u64>> {
        take(self.namespace, "witness handled", "packets")
    }
}

/// The tool reads rules from a file only.
fn load(namespace: &Namespace, rules: &str) -> Result<()> {
    let file = std::env::temp_dir().join(format!("{}.nft", namespace.name()));
    std::fs::write(&file, rules.replace("WITH_DATA", WITH_DATA))
        .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    let loaded = namespace.tool("nft", &format!("-f {}", file.display()));
    let _ = std::fs::remove_file(&file);
    loaded.map(drop)
}

fn take(namespace: &Namespace, set: &str, what: &str) -> Result<BTreeMap<u16, u64>> {
    let listed = namespace.tool("nft", &format!("list set ip {set}"))?;
    namespace.tool("nft", &format!("flush set ip {set}"))?;
    Ok(parse(&listed, what))
}

/// `elements = { 7001 counter packets 5 bytes 286, 7002 counter ...`; `what`: packets or bytes.
fn parse(listed: &str, what: &str) -> BTreeMap<u16, u64> {
    let (_, elements) = listed.split_once("elements = {").unwrap_or_default();
    let element = |text: &str| {
        let mut words = text.split_whitespace();
        let port = words.next()?.parse().ok()?;
        let count = words.skip_while(|word| *word != what).nth(1)?;
        Some((port, count.parse().ok()?))
    };
    elements.split(',').filter_map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_set_gives_packets_by_port() {
        let listed = "set handled {\n\tsize 65535\n\telements = { 7001 counter packets 5 bytes 286,\n\t\t\t \
                      36530 counter packets 2 bytes 116 }\n}";
        assert_eq!(parse(listed, "packets"), [(7001, 5), (36530, 2)].into());
        assert_eq!(parse(listed, "bytes"), [(7001, 286), (36530, 116)].into());
        assert!(parse("set handled {\n\tcounter\n}", "packets").is_empty());
    }
}
