//! What leaves.
use crate::{Frame, Instant, Outlet, SocketId, Stack};

/// Tries a socket again that waited for the outlet, for its path, or for `flush`.
pub(crate) fn retry<F: Frame>(_stack: &mut Stack<F>, _now: Instant, _id: SocketId, _out: &mut impl Outlet) {}
