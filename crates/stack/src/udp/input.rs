//! Datagrams that arrive, and errors about datagrams that left.

use crate::icmp::IcmpError;
use crate::ingress::{Drop, IpMeta};
use crate::{Endpoint, Frame, Instant, SocketError, SocketId, Stack};
use core::ops::Range;

pub(crate) fn on_datagram<F: Frame>(
    _stack: &mut Stack<F>,
    _now: Instant,
    _meta: &IpMeta,
    _head: F,
    _range: Range<usize>,
    _tail: &mut Vec<F>,
) -> Result<(), Drop> {
    Err(Drop::NoSocket)
}

pub(crate) fn on_error<F: Frame>(
    _stack: &mut Stack<F>,
    _now: Instant,
    _local: Endpoint,
    _remote: Endpoint,
    _error: IcmpError,
) -> Result<(), Drop> {
    Err(Drop::NoSocket)
}

pub(crate) fn fail<F: Frame>(_stack: &mut Stack<F>, _id: SocketId, _why: SocketError) {}
