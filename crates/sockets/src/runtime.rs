//! The one global: configuration, and the kernel's view of the network. Which lanes there are, and where packets go,
//! the room `lanes` adds to it; why sockets were left to the kernel, `counts/reasons.rs`.

mod allocation;

pub(crate) use allocation::{Allocation, Asked};

use crate::answer::Why;
use crate::locks::Rank;
use crate::os::{Os, Product};
use crate::policies::Policies;
use crate::sdp_rules::Sdp;
use crate::settings;
use crate::spin::Budget;
use config::{Interfaces, Parameters, ProcessRules};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use netlink::{Netlink, RouteQuery};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Lanes that there can be at once, of all interfaces; a lane set is a 32-bit mask.
pub(crate) const LANES_MAX: usize = 32;

/// Where packets go, by destination and what else their way depends on.
pub(crate) type Routes = HashMap<(Ipv4Addr, RouteQuery), Decision>;

/// Where packets to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Over this lane, from this address unless the socket has its own.
    Lane { slot: u8, source: Ipv4Addr },
    /// By the kernel.
    Kernel(Why),
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());

/// See the module's page.
pub(crate) struct Runtime {
    /// The genuine functions.
    pub os: Os,
    /// For receive_budget and select_budget.
    budgets: (Budget, Budget),
    /// From the environment.
    pub parameters: Parameters,
    /// Of libsdp.so.
    pub sdp: Option<Sdp>,
    /// The configuration file cannot be read, and nothing is to be guessed (SIDESTEP_STRICT).
    pub refuses_all: bool,
    /// From the configuration file, for this program.
    pub rules: sys::Mutex<ProcessRules>,
    /// Which interfaces are chosen.
    pub interfaces: Interfaces,
    engine: settings::EngineOnDemand,
    /// Which lane of an interface a connection stands on.
    pub allocation: Allocation,
    /// What became of each interface that was asked for.
    pub links: sys::Mutex<Vec<(u32, Result<usize, Why>)>>,
    pub netlink: sys::Mutex<Option<Netlink>>,
    /// The network namespace of all that is accelerated, as SO_NETNS_COOKIE has it: that of the first socket. 0: none
    /// yet.
    namespace: AtomicU64,
    /// See `lanes/routes.rs`.
    pub routes: sys::Mutex<Routes>,
    /// Connections may be on a lane whose interface is no longer their route's.
    pub astray: AtomicBool,
    /// Interfaces were deleted, and some of their connections may not be the kernel's yet.
    pub has_gone: AtomicBool,
    /// Changes whenever a cached route may be wrong.
    pub route_generation: AtomicU32,
    /// Reasons that were told.
    pub why_told: [AtomicBool; Why::COUNT],
    /// The process may open so few files that an interface would take what it needs itself.
    pub has_few_descriptors: bool,
    /// Nothing is accelerated any more (a panic was caught).
    pub fenced: AtomicBool,
    /// New sockets are the kernel's: the program confined itself in a way that only the kernel can follow.
    pub confined: AtomicBool,
    /// New sockets are the kernel's, too: the program may use any by rings of io_uring that we do not see into.
    pub has_unseen_rings: AtomicBool,
    /// Likewise by sets of epoll that were made past every hook.
    pub has_unseen_sets: AtomicBool,
    /// When such are looked for next, nanoseconds of the clock; 0: they were not yet.
    unseen_due: AtomicU64,
    /// How long after that again; held during a look.
    pub(super) unseen_pause: sys::Mutex<u64>,
    /// In the child of a fork: what its lanes are opened from, beside the parent's.
    pub inherited: sys::Mutex<Vec<xdp::Inherited>>,
    /// IPsec policies, which are the kernel's to apply.
    pub policies: Policies,
}

/// The runtime, once started.
#[inline]
pub(crate) fn get() -> Option<&'static Runtime> {
    // SAFETY: `start` stored a leaked runtime.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// Starts the runtime. The first caller does it, which it is told; a second one sees the same runtime.
pub(crate) fn start(product: Product, os: Os) -> (&'static Runtime, bool) {
    static STARTING: sys::Mutex<()> = Rank::Starting.lock(());
    let _one = STARTING.lock();
    if let Some(runtime) = get() {
        return (runtime, false);
    }
    // Large values, once: the calling thread's stack may be small.
    let runtime = sys::thread::with_room(|| -> &'static Runtime {
        Box::leak(Box::new(Runtime::new(os, settings::read(product))))
    });
    RUNTIME.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    (runtime, true)
}

/// Between two looks for what is unseen, nanoseconds: each pause is twice the one before.
const UNSEEN_FIRST_NS: u64 = 1_000_000_000;
const UNSEEN_MOST_NS: u64 = 64 * UNSEEN_FIRST_NS;

impl Runtime {
    fn new(os: Os, read: settings::Read) -> Runtime {
        let settings::Read { parameters, rules, interfaces, sdp, has_few_descriptors, refuses_all } = read;
        let defaults = Parameters::default();
        let receive = Budget::from_loops(parameters.rx_poll, parameters.rx_poll == defaults.rx_poll);
        let select =
            Budget::from_usec(parameters.select_poll, parameters.select_poll == defaults.select_poll);
        Runtime {
            os,
            budgets: (receive, select),
            allocation: Allocation::new(&parameters),
            parameters,
            sdp,
            refuses_all,
            rules: Rank::Rules.lock(rules),
            interfaces,
            engine: settings::EngineOnDemand::new(),
            links: Rank::Links.lock(Vec::new()),
            netlink: Rank::Netlink.lock(None),
            namespace: AtomicU64::new(0),
            routes: Rank::Routes.lock(HashMap::new()),
            astray: AtomicBool::new(false),
            has_gone: AtomicBool::new(false),
            route_generation: AtomicU32::new(1),
            why_told: [const { AtomicBool::new(false) }; Why::COUNT],
            has_few_descriptors,
            fenced: AtomicBool::new(false),
            confined: AtomicBool::new(false),
            has_unseen_rings: AtomicBool::new(false),
            has_unseen_sets: AtomicBool::new(false),
            unseen_due: AtomicU64::new(0),
            unseen_pause: Rank::Unseen.lock(0),
            inherited: Rank::Inherited.lock(Vec::new()),
            policies: Policies::new(),
        }
    }

    /// Why sockets must not leave the kernel: the program may wait for them, or use them, in a way that is not seen
    /// here. It is looked for before the first one moves, for which others wait, and now and then, as a look is at
    /// every descriptor.
    pub(crate) fn unseen(&self) -> Option<Why> {
        let next = &self.unseen_due;
        if sys::clock::now() >= next.load(Ordering::Acquire) {
            let looks = match next.load(Ordering::Acquire) {
                0 => Some(self.unseen_pause.lock()),
                _ => self.unseen_pause.try_lock(),
            };
            if let Some(mut pause) = looks
                && sys::clock::now() >= next.load(Ordering::Acquire)
            {
                self.look_for_unseen();
                *pause = (*pause * 2).clamp(UNSEEN_FIRST_NS, UNSEEN_MOST_NS);
                next.store(sys::clock::now() + *pause, Ordering::Release);
            }
        }
        self.known_unseen()
    }

    /// The same, by a look now.
    pub(crate) fn look_for_unseen(&self) -> Option<Why> {
        for (known, look) in [
            (&self.has_unseen_rings, self.os.has_unseen_rings),
            (&self.has_unseen_sets, self.os.has_unseen_sets),
        ] {
            if !known.load(Ordering::Relaxed) && look() {
                known.store(true, Ordering::Relaxed);
            }
        }
        self.known_unseen()
    }

    fn known_unseen(&self) -> Option<Why> {
        match (self.has_unseen_rings.load(Ordering::Relaxed), self.has_unseen_sets.load(Ordering::Relaxed)) {
            (true, _) => Some(Why::IoUring),
            (_, true) => Some(Why::UnseenSet),
            _ => None,
        }
    }

    /// Defaults of TCP, from sysctls and parameters.
    pub(crate) fn tcp_settings(&self) -> &'static stack::tcp::Settings {
        &self.engine.get(&self.parameters, self.sdp.is_none()).tcp
    }

    /// Defaults of UDP.
    pub(crate) fn udp_settings(&self) -> &'static stack::udp::Settings {
        &self.engine.get(&self.parameters, self.sdp.is_none()).udp
    }

    /// Whether connections inside the host may go through memory (SIDESTEP_LOCAL). libsdp.so has no other carrier;
    /// libvma.so leaves to the kernel what the user wants there, or on the wire alone.
    pub(crate) fn carries_in_memory(&self) -> bool {
        let parameters = &self.parameters;
        let is_open_to_it = parameters.carrier != config::Carrier::Kernel && !parameters.strict;
        parameters.local == config::LocalTransport::Shm && (self.sdp.is_some() || is_open_to_it)
    }

    /// Asks the kernel over netlink; the socket is opened on first use. Fails with the errno of opening it.
    pub(crate) fn netlink<T>(&self, ask: impl FnOnce(&mut Netlink) -> Result<T, i32>) -> Result<T, i32> {
        let mut netlink = self.netlink.lock();
        if netlink.is_none() {
            let opened = Netlink::open()?;
            // The calling thread may have gone elsewhere since the socket was made that it asks for.
            if !self.is_in_namespace(opened.descriptor()) {
                return Err(libc::EXDEV);
            }
            *netlink = Some(opened);
        }
        netlink.as_mut().map_or(Err(libc::EIO), ask)
    }

    /// Whether a socket has said which network namespace is the one whose interfaces are accelerated here.
    pub(crate) fn knows_namespace(&self) -> bool {
        self.namespace.load(Ordering::Acquire) != 0
    }

    /// Whether a socket belongs to the network namespace whose interfaces are accelerated here.
    pub(crate) fn is_in_namespace(&self, fd: i32) -> bool {
        let Ok(cookie) = sys::socket::network_namespace(fd) else { return true };
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.namespace.compare_exchange(0, cookie, success, failure) {
            Ok(_) => true,
            Err(known) => known == cookie,
        }
    }

    /// It, as SO_NETNS_COOKIE has it.
    pub(crate) fn namespace(&self) -> u64 {
        if self.namespace.load(Ordering::Acquire) == 0 {
            self.is_here();
        }
        self.namespace.load(Ordering::Acquire)
    }

    /// Whether the calling thread is in that namespace.
    pub(crate) fn is_here(&self) -> bool {
        sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).is_ok_and(|fd| self.is_in_namespace(fd.raw()))
    }

    /// The MTU to use on an interface: its own, or VMA_MTU where that is smaller and can be one (RFC 791).
    pub(crate) fn mtu(&self, of_link: u32) -> u32 {
        match self.parameters.mtu {
            wanted @ 68.. => of_link.min(wanted),
            _ => of_link,
        }
    }

    /// How long receives, accepts, connects and blocked sends poll.
    #[inline]
    pub(crate) fn receive_budget(&self) -> Budget {
        self.budgets.0
    }

    /// How long poll, select and epoll_wait poll.
    #[inline]
    pub(crate) fn select_budget(&self) -> Budget {
        self.budgets.1
    }

    /// What the parent left of an interface's device.
    pub(crate) fn inherited(&self, link: u32) -> Option<xdp::Inherited> {
        self.inherited.lock().iter().find(|inherited| inherited.index() == link).cloned()
    }
}
