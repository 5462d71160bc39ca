//! Groups go from the kernel to the engines, and back, for all sockets of this process at a port at once: what the
//! steering brings here no shadow hears, and what it leaves to the kernel no engine does. A datagram that is on its way
//! at that moment is heard all the same: who joins does so before the steering entry, who leaves once the ring has what
//! came by it.

use super::members::Bound;
use super::{lane_of_caller, open_leg, rounds};
use crate::fd_table;
use crate::lane::Lane;
use crate::object::in_flight::InFlight;
use crate::object::{Kind, Membership, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::moves;
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use stack::SocketId;
use stack::udp::Heard;
use std::net::SocketAddrV4;

/// Memberships that change who serves them.
#[derive(Default)]
pub(super) struct Changes {
    /// Engines take them over; with the lane of their interface, and where the socket is bound.
    pub taken: Vec<(Pin, &'static Lane, Membership, SocketAddrV4)>,
    /// The kernel goes on with them.
    pub given: Vec<(&'static Object, Membership)>,
    /// Nobody else changes the legs of these meanwhile.
    held: Vec<InFlight>,
}

impl Changes {
    /// Until the changes are made, if there are some of it.
    pub(super) fn hold(&mut self, alone: InFlight) {
        let is_of_it = |object: &Object| core::ptr::eq(object, alone.object());
        if self.taken.iter().any(|(pin, ..)| is_of_it(pin.object()))
            || self.given.iter().any(|(object, _)| is_of_it(object))
        {
            self.held.push(alone);
        }
    }

    pub(super) fn make(self, runtime: &'static Runtime) {
        let joined: Vec<_> = self
            .taken
            .into_iter()
            .filter_map(|(pin, lane, one, local)| {
                let (lane, leg, id) = standing(runtime, &pin, lane, local)?;
                lane.lock().stack.udp_join(id, one.group, one.sources.clone());
                Some((pin, lane, leg, id, one, local.port()))
            })
            .collect();
        for (pin, lane, leg, id, one, port) in joined {
            let object = pin.object();
            let at = SocketAddrV4::new(one.group, port);
            let is_known =
                object.control.lock().flows.iter().any(|(_, flow)| flow.local == at && flow.remote.is_none());
            let steered =
                is_known || offload::steer(object, lane, leg, libc::IPPROTO_UDP as u8, at, None).is_ok();
            mark(object, &one, steered);
            if !steered {
                lane.lock().stack.udp_leave(id, one.group);
            }
        }
        give_back(&self.given);
    }
}

/// The leg by which a socket hears groups of an interface.
fn standing(
    runtime: &'static Runtime,
    pin: &Pin,
    lane: &'static Lane,
    local: SocketAddrV4,
) -> Option<(&'static Lane, u8, SocketId)> {
    let object = pin.object();
    let mut lane = object.lane_beside(lane);
    if object.leg_on(lane).is_none() {
        // A socket bound to every address stands on every lane already; one bound to the group stands where it joined.
        if local.ip().is_unspecified() {
            return None;
        }
        lane = lane_of_caller(runtime, object, lane, local);
        open_leg(runtime, pin, lane, local).ok()?;
        moves::changed(&runtime.os, object);
    }
    let (leg, (_, id)) = object.legs().enumerate().find(|(_, (on, _))| core::ptr::eq(*on, lane))?;
    Some((lane, leg as u8, id))
}

/// The kernel hears them from now on.
fn give_back(given: &[(&'static Object, Membership)]) {
    if given.is_empty() {
        return;
    }
    given.iter().for_each(|(object, one)| unsteer(object, one));
    rounds(given.iter().flat_map(|(object, one)| object.legs().filter(|(lane, _)| lane.link == one.link)));
    given.iter().for_each(|(object, one)| leave_engine(object, one));
}

/// A socket has left a group: it hears nothing more of it.
pub(super) fn left(object: &'static Object, one: &Membership) {
    leave_engine(object, one);
    unsteer(object, one);
}

/// What a socket hears that leaves the engines is the kernel's: the others at its port have heard it by the same
/// steering entries. They are gone when this returns; then [`Company::leave`].
pub(super) fn part(object: &'static Object) -> Company {
    let local = object.control.lock().local.filter(|_| super::has_company(object));
    let company: Vec<_> = local.into_iter().flat_map(|local| shared(object, local)).collect();
    for (pin, _, memberships) in &company {
        memberships.iter().for_each(|one| unsteer(pin.object(), one));
    }
    Company(company)
}

/// Whether others hear the groups that a socket hears, in whatever process: all get what the kernel is given for it.
pub(crate) fn heard(object: &'static Object) -> Heard {
    let port = object.control.lock().local.map_or(0, |local| local.port());
    match super::has_company(object) && !Bound::default().is_alone(port) {
        true => Heard::ByOthers,
        false => Heard::Alone,
    }
}

/// Memberships of others, by which an engine brings a socket that is bound to `local` what it hears as well.
fn shared(
    object: &'static Object,
    local: SocketAddrV4,
) -> impl Iterator<Item = (Pin, InFlight, Vec<Membership>)> {
    others_at(Some(object), local.port()).map(move |(pin, alone)| {
        let memberships = {
            let control = pin.object().control.lock();
            let all = control.multicast.groups.iter();
            all.filter(|one| one.steered && hears(local, one.group)).cloned().collect()
        };
        (pin, alone, memberships)
    })
}

/// The other memberships of groups that a socket heard which left the engines. Nobody else changes them meanwhile.
pub(super) struct Company(Vec<(Pin, InFlight, Vec<Membership>)>);

impl Company {
    /// The rings have what came by the steering entries.
    pub(super) fn leave(self) {
        for (pin, _, memberships) in &self.0 {
            memberships.iter().for_each(|one| leave_engine(pin.object(), one));
        }
    }
}

/// Whether who is bound there hears a group that is joined.
pub(super) fn hears(local: SocketAddrV4, group: Ipv4Addr) -> bool {
    local.ip().is_unspecified() || *local.ip() == group
}

/// The UDP sockets at a port that are others than this one, each of which nobody else changes as long as the second
/// lives: who does looks at its groups by himself.
pub(super) fn others_at(object: Option<&'static Object>, port: u16) -> impl Iterator<Item = (Pin, InFlight)> {
    (0..fd_table::end()).filter_map(move |fd| {
        let other = fd_table::socket(fd)?;
        let is_other = object.is_none_or(|object| !core::ptr::eq(object, other))
            && other.kind() == Kind::Udp
            && other.fd.load(Ordering::Relaxed) == fd;
        let is_there = || other.control.lock().local.is_some_and(|local| local.port() == port);
        if !is_other || !is_there() {
            return None;
        }
        let pin = Pin::by(other, fd)?;
        let alone = InFlight::changes_now(other).filter(|_| other.kind() == Kind::Udp)?;
        Some((pin, alone))
    })
}

fn mark(object: &Object, one: &Membership, steered: bool) {
    let mut control = object.control.lock();
    let same = |known: &&mut Membership| (known.group, known.link) == (one.group, one.link);
    if let Some(known) = control.multicast.groups.iter_mut().find(same) {
        known.steered = steered;
    }
}

fn leave_engine(object: &'static Object, one: &Membership) {
    for (lane, id) in object.legs().filter(|(lane, _)| lane.link == one.link) {
        lane.lock().stack.udp_leave(id, one.group);
    }
}

/// The group's packets come to this socket by the kernel.
fn unsteer(object: &'static Object, one: &Membership) {
    mark(object, one, false);
    let flows: Vec<_> = {
        let mut control = object.control.lock();
        if control.multicast.groups.iter().any(|other| other.group == one.group && other.steered) {
            return;
        }
        let flows = core::mem::take(&mut control.flows);
        let (gone, kept) = flows.into_iter().partition(|(_, flow)| *flow.local.ip() == one.group);
        control.flows = kept;
        gone
    };
    offload::unsteer_flows(object, flows);
}
