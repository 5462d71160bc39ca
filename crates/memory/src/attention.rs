//! By this a process is asked to look at its connections: somebody goes back to the socket, and needs the answer of
//! one who may not call for a long time.
//!
//! One datagram socket for each process, under a name that its peers are told when they meet. What comes there says
//! nothing but that: whoever sends some costs the process a look at its connections for each [`PACKETS_MAX`].

use crate::meeting::abstract_name;
use sys::socket;
use sys::{Fd, Result};

/// This process's, once it has met somebody.
static OWN: sys::Mutex<Option<(Fd, u64)>> = sys::Mutex::new(None);

/// Packets that are taken at once: who sends without end must not hold the thread.
const PACKETS_MAX: usize = 64;
/// Names that are tried before it goes without.
const TRIES: u64 = 16;

/// The number by which peers call for attention; 0: they cannot.
pub(crate) fn number() -> u64 {
    let mut own = OWN.lock();
    match &*own {
        Some((_, number)) => *number,
        None => make().map_or(0, |made| own.insert(made).1),
    }
}

fn make() -> Result<(Fd, u64)> {
    let fd = packets()?;
    // Of one process, and of its threads and children in several namespaces of numbers.
    let first = (sys::process::pid() as u64) << 32 ^ sys::clock::now();
    for number in (0..TRIES).map(|more| first.wrapping_add(more).max(1)) {
        match socket::bind(fd.raw(), &name_of(number)) {
            Ok(()) => return Ok((fd, number)),
            Err(libc::EADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(libc::EADDRINUSE)
}

fn packets() -> Result<Fd> {
    socket::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)
}

fn name_of(number: u64) -> libc::sockaddr_un {
    let mut path = [0u8; 108];
    let word = b"\0sidestep-look";
    path[..word.len()].copy_from_slice(word);
    path[word.len()..word.len() + 8].copy_from_slice(&number.to_be_bytes());
    abstract_name(path)
}

/// Asks the process of this number to look. Nobody waits; where it does not run any more, there is nobody to look.
pub(crate) fn call(number: u64) {
    if let Some(fd) = Some(number).filter(|number| *number != 0).and_then(|_| packets().ok()) {
        let _ = socket::send_to(fd.raw(), b"l", libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, &name_of(number));
    }
}

/// The descriptor that is readable when somebody asked; -1: nobody can.
pub fn descriptor() -> i32 {
    OWN.lock().as_ref().map_or(-1, |(fd, _)| fd.raw())
}

/// Hears what was asked, before the look.
pub fn hear() {
    let fd = descriptor();
    let mut byte = [0];
    for _ in 0..PACKETS_MAX {
        if socket::receive(fd, &mut byte, libc::MSG_DONTWAIT).is_err() {
            break;
        }
    }
}

/// In the child of a fork: it is the parent's.
pub fn after_fork(child: &sys::InChild) {
    OWN.take_over(child);
    *OWN.lock() = None;
}
