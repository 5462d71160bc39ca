//! Asks the keeper, from inside a program. One connection for each process, opened when it is needed first, or before
//! the program gives up the privileges by which the keeper admits it ([`prepare`]); children of a fork make one of
//! their own out of their parent's.
//!
//! Where the keeper does not do it, processes are asked that forked this one, and do it for their children.
//!
//! Once a connection stands, a question allocates nothing and takes two system calls. It is bounded in time: a keeper
//! that does not answer is given up, and takes back what it does after that.

mod asked;
mod coming;
mod reach;

use crate::mutation::planted;
use crate::place::Place;
use crate::protocol::{Kind, LEN, MORE_MAX, OPENING_NS, Packet, VERSION};
use asked::Asked;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use reach::{bound, call, join};
use sys::{Errno, Fd, Mutex, MutexGuard};

/// A keeper that lives answers within some microseconds.
const PATIENCE_NS: u64 = 1_000_000_000;
/// See [`OPENING_NS`].
const LONG_PATIENCE_NS: u64 = OPENING_NS;
/// Who wants to ask something else looks as often whether a long question is answered.
const LONG_LOOK_NS: u64 = 1_000_000;
/// Where there is no keeper, one may be started.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

/// Why the keeper did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is none, or it is gone.
    Absent,
    /// It does not admit this user.
    Denied,
    /// It is somebody else's than root's or this user's: it is not asked.
    Foreign,
    /// It speaks another version of the protocol.
    Version(u16),
    /// It has as many clients as it takes.
    Full,
    /// It did not answer in time.
    Silent,
    /// A process that forked this one did not.
    Stopped,
    /// It tried, and this is what it was told.
    Errno(i32),
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent => to.write_str("no keeper (sidestepd) runs in this network namespace"),
            Error::Denied => to.write_str("the keeper (sidestepd) does not admit this user"),
            Error::Foreign => to.write_str("the keeper (sidestepd) belongs to another user and is not asked"),
            Error::Version(theirs) => {
                write!(to, "the keeper (sidestepd) speaks version {theirs} of its protocol, not {VERSION}")
            }
            Error::Full => to.write_str("the keeper (sidestepd) has as many clients as it takes"),
            Error::Silent => to.write_str("the keeper (sidestepd) does not answer"),
            Error::Stopped => to.write_str("the process that forked this one does not answer"),
            Error::Errno(errno) => write!(to, "who was asked for it was told: {}", Errno(*errno)),
        }
    }
}

/// The outcome of a question.
pub type Result<T> = core::result::Result<T, Error>;

/// This process' side. In a child of a fork it is a copy of its parent's until it asks.
pub struct Client {
    place: Place,
    connection: Option<Fd>,
    /// Whose connection it is.
    process: i32,
    /// Of the last question.
    number: u32,
    /// What came of the last attempt to connect, and until when that is believed.
    failed: Option<(Error, u64)>,
    /// Why the keeper could not be reached the last time; 0: it was.
    unreached: i32,
    /// What was wrong with the program that was to be started as a keeper.
    ended: Option<String>,
    /// A thread waits for a long answer without the lock: nobody else asks or parts meanwhile.
    is_asked: bool,
}

static CLIENT: Mutex<Client> = Mutex::new(Client::new(Place::Nowhere));

/// Those that forked this process and those before it, the first of them first: who holds an interface is among them.
static PARENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// Says where the keeper is; until then there is none.
pub fn configure(place: Place) {
    *CLIENT.lock() = Client::new(place);
}

/// See [`Client::misnamed`].
pub fn misnamed() -> Option<String> {
    CLIENT.lock().misnamed()
}

/// Connects, if that has not been done: for a process that may give up its user later. No answer is waited for.
pub fn prepare() {
    let _ = CLIENT.lock().connected();
}

/// Whether a keeper can be asked that could not be before.
pub fn comes() -> bool {
    CLIENT.lock().comes()
}

/// Whom a question goes to.
#[derive(Clone, Copy)]
enum Whom {
    Keeper,
    /// One of those that forked this process.
    Parent(usize),
}

impl Whom {
    /// Acts on its side here, under the lock. `None`: there is no such.
    fn with<T>(self, act: impl FnOnce(&mut Client) -> T) -> Option<T> {
        match self {
            Whom::Keeper => Some(act(&mut CLIENT.lock())),
            Whom::Parent(at) => PARENTS.lock().get_mut(at).map(act),
        }
    }

    /// The same once no thread waits for a long answer. The lock is not held meanwhile.
    fn when_free<T>(self, mut act: impl FnMut(&mut Client) -> T) -> Option<T> {
        loop {
            match self.with(|client| (!client.is_asked).then(|| act(client)))? {
                Some(done) => return Some(done),
                None => sys::thread::sleep(LONG_LOOK_NS),
            }
        }
    }

    /// A question that may take long. A fork need not wait for its answer: the lock is free meanwhile.
    fn attach(self, interface: u32, socket: i32) -> core::result::Result<Attached, NotAttached> {
        let begun = self.when_free(|client| {
            let asked = client.begin_attach(interface, socket)?;
            client.is_asked = true;
            Ok(asked)
        });
        let asked = begun.unwrap_or(Err(Error::Absent)).map_err(Err)?;
        let heard = asked.hear_attached();
        let ended = self.with(|client| {
            client.is_asked = false;
            client.end_attach(&asked, heard)
        });
        ended.unwrap_or(Err(Err(Error::Absent)))
    }
}

fn parents() -> impl Iterator<Item = Whom> {
    let count = PARENTS.lock().len();
    (0..count).map(Whom::Parent)
}

/// Asks the keeper, and where that cannot do it those that forked this process.
fn ask_any(ask: impl Fn(&mut Client) -> Result<()>) -> Result<()> {
    ask_each(|whom| whom.when_free(&ask))
}

/// The same with one way to ask.
fn ask_each(ask: impl Fn(Whom) -> Option<Result<()>>) -> Result<()> {
    let of = |whom: Whom| ask(whom).unwrap_or(Err(Error::Absent));
    let mut outcome = of(Whom::Keeper);
    if is_final(outcome) {
        return outcome;
    }
    for parent in parents() {
        match of(parent) {
            Err(Error::Absent) => {}
            Err(error) if !is_final(Err(error)) => outcome = Err(error.of_parent()),
            done => return done,
        }
    }
    outcome
}

/// Whether it was done, or tried by somebody who may: what that one was told holds.
fn is_final(outcome: Result<()>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(Error::Errno(errno)) => !matches!(errno, libc::EPERM | libc::EACCES),
        Err(_) => false,
    }
}

/// Sets TCP_REPAIR of a socket, for which the caller has no privilege.
pub fn repair(fd: i32, value: i32) -> Result<()> {
    ask_any(|client| client.repair(fd, value))
}

/// Attaches a filter to a TCP socket by which nothing comes in, which takes CAP_NET_ADMIN since Linux 6.18; anybody
/// detaches it.
pub fn deafen(fd: i32) -> Result<()> {
    ask_any(|client| client.deafen(fd))
}

/// Binds a socket in repair mode to where another one of the caller's listens, on a port that takes a privilege.
pub fn bind(fd: i32, listener: i32, to: SocketAddrV4) -> Result<()> {
    ask_any(|client| client.bind(fd, listener, to))
}

/// What the keeper hands out of an interface.
pub struct Attached {
    /// See `xdp::Handout`.
    pub description: Vec<u8>,
    /// The first is a socket that hears of changes of IPsec policies; the others, see there.
    pub descriptors: Vec<Fd>,
    /// Whether there are such policies.
    pub has_policies: bool,
}

/// Why there is nothing of it: the keeper's words, or that it was not asked.
pub type NotAttached = core::result::Result<String, Error>;

/// Wants a lane on an interface; `socket` is any of its network namespace.
pub fn attach(interface: u32, socket: i32) -> core::result::Result<Attached, NotAttached> {
    Whom::Keeper.attach(interface, socket)
}

/// The same of those that forked this process.
pub fn attach_by_parent(interface: u32, socket: i32) -> core::result::Result<Attached, NotAttached> {
    let mut outcome = Err(Err(Error::Absent));
    for parent in parents() {
        match parent.attach(interface, socket) {
            Err(Err(Error::Absent)) => {}
            Err(Err(error)) => outcome = Err(Err(error.of_parent())),
            Err(Ok(words)) => outcome = Err(Ok(words)),
            Ok(attached) => return Ok(attached),
        }
    }
    outcome
}

/// Has the kernel look for a neighbour, which takes CAP_NET_ADMIN. By who holds nothing that others wait for. Where
/// somebody else waits for a long answer it is not asked for.
pub fn resolve(interface: u32, address: Ipv4Addr) -> Result<()> {
    ask_each(|whom| {
        whom.with(|client| match client.is_asked {
            true => Err(Error::Silent),
            false => client.resolve(interface, address),
        })
    })
}

/// Hands an interface over that another keeper had handed out, which is gone.
pub fn restore(interface: u32, description: &[u8], descriptors: &[i32]) -> Result<()> {
    let restore = |client: &mut Client| client.restore(interface, description, descriptors);
    Whom::Keeper.when_free(restore).unwrap_or(Err(Error::Absent))
}

/// Held while a process forks, so that the child finds no question half asked.
pub struct Forking {
    _client: MutexGuard<'static, Client>,
    _parents: MutexGuard<'static, Vec<Client>>,
}

/// See [`Forking`]. `None`: somebody is asked, and has not answered until then (of [`sys::clock::now`]).
pub fn fork_begins(deadline: u64) -> Option<Forking> {
    Some(Forking { _client: CLIENT.lock_until(deadline)?, _parents: PARENTS.lock_until(deadline)? })
}

/// Before that, by who holds nothing that others wait for: whoever is asked has answered, or was given up.
pub fn before_fork() {
    drop(CLIENT.lock());
    drop(PARENTS.lock());
}

/// For a process that forks: by what its children ask, and where it hears them.
pub fn pair_for_children() -> Result<(Fd, Fd)> {
    let (theirs, ours) = sys::socket::pair(libc::SOCK_SEQPACKET).map_err(|_| Error::Absent)?;
    bound(&theirs)?;
    Ok((theirs, ours))
}

/// In the child of a fork: all connections are its parent's. `parent`: by what that one is asked, if it answers.
pub fn after_fork(parent: Option<Fd>) {
    CLIENT.lock().is_a_copy();
    let mut parents = PARENTS.lock();
    parents.retain(Client::lives);
    parents.iter_mut().for_each(Client::is_a_copy);
    parents.extend(parent.map(|parent| Client { connection: Some(parent), ..Client::new(Place::Nowhere) }));
}

impl Error {
    fn of_parent(self) -> Error {
        if self == Error::Silent { Error::Stopped } else { self }
    }
}

impl Client {
    /// Of nobody yet.
    pub const fn new(place: Place) -> Client {
        Client {
            place,
            connection: None,
            process: 0,
            number: 0,
            failed: None,
            unreached: 0,
            ended: None,
            is_asked: false,
        }
    }

    /// In the child of a fork: the connection is its parent's, and so is who waits for an answer.
    fn is_a_copy(&mut self) {
        self.process = 0;
        self.is_asked = false;
    }

    /// Sets TCP_REPAIR of a socket.
    pub fn repair(&mut self, fd: i32, value: i32) -> Result<()> {
        self.connected()?;
        let question = self.question(Kind::Repair, value);
        self.ask(question, &[fd])
    }

    /// See [`deafen`].
    pub fn deafen(&mut self, fd: i32) -> Result<()> {
        self.connected()?;
        let question = self.question(Kind::Deafen, 1);
        self.ask(question, &[fd])
    }

    /// See [`bind`].
    pub fn bind(&mut self, fd: i32, listener: i32, to: SocketAddrV4) -> Result<()> {
        self.connected()?;
        let detail = if planted!(BindsAnywhere) { 0 } else { u64::from(to.ip().to_bits()) };
        let question = Packet { detail, ..self.question(Kind::Bind, to.port().into()) };
        self.ask(question, &[fd, listener])
    }

    /// See [`resolve`].
    pub fn resolve(&mut self, interface: u32, address: Ipv4Addr) -> Result<()> {
        self.connected()?;
        let detail = u64::from(address.to_bits());
        let question = Packet { detail, ..self.question(Kind::Resolve, interface as i32) };
        self.ask(question, &[])
    }

    /// Over a connection to whoever plays the keeper.
    #[cfg(feature = "testing")]
    pub fn over(connection: Fd) -> Client {
        let client = Client::new(Place::Nowhere);
        Client { connection: Some(connection), process: sys::process::pid(), ..client }
    }

    /// Whether somebody is at the other end.
    fn lives(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            let mut one = [sys::poll::pollfd { fd: connection.raw(), events: 0, revents: 0 }];
            sys::poll::poll(&mut one, Some(0), None) == Ok(0)
        })
    }

    /// A connection of this process', to which Hello was said.
    fn connected(&mut self) -> Result<()> {
        let process = sys::process::pid();
        if self.connection.is_some() && self.process == process {
            return Ok(());
        }
        let now = sys::clock::monotonic();
        if let Some((error, until)) = self.failed
            && now < until
        {
            return Err(error);
        }
        let made = match self.connection.take() {
            Some(parents) => join(&parents),
            None => {
                self.unreached = 0;
                call(&self.place, &mut self.unreached)
            }
        };
        let made = made.and_then(|connection| {
            self.connection = Some(connection);
            self.process = process;
            self.say_hello()
        });
        if let Err(error) = made {
            let until = if error == Error::Absent { now + LOOK_AGAIN_NS } else { u64::MAX };
            self.connection = None;
            self.failed = Some((error, until));
        }
        made
    }

    /// Its answer is taken with that to the first question.
    fn say_hello(&mut self) -> Result<()> {
        self.number = 1;
        self.send(Packet::question(Kind::Hello, self.number, 0), &[], &[])
    }

    fn begin_attach(&mut self, interface: u32, socket: i32) -> Result<Asked> {
        self.connected().or_else(|error| self.started(error))?;
        let question = self.question(Kind::Attach, interface as i32);
        let sent = self.send(question, &[], &[socket]).and_then(|()| self.raw());
        match sent {
            Ok(connection) => Ok(Asked { connection, question }),
            Err(error) => {
                self.give_up(question, error);
                Err(error)
            }
        }
    }

    fn end_attach(
        &mut self,
        asked: &Asked,
        heard: Result<core::result::Result<Attached, String>>,
    ) -> core::result::Result<Attached, NotAttached> {
        match heard {
            Ok(answer) => answer.map_err(Ok),
            Err(error) => {
                self.give_up(asked.question, error);
                Err(Err(error))
            }
        }
    }

    /// See [`attach`].
    pub fn attach(&mut self, interface: u32, socket: i32) -> core::result::Result<Attached, NotAttached> {
        let asked = self.begin_attach(interface, socket).map_err(Err)?;
        self.end_attach(&asked, asked.hear_attached())
    }

    /// See [`restore`].
    pub fn restore(&mut self, interface: u32, description: &[u8], descriptors: &[i32]) -> Result<()> {
        // The connection may be the one to the keeper that is gone.
        let mut outcome = Err(Error::Absent);
        for _ in 0..2 {
            self.failed = self.failed.filter(|(error, _)| *error != Error::Absent);
            self.connected()?;
            let question = self.question(Kind::Restore, interface as i32);
            let sent = self.send(question, description, descriptors);
            outcome = self.hear(question, sent);
            if outcome != Err(Error::Absent) {
                break;
            }
        }
        outcome
    }

    /// The keeper's state, as JSON in a file in memory.
    pub fn status(&mut self) -> Result<Fd> {
        self.connected()?;
        let question = self.question(Kind::Status, 0);
        let mut descriptors = Vec::new();
        self.send(question, &[], &[])?;
        let asked = Asked { connection: self.raw()?, question };
        let answer = asked.answer(LONG_PATIENCE_NS, &mut Vec::new(), &mut descriptors)?;
        match (answer.value, descriptors.pop()) {
            (0, Some(file)) => Ok(file),
            (0, None) => Err(Error::Silent),
            (errno, _) => Err(Error::Errno(errno)),
        }
    }

    fn question(&mut self, kind: Kind, value: i32) -> Packet {
        self.number = self.number.wrapping_add(1);
        Packet::question(kind, self.number, value)
    }

    fn ask(&mut self, question: Packet, descriptors: &[i32]) -> Result<()> {
        let sent = self.send(question, &[], descriptors);
        self.hear(question, sent)
    }

    fn hear(&mut self, question: Packet, sent: Result<()>) -> Result<()> {
        let outcome = sent.and_then(|()| {
            Asked { connection: self.raw()?, question }.answer(PATIENCE_NS, &mut Vec::new(), &mut Vec::new())
        });
        match outcome {
            Ok(Packet { value: 0, .. }) => Ok(()),
            Ok(Packet { value: errno, .. }) => Err(Error::Errno(errno)),
            Err(error) => match self.give_up(question, error) {
                Some(0) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Whatever is left of the connection is of no use, unless it was only the question that could not be sent. An
    /// answer that came meanwhile holds.
    fn give_up(&mut self, question: Packet, error: Error) -> Option<i32> {
        if let Error::Errno(_) = error {
            return None;
        }
        let until = sys::clock::monotonic() + LOOK_AGAIN_NS;
        self.failed = Some((error, if error == Error::Absent { until } else { u64::MAX }));
        self.part(question)
    }

    fn raw(&self) -> Result<i32> {
        self.connection.as_ref().map(Fd::raw).ok_or(Error::Absent)
    }

    /// `more` is behind it.
    fn send(&self, question: Packet, more: &[u8], descriptors: &[i32]) -> Result<()> {
        let fd = self.raw()?;
        let mut bytes = [0; LEN + MORE_MAX];
        bytes[..LEN].copy_from_slice(&question.bytes());
        let length = LEN + more.len().min(MORE_MAX);
        bytes[LEN..length].copy_from_slice(&more[..length - LEN]);
        let deadline = sys::clock::monotonic() + PATIENCE_NS;
        loop {
            match sys::socket::send_descriptors(fd, &bytes[..length], descriptors) {
                Ok(_) => return Ok(()),
                Err(libc::EINTR) if sys::clock::monotonic() < deadline => {}
                Err(libc::EINTR | libc::EAGAIN) => return Err(Error::Silent),
                // A refusal that came before the question tells why.
                Err(libc::EPIPE | libc::ECONNRESET) => {
                    let asked = Asked { connection: fd, question };
                    let answer = asked.answer(PATIENCE_NS, &mut Vec::new(), &mut Vec::new());
                    return Err(answer.err().unwrap_or(Error::Absent));
                }
                Err(errno) => return Err(Error::Errno(errno)),
            }
        }
    }

    /// Ends the connection, so that the keeper cannot answer any more and takes back what it did. An answer that came
    /// meanwhile holds.
    fn part(&mut self, question: Packet) -> Option<i32> {
        let connection = self.connection.take()?;
        let _ = sys::socket::shutdown(connection.raw(), libc::SHUT_RDWR);
        let mut bytes = [0; LEN];
        while let Ok(length @ 1..) = sys::socket::receive(connection.raw(), &mut bytes, libc::MSG_DONTWAIT) {
            if let Some(answer) = Packet::read(&bytes[..length])
                && answer.is_answer
                && (answer.kind, answer.number) == (question.kind, question.number)
            {
                return Some(answer.value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
