//! Two hosts joined by a veth pair, or by a router between them that loses packets on purpose.
//!
//! ```text
//!   left 10.77.1.1/24  net0 ─────────────────────────── net0  10.77.1.2/24 right
//!
//!   left 10.77.1.1/24  net0 ── net0 router net1 ── net0  10.77.2.2/24 right
//!                                 drops n in 1000, both directions
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Once;

use crate::{KernelCounters, Namespace, Program, Result, cleanup};

/// The interface of a host.
pub(crate) const INTERFACE: &str = "net0";

/// Transport of a measurement or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
}

/// How the two hosts are joined.
#[derive(Clone, Debug)]
pub struct Options {
    /// TSO, GSO, GRO and checksum offload on, as the kernel makes a veth pair; off, every frame is as on a wire.
    pub offloads: bool,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Receive and transmit queues of each end.
    pub queues: u32,
    /// With a router between the hosts that drops this many of 1000 packets in each direction; 0 drops none.
    pub loss_permille: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { offloads: true, mtu: 1500, queues: 1, loss_permille: None }
    }
}

/// One end: its namespace, its addresses, its interface and the CPU that its programs are pinned to.
#[derive(Debug)]
pub struct Host {
    /// Where it lives.
    pub namespace: Namespace,
    /// On [`Host::interface`].
    pub address: Ipv4Addr,
    /// On [`Host::interface`]; reachable from the other host when no router is between.
    pub address6: Ipv6Addr,
    /// Name of the interface towards the other host.
    pub interface: &'static str,
    /// Left has CPU 0, right CPU 1: a ping-pong between them never shares a core.
    pub cpu: usize,
}

/// The router in the middle.
#[derive(Debug)]
pub struct Router {
    namespace: Namespace,
    /// Towards the left host, on `net0`; `net1` leads to the right one.
    pub address: Ipv4Addr,
}

/// The world of a test; gone when dropped.
#[derive(Debug)]
pub struct TwoHosts {
    /// By convention the client's side.
    pub left: Host,
    /// By convention the server's side.
    pub right: Host,
    /// Present when [`Options::loss_permille`] was given.
    pub router: Option<Router>,
}

/// Builds two hosts. Needs root; see [`crate::requirements`].
pub fn two_hosts(options: &Options) -> Result<TwoHosts> {
    prepare();
    match options.loss_permille {
        None => joined(options),
        Some(permille) => routed(options, permille),
    }
}

/// One host as both: its programs, on two processors, talk over loopback. Needs root.
pub fn one_host() -> Result<TwoHosts> {
    prepare();
    let (address, address6, interface) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, "lo");
    let namespace = Namespace::create("alone")?;
    let again = namespace.again()?;
    let left = Host { namespace, address, address6, interface, cpu: processor(0) };
    let right = Host { namespace: again, address, address6, interface, cpu: processor(1) };
    Ok(TwoHosts { left, right, router: None })
}

fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cleanup::on_signals();
        cleanup::remove_leftovers();
    });
}

fn joined(options: &Options) -> Result<TwoHosts> {
    let left = host("left", Ipv4Addr::new(10, 77, 1, 1), 0)?;
    let right = host("right", Ipv4Addr::new(10, 77, 1, 2), 1)?;
    join(options, (&left.namespace, INTERFACE), (&right.namespace, INTERFACE))?;
    left.configure(options)?;
    right.configure(options)?;
    Ok(TwoHosts { left, right, router: None })
}

fn routed(options: &Options, permille: u32) -> Result<TwoHosts> {
    let left = host("left", Ipv4Addr::new(10, 77, 1, 1), 0)?;
    let right = host("right", Ipv4Addr::new(10, 77, 2, 2), 1)?;
    let router = Router { namespace: Namespace::create("router")?, address: Ipv4Addr::new(10, 77, 1, 254) };
    join(options, (&left.namespace, INTERFACE), (&router.namespace, "net0"))?;
    join(options, (&right.namespace, INTERFACE), (&router.namespace, "net1"))?;
    left.configure(options)?;
    right.configure(options)?;
    for (interface, address) in [("net0", "10.77.1.254/24"), ("net1", "10.77.2.254/24")] {
        set_up(&router.namespace, interface, address, options)?;
    }
    router.namespace.tool("sysctl", "-q -w net.ipv4.ip_forward=1")?;
    left.namespace.ip("route add default via 10.77.1.254")?;
    right.namespace.ip("route add default via 10.77.2.254")?;
    let hosts = TwoHosts { left, right, router: Some(router) };
    if let Some(router) = &hosts.router
        && permille > 0
    {
        router.drop_permille(permille)?;
    }
    Ok(hosts)
}

pub(crate) fn host(label: &str, address: Ipv4Addr, cpu: usize) -> Result<Host> {
    let namespace = Namespace::create(label)?;
    let last = u16::from(address.octets()[3]);
    let address6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last);
    Ok(Host { namespace, address, address6, interface: INTERFACE, cpu: processor(cpu) })
}

/// A machine of one CPU still runs the tests.
fn processor(wanted: usize) -> usize {
    wanted % std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) fn join(options: &Options, one: (&Namespace, &str), other: (&Namespace, &str)) -> Result<()> {
    let queues = options.queues.max(1);
    one.0.ip(&format!(
        "link add {} numrxqueues {queues} numtxqueues {queues} type veth peer name {} numrxqueues {queues} \
         numtxqueues {queues} netns {}",
        one.1,
        other.1,
        other.0.name()
    ))?;
    Ok(())
}

fn set_up(namespace: &Namespace, interface: &str, address: &str, options: &Options) -> Result<()> {
    namespace.ip(&format!("link set {interface} mtu {} up", options.mtu))?;
    namespace.ip(&format!("address add {address} dev {interface}"))?;
    if !options.offloads {
        namespace.tool("ethtool", &format!("-K {interface} tx off rx off tso off gso off gro off"))?;
    }
    Ok(())
}

impl Host {
    pub(crate) fn configure(&self, options: &Options) -> Result<()> {
        set_up(&self.namespace, self.interface, &format!("{}/24", self.address), options)?;
        // IPv6 does not exist on links below its minimum (RFC 8200 section 5).
        if options.mtu >= 1280 {
            self.namespace.ip(&format!("address add {}/64 dev {} nodad", self.address6, self.interface))?;
        }
        Ok(())
    }

    /// A program to be started here, pinned to the host's CPU.
    pub fn program(&self, name: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::new(&self.namespace, name).cpu(self.cpu)
    }

    /// What the kernel of this host has counted so far.
    pub fn counters(&self) -> Result<KernelCounters> {
        KernelCounters::read(&self.namespace, self.interface)
    }

    /// Whether an XDP program is attached to the interface, in any mode.
    pub fn has_xdp_program(&self) -> Result<bool> {
        let shown = self.namespace.ip(&format!("link show dev {}", self.interface))?;
        Ok(shown.contains("prog/xdp"))
    }
}

impl Router {
    /// A program to be started on it, free to run on any CPU.
    pub fn program(&self, name: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::new(&self.namespace, name)
    }

    /// From now on an interface of its (`net0` leads left) takes IP packets of so many bytes.
    pub fn set_mtu(&self, interface: &str, mtu: u32) -> Result<()> {
        self.namespace.ip(&format!("link set {interface} mtu {mtu}")).map(drop)
    }

    /// From now on drops `permille` of 1000 forwarded packets in each direction.
    pub fn drop_permille(&self, permille: u32) -> Result<()> {
        let nft = |words: &str| self.namespace.tool("nft", words);
        // Adding before deleting makes the deletion succeed the first time, too.
        nft("add table ip loss")?;
        nft("delete table ip loss")?;
        nft("add table ip loss")?;
        nft("add chain ip loss forward { type filter hook forward priority 0 ; }")?;
        nft(&format!("add rule ip loss forward numgen random mod 1000 < {permille} counter drop"))?;
        Ok(())
    }

    /// Packets dropped so far.
    pub fn dropped(&self) -> Result<u64> {
        let listed = self.namespace.tool("nft", "list chain ip loss forward")?;
        let mut words = listed.split_whitespace().skip_while(|word| *word != "packets");
        Ok(words.nth(1).and_then(|count| count.parse().ok()).unwrap_or(0))
    }
}
