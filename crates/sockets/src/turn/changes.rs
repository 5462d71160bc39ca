//! What became of an interface while it is open: followed as far as that goes, and told.

use crate::lane::{Inner, Lane};
use core::sync::atomic::Ordering;
use xdp::Change;

impl Lane {
    /// Once a second or so.
    pub(crate) fn look_after(&self, inner: &mut Inner) {
        let change = inner.device.look_after();
        if inner.device.checksums_may_be_partial() {
            inner.stack.accept_partial_checksums();
        }
        // Of several lanes of an interface the first one is told.
        let Some(change) = change else { return };
        let name = &self.name;
        let ours = inner.device.descriptors().len();
        self.gate.watch_also(inner.device.descriptors());
        self.describe_device(&inner.device);
        match change {
            Change::QueuesAdded(queues) => {
                logger::debug!("{name}: {queues} receive queues now, all of them ours");
            }
            Change::QueuesMissed(queues) => logger::warning!(
                "{name}: {queues} receive queues now, {ours} of them ours: connections whose packets come by the others \
                 stand still; `ethtool -X {name} equal {ours}` keeps packets off them, or start the program anew"
            ),
            Change::MovedToGeneric => logger::warning!(
                "{name}: the driver took the XDP program and does not run it; it is in the generic hook now"
            ),
            Change::Detached => {
                for lane in inner.runtime.lanes_of_link(self.link) {
                    lane.fenced.store(true, Ordering::Release);
                }
                logger::warning!(
                    "{name}: the driver took the XDP program and does not run it; the interface is left to the kernel"
                );
            }
        }
    }
}
