//! Segments that arrive.
use crate::ingress::IpMeta;
use crate::{Frame, Instant, Outlet, Stack};
use core::ops::Range;

/// A segment whose checksum is right, for an address of this host: its header begins at `range` of `head`, its
/// payload goes on in `tail`. The header itself is not checked yet.
pub(crate) fn on_segment<F: Frame>(
    stack: &mut Stack<F>,
    _now: Instant,
    _meta: &IpMeta,
    _head: F,
    _range: Range<usize>,
    _tail: &mut Vec<F>,
    _out: &mut impl Outlet,
) {
    stack.dropped.count(crate::ingress::Drop::NoSocket);
}
