//! What this process, kernel and interface can do, and whether an interface is worth accelerating unasked.

use core::fmt;

use crate::flood::{Answers, Flood};
use crate::interface::Interface;
use crate::query;
use crate::steering::Steering;
use crate::{Mode, Refusal};

/// Why an interface is left to the kernel unless it is named explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWorth {
    /// It could not be accelerated at all.
    Refused(Refusal),
    /// Not a network card's driver with zero-copy: nothing says that the detour pays.
    Driver {
        /// Its name by ethtool, or empty.
        driver: String,
    },
}

impl fmt::Display for NotWorth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWorth::Refused(refusal) => refusal.fmt(f),
            NotWorth::Driver { driver } => {
                let driver = if driver.is_empty() { "unknown driver" } else { driver };
                write!(
                    f,
                    "{driver}: not accelerated by default; name the interface explicitly to accelerate it"
                )
            }
        }
    }
}

/// Should this interface be accelerated without being named? Yes for veth (the peer is on this host, and the kernel's
/// own path is long) and for drivers of network cards that announce zero-copy AF_XDP. Everything else (virtio_net,
/// tun, bond, ...) stays with the kernel until somebody who measured it says otherwise.
pub fn worth_it(interface: &str) -> Result<(), NotWorth> {
    let interface = find(interface).map_err(NotWorth::Refused)?;
    if is_worth_it(&interface.driver, features(&interface)) {
        return Ok(());
    }
    Err(NotWorth::Driver { driver: interface.driver })
}

fn is_worth_it(driver: &str, features: u64) -> bool {
    driver == "veth" || features & query::ZERO_COPY != 0 && !VIRTUAL.contains(&driver)
}

/// Drivers that are no network card, whatever they announce (virtio_net announces zero-copy since Linux 6.11): the
/// other end copies, attaching may reconfigure the queues of the only way into a virtual machine, and for devices
/// over others the announcement is that of their parts.
const VIRTUAL: [&str; 12] = [
    "virtio_net",
    "tun",
    "bonding",
    "team",
    "bridge",
    "openvswitch",
    "hv_netvsc",
    "vmxnet3",
    "vif",
    "macvlan",
    "ipvlan",
    "802.1Q VLAN Support",
];

/// Does it pay to leave the cutting of large packets to the kernel? Where frames are copied one by one and the other end
/// takes large packets whole. Not measured on other devices than veth.
pub(crate) fn cuts(interface: &Interface, way: Way) -> bool {
    interface.driver == "veth" && !way.zero_copy
}

/// May this process open AF_XDP sockets and load the program? Asks by trying, which is the only honest way.
pub fn privilege() -> Result<(), Refusal> {
    match sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0) {
        Ok(_) => {}
        Err(libc::EPERM) => return Err(Refusal::NoPrivilege),
        Err(libc::EAFNOSUPPORT) => return Err(Refusal::NoAfXdp),
        Err(errno) => return Err(Refusal::System { call: "socket(AF_XDP)", errno }),
    }
    let steering = Flood::create(64, Answers::default())
        .and_then(|flood| Steering::create(1, 1, flood))
        .and_then(|steering| steering.load_program(true).map(|_| ()));
    steering.map_err(|errno| program_refused("bpf(BPF_PROG_LOAD)", errno))
}

/// The driver's name by ethtool ("veth", "virtio_net"), if the interface exists and its driver has one.
pub fn driver(interface: &str) -> Option<String> {
    find(interface).ok().map(|interface| interface.driver).filter(|driver| !driver.is_empty())
}

pub(crate) fn program_refused(call: &'static str, errno: i32) -> Refusal {
    match errno {
        libc::EPERM | libc::EACCES => Refusal::NoPrivilege,
        libc::ENOMEM => Refusal::NoMemory,
        errno => Refusal::System { call, errno },
    }
}

pub(crate) fn find(name: &str) -> Result<Interface, Refusal> {
    let interface = Interface::named(name).map_err(|errno| match errno {
        libc::ENODEV => Refusal::NoSuchInterface,
        errno => Refusal::System { call: "ioctl(SIOCGIFINDEX)", errno },
    })?;
    if interface.ethernet { Ok(interface) } else { Err(Refusal::NotEthernet) }
}

/// One way to attach and bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) native: bool,
    pub(crate) zero_copy: bool,
    /// Take packets larger than a frame (Linux 6.6, and for zero-copy the driver).
    pub(crate) multi_buffer: bool,
}

const ZERO_COPY: Way = Way { native: true, zero_copy: true, multi_buffer: true };
const NATIVE: Way = Way { native: true, zero_copy: false, multi_buffer: true };
const GENERIC: Way = Way { native: false, zero_copy: false, multi_buffer: true };

const fn single(way: Way) -> Way {
    Way { multi_buffer: false, ..way }
}

/// The ways to try, best first. On veth the generic hook comes first: it is faster there, and takes the super-frames
/// of a local peer whole (docs/design/af-xdp.md). Without multi-buffer it would lose them, so it comes last then: the
/// native hook makes the peer send single frames. The generic hook is also all that is tried unasked on what may be the
/// only way into a virtual machine: attaching to it resets nothing.
pub(crate) fn ways(interface: &Interface, mode: Mode) -> &'static [Way] {
    let features = features(interface);
    let (zero_copy, native) = (features & query::ZERO_COPY != 0, features & query::NATIVE == query::NATIVE);
    match mode {
        Mode::Generic => const { &[GENERIC, single(GENERIC)] },
        Mode::Native if zero_copy => const { &[ZERO_COPY, single(ZERO_COPY), NATIVE, single(NATIVE)] },
        Mode::Native => const { &[NATIVE, single(NATIVE)] },
        Mode::Auto if interface.driver == "veth" => {
            const { &[GENERIC, NATIVE, single(NATIVE), single(GENERIC)] }
        }
        Mode::Auto if VIRTUAL.contains(&interface.driver.as_str()) => const { &[GENERIC, single(GENERIC)] },
        Mode::Auto if zero_copy => {
            const { &[ZERO_COPY, single(ZERO_COPY), NATIVE, single(NATIVE), GENERIC, single(GENERIC)] }
        }
        Mode::Auto if native => const { &[NATIVE, single(NATIVE), GENERIC, single(GENERIC)] },
        Mode::Auto => const { &[GENERIC, single(GENERIC)] },
    }
}

fn features(interface: &Interface) -> u64 {
    // A kernel that cannot say is one whose driver we try in the generic hook.
    query::xdp_features(interface.index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn veth_and_zero_copy_cards_are_worth_it_and_virtual_machines_uplinks_are_not() {
        let all = query::NATIVE | query::ZERO_COPY;
        assert!(is_worth_it("veth", query::NATIVE));
        assert!(is_worth_it("ice", all));
        assert!(!is_worth_it("ena", query::NATIVE));
        assert!(!is_worth_it("", 0));
        for driver in VIRTUAL {
            assert!(!is_worth_it(driver, all), "{driver}");
        }
    }

    /// Whatever the uplink of this virtual machine announces, it is not chosen.
    #[test]
    fn a_virtio_uplink_is_not_chosen() {
        if driver("eth0").as_deref() != Some("virtio_net") {
            eprintln!("SKIPPED: eth0 is no virtio_net here");
            return;
        }
        let refused = worth_it("eth0").unwrap_err();
        assert_eq!(refused, NotWorth::Driver { driver: "virtio_net".to_owned() });
        assert!(refused.to_string().contains("virtio_net"));
    }
}
