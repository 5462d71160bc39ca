//! Datagrams that came in fragments.

use crate::ingress::{Drop, IpMeta};
use crate::{Frame, Instant, Outlet, Stack};
use core::ops::Range;

/// Fragments that wait for the rest of their datagrams.
pub(crate) struct Reassembly<F: Frame> {
    _frames: core::marker::PhantomData<F>,
}

impl<F: Frame> Reassembly<F> {
    pub(crate) fn new() -> Self {
        Reassembly { _frames: core::marker::PhantomData }
    }
}

impl<F: Frame> Stack<F> {
    pub(crate) fn take_fragment(
        &mut self,
        _now: Instant,
        _meta: IpMeta,
        _head: F,
        _range: Range<usize>,
        _tail: &mut Vec<F>,
        _out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        Err(Drop::Fragments)
    }
}
