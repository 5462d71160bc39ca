//! libsdp: which stream sockets are to speak SDP, by the rules of `libsdp.conf` or because the program asked for it.
//!
//! A socket is the kernel's. When it connects or listens, [`Sdp::decide`] says what is wanted of it, tells who decided,
//! and counts what became of it. This is the one place that asks the rules: what carries SDP asks [`wanted`].

pub(crate) mod refusal;

use crate::answer::Why;
use crate::carrier;
use crate::counts;
use crate::fd_table;
use crate::memory;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::sdp_rules::verb;
use ::memory::Meeting;
use ::memory::sign::Takes;
use config::sdp::{By, Role, Wanted};
use core::net::SocketAddr;

/// What a stream socket is to speak that connects to `address`, or listens there; told, and counted where it is TCP.
pub(crate) fn wanted(runtime: &Runtime, fd: i32, role: Role, address: SocketAddr) -> (Wanted, By) {
    let Some(sdp) = &runtime.sdp else { return (Wanted::Tcp, By::NoRules) };
    let decision = sdp.decide(fd, role, address);
    let (verb, by) = (verb(role), sdp.rules.reason(decision.by));
    let name = decision.wanted.name();
    if decision.wanted == Wanted::Tcp {
        logger::info!("fd {fd}: {verb} {address}: tcp ({by})");
        left(fd, Why::SdpRule);
    } else if runtime.carries_in_memory() && is_asked_for(decision.by) {
        logger::info!("fd {fd}: {verb} {address}: {name} wanted ({by})");
    } else {
        let why = Why::NoSdp.text();
        logger::info!("fd {fd}: {verb} {address}: {name} wanted ({by}); TCP carries it: {why}");
        left(fd, Why::NoSdp);
        return (Wanted::Tcp, decision.by);
    }
    (decision.wanted, decision.by)
}

/// Who decided, in words.
fn reason(runtime: &Runtime, by: By) -> String {
    runtime.sdp.as_ref().map_or_else(String::new, |sdp| sdp.rules.reason(by).to_string())
}

/// Whether somebody asked for SDP: a library in `/etc/ld.so.preload` changes nothing for those who did not.
fn is_asked_for(by: By) -> bool {
    matches!(by, By::Rule(_) | By::Simple | By::Asked)
}

/// The kernel's TCP carries it for good.
fn left(fd: i32, why: Why) {
    counts::segment().left_to_kernel(why);
    if !counts::knows(fd) && fd_table::entry(fd).is_none() {
        counts::left(counts::claim(Kind::TcpIdle, fd, false), fd, why);
    }
}

/// A socket whose connections may travel through memory: calls on it are ours from now on. `None`: its number is
/// beyond the table, or it is in use already.
fn enter(fd: i32) -> Option<&'static Object> {
    if let Some(known) = fd_table::socket(fd) {
        return (known.kind() == Kind::Carried && memory::is_strange_to(known)).then_some(known);
    }
    if fd_table::entry(fd).is_some() {
        return None;
    }
    let flags = sys::fd::fcntl(fd, libc::F_GETFL, 0).ok()? as i32;
    let object = carrier::begin(fd, flags & libc::O_NONBLOCK != 0, false);
    if !fd_table::enter_socket(fd, object) {
        object.release();
        return None;
    }
    Some(object)
}

/// A socket is about to be added to a set of ours. If it may still be connected, and then move, the set must know it.
pub(crate) fn before_set(runtime: &Runtime, fd: i32) {
    let is_known = || fd_table::entry(fd).is_some();
    if runtime.sdp.is_none() || !runtime.carries_in_memory() || is_known() {
        return;
    }
    if sys::socket::is_closed(fd) {
        let _ = enter(fd);
    }
}

/// connect(2) has begun, at least; `offered`: the meeting place, if its peer looks for it at once.
pub(crate) fn connected(runtime: &'static Runtime, fd: i32, to: SocketAddr, offered: Option<Meeting>) {
    if runtime.unseen().is_some() {
        return;
    }
    if !refusal::is_within_host(fd, to) {
        left(fd, Why::NoSdp);
        return logger::info!("fd {fd}: TCP carries it: {}", Why::NoSdp.text());
    }
    if let Some(object) = enter(fd) {
        memory::connected(runtime, object, fd, offered);
    }
}

/// listen(2) was successful.
pub(crate) fn listens(fd: i32, wanted: Wanted) {
    if let Some(object) = enter(fd) {
        object.control.lock().queue.is_kernels();
        memory::listens(object, fd, if wanted == Wanted::Sdp { Takes::SdpOnly } else { Takes::All });
    }
}

/// A listener of ours accepted `fd`. False: the peer does not speak SDP, and the listener takes in nobody else.
pub(crate) fn accepted(runtime: &'static Runtime, listener: &Object, fd: i32) -> bool {
    let Some(object) = fd_table::socket(fd).filter(|_| runtime.sdp.is_some()) else { return true };
    if memory::takes(listener) == Some(Takes::SdpOnly) {
        return refusal::takes_in(runtime, object, fd);
    }
    if runtime.unseen().is_none() {
        memory::accepted(runtime, object, fd);
    } else if fd_table::take_out(fd, object) {
        object.release();
        left(fd, Why::NoSdp);
    }
    true
}
