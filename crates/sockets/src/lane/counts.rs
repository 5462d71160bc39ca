//! What a lane counts. Turns and received frames are counted as they happen, under the lane's lock; what the device,
//! the kernel and the engine count themselves is taken over by the worker now and then.

use super::{Inner, Lane};
use stats::Lane as Block;

/// Describes a fresh lane.
pub(super) fn describe(block: &Block, link: &netlink::Link, device: &xdp::Device) {
    let mut name = [0u8; 16];
    for (byte, of) in name.iter_mut().zip(link.name.bytes()) {
        *byte = of;
    }
    let [low, high] =
        [0, 8].map(|at| name[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    block.clear();
    block.name_low.set(low);
    block.name_high.set(high);
    describe_device(block, device);
    // Last: the block is in use.
    block.interface.set(u64::from(link.index));
}

/// What may change while a lane is open.
pub(super) fn describe_device(block: &Block, device: &xdp::Device) {
    block.queues.set(device.descriptors().len() as u64);
    let native = if device.mode() == xdp::Mode::Native { 2 } else { 0 };
    block.mode.set(native | u64::from(device.is_zero_copy()));
}

impl Lane {
    /// Its interface has other queues than it had.
    pub(crate) fn describe_device(&self, device: &xdp::Device) {
        describe_device(self.counts, device);
    }
}

impl Inner {
    /// Takes over what others count.
    pub(crate) fn publish(&mut self) {
        self.device.collect();
        let block = self.counts;
        let sent = self.device.sent();
        block.tx_frames.follow(sent.frames);
        block.tx_bytes.follow(sent.bytes);
        block.tx_kicks.follow(sent.kicks);
        block.tx_large.follow(sent.large);
        block.tx_ring_full.follow(sent.ring_full);
        block.frames_exhausted.follow(sent.no_frame);
        block.frames_free.set(self.device.free_frames() as u64);
        let kernel = self.device.statistics();
        block.rx_ring_full.follow(kernel.rx_ring_full);
        block.rx_fill_empty.follow(kernel.rx_fill_ring_empty_descs);
        block.rx_dropped.follow(kernel.rx_dropped);
        block.rx_syns_answered.follow(self.device.answered());
        block.rx_syns_refused.follow(self.device.refused());
        block.rx_invalid_descs.follow(kernel.rx_invalid_descs);
        block.tx_invalid_descs.follow(kernel.tx_invalid_descs);
        block.tx_ring_empty.follow(kernel.tx_ring_empty_descs);
        let dropped = self.stack.dropped();
        block.rx_unwanted.follow(dropped.no_socket + dropped.not_ours);
        block.rx_malformed.follow(
            dropped.ethernet + dropped.ip_header + dropped.martian + dropped.checksum + dropped.transport,
        );
        block.rx_fragments_dropped.follow(dropped.fragments);
        let census = self.stack.census();
        block.rx_frames_held.set(census.attached_frames as u64);
        block.neighbour_waiting.set(census.held_bytes as u64);
        block.tcp_orphans.set(census.orphans as u64);
        let refused = self.stack.tcp_refused();
        block.tcp_orphans_reset.follow(refused.orphans);
        block.tcp_syns_over_rate.follow(refused.syns);
    }
}
