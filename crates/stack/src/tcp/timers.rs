//! Timers that fire.
use crate::{Frame, Instant, Outlet, SocketId, Stack};

/// The deadline of a socket has passed.
pub(crate) fn expired<F: Frame>(_stack: &mut Stack<F>, _now: Instant, _id: SocketId, _out: &mut impl Outlet) {
}
