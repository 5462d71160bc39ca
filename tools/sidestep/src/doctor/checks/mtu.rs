//! The MTU against the size of a packet frame.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::XdpFeatures;

pub(super) const CHECK: Check = Check {
    id: "mtu",
    title: "MTU against packet frames",
    why: "a packet that does not fit a frame needs several, which many drivers cannot do in the driver's hook: attaching \
          fails, or falls back to the generic hook",
    weight: [70, 70],
    look,
};

/// A frame of 4096 bytes without headroom, tail of the kernel's skb and the Ethernet header.
const FITS: i64 = 3498;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let mtu = view.number(&interface.path("mtu"))?;
        let several = view.fact::<XdpFeatures>(&interface.name).is_ok_and(|features| features.rx_sg);
        Ok(if mtu <= FITS {
            Finding::good(format!("{mtu}, within a frame"))
        } else if several {
            Finding::good(format!("{mtu}; the driver takes packets of several frames"))
        } else {
            Finding::advice(
                format!("{mtu}: larger than a frame, and the driver does not announce packets of several frames"),
                Mend::until_reboot(
                    format!("ip link set {} mtu {FITS}", interface.name),
                    "the interface's configuration (netplan, NetworkManager, /etc/network/interfaces)",
                ),
            )
        })
    })
}
