//! One client, as whoever plays the keeper for it has it: its questions, one after the other, until it leaves or says
//! what cannot be said. The keeper serves each client in a thread; a process that forked serves its children between
//! other things.
//!
//! It decides nothing: who may ask is settled before, and what there is to hand out is its [`Lender`]'s.

use crate::protocol::{Kind, LEN, MORE_MAX, Packet, VERSION};
use crate::repair::{self, Repairs};
use core::net::{Ipv4Addr, SocketAddrV4};
use sys::Fd;
use sys::socket::option;

/// Seconds in which a client is to say Hello: both ends of a joined connection may be ours.
const HELLO_S: i64 = 5;

/// More than a question can have, so that longer ones are seen to be.
const LENGTH: usize = LEN + MORE_MAX + 1;

/// What a client may have left unread, as the kernel counts it, when it asks for descriptors: a few answers.
const UNREAD_MAX: i32 = 4096;

/// What is handed out of an interface.
pub struct Given {
    /// See `xdp::Handout`.
    pub description: Vec<u8>,
    /// In order; the first is a socket that hears of changes of IPsec policies.
    pub descriptors: Vec<i32>,
    /// Those of them that are open for this only.
    pub own: Vec<Fd>,
    /// Whether there are such policies.
    pub has_policies: bool,
}

/// What comes of the wish for an interface.
pub enum Attachment {
    /// That.
    Given(Given),
    /// In words for the program's log, why not.
    Refused(String),
    /// It is being opened: [`Session::attached`] answers.
    Later,
}

/// Who has what clients want.
pub trait Lender {
    /// The network namespace, as SO_NETNS_COOKIE has it.
    fn namespace(&self) -> u64;
    /// A lane for a process on an interface.
    fn attach(&self, interface: u32, process: i32) -> Attachment;
    /// Has the kernel look for a neighbour. Returns 0 or errno.
    fn resolve(&self, interface: u32, address: Ipv4Addr) -> i32;
    /// A connection of another process with the same rights.
    fn join(&self, connection: Fd);
    /// An interface is handed over. Returns 0 or errno; `None`: that cannot be asked here.
    fn restore(&self, _interface: u32, _description: &[u8], _passed: Vec<Fd>, _process: i32) -> Option<i32> {
        None
    }
    /// The state as JSON, in a file in memory. `None`: that cannot be asked here.
    fn status(&self) -> Option<sys::Result<Fd>> {
        None
    }
}

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// It was answered, or there is none yet.
    GoesOn,
    /// It is answered [later](Session::attached).
    Waits(Packet),
    /// The client has left, or is to be left.
    Ends,
}

/// See the module's page.
pub struct Session {
    connection: Fd,
    repairs: Repairs,
    is_known: bool,
}

impl Session {
    /// Of who has the other end.
    pub fn new(connection: Fd) -> Session {
        wait_at_most(&connection, HELLO_S);
        Session { connection, repairs: Repairs::default(), is_known: false }
    }

    /// Readable when there is a question.
    pub fn descriptor(&self) -> i32 {
        self.connection.raw()
    }

    /// The process that has the other end, or made it.
    pub fn process(&self) -> i32 {
        sys::socket::peer_process(self.connection.raw()).unwrap_or(0)
    }

    /// In the child of a fork, which is no keeper: what is switched for clients stays as it is.
    pub fn after_fork(mut self) {
        self.repairs.let_go();
    }

    /// Hears the next question and answers it. `flags` are those of recvmsg(2).
    pub fn serve(&mut self, lender: &dyn Lender, flags: i32) -> Next {
        let (mut bytes, mut passed) = ([0; LENGTH], Vec::new());
        match hear(&self.connection, &mut bytes, &mut passed, flags) {
            Heard::Nothing => Next::GoesOn,
            Heard::Ended => Next::Ends,
            Heard::Question(question, more) => self.answer(lender, question, more, passed),
        }
    }

    fn answer(&mut self, lender: &dyn Lender, question: Packet, more: &[u8], mut passed: Vec<Fd>) -> Next {
        if question.kind == Kind::Hello && passed.is_empty() {
            self.is_known = question.version == VERSION;
            wait_at_most(&self.connection, 0);
            let answer = Packet { detail: lender.namespace(), ..question.answered(0) };
            return goes_on(say(&self.connection, answer) && self.is_known);
        }
        if !self.is_known {
            return Next::Ends;
        }
        match question.kind {
            Kind::Restore | Kind::Bind => self.answer_about_several(lender, question, more, passed),
            Kind::Resolve | Kind::Status if passed.is_empty() => self.answer_about_none(lender, question),
            _ => match (passed.pop(), passed.is_empty()) {
                (Some(socket), true) => self.answer_about(lender, question, socket),
                _ => Next::Ends,
            },
        }
    }

    fn answer_about_none(&self, lender: &dyn Lender, question: Packet) -> Next {
        if question.kind == Kind::Status {
            return goes_on(tell_status(lender, &self.connection, question));
        }
        let address = Ipv4Addr::from_bits(question.detail as u32);
        let errno = lender.resolve(question.value as u32, address);
        goes_on(say(&self.connection, question.answered(errno)))
    }

    /// Questions that come with one descriptor.
    fn answer_about(&mut self, lender: &dyn Lender, question: Packet, socket: Fd) -> Next {
        let namespace = lender.namespace();
        match question.kind {
            Kind::Repair => {
                let errno = self.repairs.set(namespace, socket, question.value);
                let is_said = say(&self.connection, question.answered(errno));
                if !is_said && errno == 0 {
                    self.repairs.take_back();
                }
                goes_on(is_said || errno != 0)
            }
            Kind::Deafen => {
                let errno = repair::deafen(namespace, &socket);
                let is_said = say(&self.connection, question.answered(errno));
                if !is_said && errno == 0 {
                    repair::undo_deafen(&socket);
                }
                goes_on(is_said || errno != 0)
            }
            Kind::Attach => self.attach(lender, question, &socket),
            Kind::Join => {
                if is_connection(&socket) {
                    lender.join(socket);
                }
                Next::GoesOn
            }
            _ => Next::Ends,
        }
    }

    /// Questions that come with more than one descriptor.
    fn answer_about_several(
        &self,
        lender: &dyn Lender,
        question: Packet,
        more: &[u8],
        passed: Vec<Fd>,
    ) -> Next {
        let errno = match (question.kind, &passed[..]) {
            (Kind::Restore, _) => lender.restore(question.value as u32, more, passed, self.process()),
            (Kind::Bind, [socket, listener]) => {
                let to =
                    SocketAddrV4::new(Ipv4Addr::from_bits(question.detail as u32), question.value as u16);
                Some(self.repairs.bind(lender.namespace(), socket, listener, to))
            }
            _ => None,
        };
        goes_on(errno.is_some_and(|errno| say(&self.connection, question.answered(errno))))
    }

    fn attach(&self, lender: &dyn Lender, question: Packet, socket: &Fd) -> Next {
        if !reads_its_answers(&self.connection) {
            return Next::Ends;
        }
        let is_here = sys::socket::network_namespace(socket.raw()) == Ok(lender.namespace());
        let attachment = match is_here {
            true => lender.attach(question.value as u32, self.process()),
            false => Attachment::Refused("it is the keeper of another network namespace".to_owned()),
        };
        self.attached(question, &attachment)
    }

    /// Answers who wants an interface.
    pub fn attached(&self, question: Packet, attachment: &Attachment) -> Next {
        let (answer, more, descriptors) = match attachment {
            Attachment::Given(given) => {
                let detail = u64::from(given.has_policies);
                let answer = Packet { detail, ..question.answered(0) };
                (answer, given.description.as_slice(), given.descriptors.as_slice())
            }
            Attachment::Refused(words) => (
                question.answered(libc::EPERM),
                &words.as_bytes()[..words.len().min(MORE_MAX)],
                [].as_slice(),
            ),
            Attachment::Later => return Next::Waits(question),
        };
        let bytes = [&answer.bytes(), more].concat();
        // Whoever asks one question at a time has room for the answer.
        let sent = sys::socket::send_descriptors(self.connection.raw(), &bytes, descriptors);
        goes_on(sent == Ok(bytes.len()))
    }
}

/// What came by a connection on which nothing but the wish for another one can be said: the other one.
pub fn joining(connection: &Fd) -> Option<Fd> {
    let (mut bytes, mut passed) = ([0; LENGTH], Vec::new());
    match hear(connection, &mut bytes, &mut passed, libc::MSG_DONTWAIT) {
        Heard::Question(Packet { kind: Kind::Join, .. }, _) => passed.pop().filter(is_connection),
        _ => None,
    }
}

/// Somebody who is not admitted has been told so, and asks for the status, or not.
pub fn let_look(lender: &dyn Lender, connection: &Fd) {
    wait_at_most(connection, 1);
    for _ in [Kind::Hello, Kind::Status] {
        let mut bytes = [0; LEN + 1];
        let length = sys::socket::receive(connection.raw(), &mut bytes, 0).unwrap_or(0);
        match Packet::read(&bytes[..length]).filter(|packet| !packet.is_answer) {
            Some(Packet { kind: Kind::Hello, .. }) => {}
            Some(question @ Packet { kind: Kind::Status, .. }) => {
                tell_status(lender, connection, question);
                return;
            }
            _ => return,
        }
    }
}

/// Whoever does not read what it asked for has it closed. False: it did not get it.
pub fn say(connection: &Fd, answer: Packet) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    sys::socket::send(connection.raw(), &answer.bytes(), flags) == Ok(LEN)
}

fn goes_on(does: bool) -> Next {
    if does { Next::GoesOn } else { Next::Ends }
}

/// What came by a connection.
enum Heard<'a> {
    /// With what is behind it.
    Question(Packet, &'a [u8]),
    /// Nothing yet.
    Nothing,
    /// The client has hung up, or said what is no question.
    Ended,
}

fn hear<'a>(
    connection: &Fd,
    bytes: &'a mut [u8; LENGTH],
    descriptors: &mut Vec<Fd>,
    flags: i32,
) -> Heard<'a> {
    let length = loop {
        match sys::socket::receive_descriptors(connection.raw(), bytes, descriptors, flags) {
            Ok(length @ 1..) => break length,
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) if flags & libc::MSG_DONTWAIT != 0 => return Heard::Nothing,
            _ => return Heard::Ended,
        }
    };
    let (packet, more) = bytes[..length].split_at(length.min(LEN));
    match Packet::read(packet).filter(|packet| !packet.is_answer) {
        Some(question) if more.is_empty() || question.kind == Kind::Restore && more.len() <= MORE_MAX => {
            Heard::Question(question, more)
        }
        _ => Heard::Ended,
    }
}

/// 0: for ever.
fn wait_at_most(connection: &Fd, seconds: i64) {
    let limit = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    let _ = sys::socket::set_option(connection.raw(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit);
}

/// False: the client did not get it.
fn tell_status(lender: &dyn Lender, connection: &Fd, question: Packet) -> bool {
    if !reads_its_answers(connection) {
        return false;
    }
    let (answer, file) = match lender.status() {
        Some(Ok(file)) => (question.answered(0), Some(file)),
        Some(Err(errno)) => (question.answered(errno), None),
        None => return false,
    };
    let descriptors: Vec<i32> = file.iter().map(Fd::raw).collect();
    sys::socket::send_descriptors(connection.raw(), &answer.bytes(), &descriptors) == Ok(LEN)
}

/// Descriptors that nobody takes are counted as ours by the kernel, which allows so many.
fn reads_its_answers(connection: &Fd) -> bool {
    sys::socket::ask(connection.raw(), libc::TIOCOUTQ as u32).is_ok_and(|unread| unread <= UNREAD_MAX)
}

fn is_connection(socket: &Fd) -> bool {
    let of = |name| option(socket.raw(), libc::SOL_SOCKET, name, 0i32);
    of(libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && of(libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET)
        && of(libc::SO_ACCEPTCONN) == Ok(0)
}
