//! The sign of a listener: by it a process knows, before it connects, that who listens there speaks SDP.
//!
//! A sign is an abstract Unix socket that nobody reads, named after the listener's end, its user, and whether it takes
//! in nobody else. It hangs as long as a process has the listener. Somebody else's sign in this user's name deceives
//! nobody but those who then do not meet: what a connection is, and whose, is shown at the meeting.

use crate::meeting::{abstract_name, bytes_of};
use sys::socket::End;
use sys::{Fd, Result};

/// Whom a listener takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Those who speak SDP.
    SdpOnly,
    /// Everybody.
    All,
}

/// Puts the sign of a listener up. EADDRINUSE: it is up, since somebody shares the port.
pub fn put_up(listener: End, takes: Takes) -> Result<Fd> {
    let sign = socket()?;
    sys::socket::bind(sign.raw(), &name_of(listener, takes, sys::process::user()))?;
    Ok(sign)
}

/// By it signs are looked for: every connection asks, so it is kept.
static PROBE: sys::Mutex<Option<Fd>> = sys::Mutex::new(None);

/// Whether there is a sign of who listens at `to`, or at that port of every address.
pub fn is_up(to: End, takes: Takes) -> bool {
    let mut probe = PROBE.lock();
    let probe = match &*probe {
        Some(probe) => probe,
        None => match socket() {
            Ok(made) => &*probe.insert(made),
            Err(_) => return false,
        },
    };
    let (everywhere, user) = (([0; 16], to.1), sys::process::user());
    [to, everywhere]
        .into_iter()
        .any(|end| sys::socket::connect(probe.raw(), &name_of(end, takes, user)).is_ok())
}

/// In the child of a fork: whoever held the lock is a thread of the parent.
pub fn after_fork(child: &sys::InChild) {
    PROBE.take_over(child);
}

fn socket() -> Result<Fd> {
    sys::socket::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)
}

fn name_of((address, port): End, takes: Takes, user: u32) -> libc::sockaddr_un {
    // 0.0.0.0 under IPv6's names is every address, too.
    let address = match address {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0] => [0; 16],
        address => address,
    };
    let mut path = [0u8; 108];
    let word = b"\0sidestep-sdp";
    path[..word.len()].copy_from_slice(word);
    let rest = &mut path[word.len()..];
    rest[0] = if takes == Takes::SdpOnly { b's' } else { b'b' };
    rest[1..5].copy_from_slice(&user.to_be_bytes());
    rest[5..23].copy_from_slice(&bytes_of((address, port)));
    abstract_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_seen_while_it_is_up_by_those_it_is_for() {
        let at = |last: u8, port| ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 9, 9, last], port);
        let port = 40_000 + (sys::process::pid() % 20_000) as u16;
        let sign = put_up(at(1, port), Takes::All).unwrap();
        assert!(is_up(at(1, port), Takes::All));
        assert!(!is_up(at(2, port), Takes::All), "another address");
        assert!(!is_up(at(1, port + 1), Takes::All), "another port");
        assert!(!is_up(at(1, port), Takes::SdpOnly), "another listener");
        assert_eq!(put_up(at(1, port), Takes::All).err(), Some(libc::EADDRINUSE));
        drop(sign);
        assert!(!is_up(at(1, port), Takes::All));
        let _everywhere =
            put_up(([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0], port), Takes::SdpOnly);
        assert!(is_up(at(1, port), Takes::SdpOnly) && is_up(at(2, port), Takes::SdpOnly));
    }
}
