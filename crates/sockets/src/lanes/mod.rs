//! Which lanes there are: an interface gets one when a socket first needs it, further ones as `runtime/allocation.rs`
//! says, and a failure is remembered. `routes.rs` says where packets go, `fork.rs` what a fork needs, `again.rs` what a
//! keeper changes that comes late.

mod again;
mod fork;
mod routes;

pub(crate) use fork::Locks;

use crate::answer::Why;
use crate::lane::Lane;
use crate::lane::capture;
use crate::runtime::{Asked, LANES_MAX, Runtime};
use crate::{address, device, keeper};
use config::ExceptionHandling;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use netlink::{Address, Link};
use xdp::Device;

/// Those of this process: of its one runtime.
static LANES: [AtomicPtr<Lane>; LANES_MAX] = [const { AtomicPtr::new(core::ptr::null_mut()) }; LANES_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Runtime {
    /// The lane in a slot.
    #[inline]
    pub(crate) fn lane(&self, slot: usize) -> Option<&'static Lane> {
        // SAFETY: slots hold null or a leaked lane.
        unsafe { LANES.get(slot)?.load(Ordering::Acquire).as_ref() }
    }

    /// Every open lane.
    #[inline]
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &'static Lane> + '_ {
        (0..COUNT.load(Ordering::Acquire)).filter_map(|slot| self.lane(slot))
    }

    /// The lane of an interface, opened on first use, with the program on it. A failure is remembered.
    pub(crate) fn lane_for_link(&'static self, index: u32) -> Result<&'static Lane, Why> {
        let mut links = self.links.lock();
        if let Some((_, known)) = links.iter_mut().find(|(link, _)| *link == index) {
            if *known == Err(Why::NoPrivilege) {
                drop(links);
                return match self.is_to_ask_again() {
                    true => self.lane_for_link(index),
                    false => Err(Why::NoPrivilege),
                };
            }
            let lane = known.and_then(|slot| self.lane(slot).ok_or(Why::DeviceFailed))?;
            return lane.put_program_on().map(|()| lane).inspect_err(|why| *known = Err(*why));
        }
        if !self.is_here() {
            return Err(Why::Namespace);
        }
        let opened = match self.look_for_unseen() {
            Some(why) => Err(why),
            None => sys::thread::with_room(|| self.open_link(index)),
        };
        let known = match &opened {
            Ok(lane) => Ok(lane.slot),
            Err(why) => Err(*why),
        };
        links.push((index, known));
        drop(links);
        match &opened {
            Ok(_) => (self.os.opened)(),
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

    /// What became of an interface. `None`: it was not asked for yet, its program is off, or another thread opens one
    /// just now.
    pub(crate) fn known_lane(&self, index: u32) -> Option<Result<&'static Lane, Why>> {
        let (_, known) = *self.links.try_lock()?.iter().find(|(link, _)| *link == index)?;
        if known == Err(Why::NoPrivilege) && self.is_to_ask_again() {
            return None;
        }
        let lane = known.and_then(|slot| self.lane(slot).ok_or(Why::DeviceFailed));
        (!lane.is_ok_and(|lane| lane.hook.is_off())).then_some(lane)
    }

    /// An interface is no more: one of its number is asked for anew.
    pub(crate) fn forget_link(&self, index: u32) {
        self.links.lock().retain(|(link, _)| *link != index);
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
        let link = self.link(index).ok_or(Why::NoRoute)?;
        self.free_slot().ok_or(Why::EngineFull)?;
        if is_confined() {
            self.confined.store(true, Ordering::Release);
            return Err(Why::Confined);
        }
        let device = device::open(self, &link, self.lanes().next().is_none())?;
        keeper::prepare();
        let copies = if device.is_zero_copy() { "zero copy" } else { "copying" };
        logger::debug!(
            "{}: accelerated, {:?} mode, {copies}, {} queues",
            link.name,
            device.mode(),
            device.descriptors().len()
        );
        self.add_lane(&link, 0, device).ok_or(Why::EngineFull)
    }

    fn link(&self, index: u32) -> Option<Link> {
        let links = self.netlink(|netlink| netlink.links()).unwrap_or_default();
        links.into_iter().find(|link| link.index == index)
    }

    /// That of a lane whose interface was deleted, or behind the others. Callers hold the lock of `links`.
    fn free_slot(&self) -> Option<usize> {
        let count = COUNT.load(Ordering::Relaxed);
        let is_gone = |slot: &usize| self.lane(*slot).is_some_and(|lane| lane.gone.load(Ordering::Relaxed));
        Some((0..count).find(is_gone).unwrap_or(count)).filter(|slot| *slot < LANES_MAX)
    }

    fn add_lane(&'static self, link: &Link, number: u32, device: Device) -> Option<&'static Lane> {
        let slot = self.free_slot()?;
        let addresses = self.addresses();
        let lane: &'static Lane =
            Box::leak(Box::new(Lane::new((slot, number), link, &addresses, device, self)));
        LANES[slot].store(core::ptr::from_ref(lane).cast_mut(), Ordering::Release);
        COUNT.fetch_max(slot + 1, Ordering::AcqRel);
        capture::attend_lane(self, lane, sys::clock::now());
        Some(lane)
    }

    // several of one interface

    /// The lanes of an interface that can be used.
    pub(crate) fn lanes_of_link(&self, index: u32) -> impl Iterator<Item = &'static Lane> + '_ {
        self.lanes().filter(move |lane| lane.link == index && !lane.is_fenced())
    }

    /// The lane of an interface for a connection from `local` that the calling thread begins to use, opened on first
    /// use: `first` is the interface's first lane, which serves where no further one can be had. `asked`: by its
    /// socket.
    pub(crate) fn lane_of_caller(
        &'static self,
        asked: Option<Asked>,
        first: &'static Lane,
        local: Ipv4Addr,
    ) -> &'static Lane {
        if asked.is_none() && !self.allocation.has_several() {
            return first;
        }
        let number = self.allocation.number(asked, local, &first.lock().addresses);
        let known = || self.lanes_of_link(first.link).find(|lane| lane.number == number);
        if let Some(known) = known() {
            return known;
        }
        let links = self.links.lock();
        if let Some(known) = known() {
            return known;
        }
        let opened = self.open_beside(first, number);
        drop(links);
        if opened.is_some() {
            (self.os.opened)();
        }
        opened.unwrap_or(first)
    }

    /// The lane of a lane's interface to which the calling thread's connections go, if it is another one.
    #[cold]
    pub(crate) fn lane_beside(&'static self, lane: &'static Lane) -> Option<&'static Lane> {
        let first = self.lanes_of_link(lane.link).find(|lane| lane.number == 0)?;
        let other = self.lane_of_caller(None, first, Ipv4Addr::UNSPECIFIED);
        (!core::ptr::eq(other, lane)).then_some(other)
    }

    /// A further lane of an interface. That there can be none is told and remembered.
    #[cold]
    fn open_beside(&'static self, first: &'static Lane, number: u32) -> Option<&'static Lane> {
        let may_open =
            [&self.fenced, &self.confined, &first.is_last].iter().all(|not| !not.load(Ordering::Relaxed));
        if !may_open || first.is_fenced() {
            return None;
        }
        let open = || {
            let link = self.link(first.link)?;
            let device = device::open_beside(self, &link, first.lock().device.beside())?;
            self.add_lane(&link, number, device)
        };
        let opened = sys::thread::with_room(open);
        match opened {
            Some(lane) => logger::debug!("{}: lane {number} of it is open", lane.name),
            None => {
                first.is_last.store(true, Ordering::Relaxed);
                logger::warning!(
                    "{}: no further lane of it can be had; threads share those that there are",
                    first.name
                );
            }
        }
        opened
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

    /// Whether interfaces of a listener are chosen, which is asked before one is opened.
    pub(crate) fn may_serve(&self, local: Ipv4Addr) -> bool {
        let of_listener = match local.is_unspecified() {
            true => self.links_for_any(),
            false => self.link_of_address(local).into_iter().collect(),
        };
        let links = self.netlink(|netlink| netlink.links()).unwrap_or_default();
        links.iter().any(|link| of_listener.contains(&link.index) && device::is_chosen(self, link))
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
}

/// Whether this process began under rules for the ports that it may connect to (Landlock): they deny port 0, which
/// nobody allows. Without such rules the kernel finds nobody there.
fn is_confined() -> bool {
    let Ok(fd) = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0) else {
        return false;
    };
    let nobody = address::to_sockaddr(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    matches!(sys::socket::connect(fd.raw(), &nobody), Err(libc::EACCES | libc::EPERM))
}
