//! The one global: configuration, lanes, the kernel's view of the network, and why sockets were left to the kernel.

use crate::answer::Why;
use crate::ending::Ending;
use crate::lane::Lane;
use crate::os::Os;
use crate::relay::Relays;
use crate::tcp::{Resting, Spare, Spares};
use crate::wait::spin::Budget;
use crate::{settings, worker};
use config::{Interfaces, Parameters, ProcessRules};
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use netlink::{Address, Netlink};
use std::collections::HashMap;

/// Interfaces that can be accelerated at once; a lane set is a 32-bit mask.
pub(crate) const LANES_MAX: usize = 32;

/// Destinations remembered before the cache starts anew.
const ROUTES_MAX: usize = 1 << 16;

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());

/// See the module's page.
pub(crate) struct Runtime {
    /// The genuine functions.
    pub os: Os,
    /// For receive_budget and select_budget.
    budgets: (Budget, Budget),
    /// From the environment.
    pub parameters: Parameters,
    /// From the configuration file, for this program.
    pub rules: sys::Mutex<ProcessRules>,
    /// Which interfaces are chosen.
    pub interfaces: Interfaces,
    /// Defaults of TCP, from sysctls and parameters.
    pub tcp_settings: stack::tcp::Settings,
    /// Defaults of UDP.
    pub udp_settings: stack::udp::Settings,
    lanes: [AtomicPtr<Lane>; LANES_MAX],
    lane_count: AtomicUsize,
    /// What became of each interface that was asked for.
    links: sys::Mutex<Vec<(u32, Result<usize, Why>)>>,
    netlink: sys::Mutex<Option<Netlink>>,
    routes: sys::Mutex<HashMap<Ipv4Addr, Decision>>,
    /// Changes whenever a cached route may be wrong.
    pub route_generation: AtomicU32,
    why_told: [AtomicBool; Why::COUNT],
    /// Nothing is accelerated any more (a panic was caught).
    pub fenced: AtomicBool,
    /// In the child of a fork: what its lanes are opened from, beside the parent's.
    inherited: sys::Mutex<Vec<xdp::Inherited>>,
    /// Listeners of this process that rest.
    pub resting: Resting,
    /// Shadows for connections to come.
    pub spares: Spares,
    /// Connections that children of a fork use.
    pub relays: Relays,
    /// The end of the process.
    pub ending: Ending,
    /// The background thread.
    pub worker: worker::Handle,
}

/// Where packets to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Over this lane, from this address unless the socket has its own.
    Lane { slot: u8, source: Ipv4Addr },
    /// By the kernel.
    Kernel(Why),
}

/// The runtime, once started.
#[inline]
pub(crate) fn get() -> Option<&'static Runtime> {
    // SAFETY: `start` stored a leaked runtime.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// Starts the runtime. The first caller does it; a second one waits for nothing and sees the same runtime.
pub(crate) fn start(os: Os) -> &'static Runtime {
    static STARTING: sys::Mutex<()> = sys::Mutex::new(());
    let _one = STARTING.lock();
    if let Some(runtime) = get() {
        return runtime;
    }
    let runtime = Box::leak(Box::new(settings::read(os)));
    RUNTIME.store(runtime, Ordering::Release);
    runtime
}

impl Runtime {
    /// A runtime without lanes.
    pub(crate) fn new(
        os: Os,
        parameters: Parameters,
        rules: ProcessRules,
        interfaces: Interfaces,
        tcp: stack::tcp::Settings,
        udp: stack::udp::Settings,
    ) -> Runtime {
        let defaults = Parameters::default();
        let receive = Budget::from_loops(parameters.rx_poll, parameters.rx_poll == defaults.rx_poll);
        let select =
            Budget::from_usec(parameters.select_poll, parameters.select_poll == defaults.select_poll);
        Runtime {
            os,
            budgets: (receive, select),
            parameters,
            rules: sys::Mutex::new(rules),
            interfaces,
            tcp_settings: tcp,
            udp_settings: udp,
            lanes: [const { AtomicPtr::new(core::ptr::null_mut()) }; LANES_MAX],
            lane_count: AtomicUsize::new(0),
            links: sys::Mutex::new(Vec::new()),
            netlink: sys::Mutex::new(None),
            routes: sys::Mutex::new(HashMap::new()),
            route_generation: AtomicU32::new(1),
            why_told: [const { AtomicBool::new(false) }; Why::COUNT],
            fenced: AtomicBool::new(false),
            inherited: sys::Mutex::new(Vec::new()),
            resting: Resting::new(),
            spares: Spares::new(),
            relays: Relays::new(),
            ending: Ending::new(),
            worker: worker::Handle::new(),
        }
    }

    /// The lane in a slot.
    #[inline]
    pub(crate) fn lane(&self, slot: usize) -> Option<&'static Lane> {
        // SAFETY: slots hold null or a leaked lane.
        unsafe { self.lanes.get(slot)?.load(Ordering::Acquire).as_ref() }
    }

    /// Every open lane.
    #[inline]
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &'static Lane> + '_ {
        (0..self.lane_count.load(Ordering::Acquire)).filter_map(|slot| self.lane(slot))
    }

    /// Asks the kernel over netlink; the socket is opened on first use. Fails with the errno of opening it.
    pub(crate) fn netlink<T>(&self, ask: impl FnOnce(&mut Netlink) -> Result<T, i32>) -> Result<T, i32> {
        let mut netlink = self.netlink.lock();
        if netlink.is_none() {
            *netlink = Some(Netlink::open()?);
        }
        netlink.as_mut().map_or(Err(libc::EIO), ask)
    }

    /// Where packets to `to` go; remembered until routes change.
    pub(crate) fn decide(&'static self, to: Ipv4Addr) -> Decision {
        if to.is_loopback() || to.is_unspecified() {
            return Decision::Kernel(Why::LocalAddress);
        }
        if to.is_multicast() || to.is_broadcast() {
            return Decision::Kernel(Why::GroupAddress);
        }
        if let Some(known) = self.routes.lock().get(&to) {
            return *known;
        }
        let decision = self.ask_route(to);
        let mut routes = self.routes.lock();
        if routes.len() >= ROUTES_MAX {
            routes.clear();
        }
        routes.insert(to, decision);
        decision
    }

    fn ask_route(&'static self, to: Ipv4Addr) -> Decision {
        use netlink::RouteKind::*;
        let route = match self.netlink(|netlink| netlink.route(to, netlink::RouteQuery::default())) {
            Ok(route) => route,
            Err(_) => return Decision::Kernel(Why::NoRoute),
        };
        match route.kind {
            Local => Decision::Kernel(Why::LocalAddress),
            Broadcast | Multicast => Decision::Kernel(Why::GroupAddress),
            Unreachable => Decision::Kernel(Why::NoRoute),
            Unicast => match (self.lane_for_link(route.link), route.source) {
                (Ok(lane), Some(source)) => Decision::Lane { slot: lane.slot as u8, source },
                (Ok(_), None) => Decision::Kernel(Why::NoRoute),
                (Err(why), _) => Decision::Kernel(why),
            },
        }
    }

    /// Routes changed: sockets ask anew.
    pub(crate) fn forget_routes(&self) {
        self.routes.lock().clear();
        self.route_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The lane of an interface, opened on first use. A failure is remembered.
    pub(crate) fn lane_for_link(&'static self, index: u32) -> Result<&'static Lane, Why> {
        let mut links = self.links.lock();
        if let Some((_, known)) = links.iter().find(|(link, _)| *link == index) {
            return known.and_then(|slot| self.lane(slot).ok_or(Why::DeviceFailed));
        }
        let opened = self.open_link(index);
        let known = match &opened {
            Ok(lane) => Ok(lane.slot),
            Err(why) => Err(*why),
        };
        links.push((index, known));
        drop(links);
        if opened.is_ok() {
            (self.os.opened)();
            self.worker.wake_or_start(self);
        }
        opened
    }

    fn open_link(&'static self, index: u32) -> Result<&'static Lane, Why> {
        if self.fenced.load(Ordering::Relaxed) {
            return Err(Why::Fenced);
        }
        let link = self
            .netlink(|netlink| netlink.links())
            .unwrap_or_default()
            .into_iter()
            .find(|link| link.index == index);
        let link = link.ok_or(Why::NoRoute)?;
        let addresses: Vec<Ipv4Addr> = self
            .addresses()
            .iter()
            .filter(|address| address.link == index)
            .map(|address| address.address)
            .collect();
        let slot = self.lane_count.load(Ordering::Relaxed);
        if slot >= LANES_MAX {
            return Err(Why::EngineFull);
        }
        let device = crate::device::open(self, &link)?;
        logger::debug!("{}: accelerated, {:?} mode", link.name, device.mode());
        let lane: &'static Lane = Box::leak(Box::new(Lane::new(slot, &link, addresses, device, self)));
        self.lanes[slot].store(core::ptr::from_ref(lane).cast_mut(), Ordering::Release);
        self.lane_count.store(slot + 1, Ordering::Release);
        Ok(lane)
    }

    /// The lanes on which a socket bound to every address stands: those of all chosen interfaces that are up and have
    /// an address. If none: the most telling reason.
    pub(crate) fn lanes_for_any(&'static self) -> Result<Vec<&'static Lane>, Why> {
        let addresses = self.addresses();
        let mut lanes = Vec::new();
        let mut because = Why::NoInterface;
        for link in self.netlink(|netlink| netlink.links()).unwrap_or_default() {
            let has_address = addresses.iter().any(|address| address.link == link.index);
            if !link.up || link.loopback || !has_address {
                continue;
            }
            match self.lane_for_link(link.index) {
                Ok(lane) => lanes.push(lane),
                Err(why) if because.is_ordinary() => because = why,
                Err(_) => {}
            }
        }
        if lanes.is_empty() { Err(because) } else { Ok(lanes) }
    }

    /// The lane whose interface owns `address`.
    pub(crate) fn lane_for_address(&'static self, address: Ipv4Addr) -> Result<&'static Lane, Why> {
        if address.is_loopback() {
            return Err(Why::LocalAddress);
        }
        if address.is_multicast() || address.is_broadcast() {
            return Err(Why::GroupAddress);
        }
        let owner = self.addresses().into_iter().find(|known| known.address == address);
        self.lane_for_link(owner.ok_or(Why::GroupAddress)?.link)
    }

    fn addresses(&self) -> Vec<Address> {
        self.netlink(|netlink| netlink.addresses()).unwrap_or_default()
    }

    /// Counts that a socket was left to the kernel and tells it: ordinary reasons at debug, others in one WARNING each.
    pub(crate) fn count(&self, why: Why, what: core::fmt::Arguments<'_>) {
        crate::counts::segment().left_to_kernel(why);
        if !why.is_ordinary() && !self.why_told[why as usize].swap(true, Ordering::Relaxed) {
            logger::warning!("{what}: left to the kernel: {}; {}", why.text(), why.remedy());
        } else {
            logger::debug!("{what}: left to the kernel: {}", why.text());
        }
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

    /// The worker must look soon: something gathers, or a neighbour is awaited.
    #[inline]
    pub(crate) fn worker_hurry(&self) {
        self.worker.hurry();
    }

    /// What the parent left of an interface's device.
    pub(crate) fn inherited(&self, link: u32) -> Option<xdp::Inherited> {
        self.inherited.lock().iter().find(|inherited| inherited.index() == link).cloned()
    }

    /// In the child of a fork: engines, netlink and worker are the parent's; lanes are opened anew when a socket needs
    /// one. `listens`: it will, perhaps after it gave up the privilege for it.
    pub(crate) fn after_fork(&self, listens: bool, child: &sys::InChild) {
        {
            let mut all = self.inherited.lock();
            for inherited in all.iter() {
                inherited.after_fork(child);
            }
            for lane in self.lanes() {
                lane.disown();
                let inherited = lane.lock().device.inherit(child);
                all.retain(|known| known.index() != inherited.index());
                all.push(inherited);
            }
            if listens {
                all.iter().for_each(xdp::Inherited::prepare);
            }
        }
        self.lane_count.store(0, Ordering::Release);
        self.links.lock().clear();
        // The descriptor is shared with the parent: its answers must not be read here. Dropping closes our copy.
        *self.netlink.lock() = None;
        self.routes.lock().clear();
        self.route_generation.fetch_add(1, Ordering::AcqRel);
        self.ending.after_fork();
        self.worker.after_fork();
        crate::counts::after_fork(child);
    }

    /// Before a fork: takes the locks that the child needs to find free, in the order of `lane/mod.rs`.
    pub(crate) fn locks_for_fork(&self) -> ForkLocks<'_> {
        let relays = self.relays.fork_begins();
        let links = self.links.lock();
        let routes = self.routes.lock();
        let inherited = self.inherited.lock();
        let lanes: Vec<_> = self.lanes().map(|lane| lane.lock()).collect();
        lanes.iter().for_each(|inner| inner.device.before_fork());
        ForkLocks {
            _relays: relays,
            _links: links,
            _routes: routes,
            _inherited: inherited,
            _lanes: lanes,
            _netlink: self.netlink.lock(),
            _rules: self.rules.lock(),
            _objects: crate::object::lock_free(),
            _sets: crate::wait::epoll::lock_free(),
            _spares: self.spares.fork_begins(),
        }
    }
}

/// See [`Runtime::locks_for_fork`].
pub(crate) struct ForkLocks<'a> {
    _relays: sys::MutexGuard<'a, crate::relay::State>,
    _links: sys::MutexGuard<'a, Vec<(u32, Result<usize, Why>)>>,
    _routes: sys::MutexGuard<'a, HashMap<Ipv4Addr, Decision>>,
    _inherited: sys::MutexGuard<'a, Vec<xdp::Inherited>>,
    _lanes: Vec<sys::MutexGuard<'a, crate::lane::Inner>>,
    _netlink: sys::MutexGuard<'a, Option<Netlink>>,
    _rules: sys::MutexGuard<'a, ProcessRules>,
    _objects: sys::MutexGuard<'a, Vec<&'static crate::object::Object>>,
    _sets: sys::MutexGuard<'a, Vec<&'static crate::wait::epoll::Set>>,
    _spares: sys::MutexGuard<'a, Vec<Spare>>,
}
