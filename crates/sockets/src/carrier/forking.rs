//! What several processes have of a fork: it is the kernel's, where all may use it, and who has a connection alone
//! takes it to a lane of its own.

use crate::address;
use crate::family::FAMILY;
use crate::fd_table;
use crate::keeper;
use crate::memory;
use crate::object::holders::{self, Sharing};
use crate::object::in_flight::{InFlight, has_to_stay, stays, wait_while_moving};
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::udp_legs::waits;
use ::keeper::place::Place;
use config::Carrier;
use core::sync::atomic::{AtomicI32, Ordering};
use stats::Verdict;

/// Before a fork, in the parent. A process that forks and has a listener is a server, whose children may want lanes,
/// beside its own. True: they ask it for them, and for what they have no privilege for.
pub(crate) fn before_fork(runtime: &'static Runtime) -> bool {
    let lends_already = FAMILY.lends();
    let is_settled = lends_already || CAN_NOTHING.load(Ordering::Relaxed) == sys::process::pid();
    let (mut listens, mut serves) = (false, false);
    let mut sharing = Sharing::default();
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        // The first of its descriptors speaks for all.
        let is_first = object.fd.load(Ordering::Relaxed) == fd;
        if is_first && object.kind() == Kind::Udp && waits(object) {
            // Nobody moves it meanwhile: who does looks afterwards whether this process has it alone.
            let _alone = InFlight::changes(object);
            if waits(object) && !sharing.share(object) {
                stays(object, Verdict::OthersHaveIt);
            }
        }
        if !is_first || !matches!(object.kind(), Kind::Carried | Kind::Moving) {
            continue;
        }
        wait_while_moving(object);
        if object.kind() != Kind::Carried {
            continue;
        }
        if is_listener(object) {
            listens = true;
            serves = serves || !is_settled && serves_others(runtime, fd);
        } else if has_to_stay(object) {
            // Nobody will ask who has it.
        } else if !sharing.share(object) {
            stays(object, Verdict::OthersHaveIt);
        } else {
            // Who began before had it alone, and goes on.
            wait_while_moving(object);
            if object.kind() != Kind::Carried {
                holders::leave(object);
            }
        }
    }
    let lends = lends_already || (serves || runtime.lanes().next().is_some()) && may_lend(runtime);
    if listens && !lends {
        CAN_NOTHING.store(sys::process::pid(), Ordering::Relaxed);
    }
    lends
}

/// The process that was found to have nothing for its children, when it forked with a listener.
static CAN_NOTHING: AtomicI32 = AtomicI32::new(0);

/// Whether clients of a listener come by an interface that is chosen. Where children can only inherit it, it is opened.
fn serves_others(runtime: &'static Runtime, listener: i32) -> bool {
    let Ok(local) = address::of_shadow(&runtime.os, listener) else { return false };
    if runtime.sdp.is_some() || local.ip().is_loopback() {
        return false;
    }
    let is_asked_for = runtime.lanes().next().is_some() || runtime.has_asked_for_lanes();
    if !is_asked_for && (runtime.parameters.is_on_wire_at_once() || !may_ask(runtime)) {
        // A failure is told with the first connection that would move.
        let _ = offload::lanes_at(runtime, *local.ip());
    }
    runtime.may_serve(*local.ip())
}

/// Whether children may ask for an interface: neither is nobody to be asked, nor a keeper to be started, which only
/// this process can do.
fn may_ask(runtime: &Runtime) -> bool {
    matches!(Place::of(&runtime.parameters.keeper), Place::Default | Place::Path(_)) && xdp::caps::hands_out()
}

/// Whether this process can do something for its children.
fn may_lend(runtime: &Runtime) -> bool {
    runtime.sdp.is_none()
        && runtime.parameters.carrier != Carrier::Kernel
        && may_ask(runtime)
        && keeper::has_privilege()
}

/// In the child of a fork. True: what the kernel carries is known here, too.
pub(crate) fn after_fork(object: &'static Object, child: &sys::InChild) -> bool {
    let is_kernels = object.kind() == Kind::Carried || object.kind() == Kind::Udp && waits(object);
    if !is_kernels {
        return false;
    }
    let _ = memory::after_fork(object, child);
    object.keep(child);
    true
}

/// Before exec, of a number that names the socket: who else has a connection that the kernel carries may come to have
/// it alone. `closes`: whether exec closes a number. An exec that fails leaves it to them, too.
pub(crate) fn executes(object: &'static Object, fd: i32, closes: fn(i32) -> bool) {
    let is_first = object.fd.load(Ordering::Relaxed) == fd;
    if !is_first || !holders::is_counted(object) {
        return;
    }
    stays(object, Verdict::OthersHaveIt);
    let mut is_closed = true;
    fd_table::each_of(object, |fd| is_closed &= closes(fd));
    if is_closed { holders::leave(object) } else { holders::lose(object) }
}

/// Whether it is a listener, whoever has its queue.
pub(crate) fn is_listener(object: &Object) -> bool {
    object.control.lock().queue.is_some()
}
