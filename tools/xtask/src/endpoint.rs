//! The programs that benchmarks start in namespaces, with or without the preload: ordinary sockets, ordinary calls.
//!
//! `xtask endpoint NAME ARGUMENTS`: results are words on standard output, `ready` first where somebody waits for it.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;

use rig::{Context, Error, Result};

mod bulk;
mod clients;
mod echo;

/// Runs one of them.
pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut words = Words(words.iter());
    raise_descriptor_limit();
    match words.next()? {
        "sink" => bulk::sink(words.address()?, words.number()?)?,
        "source" => bulk::source(words.address()?, words.number()?, words.number()?, words.number()?)?,
        "echo" => echo::serve(words.address()?, words.number()?)?,
        "clients" => clients::run(words.address()?, words.number()?, words.number()?, words.number()?)?,
        "flood" => {
            println!("{} sent", rig::syn_flood(words.address()?, words.number()? as u64)?);
        }
        "knock" => clients::knock(words.address()?, words.number()?, false)?,
        "knock-new" => clients::knock(words.address()?, words.number()?, true)?,
        other => return Err(Error::new(format!("no endpoint {other:?}"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Arguments, one after the other.
struct Words<'a>(std::slice::Iter<'a, String>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str> {
        self.0.next().map(String::as_str).ok_or_else(|| Error::new("an argument is missing"))
    }

    fn number(&mut self) -> Result<usize> {
        let word = self.next()?;
        word.parse().context(word)
    }

    fn address(&mut self) -> Result<SocketAddrV4> {
        let word = self.next()?;
        word.parse().context(word)
    }
}

/// Takes as many descriptors as the kernel allows this user; how many.
pub(crate) fn raise_descriptor_limit() -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: each call reads or writes one rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        for most in [limit.rlim_max.max(1 << 18), limit.rlim_max] {
            limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 {
                break;
            }
        }
    }
    limit.rlim_cur as u32
}

/// The result of a call that answers -1 for an error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// An epoll set over descriptors, each reported by its own word.
struct Epoll(RawFd);

impl Epoll {
    fn new() -> io::Result<Epoll> {
        // SAFETY: takes a flag.
        check(unsafe { libc::epoll_create1(0) }).map(Epoll)
    }

    fn add(&self, socket: &impl AsRawFd, events: i32, word: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: word };
        // SAFETY: a local event.
        check(unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Waits up to `milliseconds` (-1: for ever); the words of those that are ready.
    fn wait<'e>(
        &self,
        events: &'e mut [libc::epoll_event],
        milliseconds: i32,
    ) -> io::Result<impl Iterator<Item = u64> + 'e> {
        // SAFETY: the slice and its length.
        let found =
            unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), events.len() as i32, milliseconds) };
        let found = match check(found) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(events[..found as usize].iter().map(|event| event.u64))
    }
}

const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };
