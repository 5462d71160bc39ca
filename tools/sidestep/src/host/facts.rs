//! What the kernel answers by interfaces that are not files: each type is one question, with the name that recordings
//! use.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An answer of [`super::Host::ask`].
pub(crate) trait Fact: Serialize + DeserializeOwned {
    /// The question's name.
    const TOPIC: &'static str;
}

macro_rules! facts {
    ($($(#[$doc:meta])* $topic:literal $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name { $($(#[$field_doc])* pub(crate) $field: $kind,)* }
        impl Fact for $name { const TOPIC: &'static str = $topic; }
    )*};
}

facts! {
    /// ETHTOOL_GDRVINFO.
    "driver" Driver { driver: String, version: String, firmware: String, bus: String, }
    /// ETHTOOL_GRINGPARAM.
    "rings" Rings { rx_max: u32, tx_max: u32, rx: u32, tx: u32, }
    /// ETHTOOL_GCOALESCE.
    "coalesce" Coalesce {
        rx_usecs: u32, rx_frames: u32, tx_usecs: u32, tx_frames: u32, adaptive_rx: bool, adaptive_tx: bool,
    }
    /// ETHTOOL_GCHANNELS.
    "channels" Channels {
        rx_max: u32, tx_max: u32, combined_max: u32, rx: u32, tx: u32, combined: u32,
    }
    /// ETHTOOL_GFEATURES, by the kernel's names.
    "features" Features { all: BTreeMap<String, Feature>, }
    /// One offload.
    "feature" Feature { on: bool, fixed: bool, }
    /// ETHTOOL_GPAUSEPARAM.
    "pause" Pause { autonegotiated: bool, rx: bool, tx: bool, }
    /// ETHTOOL_GFECPARAM: error correction that is in use, and that was asked for, by ethtool's names.
    "fec" Fec { active: Vec<String>, configured: Vec<String>, }
    /// ETHTOOL_GTSINFO.
    "timestamps" TimeStamps { rx_hardware: bool, tx_hardware: bool, clock: Option<u32>, }
    /// ETHTOOL_GSTATS: the driver's own counters that speak of loss, and are not zero.
    "losses" Losses { counters: BTreeMap<String, u64>, }
    /// ETHTOOL_GRXCLSRLCNT and ETHTOOL_GRXFHINDIR: flow rules, and queues that the hash spreads over.
    "steering" Steering { rules: u32, hashed_queues: Vec<u32>, }
    /// Device Capabilities and Device Control of PCI Express, bytes.
    "pcie-requests" PcieRequests { payload: u32, payload_max: u32, read: u32, relaxed: bool, }
    /// `xdp-features` of the netdev family.
    "xdp-features" XdpFeatures { basic: bool, redirect: bool, zero_copy: bool, rx_sg: bool, }
    /// IFLA_XDP of RTM_GETLINK.
    "xdp-program" XdpProgram { id: Option<u32>, }
    /// May this process open AF_XDP sockets, load the program and lock its memory? `refused` says why not.
    "privilege" Privilege { refused: Option<String>, }
    /// Chains of nf_tables at the hooks, and tables of the old iptables.
    "firewall" Firewall { chains: Vec<String>, }
    /// AUDIT_GET.
    "audit" Audit { enabled: bool, rules: Option<u32>, }
    /// Options of the kernel that are set, of those that checks ask for.
    "kernel-config" KernelConfig { on: Vec<String>, }
    /// /proc/cpuinfo, of the first processor.
    "cpu" Cpu { model: String, hypervisor: bool, steady_tsc: bool, dca: bool, }
    /// Processes of a name.
    "processes" Processes { pids: Vec<u32>, }
    /// Processors that the environment of a running irqbalance bans, as a list or as a mask.
    "banned" Banned { list: Option<String>, mask: Option<String>, }
    /// Processes that run with the library and keep statistics.
    "accelerated" Accelerated { pids: Vec<u32>, }
    /// Where LD_PRELOAD=libvma.so finds the library.
    "library" Library {
        found: Vec<String>,
        /// Beside this program, as cargo builds it.
        beside: Option<String>,
    }
    /// Measured: a connection over loopback, and memory.
    "loopback" Loopback { round_trip_us: f64, round_trip_99_us: f64, stream_gbit: f64, memory_gib: f64, }
    /// Measured: how long threads that only poll stand still.
    "jitter" Jitter { seconds: f64, cores: Vec<Core>, }
    /// One core of it.
    "core" Core { cpu: u32, over_5_us: u32, over_50_us: u32, over_500_us: u32, longest_us: f64, }
    /// Measured: how late threads wake.
    "wakeup" Wakeup { timer_us: f64, timer_99_us: f64, thread_us: f64, thread_99_us: f64, }
    /// Tried: AF_XDP on a veth pair; why it did not work.
    "af-xdp" AfXdp { generic: Option<String>, native: Option<String>, }
    /// Measured: round trips between two namespaces.
    "ping-pong" PingPong {
        kernel_us: f64, kernel_99_us: f64, accelerated_us: f64, accelerated_99_us: f64,
        turns: u32, faster: u32,
        /// Processors that others used meanwhile.
        others_used: f64,
    }
    /// A process's executable, and whether the library is in it.
    "program" Program { path: String, preloaded: bool, dynamic: bool, raised: bool, go: bool, }
    /// A process's threads.
    "threads" Threads { all: Vec<Thread>, }
    /// One of them: where it may run, where it ran last.
    "thread" Thread { id: u32, name: String, allowed: String, last: u32, share: u32, }
    /// What a process's statistics say.
    "acceleration" Acceleration { accelerated: u64, left: Vec<Left>, interfaces: Vec<String>, losses: u64, }
    /// Sockets that were left to the kernel for one reason.
    "left" Left { count: u64, why: String, remedy: String, ordinary: bool, }
    /// What /dev/cpu_dma_latency stands at while somebody holds it, microseconds.
    "latency-limit" LatencyLimit { us: i32, }
    /// Ports that somebody listens on.
    "listeners" Listeners { ports: Vec<u16>, }
    /// Pages of a process on each NUMA node, by the node's number.
    "memory" Memory { pages: BTreeMap<usize, u64>, }
    /// The number of an interface in this network namespace; 0 if it is not there.
    "index" Index { number: u32, }
    /// adjtimex.
    "clock" Clock { synchronised: bool, max_error_us: u64, }
}
