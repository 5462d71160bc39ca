//! The observer on the wire: reads every frame that a host sends, and knows every frame that was delivered to it, and
//! says what must not be. Its knowledge of the protocols is its own (packet.rs).

pub mod ecn;
pub mod keeps;
pub mod needless;
pub mod ranges;
pub mod states;
pub mod tcp;

use crate::ledger::Ledger;
use crate::packet::{self, Body};

/// Ties a frame on its way to the connection that it was sent in: an old duplicate teaches nothing about the next
/// connection between the same ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tag {
    pub flow: u32,
    pub generation: u32,
}

impl Tag {
    /// On a frame that no host sent.
    pub const FORGED: Tag = Tag { flow: 0, generation: u32::MAX };
}

/// The observer.
#[derive(Default)]
pub struct Checker {
    tcp: tcp::Flows,
}

impl Checker {
    /// An observer that knows which conversations will happen.
    pub fn new(conversations: Vec<[tcp::Place; 2]>) -> Checker {
        Checker { tcp: tcp::Flows::new(conversations) }
    }

    /// See [`tcp::Flows::victim`].
    pub fn victim(&self, chance: &mut crate::chance::Chance) -> Option<crate::attack::Victim> {
        self.tcp.victim(chance)
    }

    /// Bytes of TCP payload that were sent more than once.
    pub fn resent(&self) -> u64 {
        self.tcp.resent
    }

    /// `host` sends a frame.
    pub fn on_sent(&mut self, host: usize, frame: &[u8], mtu: u32, ledger: &mut Ledger) -> Tag {
        let packet = match packet::parse(frame) {
            Ok(Some(packet)) => packet,
            Ok(None) => {
                ledger.alarm(|| "sent a frame that is not IPv4".to_string());
                return Tag::default();
            }
            Err(why) => {
                ledger.alarm(|| format!("sent a malformed packet: {why}"));
                return Tag::default();
            }
        };
        if packet.len > mtu as usize {
            ledger.alarm(|| format!("sent a packet of {} bytes, MTU {mtu}", packet.len));
        }
        if packet.len + 14 != frame.len() {
            ledger.alarm(|| format!("sent {} bytes of frame for a packet of {}", frame.len(), packet.len));
        }
        if packet.source != 0x0a00_0001 + host as u32 || packet.ttl == 0 {
            ledger.alarm(|| format!("sent with source {:x}, TTL {}", packet.source, packet.ttl));
        }
        if frame[6..12] != crate::host::mac(host).0 {
            ledger.alarm(|| "sent with another's hardware address".to_string());
        }
        match packet.body {
            Body::Tcp(segment) => self.tcp.on_sent(&packet, &segment, ledger),
            _ => Tag::default(),
        }
    }

    /// A frame is about to enter the stack of `host`.
    pub fn on_delivered(&mut self, frame: &[u8], tag: Tag) {
        if let Ok(Some(packet)) = packet::parse(frame)
            && let Body::Tcp(segment) = packet.body
        {
            self.tcp.on_delivered(&segment, &packet, tag);
        }
    }
}
