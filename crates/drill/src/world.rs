//! What a side of the comparison can do: take a packet, give the next one, answer a system call.
//!
//! Calls, whose first word after the name is the socket's name in the script:
//!
//! ```text
//! socket C                         made, bound to 10.0.0.1:5000
//! listen L BACKLOG                 made, bound and listening
//! connect C [PORT]                 to 10.0.0.2:PORT (6000); makes the socket if need be; never blocks
//! accept L C
//! send C BYTES [more] [oob] [eor]  recv C BYTES [peek] [oob] [trunc]
//! shutdown C rd|wr|rdwr            close C
//! option C NAME VALUE              see OPTIONS
//! error C                          SO_ERROR by name
//! poll C                           of: in pri out rdhup err hup
//! state C    ato C                 of TCP_INFO; milliseconds
//! atmark C    inq C    outq C      sockatmark, SIOCINQ, SIOCOUTQ
//! mss C                            TCP_MAXSEG
//! info C FIELD                     of TCP_INFO, see INFO; times in half seconds, rounded
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

/// Address of the host under test.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Its port.
pub const HOST_PORT: u16 = 5000;
/// Address of the peer that a script plays.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The peer's port where a script says no other.
pub const PEER_PORT: u16 = 6000;

/// One side of the comparison.
pub trait World {
    /// Time since the world was made.
    fn now(&mut self) -> Duration;

    /// An IP packet arrives at the host.
    fn inject(&mut self, packet: &[u8]);

    /// The next IP packet that the host sent, and when, waiting until `until` at the latest.
    fn next(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)>;

    /// A system call; `Err` is a mistake in the script.
    fn call(&mut self, words: &[&str]) -> Result<Answer, String>;

    /// How much longer than written a packet may take, and how much sooner it may come.
    fn tolerance(&self) -> Tolerance;
}

/// What a system call answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A number that is not an error.
    Number(i64),
    /// An errno.
    Errno(i32),
    /// Words: readiness or a state.
    Words(String),
}

/// See [`World::tolerance`].
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// What must follow at once may take so long.
    pub at_once: Duration,
    /// Factor on the end of a range of time.
    pub late: f64,
    /// Added to the end of a range of time.
    pub late_by: Duration,
    /// Factor on the beginning of a range of time.
    pub early: f64,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Number(number) => number.fmt(f),
            Answer::Errno(errno) => f.write_str(&errno_name(*errno)),
            Answer::Words(words) => f.write_str(words),
        }
    }
}

/// `EAGAIN` and so on.
pub fn errno_name(errno: i32) -> String {
    let known = ERRNOS.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

/// Fields of TCP_INFO that scripts may ask for: where they are, how long, and how many of their units make one that is
/// told.
pub const INFO: [(&str, usize, usize, u64); 8] = [
    ("ca_state", 1, 1, 1),
    ("last_data_recv", 52, 4, 500),
    ("snd_ssthresh", 76, 4, 1),
    ("reordering", 88, 4, 1),
    ("busy_time", 168, 8, 500_000),
    ("rwnd_limited", 176, 8, 500_000),
    ("sndbuf_limited", 184, 8, 500_000),
    ("total_rto", 240, 2, 1),
];

/// States as TCP_INFO numbers them, beginning at 1.
pub const STATES: [&str; 12] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];

const ERRNOS: [(i32, &str); 25] = [
    (0, "0"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EINPROGRESS, "EINPROGRESS"),
    (libc::EALREADY, "EALREADY"),
    (libc::EISCONN, "EISCONN"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::EPIPE, "EPIPE"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::EHOSTDOWN, "EHOSTDOWN"),
    (libc::ENONET, "ENONET"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::EINVAL, "EINVAL"),
    (libc::EBADF, "EBADF"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::EPROTO, "EPROTO"),
    (libc::EACCES, "EACCES"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
];
