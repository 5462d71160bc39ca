//! Opening a device for a lane: is the interface chosen, and why could it not be opened.

use crate::answer::Why;
use crate::runtime::Runtime;
use config::XdpMode;
use config::interfaces::Choice;
use netlink::Link;
use xdp::{Device, Mode, Options, Refusal};

/// Opens the AF_XDP device of an interface, if it is chosen. What refuses is logged in the device's own words.
pub(crate) fn open(runtime: &Runtime, link: &Link) -> Result<Device, Why> {
    if link.loopback {
        return Err(Why::LocalAddress);
    }
    match runtime.interfaces.choice(&link.name) {
        Choice::No => return Err(Why::InterfaceNotChosen),
        Choice::Yes => {}
        Choice::Auto => {
            if let Err(because) = xdp::caps::worth_it(&link.name) {
                logger::debug!("{}: not chosen by itself: {because}", link.name);
                return Err(Why::InterfaceNotChosen);
            }
        }
    }
    let options = Options {
        mode: match runtime.parameters.xdp_mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        },
        frames: runtime.parameters.frames,
        rx_ring: runtime.parameters.rx_ring,
        tx_ring: runtime.parameters.tx_ring,
        large: runtime.parameters.tso,
        answer_mss: answer_mss(runtime, link),
    };
    let opened = match runtime.inherited(link.index) {
        Some(inherited) => Device::attach(&inherited),
        None => Device::open(&link.name, &options),
    };
    opened.map_err(|refusal| {
        logger::debug!("{}: {refusal}", link.name);
        why(&refusal)
    })
}

/// A listener whose requests have a limit must see them all.
fn answer_mss(runtime: &Runtime, link: &Link) -> u16 {
    if runtime.parameters.tcp_max_syn_rate > 0 {
        return 0;
    }
    runtime.mtu(link.mtu).saturating_sub(40).clamp(536, 65_495) as u16
}

fn why(refusal: &Refusal) -> Why {
    match refusal {
        Refusal::NoPrivilege => Why::NoPrivilege,
        Refusal::NoAfXdp => Why::NoAfXdp,
        Refusal::NotEthernet => Why::InterfaceNotChosen,
        Refusal::QueueBusy { .. } | Refusal::Owned { .. } => Why::QueueBusy,
        Refusal::ForeignProgram { .. } => Why::ForeignProgram,
        Refusal::NoMemory => Why::NoMemory,
        _ => Why::DeviceFailed,
    }
}
