//! Where packets go: the kernel is asked, and its answers are remembered until it says that something changed.

use crate::answer::Why;
use crate::lane::Lane;
use crate::runtime::{Decision, Runtime};
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use netlink::RouteQuery;

/// Destinations remembered before the cache starts anew.
const ROUTES_MAX: usize = 1 << 16;

impl Runtime {
    /// Where packets to `to` go; remembered until routes change. Opens the interface, if none of this process has yet,
    /// and has its program on it.
    pub(crate) fn decide(&'static self, to: Ipv4Addr, asked: RouteQuery) -> Decision {
        let decided = self.decide_by(to, asked, |link| Some(self.lane_for_link(link)));
        let decided = decided.unwrap_or(Decision::Kernel(Why::DeviceFailed));
        let on = self.lane_of(decided).map_or(Ok(()), Lane::put_program_on);
        on.map_or_else(Decision::Kernel, |()| decided)
    }

    fn lane_of(&self, decision: Decision) -> Option<&'static Lane> {
        match decision {
            Decision::Lane { slot, .. } => self.lane(usize::from(slot)),
            Decision::Kernel(_) => None,
        }
    }

    /// As [`Runtime::decide`], and opens nothing. `Err`: this interface was not asked for yet, is being opened, or its
    /// program is off.
    pub(crate) fn decide_if_open(&'static self, to: Ipv4Addr, asked: RouteQuery) -> Result<Decision, u32> {
        let mut of_route = 0;
        let decided = self.decide_by(to, asked, |link| {
            of_route = link;
            self.known_lane(link)
        });
        let decided = decided.ok_or(of_route)?;
        match self.lane_of(decided).filter(|lane| lane.hook.is_off()) {
            Some(lane) => Err(lane.link),
            None => Ok(decided),
        }
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
        let known = self.routes.lock().get(&(to, asked)).copied();
        if let Some(known) = known
            && (known != Decision::Kernel(Why::NoPrivilege) || !self.is_to_ask_again())
        {
            return Some(known);
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

    /// Routes changed: sockets ask anew.
    pub(crate) fn forget_routes(&self) {
        self.routes.lock().clear();
        self.route_generation.fetch_add(1, Ordering::AcqRel);
    }
}
