//! Multicast: the groups that a socket joined, and the way out to groups.
//!
//! Every join is the kernel's too: it sends the IGMP reports and opens the interface's filter, and it says what became
//! of a membership after each change of it: which there are, and from whom they hear. A group is steered to us on one
//! condition: nobody is bound to its port who hears by the kernel, in another process or in this one, since a packet
//! that we take is not heard by anybody else. The kernel tells nobody of other processes, so the worker looks, as often
//! as a hundredth of a processor allows; meanwhile the kernel's copy arrives at the shadow.
//!
//! Sends go out by the lane unless the sender wants its own host to hear them (IP_MULTICAST_LOOP, the default) and
//! somebody on it has joined: only the kernel can make that copy.

use super::groups::{self, Changes};
use super::members::{Audience, Bound, is_joined};
use crate::answer::{Answer, Why};
use crate::counts;
use crate::fd_table;
use crate::lane::Lane;
use crate::message::word_of;
use crate::object::in_flight::InFlight;
use crate::object::{Control, Kind, Membership, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use config::Role;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::c_int;
use netlink::RouteQuery;
use stack::udp::Sources;
use std::net::SocketAddrV4;

/// How often all sockets are looked at although nobody came or went, nanoseconds.
const RECHECK_NS: u64 = 1_000_000_000;

/// Pause between two looks at who is bound and has joined, nanoseconds, and how many times longer than the look it is.
const LOOKS_NS: u64 = 5_000_000;
const LOOKS_SHARE: u64 = 100;

/// Somebody in this process has to do with groups.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// MCAST_* (linux/in.h).
const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_LEAVE_GROUP: c_int = 45;
const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;
const MCAST_MSFILTER: c_int = 48;
const IP_MSFILTER: c_int = 41;

/// Whether an option of level IPPROTO_IP is about multicast.
pub(crate) fn is_option(name: c_int) -> bool {
    matches!(name, libc::IP_MULTICAST_IF | libc::IP_MULTICAST_LOOP | libc::IP_MULTICAST_ALL | 35..=48)
}

/// How many bytes of such an option's value say something here. The kernel has read as many of what it accepted.
pub(crate) fn value_size(name: c_int) -> usize {
    match name {
        MCAST_JOIN_GROUP..=MCAST_MSFILTER => 16,
        libc::IP_MULTICAST_IF | libc::IP_ADD_MEMBERSHIP..=IP_MSFILTER => 12,
        _ => size_of::<c_int>(),
    }
}

/// An option that the shadow has accepted.
pub(crate) fn set(runtime: &'static Runtime, object: &'static Object, fd: c_int, name: c_int, bytes: &[u8]) {
    object.last_route.store(0, Ordering::Relaxed);
    let change = |control: &mut Control| match name {
        libc::IP_MULTICAST_LOOP => control.multicast.silent = word_of(bytes) == Some(0),
        libc::IP_MULTICAST_IF => {
            let (address, index) = match bytes.len() {
                12.. => (address_at(bytes, 4), word_at(bytes, 8)),
                8.. => (address_at(bytes, 4), 0),
                _ => (address_at(bytes, 0), 0),
            };
            control.multicast.source = Some(address).filter(|address| !address.is_unspecified());
            control.multicast.link = interface(runtime, address, index, None);
        }
        _ => {}
    };
    change(&mut object.control.lock());
    if name == libc::IP_MULTICAST_ALL {
        let all = word_of(bytes) != Some(0);
        super::configure(runtime, object, |options| options.multicast_all = all);
    }
    let changed = named(runtime, name, bytes);
    if let Some((group, link)) = changed {
        learn(object, fd, group, link);
    }
    count(runtime, object, name, bytes, changed);
    ACTIVE.store(true, Ordering::Relaxed);
    // What others of this process send to the group may have to be heard here now.
    runtime.route_generation.fetch_add(1, Ordering::AcqRel);
    let _alone = InFlight::changes(object);
    if let Some(pin) = Pin::by(object, fd) {
        // A feed handler joins hundreds, one by one.
        look_at_port(runtime, &pin, |one| changed.is_none_or(|(group, _)| one.group == group));
    }
}

/// Tells the statistics; and waits after a join as long as the user wants: switches take a while to learn of it.
fn count(
    runtime: &'static Runtime,
    object: &Object,
    name: c_int,
    bytes: &[u8],
    changed: Option<(Ipv4Addr, u32)>,
) {
    if name == libc::IP_MULTICAST_LOOP {
        counts::loops(object.counts(), word_of(bytes) != Some(0));
    }
    let Some((group, _)) = changed else { return };
    // Of several sources of a group, each is joined and left by itself.
    let joined = object.control.lock().multicast.groups.iter().any(|one| one.group == group);
    counts::member(object.counts(), group, joined);
    let wait = u64::from(runtime.parameters.wait_after_join_msec);
    if joined && wait > 0 && !leaves(name) {
        sys::thread::sleep(wait * 1_000_000);
    }
}

fn leaves(name: c_int) -> bool {
    matches!(
        name,
        libc::IP_DROP_MEMBERSHIP
            | libc::IP_DROP_SOURCE_MEMBERSHIP
            | MCAST_LEAVE_GROUP
            | MCAST_LEAVE_SOURCE_GROUP
    )
}

/// The group and the interface that an option's value names.
fn named(runtime: &'static Runtime, name: c_int, bytes: &[u8]) -> Option<(Ipv4Addr, u32)> {
    let (group, near, index) = match name {
        libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP if bytes.len() >= 8 => {
            let index = if bytes.len() >= 12 { word_at(bytes, 8) } else { 0 };
            (address_at(bytes, 0), address_at(bytes, 4), index)
        }
        // struct ip_mreq_source and ip_msfilter: group and interface.
        libc::IP_ADD_SOURCE_MEMBERSHIP
        | libc::IP_DROP_SOURCE_MEMBERSHIP
        | libc::IP_BLOCK_SOURCE
        | libc::IP_UNBLOCK_SOURCE
        | IP_MSFILTER
            if bytes.len() >= 12 =>
        {
            (address_at(bytes, 0), address_at(bytes, 4), 0)
        }
        // struct group_req, group_source_req and group_filter: an index, then socket addresses from offset 8 on.
        MCAST_JOIN_GROUP..=MCAST_MSFILTER if bytes.len() >= 16 => {
            (address_at(bytes, 12), Ipv4Addr::UNSPECIFIED, word_at(bytes, 0))
        }
        _ => return None,
    };
    Some((group, interface(runtime, near, index, Some(group))))
}

/// What the kernel says of a membership. `None`: there is none.
fn ask(fd: c_int, group: Ipv4Addr, link: u32) -> Option<Sources> {
    // struct group_filter: the index, the group from offset 8 on, mode and count, then the sources.
    const MODE: usize = 136;
    const COUNT: usize = 140;
    const HEAD: usize = 144;
    const ADDRESS: usize = size_of::<libc::sockaddr_storage>();
    /// MCAST_INCLUDE (linux/in.h).
    const INCLUDE: u32 = 1;
    let mut room: u32 = 4;
    loop {
        let mut filter = vec![0; HEAD + room as usize * ADDRESS];
        filter[..4].copy_from_slice(&link.to_ne_bytes());
        filter[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        filter[12..16].copy_from_slice(&group.octets());
        filter[COUNT..HEAD].copy_from_slice(&room.to_ne_bytes());
        sys::socket::option_bytes(fd, libc::IPPROTO_IP, MCAST_MSFILTER, &mut filter).ok()?;
        let count = word_at(&filter, COUNT);
        if count > room {
            room = count;
            continue;
        }
        let list = (0..count as usize).map(|n| address_at(&filter, HEAD + n * ADDRESS + 4)).collect();
        let is_include = word_at(&filter, MODE) == INCLUDE;
        return Some(if is_include { Sources::Only(list) } else { Sources::AllBut(list) });
    }
}

/// A membership of the socket may be another now.
fn learn(object: &'static Object, fd: c_int, group: Ipv4Addr, link: u32) {
    let known = {
        let control = object.control.lock();
        control.multicast.groups.iter().find(|one| (one.group, one.link) == (group, link)).cloned()
    };
    let is_it = |one: &Membership| (one.group, one.link) == (group, link);
    match (ask(object.shadow(fd), group, link), known) {
        (Some(sources), None) => {
            object.control.lock().multicast.groups.push(Membership { group, link, sources, steered: false });
        }
        (Some(sources), Some(one)) => {
            if one.steered {
                let legs = object.legs().filter(|(lane, _)| lane.link == link);
                legs.for_each(|(lane, id)| lane.lock().stack.udp_join(id, group, sources.clone()));
            }
            let mut control = object.control.lock();
            control
                .multicast
                .groups
                .iter_mut()
                .filter(|one| is_it(one))
                .for_each(|one| one.sources = sources.clone());
        }
        (None, Some(one)) => {
            if one.steered {
                groups::left(object, &one);
            }
            object.control.lock().multicast.groups.retain(|one| !is_it(one));
        }
        (None, None) => {}
    }
}

/// The interface that an application named by index, by address, or not at all. 0: none is known.
fn interface(runtime: &'static Runtime, address: Ipv4Addr, index: u32, group: Option<Ipv4Addr>) -> u32 {
    if index != 0 {
        return index;
    }
    if !address.is_unspecified() {
        let addresses = runtime.netlink(|netlink| netlink.addresses()).unwrap_or_default();
        return addresses.iter().find(|known| known.address == address).map_or(0, |known| known.link);
    }
    let Some(group) = group else { return 0 };
    runtime.netlink(|netlink| netlink.route(group, RouteQuery::default())).map_or(0, |route| route.link)
}

fn address_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    let four: Option<[u8; 4]> = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// A socket is bound that hears by the kernel, for now or for ever: so do the others that hear the same groups.
pub(crate) fn hears_by_kernel(runtime: &'static Runtime, local: SocketAddrV4) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    let bound = Bound::default();
    let mut changes = Changes::default();
    for (other, alone) in groups::others_at(None, local.port()) {
        look_again(
            runtime,
            &other,
            &bound,
            |one| one.steered && groups::hears(local, one.group),
            &mut changes,
        );
        changes.hold(alone);
    }
    changes.make(runtime);
}

/// Takes over the groups of a socket that can be ours now, and gives back those that no longer can; so do the others
/// at its port, which hear by what it hears by.
pub(crate) fn refresh(runtime: &'static Runtime, pin: &Pin) {
    if pin.object().control.lock().multicast.has_groups() {
        look_at_port(runtime, pin, |_| true);
    }
}

/// The same with those groups that are `chosen`.
fn look_at_port(runtime: &'static Runtime, pin: &Pin, chosen: impl Fn(&Membership) -> bool + Copy) {
    let object = pin.object();
    let bound = Bound::default();
    let mut changes = Changes::default();
    look_again(runtime, pin, &bound, chosen, &mut changes);
    let port = object.control.lock().local.map(|local| local.port());
    for (other, alone) in port.into_iter().flat_map(|port| groups::others_at(Some(object), port)) {
        look_again(runtime, &other, &bound, chosen, &mut changes);
        changes.hold(alone);
    }
    changes.make(runtime);
}

/// What becomes of those groups of a socket that are `chosen`.
fn look_again(
    runtime: &'static Runtime,
    pin: &Pin,
    bound: &Bound,
    chosen: impl Fn(&Membership) -> bool,
    changes: &mut Changes,
) {
    let object = pin.object();
    if super::waits(object) {
        return;
    }
    let (memberships, local) = {
        let control = object.control.lock();
        if control.multicast.groups.is_empty() || control.remote.is_some() {
            return;
        }
        (control.multicast.groups.clone(), control.local)
    };
    let Some(local) = local.filter(|local| local.port() != 0) else { return };
    for one in memberships.into_iter().filter(chosen) {
        let may = match decide(runtime, &one, local, bound) {
            Ok(lane) if groups::hears(local, one.group) => Some(lane),
            Ok(_) => None,
            Err(why) => {
                let told = core::mem::replace(&mut object.control.lock().told, true);
                if !told {
                    runtime.count(why, format_args!("group {} at port {}", one.group, local.port()));
                }
                None
            }
        };
        match may {
            Some(lane) if !one.steered => changes.taken.push((Pin::begin(object), lane, one, local)),
            None if one.steered => changes.given.push((object, one)),
            _ => {}
        }
    }
}

fn decide(
    runtime: &'static Runtime,
    one: &Membership,
    local: SocketAddrV4,
    bound: &Bound,
) -> Result<&'static Lane, Why> {
    let at = SocketAddrV4::new(one.group, local.port());
    offload::allowed(runtime, Role::UdpReceiver, Some(at), None)?;
    let lane = lane_on(runtime, one.link)?;
    runtime.policies.check(None, None)?;
    if bound.others_hear(at) { Err(Why::GroupAddress) } else { Ok(lane) }
}

/// The interfaces of a socket's groups.
pub(crate) fn links(object: &Object) -> Vec<u32> {
    let control = object.control.lock();
    control.multicast.groups.iter().map(|one| one.link).filter(|link| *link != 0).collect()
}

/// The lane of an interface. What begins in the kernel opens none in a call.
fn lane_on(runtime: &'static Runtime, link: u32) -> Result<&'static Lane, Why> {
    match runtime.parameters.begins_in_kernel() {
        true => runtime.known_lane(link).unwrap_or(Err(Why::OtherInterface)),
        false => runtime.lane_for_link(link),
    }
}

/// The lane and the source address for what a socket sends to a group.
pub(crate) fn way_out(
    runtime: &'static Runtime,
    object: &Object,
    group: Ipv4Addr,
) -> Result<(&'static Lane, Ipv4Addr), Why> {
    let (mut link, mut source, silent) = {
        let control = object.control.lock();
        (control.multicast.link, control.multicast.source, control.multicast.silent)
    };
    ACTIVE.store(true, Ordering::Relaxed);
    if link == 0 {
        let route = runtime.netlink(|netlink| netlink.route(group, RouteQuery::default()));
        let route = route.map_err(|_| Why::NoRoute)?;
        link = route.link;
        source = source.or(route.source);
    }
    let lane = lane_on(runtime, link)?;
    runtime.policies.check(None, None)?;
    if !silent && is_joined(runtime, link, group) {
        return Err(Why::GroupAddress);
    }
    let source = source.or_else(|| lane.lock().addresses.first().copied()).ok_or(Why::NoRoute)?;
    Ok((lane, source))
}

/// The worker's look at who else is bound or has joined on this host.
#[derive(Default)]
pub(crate) struct Lookout {
    /// What it saw last.
    seen: Audience,
    next_at: u64,
    /// When it last went through all sockets, changed or not.
    whole_at: u64,
}

impl Lookout {
    /// Looks, if it is time to, and acts on what has changed.
    pub(crate) fn look(&mut self, runtime: &'static Runtime, now: u64) {
        if now < self.next_at || !ACTIVE.load(Ordering::Relaxed) {
            return;
        }
        let whole = now.saturating_sub(self.whole_at) >= RECHECK_NS;
        let audience = Audience::look();
        if whole || audience.has_joined_otherwise(&self.seen) {
            runtime.route_generation.fetch_add(1, Ordering::AcqRel);
        }
        if whole || audience != self.seen {
            recheck(runtime);
        }
        if whole {
            self.whole_at = now;
        }
        self.seen = audience;
        self.next_at = pause_after(now, sys::clock::now());
    }
}

/// When to look again after a look of this length.
fn pause_after(began: u64, ended: u64) -> u64 {
    ended + (ended.saturating_sub(began) * LOOKS_SHARE).max(LOOKS_NS)
}

/// Who else has joined meanwhile?
fn recheck(runtime: &'static Runtime) {
    let bound = Bound::default();
    let mut changes = Changes::default();
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd).filter(|object| object.kind() == Kind::Udp) else { continue };
        if object.fd.load(Ordering::Relaxed) != fd {
            continue;
        }
        let Some(pin) = Pin::by(object, fd) else { continue };
        // Who changes it looks again.
        let Some(alone) = InFlight::changes_now(object).filter(|_| object.kind() == Kind::Udp) else {
            continue;
        };
        look_again(runtime, &pin, &bound, |_| true, &mut changes);
        changes.hold(alone);
        let to = object.control.lock().remote.filter(|to| to.ip().is_multicast());
        if let Some(to) = to
            && let Err(why) = way_out(runtime, object, *to.ip())
        {
            super::detach(object);
            let _: Answer<()> = offload::fall_back(runtime, object, why, "UDP send to a group");
        }
    }
    changes.make(runtime);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_hundredth_of_a_processor_at_most() {
        assert_eq!(pause_after(1000, 25_000), 25_000 + LOOKS_NS);
        assert_eq!(pause_after(0, 3_000_000), 303_000_000);
    }

    #[test]
    fn an_index_goes_before_an_address_in_a_membership() {
        let bytes = [239, 1, 1, 10, 10, 0, 0, 1, 7, 0, 0, 0];
        assert_eq!((address_at(&bytes, 0), word_at(&bytes, 8)), (Ipv4Addr::new(239, 1, 1, 10), 7));
    }
}
