//! A socket goes back to the kernel, whatever carries it.

use crate::answer::Why;
use crate::family::{FAMILY, Patience};
use crate::object::in_flight;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::{memory, offload, tcp, udp_legs};
use stats::Verdict;

/// Whatever is accelerated of a socket, it is the kernel's from now on: a connection moves there, who waits in a
/// listener's queue is reset. False: a connection that cannot move, and is as it was.
pub(crate) fn expel(runtime: &'static Runtime, object: &'static Object, why: Why) -> bool {
    match object.kind() {
        Kind::Udp => udp_legs::detach(object),
        Kind::Carried | Kind::Moving => {
            in_flight::stays(object, Verdict::CallOfTheKernel);
            if object.kind() == Kind::Carried {
                return true;
            }
            return FAMILY.to_kernel(runtime, object, why);
        }
        Kind::TcpIdle | Kind::Listener => tcp::detach(object),
        Kind::Stream if !tcp::is_open(object) => return true,
        Kind::Stream => return FAMILY.to_kernel(runtime, object, why),
        Kind::Lent | Kind::Inherited => {
            return FAMILY.claim(runtime, object, Patience::Long) == Ok(true);
        }
        Kind::Memory => {
            memory::leave(runtime, object, why.text());
            return object.kind() != Kind::Memory;
        }
        Kind::Free => return true,
    }
    offload::leave(runtime, object, why);
    true
}
