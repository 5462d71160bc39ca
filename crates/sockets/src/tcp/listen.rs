//! listen(2).

use super::options;
use crate::address;
use crate::answer::{Answer, Stop, Why};
use crate::lane::Lane;
use crate::object::{Kind, Object, Pin, Queue};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::moves;
use config::Role;
use libc::c_int;
use std::net::SocketAddrV4;

/// listen(2): ours first, then the kernel's, which serves the clients on this host. In the other order the kernel would
/// answer clients from the wire in between, and the steering entry would cut them off. Only a socket without a port
/// must be the kernel's first; nobody can know its port yet.
pub(crate) fn listen(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    backlog: c_int,
) -> Answer<c_int> {
    let queue = queue_length(backlog);
    if object.kind() == Kind::Listener {
        kernel_listen(runtime, fd, backlog)?;
        for (lane, id) in object.legs() {
            lane.lock().stack.tcp_set_backlog(id, queue);
        }
        return Ok(0);
    }
    let Some(pin) = Pin::by(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
    let bound = address::of_shadow(&runtime.os, fd)?;
    let early = (bound.port() != 0).then(|| stand(runtime, &pin, bound, queue));
    if let Err(refused) = kernel_listen(runtime, fd, backlog) {
        super::detach(object);
        return Err(refused);
    }
    let stood = match early {
        Some(stood) => stood,
        None => stand(runtime, &pin, address::of_shadow(&runtime.os, fd)?, queue),
    };
    match stood {
        Ok(()) => {
            object.control.lock().queue = Queue::Engine;
            object.set_kind(Kind::Listener);
            moves::changed(&runtime.os, object);
            Ok(0)
        }
        Err(why) => {
            super::detach(object);
            // The kernel listens already: its call must not be repeated.
            match offload::fall_back(runtime, object, why, "TCP listen") {
                Err(Stop::Kernel(_)) => Ok(0),
                other => other,
            }
        }
    }
}

fn kernel_listen(runtime: &'static Runtime, fd: c_int, backlog: c_int) -> Answer<()> {
    runtime.os.listen_on(fd, backlog).map(|_| ()).map_err(Stop::Errno)
}

/// A listener in the engine of every lane that `local` concerns, steered.
fn stand(runtime: &'static Runtime, pin: &Pin, local: SocketAddrV4, queue: u32) -> Result<(), Why> {
    let object = pin.object();
    object.control.lock().local = Some(local);
    offload::allowed(runtime, Role::TcpServer, Some(local), None)?;
    let lanes = offload::lanes_of(runtime, object, *local.ip())?;
    lanes.into_iter().try_for_each(|lane| leg(runtime, pin, lane, local, queue))
}

/// The backlog as Linux understands it: negative is the largest, and somaxconn bounds it.
fn queue_length(backlog: c_int) -> u32 {
    let most = sys::file::read_number(c"/proc/sys/net/core/somaxconn")
        .ok()
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(4096);
    u32::try_from(backlog).unwrap_or(u32::MAX).min(most)
}

fn leg(
    runtime: &'static Runtime,
    pin: &Pin,
    lane: &'static Lane,
    local: SocketAddrV4,
    queue: u32,
) -> Result<(), Why> {
    let object = pin.object();
    let options = options(runtime, object);
    let listening = lane.lock().stack.tcp_listen(local, queue, &options, object.token());
    let id = listening.map_err(|_| Why::EngineFull)?;
    let index = {
        let _control = object.control.lock();
        object.add_leg(pin, lane, id)
    };
    let Some(index) = index else {
        super::close::abort(lane, id);
        return Ok(());
    };
    offload::steer(object, lane, index, libc::IPPROTO_TCP as u8, local, None)
}
