//! Opening a device for a lane: is the interface chosen, and why could it not be opened.

use crate::answer::Why;
use crate::keeper;
use crate::runtime::Runtime;
use config::XdpMode;
use config::interfaces::Choice;
use netlink::Link;
use xdp::caps::NotWorth;
use xdp::{Device, Inherited, Mode, Options, Refusal};

/// Opens the AF_XDP device of an interface, if it is chosen. What refuses is logged in the device's own words.
pub(crate) fn open(runtime: &Runtime, link: &Link, is_first: bool) -> Result<Device, Why> {
    if link.loopback {
        return Err(Why::LocalAddress);
    }
    if let Err(because) = choice(runtime, link) {
        if let Some(because) = because {
            if crate::settings::is_wanted() && is_first && is_only_choice(runtime, link) {
                logger::once!(
                    Info,
                    "{}: left to the kernel: {because} (SIDESTEP_INTERFACES={})",
                    link.name,
                    link.name
                );
            }
            logger::debug!("{}: not chosen by itself: {because}", link.name);
        }
        return Err(Why::InterfaceNotChosen);
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
        huge_pages: runtime.parameters.mem_alloc_type == config::MemoryType::Huge,
        answer_mss: answer_mss(runtime, link),
    };
    let inherited = runtime.inherited(link.index);
    let said = match keeper::attach(runtime, link, inherited.as_ref()) {
        Ok(device) => return Ok(device),
        Err(said) => said,
    };
    runtime.policies.begin();
    let opened = match inherited {
        Some(inherited) => Device::attach(&inherited),
        None => Device::open(&link.name, &options),
    };
    opened.map_err(|refusal| {
        let why = why(&refusal);
        if let Some(said) = said
            && runtime.tell_now(why)
        {
            logger::warning!("{}: left to the kernel: {said}; and by itself: {refusal}", link.name);
        } else if is_told_better_by(&refusal) && runtime.tells(why) && runtime.tell_now(why) {
            let advice = match options.mode {
                Mode::Auto | Mode::Native if why == Why::DeviceFailed => {
                    "; SIDESTEP_XDP_MODE=generic needs nothing of the driver"
                }
                _ => "",
            };
            logger::warning!("{}: left to the kernel: {refusal}{advice}", link.name);
        } else {
            logger::debug!("{}: {refusal}", link.name);
        }
        why
    })
}

/// Whether an interface is chosen; why not, unless somebody said so.
fn choice(runtime: &Runtime, link: &Link) -> Result<(), Option<NotWorth>> {
    match runtime.interfaces.choice(&link.name) {
        Choice::No => Err(None),
        Choice::Yes => Ok(()),
        Choice::Auto => xdp::caps::worth_it(&link.name).map_err(Some),
    }
}

/// Whether an interface would be opened if a socket needed it, as far as that is known before.
pub(crate) fn is_chosen(runtime: &Runtime, link: &Link) -> bool {
    !link.loopback && choice(runtime, link).is_ok()
}

/// A further device on an interface that this process has open. Who was handed it asks for the next, too.
pub(crate) fn open_beside(runtime: &Runtime, link: &Link, beside: Inherited) -> Option<Device> {
    if let Ok(device) = keeper::attach(runtime, link, Some(&beside)) {
        return Some(device);
    }
    if beside.is_kept() {
        return None;
    }
    Device::attach(&beside).inspect_err(|refusal| logger::debug!("{}: {refusal}", link.name)).ok()
}

/// Whether the refusal knows more than the reason that it is counted as: who, which, how.
fn is_told_better_by(refusal: &Refusal) -> bool {
    matches!(why(refusal), Why::DeviceFailed | Why::QueueBusy | Why::ForeignProgram | Why::NoPrivilege)
}

/// Whether nothing is accelerated, and no other interface of the host would be by itself: who runs a program under the
/// library here waits for acceleration in vain.
fn is_only_choice(runtime: &Runtime, link: &Link) -> bool {
    let links = runtime.netlink(|netlink| netlink.links()).unwrap_or_default();
    let would = |other: &Link| other.up && other.ethernet && xdp::caps::worth_it(&other.name).is_ok();
    !links.iter().any(|other| other.index != link.index && would(other))
}

/// Tells of names in SIDESTEP_INTERFACES that no interface has, or none that could be accelerated. Asks the kernel only
/// if the user named any.
pub(crate) fn look_for_named(runtime: &Runtime) {
    if runtime.interfaces.chosen().is_empty() {
        return;
    }
    let Ok(links) = runtime.netlink(|netlink| netlink.links()) else { return };
    for pattern in runtime.interfaces.chosen() {
        let mut fitting = links.iter().filter(|link| config::glob::matches(pattern, &link.name)).peekable();
        if fitting.peek().is_none() {
            let names = links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ");
            logger::warning!("SIDESTEP_INTERFACES: no interface is called {pattern}; there are: {names}");
        } else if fitting.all(|link| !link.ethernet) {
            logger::warning!(
                "SIDESTEP_INTERFACES: {pattern} cannot be accelerated: loopback, or not Ethernet; its traffic is the kernel's"
            );
        }
    }
}

/// A listener whose requests have a limit must see them all.
fn answer_mss(runtime: &Runtime, link: &Link) -> u16 {
    if runtime.parameters.tcp_max_syn_rate > 0 {
        return 0;
    }
    wire::tcp::announced_mss(runtime.mtu(link.mtu))
}

fn why(refusal: &Refusal) -> Why {
    match refusal {
        Refusal::NoPrivilege(_) => Why::NoPrivilege,
        Refusal::NoAfXdp => Why::NoAfXdp,
        Refusal::NotEthernet => Why::InterfaceNotChosen,
        Refusal::QueueBusy { .. } | Refusal::Owned { .. } => Why::QueueBusy,
        Refusal::ForeignProgram { .. } => Why::ForeignProgram,
        Refusal::NoMemory => Why::NoMemory,
        Refusal::OtherPidNamespace => Why::Namespace,
        _ => Why::DeviceFailed,
    }
}
