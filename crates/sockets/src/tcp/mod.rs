//! TCP sockets.
//!
//! The shadow of a socket reserves its port; a connection runs in one lane's engine, a listener listens in the engine
//! of every lane and in the kernel, whose clients are those on this host.

mod accept;
mod close;
mod connect;
mod listen;
mod measured;
mod port;
mod recv;
mod repair;
mod send;
mod spares;
mod splice;

pub(crate) use accept::{Established, accept_ready, accept4, established};
pub(crate) use close::{abort, abort_in, close, detach, refuse_queued, shutdown};
pub(crate) use connect::{connect, connect_in_kernel};
pub(crate) use listen::listen;
pub(crate) use port::reuse_asked;
pub(crate) use recv::recv;
pub(crate) use repair::{Moved, put_back, to_carried, to_kernel};
pub(crate) use send::{send, send_fetched};
pub(crate) use spares::{SPARES, Spare};
pub(crate) use splice::Splice;

use crate::address::{self, Given};
use crate::answer::{Answer, Stop, Why};
use crate::object::Object;
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use libc::c_int;

/// bind(2): the kernel's, remembered.
pub(crate) fn bind(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    given: &Given,
) -> Answer<c_int> {
    runtime.os.bind_given(fd, given).map_err(Stop::Errno)?;
    let local = address::of_shadow(&runtime.os, fd)?;
    object.control.lock().local = Some(local);
    Ok(0)
}

/// The options that a connection or listener starts with.
fn options(runtime: &Runtime, object: &Object) -> stack::tcp::Options {
    let set = object.control.lock().tcp.as_deref().cloned();
    let options = set.unwrap_or_else(|| runtime.tcp_settings().options.clone());
    stack::tcp::Options { bound_to_interface: object.device.load(Ordering::Relaxed) != 0, ..options }
}

/// The engine has no connection any more for a socket of ours: the kernel answers, as for one that is not connected.
#[cold]
fn over<T>() -> Answer<T> {
    Err(Stop::Kernel(Why::Unsupported))
}

/// Whether a connection is being made or stands.
pub(crate) fn is_open(object: &Object) -> bool {
    use stack::tcp::State::*;
    object
        .engine()
        .is_some_and(|(_, inner, id)| !matches!(inner.stack.tcp_state(id), None | Some(TimeWait | Closed)))
}
