//! ICMP errors about segments of ours.
use crate::icmp::IcmpError;
use crate::{Frame, Instant, Outlet, SocketId, Stack};

/// An error quotes a segment of this socket's flow.
pub(crate) fn on_error<F: Frame>(
    _stack: &mut Stack<F>,
    _now: Instant,
    _id: SocketId,
    _error: IcmpError,
    _out: &mut impl Outlet,
) {
}
