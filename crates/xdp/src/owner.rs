//! Who owns an interface. A queue that is busy has an owner that lives, or one that is gone: the kernel lets go of a dead
//! process's sockets some time later, and the successor waits. To know which, an owner and its children hold a name in the
//! network namespace, which ends with the last of them at once. The name decides nothing else: whoever holds it in bad
//! faith makes others a little less patient.

use core::cmp::min;
use std::sync::OnceLock;

use sys::{Fd, Result};

/// A successor may be started before its predecessor has quite ended.
const ENDING_NS: u64 = 150_000_000;
/// The sockets of a process that is gone are released asynchronously: 55 to 67 ms were measured on an idle machine.
const RELEASING_NS: u64 = 1_000_000_000;
const PAUSE_NS: u64 = 1_000_000;

/// The name of one interface, as soon as nobody else has it.
#[derive(Debug)]
pub(crate) struct Owner {
    interface: u32,
    begun: u64,
    name: OnceLock<Fd>,
}

impl Owner {
    /// For a process that is about to open the interface with this index.
    pub(crate) fn new(interface: u32) -> Owner {
        Owner { interface, begun: sys::clock::monotonic(), name: OnceLock::new() }
    }

    /// Repeats `call` while it says EBUSY and a predecessor may still disappear.
    pub(crate) fn retry_busy<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let patience = self.patience();
            match call() {
                Err(libc::EBUSY) if sys::clock::monotonic() - self.begun < patience => {
                    sys::thread::sleep(PAUSE_NS)
                }
                outcome => return outcome,
            }
        }
    }

    /// How long to wait in all; longer once the name is ours.
    fn patience(&self) -> u64 {
        if self.name.get().is_none()
            && let Ok(name) = hold(self.interface)
        {
            let _ = self.name.set(name);
        }
        if self.name.get().is_some() { RELEASING_NS } else { ENDING_NS }
    }
}

/// A socket with the name. `Err` EADDRINUSE: somebody else has it.
fn hold(interface: u32) -> Result<Fd> {
    // The kernel's struct sockaddr_un: an abstract name is all of the path behind the first byte.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Name {
        family: u16,
        path: [u8; 32],
    }
    let mut path = [0; 32];
    let text = format!("sidestep, interface {interface}");
    let length = min(text.len(), path.len() - 1);
    path[1..=length].copy_from_slice(&text.as_bytes()[..length]);
    let socket = sys::socket::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
    sys::socket::bind(socket.raw(), &Name { family: libc::AF_UNIX as u16, path })?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such an index.
    const NOWHERE: u32 = 0xffff_0000;

    #[test]
    fn a_living_owner_is_not_waited_for_as_long_as_a_dead_one() {
        let (first, second) = (Owner::new(NOWHERE), Owner::new(NOWHERE));
        assert_eq!((first.patience(), second.patience()), (RELEASING_NS, ENDING_NS));
        assert_eq!(first.patience(), RELEASING_NS, "it has the name already");
        drop(first);
        assert_eq!(second.patience(), RELEASING_NS);
    }

    #[test]
    fn busy_is_repeated_until_it_is_not_and_all_else_is_told_at_once() {
        let owner = Owner::new(NOWHERE + 1);
        let mut left = 3;
        let outcome = owner.retry_busy(|| {
            left -= 1;
            if left == 0 { Ok(7) } else { Err(libc::EBUSY) }
        });
        assert_eq!(outcome, Ok(7));
        assert_eq!(owner.retry_busy(|| Err::<(), _>(libc::EPERM)), Err(libc::EPERM));
    }
}
