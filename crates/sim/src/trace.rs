//! What happened, for people: a pcap file of all that hosts sent, and a text of every frame's fate.

use crate::packet::{self, Body, Packet, Tcp};
use std::io::{Result, Write};

/// A record of one world. Costs nothing when it is off.
#[derive(Default)]
pub struct Trace {
    on: bool,
    pcap: Vec<u8>,
    text: String,
}

impl Trace {
    /// A trace that records.
    pub fn recording() -> Trace {
        let mut pcap = Vec::new();
        // Magic of nanosecond files, version 2.4, zone, accuracy, longest record, Ethernet.
        for word in [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65535, 1u32] {
            pcap.extend_from_slice(&word.to_le_bytes());
        }
        Trace { on: true, pcap, text: String::new() }
    }

    /// A frame that a host sent at `now` (ns), and what the network made of it.
    pub fn frame(&mut self, now: u64, host: usize, frame: &[u8], fate: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let len = frame.len() as u32;
        for word in [(now / 1_000_000_000) as u32, (now % 1_000_000_000) as u32, len, len] {
            self.pcap.extend_from_slice(&word.to_le_bytes());
        }
        self.pcap.extend_from_slice(frame);
        let line = describe(frame);
        self.note(now, host, || format!("{line}  => {}", fate()));
    }

    /// Anything else.
    pub fn note(&mut self, now: u64, host: usize, what: impl FnOnce() -> String) {
        if self.on {
            self.text.push_str(&format!("{:>16.9} host {host} {}\n", now as f64 / 1e9, what()));
        }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the pcap file.
    pub fn write_pcap(&self, path: &str) -> Result<()> {
        std::fs::File::create(path)?.write_all(&self.pcap)
    }
}

/// One line about a frame.
pub fn describe(frame: &[u8]) -> String {
    let packet = match packet::parse(frame) {
        Err(why) => return format!("{} bytes, {why}", frame.len()),
        Ok(None) => return format!("{} bytes, not IPv4", frame.len()),
        Ok(Some(packet)) => packet,
    };
    let (a, b) = (packet.source & 0xff, packet.destination & 0xff);
    match packet.body {
        Body::Udp { source, destination, payload } => {
            format!(".{a}:{source} > .{b}:{destination} udp {}", payload.len())
        }
        Body::Icmp { kind, code } => format!(".{a} > .{b} icmp {kind}/{code}"),
        Body::Fragment { offset, more } => {
            format!(".{a} > .{b} fragment {offset}+{} more {more}", packet.len - 20)
        }
        Body::Other(protocol) => format!(".{a} > .{b} protocol {protocol}"),
        Body::Tcp(t) => describe_tcp(&packet, &t),
    }
}

/// One line about a segment.
pub fn describe_tcp(packet: &Packet<'_>, t: &Tcp<'_>) -> String {
    let flags: String =
        "FSRPAUEC".chars().enumerate().filter(|(i, _)| t.flags & 1 << i != 0).map(|(_, c)| c).collect();
    let o = t.options;
    let mut line = format!(
        ".{}:{} > .{}:{} {flags} seq {} len {} ack {} win {}",
        packet.source & 0xff,
        t.source,
        packet.destination & 0xff,
        t.destination,
        t.seq,
        t.payload.len(),
        t.ack,
        t.window
    );
    if let Some(mss) = o.mss {
        line += &format!(" mss {mss} ws {:?} sackok {}", o.window_scale, o.sack_permitted);
    }
    if let Some((value, echo)) = o.timestamps {
        line += &format!(" ts {value}/{echo}");
    }
    for (from, to) in &o.sacks[..o.sack_count] {
        line += &format!(" sack {from}-{to}");
    }
    line
}
