//! What lies between the hosts: two wires and a router for each packet, and an attacker beside them.

use super::{Event, World};
use crate::checker::Tag;
use crate::link::Fate;
use crate::router;

impl World {
    /// An attacker sends something to a host, or finds none.
    pub(super) fn attack(&mut self) {
        let Some(victim) = self.checker.victim(&mut self.chance) else { return };
        let frame = crate::attack::forge(&mut self.chance, &victim);
        let host = (victim.destination.0 as usize & 0xff) - 1;
        if self.hosts[host].paused {
            // By the time that it looks, what waits before the forgery may have made the guess right.
            return;
        }
        self.trace.frame(self.now, host, &frame, || "forged, arrives".to_string());
        self.push(self.now, Event::Arrive { host, frame, tag: Tag::FORGED });
    }

    pub(super) fn deliver(&mut self, host: usize, mut frame: Vec<u8>, tag: Tag) {
        self.ledger.host = host;
        if self.plan.lies && crate::merge::may_begin(&frame) {
            *frame.last_mut().expect("a segment with payload") ^= 1;
            crate::merge::seal(&mut frame, false);
        }
        self.checker.on_delivered(&frame, tag);
        if self.hosts[host].receive(self.now, frame) {
            let span = self.chance.below(30_000) + 1;
            self.push(self.now + span, Event::StopMerging { host });
        }
    }

    /// A frame leaves a host.
    pub(super) fn transmit(&mut self, host: usize, frame: Vec<u8>) {
        let index = self.report.frames;
        self.report.frames += 1;
        let mut digest = self.report.digest ^ self.now;
        for chunk in frame.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest = (digest ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.report.digest = digest;
        let mtu = self.hosts[host].plan.mtu;
        let tag = self.checker.on_sent(host, &frame, mtu, &mut self.ledger);
        if self.ledger.violation.is_some() {
            return self.trace.frame(self.now, host, &frame, || "VIOLATION".to_string());
        }
        let to = frame.get(33).map_or(usize::MAX, |last| usize::from(*last).wrapping_sub(1));
        if to >= self.hosts.len() || self.plan.lose_frames.contains(&index) {
            self.ledger.disturbed += 1;
            return self
                .trace
                .frame(self.now, host, &frame, || format!("#{index} lost: nobody or on purpose"));
        }
        let path_mtu = self.up[host].mtu(self.now).min(self.down[to].mtu(self.now));
        let len = u32::from(u16::from_be_bytes([frame[16], frame[17]]));
        if len <= path_mtu {
            return self.travel(host, to, frame, tag, index);
        }
        self.ledger.disturbed += 1;
        if !router::forbids_fragments(&frame) {
            for piece in router::fragment(&frame, path_mtu as usize) {
                self.travel(host, to, piece, tag, index);
            }
        } else if self.plan.black_hole && self.now < self.plan.heals_at {
            self.trace.frame(self.now, host, &frame, || format!("#{index} swallowed, MTU {path_mtu}"));
        } else {
            self.trace.frame(self.now, host, &frame, || format!("#{index} too big for {path_mtu}"));
            let back = router::too_big(&frame, path_mtu);
            let at = self.now + 100_000;
            self.push(at, Event::Arrive { host, frame: back, tag: Tag::default() });
        }
    }

    /// A packet takes its first wire.
    fn travel(&mut self, from: usize, to: usize, frame: Vec<u8>, tag: Tag, index: u64) {
        let fate = self.up[from].enter(self.now, frame.len());
        self.trace.frame(self.now, from, &frame, || format!("#{index} {fate:?}"));
        self.note_harm(&fate);
        let Fate::Arrives { at, mark, flip, again } = fate else { return };
        let mut frame = frame;
        if mark {
            router::mark(&mut frame);
        }
        if let Some(again) = again {
            self.cross(again, to, frame.clone(), tag, None);
        }
        self.cross(at, to, frame, tag, flip);
    }

    fn note_harm(&mut self, fate: &Fate) {
        self.ledger.disturbed +=
            u64::from(matches!(fate, Fate::Lost(_) | Fate::Arrives { flip: Some(_), .. }));
    }

    /// A packet is at the router at `at`: at once if nothing that happens until then can matter.
    fn cross(&mut self, at: u64, to: usize, mut frame: Vec<u8>, tag: Tag, flip: Option<u64>) {
        if let Some(word) = flip {
            flip_bit(&mut frame, word);
        }
        if self.down[to].has_queue() {
            self.push(at, Event::Cross { to, frame, tag });
        } else {
            self.descend(at, to, frame, tag);
        }
    }

    /// A packet takes its second wire.
    pub(super) fn descend(&mut self, now: u64, to: usize, mut frame: Vec<u8>, tag: Tag) {
        let fate = self.down[to].enter(now, frame.len());
        if !matches!(fate, Fate::Arrives { mark: false, flip: None, again: None, .. }) {
            self.trace.note(now, to, || format!("{} => {fate:?}", crate::trace::describe(&frame)));
        }
        self.note_harm(&fate);
        let Fate::Arrives { at, mark, flip, again } = fate else { return };
        if mark {
            router::mark(&mut frame);
        }
        if let Some(again) = again {
            self.push(again, Event::Arrive { host: to, frame: frame.clone(), tag });
        }
        if let Some(word) = flip {
            flip_bit(&mut frame, word);
        }
        self.push(at, Event::Arrive { host: to, frame, tag });
    }
}

/// Flips one bit behind the Ethernet header. Two flips can cancel out in a checksum, in two fragments of a datagram as
/// on two wires; so a packet that was hit already, and the payload of fragments, are spared. So is what would look
/// like a packet whose checksum was left to hardware.
fn flip_bit(frame: &mut [u8], word: u64) {
    let is_fragment = frame[20] & 0x3f != 0 || frame[21] != 0;
    if crate::packet::parse(frame).is_err() {
        return;
    }
    let bytes = if is_fragment { 20 } else { frame.len() - 14 };
    let bit = (word % (bytes * 8) as u64) as usize;
    frame[14 + bit / 8] ^= 1 << (bit % 8);
    if crate::merge::is_partial(frame) {
        frame[14 + bit / 8] ^= 1 << (bit % 8);
    }
}
