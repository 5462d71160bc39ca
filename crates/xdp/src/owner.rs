//! Who owns an interface: a process and its children. They hold a name in the network namespace, which ends with the
//! last of them at once. So who comes second knows before it has spent anything that it is the kernel's; and a
//! successor knows that its predecessor is gone, though the kernel lets go of a dead process's sockets some time later.
//!
//! The name is an abstract Unix socket, which anybody can have. So only that of root or our own user is believed.

use core::cmp::min;
use std::ffi::CString;

use sys::{Fd, Mutex, Result};

use crate::Refusal;

/// The sockets of a process that is gone are released asynchronously: 55 to 67 ms were measured on an idle machine.
const RELEASING_NS: u64 = 1_000_000_000;
/// The same where nothing tells whether there is a process.
const UNKNOWN_NS: u64 = 150_000_000;
const PAUSE_NS: u64 = 1_000_000;

/// Processes that may ask between two looks ([`Owner::hear`]).
const ASKING_MAX: i32 = 128;

/// In a process's flags: it is ending (the kernel's PF_EXITING).
const EXITING: u64 = 4;

/// The name of one interface, if it could be had.
pub(crate) struct Owner {
    begun: u64,
    user: u32,
    name: Mutex<Option<Fd>>,
}

/// What is known of a process that has a name, or had it before its children.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Living,
    /// About to be gone, and has not let go of its descriptors yet.
    Ending,
    /// Children of it have the name, and may be about to be gone.
    Gone,
}

impl Owner {
    /// Takes the name of the interface with this index. Refused if somebody lives who has it.
    pub(crate) fn claim(interface: u32) -> core::result::Result<Owner, Refusal> {
        let (begun, user) = (sys::clock::monotonic(), sys::process::user());
        let owner = Owner { begun, user, name: Mutex::new(None) };
        loop {
            if let Ok(name) = hold(interface) {
                *owner.name.lock() = Some(name);
                return Ok(owner);
            }
            // Nobody who can be believed: the kernel decides.
            let Some(pid) = holder(interface) else { return Ok(owner) };
            let patience = match state(pid) {
                State::Living => 0,
                State::Ending => RELEASING_NS,
                State::Gone => UNKNOWN_NS,
            };
            if owner.age() >= patience {
                return Err(Refusal::Owned { pid });
            }
            sys::thread::sleep(PAUSE_NS);
        }
    }

    /// Of an interface that another process holds.
    pub(crate) fn nobody() -> Owner {
        Owner { begun: sys::clock::monotonic(), user: sys::process::user(), name: Mutex::new(None) }
    }

    /// Repeats `call` while it says EBUSY and a predecessor may still disappear.
    pub(crate) fn retry_busy<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let patience = if self.name.lock().is_some() { RELEASING_NS } else { UNKNOWN_NS };
        loop {
            match call() {
                Err(libc::EBUSY) if self.age() < patience => sys::thread::sleep(PAUSE_NS),
                outcome => return outcome,
            }
        }
    }

    /// Now and then, by each process that has the name: those that ask are told of the one that did this last, while it
    /// lives; so not of workers that gave up their user, and would not be believed. Lets go of those that asked; they
    /// needed no answer, but the kernel has room for so many only.
    pub(crate) fn hear(&self) {
        if let Some(name) = &*self.name.lock() {
            if sys::process::user() == self.user {
                let _ = sys::socket::listen(name.raw(), ASKING_MAX);
            }
            while sys::socket::accept(name.raw()).is_ok() {}
        }
    }

    /// In the child of a fork: it may outlive its parent, and never need the network.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.name.take_over(child);
        self.hear();
    }

    /// The process ends: as far as it is concerned a successor may have the name, and waits for the rest.
    pub(crate) fn release(&self) {
        *self.name.lock() = None;
    }

    fn age(&self) -> u64 {
        sys::clock::monotonic() - self.begun
    }
}

/// The kernel's struct sockaddr_un: an abstract name is all of the path behind the first byte.
#[derive(Clone, Copy)]
#[repr(C)]
struct Name {
    family: u16,
    path: [u8; 32],
}

// SAFETY: a number and bytes, without padding.
unsafe impl sys::socket::Plain for Name {}

fn name(interface: u32) -> Name {
    let mut path = [0; 32];
    let text = format!("sidestep, interface {interface}");
    let length = min(text.len(), path.len() - 1);
    path[1..=length].copy_from_slice(&text.as_bytes()[..length]);
    Name { family: libc::AF_UNIX as u16, path }
}

fn unix() -> Result<Fd> {
    sys::socket::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)
}

/// A socket with the name. `Err` EADDRINUSE: somebody else has it.
fn hold(interface: u32) -> Result<Fd> {
    let socket = unix()?;
    sys::socket::bind(socket.raw(), &name(interface))?;
    sys::socket::listen(socket.raw(), ASKING_MAX)?;
    Ok(socket)
}

/// The process that said last that it has the name, if it can be believed.
fn holder(interface: u32) -> Option<i32> {
    let socket = unix().ok()?;
    sys::socket::connect(socket.raw(), &name(interface)).ok()?;
    let nobody = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let peer = sys::socket::option(socket.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED, nobody).ok()?;
    (peer.uid == 0 || peer.uid == sys::process::user()).then_some(peer.pid)
}

fn state(pid: i32) -> State {
    let Ok(path) = CString::new(format!("/proc/{pid}/stat")) else { return State::Gone };
    let mut text = [0; 1024];
    let read = sys::file::read_to(&path, &mut text).unwrap_or(0);
    String::from_utf8_lossy(&text[..read]).rsplit_once(')').map_or(State::Gone, |(_, fields)| told(fields))
}

/// Of what stands behind the program's name in /proc/pid/stat (proc(5)).
fn told(fields: &str) -> State {
    let mut fields = fields.split_ascii_whitespace();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return State::Gone;
    }
    let mut number = |skip: usize| fields.nth(skip).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (flags, pending) = (number(5), number(21));
    let is_killed = pending >> (libc::SIGKILL - 1) & 1 == 1;
    if flags & EXITING != 0 || is_killed { State::Ending } else { State::Living }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such an index, and no other process that tests this; one for each test.
    fn nowhere(test: u32) -> u32 {
        0x8000_0000 + 2 * sys::process::pid() as u32 + test
    }

    #[test]
    fn a_living_owner_is_told_and_a_name_ends_with_its_owner() {
        let first = Owner::claim(nowhere(0)).unwrap();
        let pid = sys::process::pid();
        for asked in 0..3 * ASKING_MAX {
            assert_eq!(Owner::claim(nowhere(0)).err(), Some(Refusal::Owned { pid }), "{asked}");
            if asked % ASKING_MAX == 0 {
                first.hear();
            }
        }
        first.release();
        // A process that another test starts has the name, too, from its fork to its exec.
        let again = (0..1000).find_map(|_| {
            let claim = Owner::claim(nowhere(0)).ok();
            if claim.is_none() {
                sys::thread::sleep(PAUSE_NS);
            }
            claim
        });
        assert!(again.unwrap().name.lock().is_some());
    }

    #[test]
    fn busy_is_repeated_until_it_is_not_and_all_else_is_told_at_once() {
        let owner = Owner::claim(nowhere(1)).unwrap();
        let mut left = 3;
        let outcome = owner.retry_busy(|| {
            left -= 1;
            if left == 0 { Ok(7) } else { Err(libc::EBUSY) }
        });
        assert_eq!(outcome, Ok(7));
        assert_eq!(owner.retry_busy(|| Err::<(), _>(libc::EPERM)), Err(libc::EPERM));
    }

    #[test]
    fn the_end_of_a_process_is_read_from_its_flags_and_pending_signals() {
        let line = |state: &str, flags: u64, pending: u64| {
            format!(" {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 {pending} 0 0")
        };
        assert_eq!(told(&line("S", 0x40_0000, 0)), State::Living);
        assert_eq!(told(&line("R", 0x40_0004, 0)), State::Ending);
        assert_eq!(told(&line("S", 0x40_0000, 0x100)), State::Ending, "killed, and not there yet");
        assert_eq!(told(&line("Z", 0x40_0004, 0x100)), State::Gone, "its descriptors are");
        assert_eq!((told(""), state(sys::process::pid())), (State::Gone, State::Living));
    }
}
