//! How the two processes of a connection find each other.
//!
//! The side that connected listens on an abstract Unix socket that is named after the connection; the side that
//! accepted calls there. Abstract names are per network namespace, and the two must be of one user. Which connection
//! they have is not claimed but shown: each side gives the other its own TCP socket by SCM_RIGHTS, for a look.
//!
//! ```text
//!   connected                     accepted
//!   offers a meeting place        calls
//!   answers: its socket,          shows: its socket, a segment, and its
//!   and its process' number       process' number (`attention.rs`)
//!   begins: "I wrote so many      begins: the same
//!   bytes by the socket"
//! ```
//!
//! Who begins sends by the segment from then on, and reads the socket until the byte that the other one named. A socket
//! is shown only to who listens to what comes: as long as it is on its way, its connection does not end with its
//! process.
//!
//! Until it has said "begins", a side uses the socket, and may give up; so may one that has only promised to come, as
//! long as the other one has not begun. Nobody waits for anybody: [`Meeting::go_on`] does what can be done, and a
//! descriptor tells when there is more. The Unix socket stays: each byte on it is a ring, its end is the peer's.

use crate::attention;
use crate::connection::Connection;
use crate::joined::Joined;
use crate::segment::{Segment, Side};
use crate::tcp::{self, Role};
use sys::socket::End;
use sys::{Fd, Result};

/// Both sides have the same version of the segment, or do not meet.
const VERSION: u8 = 5;
/// Callers whom a meeting place keeps waiting: one is expected.
const BACKLOG: i32 = 4;

/// A packet with news: its kind, the version, and a number.
pub(crate) const NEWS: usize = 10;
const CALLS: u8 = b'c';
const ANSWERS: u8 = b'a';
const SHOWS: u8 = b's';
const BEGINS: u8 = b'b';

/// How far two sides are.
#[derive(Debug)]
enum Stage {
    /// Waits for a call; somebody may be there who has not said anything yet.
    Offered { place: Fd, caller: Option<Fd> },
    /// Has called, and waits for the answer.
    Called { bell: Fd },
    /// Has answered, and waits to be shown the other socket and the segment.
    Answered { bell: Fd },
    /// Has shown them, and waits for the other one to begin. `peer`: the number of its process.
    Shown { bell: Fd, connection: Box<Connection>, peer: u64 },
}

/// Two processes on their way to a common segment, as one of them sees it.
#[derive(Debug)]
pub struct Meeting {
    stage: Stage,
}

/// What came of a step.
#[derive(Debug)]
pub enum Progress {
    /// Nothing yet: the socket carries everything.
    Waiting(Meeting),
    /// They have met.
    Joined(Box<Joined>),
    /// They do not meet, and why not: the socket carries everything, for good.
    Apart(Apart),
}

/// Why two sides do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The other side has ended, closed its socket, or gave the meeting up.
    HungUp,
    /// It said what nobody says there.
    Nonsense,
    /// It has another connection than this one, or this one ends.
    Stranger,
    /// There is no memory for a segment.
    NoSegment,
    /// Its segment could shrink, or is none.
    BadSegment,
}

impl Apart {
    /// In words, of the other side.
    pub fn text(self) -> &'static str {
        match self {
            Apart::HungUp => "the peer gave up the meeting",
            Apart::Nonsense => "the peer spoke nonsense at the meeting",
            Apart::Stranger => "who came to the meeting has another connection, or it ends",
            Apart::NoSegment => "no memory for a segment",
            Apart::BadSegment => "the peer's segment could shrink, or is none",
        }
    }
}

impl Meeting {
    /// Offers a meeting place to the peer of a connection that this process made.
    pub fn offer(tcp: i32) -> Result<Meeting> {
        let (own, other) = sys::socket::ends(tcp)?;
        Meeting::offer_between(own, other)
    }

    /// As [`Meeting::offer`], of a connection from `own` to `other` that is about to be made.
    pub fn offer_between(own: End, other: End) -> Result<Meeting> {
        let place = packets()?;
        sys::socket::bind(place.raw(), &name_of(own, other))?;
        sys::socket::listen(place.raw(), BACKLOG)?;
        Ok(Meeting { stage: Stage::Offered { place, caller: None } })
    }

    /// Calls the peer of a connection that this process accepted. ECONNREFUSED: it offers no meeting place.
    pub fn call(tcp: i32) -> Result<Meeting> {
        let (own, other) = sys::socket::ends(tcp)?;
        let bell = packets()?;
        sys::socket::connect(bell.raw(), &name_of(other, own))?;
        if !is_same_user(&bell) {
            return Err(libc::EPERM);
        }
        sys::socket::send(bell.raw(), &news(CALLS, 0), libc::MSG_NOSIGNAL)?;
        Ok(Meeting { stage: Stage::Called { bell } })
    }

    /// The descriptor that is readable when [`Meeting::go_on`] has something to do.
    pub fn descriptor(&self) -> i32 {
        match &self.stage {
            Stage::Offered { place, caller: None } => place.raw(),
            Stage::Offered { caller: Some(bell), .. }
            | Stage::Called { bell }
            | Stage::Answered { bell }
            | Stage::Shown { bell, .. } => bell.raw(),
        }
    }

    /// Whether the two talk to each other, so that the other side may begin at any time; else nobody has come yet.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Offered { .. })
    }

    /// Whether the other side is this process, too.
    pub fn is_with_itself(&self) -> bool {
        match &self.stage {
            Stage::Offered { .. } => false,
            Stage::Called { bell } | Stage::Answered { bell } | Stage::Shown { bell, .. } => {
                sys::socket::peer_process(bell.raw()) == Ok(sys::process::pid())
            }
        }
    }

    /// Does what can be done now. Nobody may read or write the TCP socket meanwhile.
    pub fn go_on(self, tcp: i32) -> Progress {
        match self.stage {
            Stage::Offered { place, caller } => offered(tcp, place, caller),
            Stage::Called { bell } => called(tcp, bell),
            Stage::Answered { bell } => answered(tcp, bell),
            Stage::Shown { bell, connection, peer } => shown(tcp, bell, connection, peer),
        }
    }

    /// The connection stays with the socket: for what only that can do. `Joined`: too late, the peer has begun.
    pub fn give_up(self, tcp: i32) -> Option<Box<Joined>> {
        let Stage::Shown { bell, connection, peer } = self.stage else { return None };
        // After this nothing can arrive any more, and what arrived before is seen here: the peer knows which it was.
        let _ = sys::socket::shutdown(bell.raw(), libc::SHUT_RD);
        match shown(tcp, bell, connection, peer) {
            Progress::Joined(joined) => Some(joined),
            _ => None,
        }
    }
}

/// Somebody may call.
fn offered(tcp: i32, place: Fd, caller: Option<Fd>) -> Progress {
    let caller = match caller.map_or_else(|| accept(&place), |caller| Ok(Some(caller))) {
        Ok(Some(caller)) => caller,
        Ok(None) => return Progress::Waiting(Meeting { stage: Stage::Offered { place, caller: None } }),
        Err(_) => return Progress::Apart(Apart::HungUp),
    };
    let go_on_offering = |caller| Progress::Waiting(Meeting { stage: Stage::Offered { place, caller } });
    if !is_same_user(&caller) {
        return go_on_offering(None);
    }
    match hear(&caller) {
        Heard::Nothing => return go_on_offering(Some(caller)),
        Heard::News((CALLS, _), descriptors) if descriptors.is_empty() => {}
        // Whoever it was, the peer may come still.
        _ => return go_on_offering(None),
    }
    if sys::socket::send_descriptors(caller.raw(), &news(ANSWERS, attention::number()), &[tcp]).is_err() {
        return go_on_offering(None);
    }
    Progress::Waiting(Meeting { stage: Stage::Answered { bell: caller } })
}

/// The peer was called.
fn called(tcp: i32, bell: Fd) -> Progress {
    let (peer, theirs) = match hear(&bell) {
        Heard::Nothing => return Progress::Waiting(Meeting { stage: Stage::Called { bell } }),
        Heard::News((ANSWERS, peer), descriptors) => (peer, descriptors),
        Heard::End => return Progress::Apart(Apart::HungUp),
        _ => return Progress::Apart(Apart::Nonsense),
    };
    let is_it = matches!(&theirs[..], [theirs] if tcp::are_ends(tcp, theirs.raw()));
    tcp::looked_at(theirs);
    if !is_it {
        return Progress::Apart(Apart::Stranger);
    }
    let Ok((segment, file)) = Segment::make() else { return Progress::Apart(Apart::NoSegment) };
    if sys::socket::send_descriptors(bell.raw(), &news(SHOWS, attention::number()), &[tcp, file.raw()])
        .is_err()
    {
        return Progress::Apart(Apart::HungUp);
    }
    let connection = Box::new(Connection::new(segment, Side::Maker));
    Progress::Waiting(Meeting { stage: Stage::Shown { bell, connection, peer } })
}

/// The peer was answered.
fn answered(tcp: i32, bell: Fd) -> Progress {
    let (peer, shown) = match hear(&bell) {
        Heard::Nothing => return Progress::Waiting(Meeting { stage: Stage::Answered { bell } }),
        Heard::News((SHOWS, peer), descriptors) => (peer, descriptors),
        Heard::End => return Progress::Apart(Apart::HungUp),
        _ => return Progress::Apart(Apart::Nonsense),
    };
    let is_it = matches!(&shown[..], [theirs, _] if tcp::are_ends(tcp, theirs.raw()));
    let segment = shown.get(1).filter(|_| is_it).map(Segment::join);
    tcp::looked_at(shown);
    let segment = match segment {
        None => return Progress::Apart(Apart::Stranger),
        Some(Ok(segment)) => segment,
        Some(Err(_)) => return Progress::Apart(Apart::BadSegment),
    };
    let connection = Connection::new(segment, Side::Guest);
    if begin(tcp, Role::Connected, &bell) {
        return Progress::Joined(Box::new(Joined::new(bell, connection, peer, None)));
    }
    Progress::Apart(Apart::HungUp)
}

/// The peer was shown everything.
fn shown(tcp: i32, bell: Fd, connection: Box<Connection>, peer: u64) -> Progress {
    let written = match hear(&bell) {
        Heard::Nothing => {
            return Progress::Waiting(Meeting { stage: Stage::Shown { bell, connection, peer } });
        }
        Heard::News((BEGINS, written), _) => written,
        Heard::End => return Progress::Apart(Apart::HungUp),
        _ => return Progress::Apart(Apart::Nonsense),
    };
    // From here on there is no way but on: the peer sends by the segment. (It may have ended since.)
    let by_socket = tcp::read(tcp).ok().and_then(|read| written.checked_sub(read));
    begin(tcp, Role::Accepted, &bell);
    let mut joined = Box::new(Joined::new(bell, *connection, peer, Some(by_socket.unwrap_or(0))));
    if by_socket.is_none() {
        joined.give_up();
    }
    Progress::Joined(joined)
}

/// Says where this side's bytes come from now on. False: nobody hears it.
fn begin(tcp: i32, role: Role, bell: &Fd) -> bool {
    let Ok(written) = tcp::written(tcp, role) else { return false };
    tcp::push(tcp);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    sys::socket::send(bell.raw(), &news(BEGINS, written), flags).is_ok()
}

/// A socket for packets that never waits.
fn packets() -> Result<Fd> {
    sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0)
}

/// `None`: nobody is there.
fn accept(place: &Fd) -> Result<Option<Fd>> {
    match sys::socket::accept(place.raw()) {
        Ok(caller) => {
            sys::fd::fcntl(caller.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize)?;
            Ok(Some(caller))
        }
        Err(libc::EAGAIN) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the process at the other end of a Unix socket is of the same user.
fn is_same_user(bell: &Fd) -> bool {
    // struct ucred: pid, uid, gid.
    let peer = sys::socket::option(bell.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED, [u32::MAX; 3]);
    peer.is_ok_and(|[_, user, _]| user == sys::process::user())
}

fn news(kind: u8, number: u64) -> [u8; NEWS] {
    let mut packet = [kind, VERSION, 0, 0, 0, 0, 0, 0, 0, 0];
    packet[2..].copy_from_slice(&number.to_be_bytes());
    packet
}

/// What came by a Unix socket between the two.
pub(crate) enum Heard {
    Nothing,
    Ring,
    /// Kind and number, with descriptors.
    News((u8, u64), Vec<Fd>),
    Nonsense,
    End,
}

/// Takes one packet.
pub(crate) fn hear(bell: &Fd) -> Heard {
    let (mut packet, mut descriptors) = ([0; NEWS + 1], Vec::new());
    let mut take =
        || sys::socket::receive_descriptors(bell.raw(), &mut packet, &mut descriptors, libc::MSG_DONTWAIT);
    let mut taken = take();
    if taken == Err(libc::ECONNRESET) {
        // The peer left rings of ours unheard: that is told once, before what it said.
        taken = take();
    }
    match taken {
        Ok(0) => Heard::End,
        Ok(1) => Heard::Ring,
        Ok(NEWS) if packet[1] == VERSION => {
            let [kind, _, number @ .., _] = packet;
            Heard::News((kind, u64::from_be_bytes(number)), descriptors)
        }
        Ok(_) => Heard::Nonsense,
        Err(libc::EAGAIN | libc::EINTR) => Heard::Nothing,
        Err(_) => Heard::End,
    }
}

/// How many bytes the peer wrote by the socket, if that is what it says.
pub(crate) fn begins((kind, number): (u8, u64)) -> Option<u64> {
    (kind == BEGINS).then_some(number)
}

/// The name of a meeting place: in the abstract namespace, the connection's ends behind a word.
fn name_of(connected: End, accepted: End) -> libc::sockaddr_un {
    let mut path = [0u8; 108];
    let word = b"\0sidestep-memory";
    path[..word.len()].copy_from_slice(word);
    let mut at = word.len();
    for end in [connected, accepted] {
        path[at..at + 18].copy_from_slice(&bytes_of(end));
        at += 18;
    }
    abstract_name(path)
}

/// An end, as names have it.
pub(crate) fn bytes_of((address, port): End) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&address);
    bytes[16..].copy_from_slice(&port.to_be_bytes());
    bytes
}

pub(crate) fn abstract_name(path: [u8; 108]) -> libc::sockaddr_un {
    libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: path.map(|byte| byte as libc::c_char) }
}

#[cfg(test)]
#[path = "meeting/tests.rs"]
mod tests;
