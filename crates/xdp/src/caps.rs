//! What this process, kernel and interface can do, and whether an interface is worth accelerating unasked.

use core::fmt;
use std::sync::OnceLock;

use crate::flood::{Answers, Flood};
use crate::interface::Interface;
use crate::privilege::Missing;
use crate::query;
use crate::steering::Steering;
use crate::{Mode, Refusal};

/// Whether an interface can be handed out to another process, which maps rings of bound sockets: since Linux 6.4.
pub fn hands_out() -> bool {
    static SINCE: OnceLock<bool> = OnceLock::new();
    *SINCE.get_or_init(|| {
        let release = sys::file::read_whole(c"/proc/sys/kernel/osrelease", 256).unwrap_or_default();
        // Without /proc nobody knows, and most kernels are newer.
        is_since_6_4(&String::from_utf8_lossy(&release))
    })
}

fn is_since_6_4(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 4),
        _ => true,
    }
}

/// Why an interface is left to the kernel unless it is named explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWorth {
    /// It could not be accelerated at all.
    Refused(Refusal),
    /// Not veth: nothing says that the detour pays.
    Driver {
        /// Its name by ethtool, or empty.
        driver: String,
        /// It moves packets without a copy, in its own hook.
        zero_copy: bool,
    },
}

impl fmt::Display for NotWorth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWorth::Refused(refusal) => refusal.fmt(f),
            NotWorth::Driver { driver, zero_copy } => {
                let driver = if driver.is_empty() { "unknown driver" } else { driver };
                write!(
                    f,
                    "{driver}: not accelerated by default; name the interface explicitly to accelerate it"
                )?;
                if *zero_copy {
                    f.write_str(
                        ", and say SIDESTEP_XDP_MODE=native for zero copy (which may take its link down for seconds)",
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// Should this interface be accelerated without being named? Only veth: the peer is on this host, the kernel's own path
/// is long, and opening disturbs nobody. Network cards wait for somebody who names them and measures: what they gain in
/// the generic hook is not known, and attaching to the driver may take the link down for all programs of the host.
pub fn worth_it(interface: &str) -> Result<(), NotWorth> {
    let interface = find(interface).map_err(NotWorth::Refused)?;
    if is_worth_it(&interface.driver) {
        return Ok(());
    }
    let zero_copy = features(&interface) & query::ZERO_COPY != 0;
    Err(NotWorth::Driver { driver: interface.driver, zero_copy })
}

/// The same of an interface whose driver has this name by ethtool.
pub fn is_worth_it(driver: &str) -> bool {
    driver == "veth"
}

/// Does it pay to leave the cutting of large packets to the kernel? Where frames are copied one by one and the other
/// end takes large packets whole. Not measured on other devices than veth.
pub(crate) fn cuts(interface: &Interface, way: Way) -> bool {
    interface.driver == "veth" && !way.zero_copy
}

/// May this process open AF_XDP sockets and load the program? Asks by trying, which is the only honest way.
pub fn privilege() -> Result<(), Refusal> {
    match sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0) {
        Ok(_) => {}
        Err(libc::EPERM) => return Err(Refusal::not_permitted()),
        Err(libc::EAFNOSUPPORT) => return Err(Refusal::NoAfXdp),
        Err(errno) => return Err(Refusal::System { call: "socket(AF_XDP)", errno }),
    }
    let steering = Flood::create(64, Answers::default())
        .and_then(|flood| Steering::create(1, 1, flood))
        // Packets of one buffer, which the oldest kernel knows: the question is about rights.
        .and_then(|steering| steering.load_program(false).map(|_| ()));
    steering.map_err(|errno| program_refused("bpf(BPF_PROG_LOAD)", errno))
}

/// The driver's name by ethtool ("veth", "virtio_net"), if the interface exists and its driver has one.
pub fn driver(interface: &str) -> Option<String> {
    find(interface).ok().map(|interface| interface.driver).filter(|driver| !driver.is_empty())
}

pub(crate) fn program_refused(call: &'static str, errno: i32) -> Refusal {
    match errno {
        libc::EPERM => Refusal::not_permitted(),
        // The verifier forbids those without it what our program does, and says the same as to a wrong program.
        libc::EACCES if Missing::now().has_perfmon() => Refusal::not_permitted(),
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

/// The ways to try, best first. The generic hook is all that is tried unasked: attaching to a driver resets its queues,
/// and with some cards takes the link down for seconds, at the start and at the end of each program. veth has no link
/// to lose: without multi-buffer the generic hook would lose the super-frames of a local peer, so the native one, which
/// makes the peer send single frames, comes before it. With multi-buffer the generic one is faster
/// (docs/design/af-xdp.md).
pub(crate) fn ways(interface: &Interface, mode: Mode) -> &'static [Way] {
    match mode {
        Mode::Native if features(interface) & query::ZERO_COPY != 0 => {
            const { &[ZERO_COPY, single(ZERO_COPY), NATIVE, single(NATIVE)] }
        }
        // In a driver's hook packets are those of the bond's parts, and the kernel gives them to no socket of the bond.
        Mode::Native if interface.driver == "bonding" => const { &[GENERIC, single(GENERIC)] },
        Mode::Native => const { &[NATIVE, single(NATIVE)] },
        Mode::Auto if interface.driver == "veth" => {
            const { &[GENERIC, NATIVE, single(NATIVE), single(GENERIC)] }
        }
        Mode::Auto | Mode::Generic => const { &[GENERIC, single(GENERIC)] },
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
    fn a_release_begins_with_two_numbers() {
        assert!(["6.4", "6.12.1-amd64", "10.0-rc1", "?"].into_iter().all(is_since_6_4));
        assert!(!["5.10.0-35-amd64", "6.3.9", "6.1.0"].into_iter().any(is_since_6_4));
    }

    #[test]
    fn unasked_no_driver_but_veth_is_attached_to() {
        for driver in ["igb", "mlx5_core", "virtio_net", ""] {
            let card = Interface {
                index: 1,
                mac: [0; 6],
                mtu: 1500,
                ethernet: true,
                driver: driver.to_owned(),
                queues: 1,
                queues_max: 1,
            };
            assert!(ways(&card, Mode::Auto).iter().all(|way| !way.native && !way.zero_copy), "{driver}");
            assert!(ways(&card, Mode::Native).iter().all(|way| way.native), "{driver}");
        }
    }

    /// Whatever the uplink of this virtual machine announces, it is not chosen.
    #[test]
    fn a_virtio_uplink_is_not_chosen() {
        if driver("eth0").as_deref() != Some("virtio_net") {
            return rig::skip::skipped_here("eth0 is no virtio_net here");
        }
        let refused = worth_it("eth0").unwrap_err();
        assert!(matches!(&refused, NotWorth::Driver { driver, .. } if driver == "virtio_net"));
        assert!(refused.to_string().contains("virtio_net"));
    }
}
