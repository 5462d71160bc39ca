//! The one global: configuration, lanes, the kernel's view of the network, and why sockets were left to the kernel.

use crate::answer::Why;
use crate::carrier::Opening;
use crate::ending::Ending;
use crate::family::Family;
use crate::lane::Lane;
use crate::locks::Rank;
use crate::os::{Os, Product};
use crate::policies::Policies;
use crate::tcp::{Spare, Spares};
use crate::wait::spin::Budget;
use crate::{settings, worker};
use config::{ExceptionHandling, Interfaces, Parameters, ProcessRules};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use netlink::{Address, Netlink, RouteQuery};
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
    /// Of libsdp.so.
    pub sdp: Option<crate::sdp::Sdp>,
    /// From the configuration file, for this program.
    pub rules: sys::Mutex<ProcessRules>,
    /// Which interfaces are chosen.
    pub interfaces: Interfaces,
    engine: settings::EngineOnDemand,
    lanes: [AtomicPtr<Lane>; LANES_MAX],
    lane_count: AtomicUsize,
    /// What became of each interface that was asked for.
    links: sys::Mutex<Vec<(u32, Result<usize, Why>)>>,
    netlink: sys::Mutex<Option<Netlink>>,
    /// The network namespace of all that is accelerated, as SO_NETNS_COOKIE has it: that of the first socket. 0: none
    /// yet.
    namespace: AtomicU64,
    routes: sys::Mutex<Routes>,
    /// Connections may be on a lane whose interface is no longer their route's.
    pub astray: AtomicBool,
    /// Interfaces were deleted, and some of their connections may not be the kernel's yet.
    pub has_gone: AtomicBool,
    /// Changes whenever a cached route may be wrong.
    pub route_generation: AtomicU32,
    why_told: [AtomicBool; Why::COUNT],
    /// Nothing is accelerated any more (a panic was caught).
    pub fenced: AtomicBool,
    /// New sockets are the kernel's: the program confined itself in a way that only the kernel can follow.
    pub confined: AtomicBool,
    /// New sockets are the kernel's, too: the program may use any by rings of io_uring that we do not see into.
    pub has_unseen_rings: AtomicBool,
    /// In the child of a fork: what its lanes are opened from, beside the parent's.
    inherited: sys::Mutex<Vec<xdp::Inherited>>,
    /// Shadows for connections to come.
    pub spares: Spares,
    /// What this process and its relatives have together.
    pub family: Family,
    /// Interfaces that are opened beside the program.
    pub opening: Opening,
    /// IPsec policies, which are the kernel's to apply.
    pub policies: Policies,
    /// The end of the process.
    pub ending: Ending,
    /// The background thread.
    pub worker: worker::Handle,
}

/// Where packets go, by destination and what else their way depends on.
type Routes = HashMap<(Ipv4Addr, RouteQuery), Decision>;

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
pub(crate) fn start(product: Product, os: Os) -> &'static Runtime {
    static STARTING: sys::Mutex<()> = Rank::Starting.lock(());
    let _one = STARTING.lock();
    if let Some(runtime) = get() {
        return runtime;
    }
    // Large values, once: the calling thread's stack may be small.
    let runtime =
        sys::thread::with_room(|| -> &'static Runtime { Box::leak(Box::new(settings::read(product, os))) });
    RUNTIME.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    crate::device::look_for_named(runtime);
    runtime
}

impl Runtime {
    /// A runtime without lanes.
    pub(crate) fn new(
        os: Os,
        parameters: Parameters,
        rules: ProcessRules,
        interfaces: Interfaces,
    ) -> Runtime {
        let defaults = Parameters::default();
        let receive = Budget::from_loops(parameters.rx_poll, parameters.rx_poll == defaults.rx_poll);
        let select =
            Budget::from_usec(parameters.select_poll, parameters.select_poll == defaults.select_poll);
        Runtime {
            os,
            budgets: (receive, select),
            parameters,
            sdp: None,
            rules: Rank::Rules.lock(rules),
            interfaces,
            engine: settings::EngineOnDemand::new(),
            lanes: [const { AtomicPtr::new(core::ptr::null_mut()) }; LANES_MAX],
            lane_count: AtomicUsize::new(0),
            links: Rank::Links.lock(Vec::new()),
            netlink: Rank::Netlink.lock(None),
            namespace: AtomicU64::new(0),
            routes: Rank::Routes.lock(HashMap::new()),
            astray: AtomicBool::new(false),
            has_gone: AtomicBool::new(false),
            route_generation: AtomicU32::new(1),
            why_told: [const { AtomicBool::new(false) }; Why::COUNT],
            fenced: AtomicBool::new(false),
            confined: AtomicBool::new(false),
            has_unseen_rings: AtomicBool::new(false),
            inherited: Rank::Inherited.lock(Vec::new()),
            spares: Spares::new(),
            family: Family::new(),
            opening: Opening::new(),
            policies: Policies::new(),
            ending: Ending::new(),
            worker: worker::Handle::new(),
        }
    }

    /// Defaults of TCP, from sysctls and parameters.
    pub(crate) fn tcp_settings(&self) -> &'static stack::tcp::Settings {
        &self.engine.get(self).tcp
    }

    /// Defaults of UDP.
    pub(crate) fn udp_settings(&self) -> &'static stack::udp::Settings {
        &self.engine.get(self).udp
    }

    /// Whether connections inside the host may go through memory: under libsdp.so, unless SIDESTEP_LOCAL says no.
    pub(crate) fn carries_in_memory(&self) -> bool {
        self.sdp.is_some() && self.parameters.local != config::LocalTransport::Kernel
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
            let opened = Netlink::open()?;
            // The calling thread may have gone elsewhere since the socket was made that it asks for.
            if !self.is_in_namespace(opened.descriptor()) {
                return Err(libc::EXDEV);
            }
            *netlink = Some(opened);
        }
        netlink.as_mut().map_or(Err(libc::EIO), ask)
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

    /// Whether the calling thread is in that namespace.
    fn is_here(&self) -> bool {
        sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).is_ok_and(|fd| self.is_in_namespace(fd.raw()))
    }

    /// Where packets to `to` go; remembered until routes change. Opens the interface, if none of this process has yet.
    pub(crate) fn decide(&'static self, to: Ipv4Addr, asked: RouteQuery) -> Decision {
        let decided = self.decide_by(to, asked, |link| Some(self.lane_for_link(link)));
        decided.unwrap_or(Decision::Kernel(Why::DeviceFailed))
    }

    /// As [`Runtime::decide`], and opens nothing. `Err`: this interface was not asked for yet, or is being opened.
    pub(crate) fn decide_if_open(&'static self, to: Ipv4Addr, asked: RouteQuery) -> Result<Decision, u32> {
        let mut of_route = 0;
        let decided = self.decide_by(to, asked, |link| {
            of_route = link;
            self.known_lane(link)
        });
        decided.ok_or(of_route)
    }

    fn decide_by(
        &'static self,
        to: Ipv4Addr,
        asked: RouteQuery,
        lane_of: impl FnOnce(u32) -> Option<Result<&'static Lane, Why>>,
    ) -> Option<Decision> {
        if to.is_loopback() || to.is_unspecified() {
            return Some(Decision::Kernel(Why::LocalAddress));
        }
        if to.is_multicast() || to.is_broadcast() {
            return Some(Decision::Kernel(Why::GroupAddress));
        }
        if let Some(known) = self.routes.lock().get(&(to, asked)) {
            return Some(*known);
        }
        let decision = self.ask_route(to, asked, lane_of)?;
        let mut routes = self.routes.lock();
        if routes.len() >= ROUTES_MAX {
            routes.clear();
        }
        routes.insert((to, asked), decision);
        Some(decision)
    }

    fn ask_route(
        &'static self,
        to: Ipv4Addr,
        asked: RouteQuery,
        lane_of: impl FnOnce(u32) -> Option<Result<&'static Lane, Why>>,
    ) -> Option<Decision> {
        use netlink::RouteKind::*;
        let because = |why| Some(Decision::Kernel(why));
        let Ok(route) = self.netlink(|netlink| netlink.route(to, asked)) else {
            return because(Why::NoRoute);
        };
        match route.kind {
            Local => return because(Why::LocalAddress),
            Broadcast | Multicast => return because(Why::GroupAddress),
            Unreachable => return because(Why::NoRoute),
            Unicast => {}
        }
        // A source that was asked with is not told again.
        match (lane_of(route.link)?, route.source.or(asked.source)) {
            (Ok(lane), Some(source)) if self.answers_come_by(lane, source) => {
                match self.policies.check(None, Some(to)) {
                    Ok(()) => Some(Decision::Lane { slot: lane.slot as u8, source }),
                    Err(why) => because(why),
                }
            }
            (Ok(_), Some(_)) => because(Why::OtherInterface),
            (Ok(_), None) => because(Why::NoRoute),
            (Err(why), _) => because(why),
        }
    }

    /// Whether answers to a source address can be expected on a lane's interface: it has the address, or none does that
    /// a peer could prefer (loopback, dummies).
    fn answers_come_by(&self, lane: &Lane, source: Ipv4Addr) -> bool {
        if lane.lock().addresses.contains(&source) {
            return true;
        }
        let Some(owner) = self.addresses().into_iter().find(|known| known.address == source) else {
            return false;
        };
        let links = self.netlink(|netlink| netlink.links()).unwrap_or_default();
        let owner = links.into_iter().find(|link| link.index == owner.link);
        owner.is_some_and(|link| link.loopback || link.kind.as_deref() == Some("dummy"))
    }

    /// An interface was deleted: its sockets are the kernel's, and one that is made in its place gets a lane of its
    /// own.
    pub(crate) fn link_gone(&'static self, index: u32) {
        self.links.lock().retain(|(link, _)| *link != index);
        for lane in self.lanes().filter(|lane| lane.link == index && !lane.is_fenced()) {
            logger::debug!("{}: deleted; its sockets are the kernel's", lane.name);
            lane.gone.store(true, Ordering::Release);
            lane.fenced.store(true, Ordering::Release);
            self.has_gone.store(true, Ordering::Release);
            crate::offload::leave_lane(self, lane);
        }
    }

    /// Changes were missed: interfaces may have been deleted.
    pub(crate) fn look_for_gone(&'static self) {
        let Ok(links) = self.netlink(|netlink| netlink.links()) else { return };
        let is_there = |lane: &Lane| links.iter().any(|link| link.index == lane.link);
        let gone: Vec<u32> = self.lanes().filter(|lane| !is_there(lane)).map(|lane| lane.link).collect();
        gone.into_iter().for_each(|index| self.link_gone(index));
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
        if !self.is_here() {
            return Err(Why::Namespace);
        }
        let opened = sys::thread::with_room(|| self.open_link(index));
        let known = match &opened {
            Ok(lane) => Ok(lane.slot),
            Err(why) => Err(*why),
        };
        links.push((index, known));
        drop(links);
        match &opened {
            Ok(_) => {
                (self.os.opened)();
                self.worker.wake_or_start(self);
            }
            Err(why)
                if self.parameters.exception_handling == ExceptionHandling::Exit && !why.is_ordinary() =>
            {
                logger::error!("{}, and VMA_EXCEPTION_HANDLING is -2: the program ends", why.text());
                sys::process::end(1);
            }
            Err(_) => {}
        }
        opened
    }

    /// What became of an interface. `None`: it was not asked for yet, or another thread opens one just now.
    pub(crate) fn known_lane(&self, index: u32) -> Option<Result<&'static Lane, Why>> {
        let (_, known) = *self.links.try_lock()?.iter().find(|(link, _)| *link == index)?;
        Some(known.and_then(|slot| self.lane(slot).ok_or(Why::DeviceFailed)))
    }

    /// Whether an interface was asked for, be it in vain.
    pub(crate) fn has_asked_for_lanes(&self) -> bool {
        !self.links.lock().is_empty()
    }

    #[cold]
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
        let count = self.lane_count.load(Ordering::Relaxed);
        let is_gone = |slot: &usize| self.lane(*slot).is_some_and(|lane| lane.gone.load(Ordering::Relaxed));
        let slot = (0..count).find(is_gone).unwrap_or(count);
        if slot >= LANES_MAX {
            return Err(Why::EngineFull);
        }
        if is_confined() {
            self.confined.store(true, Ordering::Release);
            return Err(Why::Confined);
        }
        let device = crate::device::open(self, &link)?;
        crate::keeper::prepare();
        let copies = if device.is_zero_copy() { "zero copy" } else { "copying" };
        logger::debug!(
            "{}: accelerated, {:?} mode, {copies}, {} queues",
            link.name,
            device.mode(),
            device.descriptors().len()
        );
        let lane: &'static Lane =
            Box::leak(Box::new(Lane::new(slot, &link, &self.addresses(), device, self)));
        self.lanes[slot].store(core::ptr::from_ref(lane).cast_mut(), Ordering::Release);
        self.lane_count.store(count.max(slot + 1), Ordering::Release);
        crate::capture::attend_lane(self, lane, sys::clock::now());
        Ok(lane)
    }

    /// The lanes on which a socket bound to every address stands: those of all chosen interfaces that are up and have
    /// an address. If none: the most telling reason.
    pub(crate) fn lanes_for_any(&'static self) -> Result<Vec<&'static Lane>, Why> {
        let mut lanes = Vec::new();
        let mut because = Why::NoInterface;
        for link in self.links_for_any() {
            match self.lane_for_link(link) {
                Ok(lane) => lanes.push(lane),
                Err(why) if because.is_ordinary() => because = why,
                Err(_) => {}
            }
        }
        if lanes.is_empty() { Err(because) } else { Ok(lanes) }
    }

    /// Interfaces that are up and have an address.
    pub(crate) fn links_for_any(&self) -> Vec<u32> {
        let addresses = self.addresses();
        let mut links = self.netlink(|netlink| netlink.links()).unwrap_or_default();
        links.retain(|link| {
            link.up && !link.loopback && addresses.iter().any(|address| address.link == link.index)
        });
        links.into_iter().map(|link| link.index).collect()
    }

    /// The lane whose interface owns `address`.
    pub(crate) fn lane_for_address(&'static self, address: Ipv4Addr) -> Result<&'static Lane, Why> {
        self.lane_for_link(self.link_of_address(address)?)
    }

    /// The interface that owns `address`.
    pub(crate) fn link_of_address(&self, address: Ipv4Addr) -> Result<u32, Why> {
        if address.is_loopback() {
            return Err(Why::LocalAddress);
        }
        if address.is_multicast() || address.is_broadcast() {
            return Err(Why::GroupAddress);
        }
        let owner = self.addresses().into_iter().find(|known| known.address == address);
        Ok(owner.ok_or(Why::GroupAddress)?.link)
    }

    fn addresses(&self) -> Vec<Address> {
        self.netlink(|netlink| netlink.addresses()).unwrap_or_default()
    }

    /// Counts that a socket was left to the kernel and tells it: ordinary reasons at debug, others in one WARNING each.
    pub(crate) fn count(&self, why: Why, what: core::fmt::Arguments<'_>) {
        crate::counts::segment().left_to_kernel(why);
        if self.tells(why) && self.tell_now(why) {
            logger::warning!("{what}: left to the kernel: {}; {}", why.text(), why.remedy());
        } else {
            logger::debug!("{what}: left to the kernel: {}", why.text());
        }
    }

    /// Whether a reason is worth a warning: the lack of privilege to those who want to hear of it.
    pub(crate) fn tells(&self, why: Why) -> bool {
        !why.is_ordinary() && (why != Why::NoPrivilege || settings::is_wanted())
    }

    /// Whether this reason was not told yet; the caller tells it, in more words than [`Runtime::count`] has.
    pub(crate) fn tell_now(&self, why: Why) -> bool {
        !self.why_told[why as usize].swap(true, Ordering::Relaxed)
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
        self.opening.after_fork();
        self.policies.after_fork();
        self.ending.after_fork();
        self.worker.after_fork(child);
        crate::counts::after_fork(child);
        crate::extra::after_fork(child);
    }

    /// Before a fork: takes the locks that the child needs to find free, in the order of `locks.rs`.
    pub(crate) fn locks_for_fork(&self) -> ForkLocks<'_> {
        let family = self.family.fork_begins();
        let links = self.links.lock();
        let routes = self.routes.lock();
        let inherited = self.inherited.lock();
        let lanes: Vec<_> = self.lanes().map(Lane::lock_beside).collect();
        lanes.iter().for_each(|inner| inner.device.before_fork());
        ForkLocks {
            _family: family,
            _links: links,
            _routes: routes,
            _inherited: inherited,
            _lanes: lanes,
            _rules: self.rules.lock(),
            _policies: self.policies.lock(),
            _netlink: self.netlink.lock(),
            _objects: crate::object::lock_free(),
            _sets: crate::wait::epoll::lock_free(),
            _spares: self.spares.fork_begins(),
            _keeper: keeper::client::fork_begins(),
        }
    }
}

/// See [`Runtime::locks_for_fork`].
pub(crate) struct ForkLocks<'a> {
    _family: sys::MutexGuard<'a, crate::family::State>,
    _links: sys::MutexGuard<'a, Vec<(u32, Result<usize, Why>)>>,
    _routes: sys::MutexGuard<'a, Routes>,
    _inherited: sys::MutexGuard<'a, Vec<xdp::Inherited>>,
    _lanes: Vec<sys::MutexGuard<'a, crate::lane::Inner>>,
    _netlink: sys::MutexGuard<'a, Option<Netlink>>,
    _rules: sys::MutexGuard<'a, ProcessRules>,
    _policies: sys::MutexGuard<'a, crate::policies::State>,
    _objects: sys::MutexGuard<'a, Vec<&'static crate::object::Object>>,
    _sets: sys::MutexGuard<'a, Vec<&'static crate::wait::epoll::Set>>,
    _spares: sys::MutexGuard<'a, Vec<Spare>>,
    _keeper: sys::MutexGuard<'a, keeper::client::Client>,
}

/// Whether this process began under rules for the ports that it may connect to (Landlock): they deny port 0, which
/// nobody allows. Without such rules the kernel finds nobody there.
fn is_confined() -> bool {
    let Ok(fd) = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0) else {
        return false;
    };
    let nobody = crate::address::to_sockaddr(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    matches!(sys::socket::connect(fd.raw(), &nobody), Err(libc::EACCES | libc::EPERM))
}
