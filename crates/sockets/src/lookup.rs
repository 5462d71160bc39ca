//! The socket behind a descriptor, ready to be used: nobody moves it, and in the child of a fork the parent's is
//! claimed.

use crate::answer::{Answer, Stop, Why};
use crate::family::{FAMILY, Patience};
use crate::fd_table;
use crate::object::in_flight;
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use libc::c_int;

/// The runtime and the socket behind `fd`; "the kernel" if it is not ours.
#[inline]
pub(crate) fn ours(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    ours_with(fd, None)
}

/// As [`ours`], for calls that move data: with these flags they wait, or may not.
#[inline]
pub(crate) fn ours_for(fd: c_int, flags: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    ours_with(fd, Some(flags))
}

#[inline]
fn ours_with(fd: c_int, flags: Option<c_int>) -> Answer<(&'static Runtime, &'static Object)> {
    match (fd_table::socket(fd), runtime::get()) {
        (Some(object), Some(runtime)) => {
            if object.kind() == Kind::Moving {
                in_flight::wait_while_moving(object);
            }
            if object.kind() == Kind::Lent {
                claim::<()>(runtime, object, flags)?;
            }
            Ok((runtime, object))
        }
        _ => Err(Stop::Kernel(Why::NotOurs)),
    }
}

/// A socket of the parent is used here: the kernel has it afterwards.
#[cold]
fn claim<T>(runtime: &'static Runtime, object: &'static Object, flags: Option<c_int>) -> Answer<T> {
    let patience = match flags {
        None => Patience::Long,
        Some(flags) if object.may_wait(flags) => Patience::Blocks,
        Some(_) => Patience::Hardly,
    };
    FAMILY.claim(runtime, object, patience)?;
    kernel()
}

/// As [`ours`], for calls that hear what arrives, or change whom that comes from: a UDP socket of the parent's is
/// claimed.
#[inline]
pub(crate) fn hearing(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    heard(ours(fd)?, None)
}

/// As [`hearing`] and [`ours_for`].
#[inline]
pub(crate) fn hearing_for(fd: c_int, flags: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    heard(ours_for(fd, flags)?, Some(flags))
}

#[inline]
fn heard(
    (runtime, object): (&'static Runtime, &'static Object),
    flags: Option<c_int>,
) -> Answer<(&'static Runtime, &'static Object)> {
    if object.kind() == Kind::Inherited {
        return claim(runtime, object, flags);
    }
    Ok((runtime, object))
}

/// Shorthand: the kernel does it, as for any descriptor that is not ours.
pub(crate) fn kernel<T>() -> Answer<T> {
    Err(Stop::Kernel(Why::NotOurs))
}
