//! A socket goes back to the kernel, whatever carries it.

use crate::answer::Why;
use crate::family::{FAMILY, Patience};
use crate::object::in_flight;
use crate::object::{Kind, Object, Pin};
use crate::runtime::Runtime;
use crate::{memory, offload, tcp, udp_legs};
use stats::Verdict;

/// Whatever is accelerated of a socket, it is the kernel's from now on: a connection moves there, who waits in a
/// listener's queue is reset. False: a connection that cannot move, and is as it was.
pub(crate) fn expel(runtime: &'static Runtime, object: &'static Object, why: Why) -> bool {
    let detaches = |detach: fn(&'static Object)| {
        // Who closes it leaves nothing.
        let Some(_pin) = Pin::known(object) else { return };
        detach(object);
        offload::leave(runtime, object, why);
    };
    match object.kind() {
        Kind::Udp => detaches(udp_legs::detach),
        Kind::Carried | Kind::Moving => {
            in_flight::stays(object, Verdict::CallOfTheKernel);
            if object.kind() == Kind::Carried {
                return true;
            }
            return FAMILY.to_kernel(runtime, object, why);
        }
        Kind::TcpIdle | Kind::Listener => detaches(tcp::detach),
        Kind::Stream if !tcp::is_open(object) => return true,
        Kind::Stream => {
            let Some(_pin) = Pin::known(object) else { return true };
            return FAMILY.to_kernel(runtime, object, why);
        }
        Kind::Lent | Kind::Inherited => {
            return FAMILY.claim(runtime, object, Patience::Long) == Ok(true);
        }
        Kind::Memory => {
            memory::leave(runtime, object, why.text());
            return object.kind() != Kind::Memory;
        }
        Kind::Free => {}
    }
    true
}
