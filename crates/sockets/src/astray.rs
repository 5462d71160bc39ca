//! Interfaces that are deleted and routes that change under sockets. By the worker.

use crate::answer::{Answer, Why};
use crate::family::FAMILY;
use crate::fd_table;
use crate::lane::Lane;
use crate::object::{Kind, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
use crate::udp_legs;
use core::sync::atomic::Ordering;

/// An interface was deleted: its sockets are the kernel's, and one that is made in its place gets a lane of its
/// own.
pub(crate) fn link_gone(runtime: &'static Runtime, index: u32) {
    runtime.forget_link(index);
    for lane in runtime.lanes().filter(|lane| lane.link == index && !lane.is_fenced()) {
        logger::debug!("{}: deleted; its sockets are the kernel's", lane.name);
        lane.gone.store(true, Ordering::Release);
        lane.fenced.store(true, Ordering::Release);
        runtime.has_gone.store(true, Ordering::Release);
        leave_lane(runtime, lane);
    }
}

/// Changes were missed: interfaces may have been deleted.
pub(crate) fn look_for_gone(runtime: &'static Runtime) {
    let Ok(links) = runtime.netlink(|netlink| netlink.links()) else { return };
    let is_there = |lane: &Lane| links.iter().any(|link| link.index == lane.link);
    let gone: Vec<u32> = runtime.lanes().filter(|lane| !is_there(lane)).map(|lane| lane.link).collect();
    gone.into_iter().for_each(|index| link_gone(runtime, index));
}

/// The interface of a lane was deleted: what is bound or listens there is the kernel's. Connections follow when there
/// is a route for them ([`move_connections`]).
fn leave_lane(runtime: &'static Runtime, lane: &'static Lane) {
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        let Some(_pin) = Pin::by(object, fd) else { continue };
        if !object.leg().is_some_and(|(first, _)| core::ptr::eq(first, lane)) {
            continue;
        }
        match object.kind() {
            Kind::Udp => udp_legs::detach(object),
            Kind::Listener => tcp::detach(object),
            _ => continue,
        }
        let _: Answer<()> = offload::fall_back(runtime, object, Why::InterfaceGone, "socket");
        object.watch.wake_all();
    }
}

/// Connections whose route leads over another interface by now, or whose interface was deleted, move into the kernel.
/// By the worker. Where that cannot be (it takes CAP_NET_ADMIN) they go on by the interface that they began on.
pub(crate) fn move_connections(runtime: &'static Runtime) {
    let mut is_left = false;
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd).filter(|object| object.kind() == Kind::Stream) else {
            continue;
        };
        let Some((lane, id)) = object.leg() else { continue };
        let why = if lane.gone.load(Ordering::Acquire) { Why::InterfaceGone } else { Why::OtherInterface };
        let is_astray = why == Why::InterfaceGone || lane.lock().stack.tcp_is_elsewhere(id);
        if is_astray && !FAMILY.to_kernel(runtime, object, why) {
            logger::debug!("fd {fd}: {}, and it cannot move (yet)", why.text());
            is_left |= why == Why::InterfaceGone;
        }
    }
    if !is_left {
        runtime.has_gone.store(false, Ordering::Release);
    }
}
