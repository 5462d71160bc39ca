//! One client: its questions, one after the other, until it leaves or says what cannot be said.

use crate::clients::{Keeper, Seat};
use crate::policy::Who;
use crate::repair::{self, Repairs};
use crate::status;
use keeper::protocol::{Kind, LEN, MORE_MAX, Packet, VERSION};
use netlink::Netlink;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use sys::Fd;
use sys::socket::option;

/// Seconds in which a client is to say Hello: both ends of a joined connection may be ours.
const HELLO_S: i64 = 5;

/// More than a question can have, so that longer ones are seen to be.
const LENGTH: usize = LEN + MORE_MAX + 1;

/// What a client may have left unread, as the kernel counts it, when it asks for descriptors: a few answers.
const UNREAD_MAX: i32 = 4096;

/// Serves the client behind `connection` until it hangs up. `seat` is given back then.
pub(crate) fn serve(keeper: &Arc<Keeper>, connection: &Fd, seat: &Seat) {
    let mut repairs = Repairs::default();
    let mut descriptors: Vec<Fd> = Vec::new();
    let mut is_known = false;
    let mut bytes = [0; LENGTH];
    wait_at_most(connection, HELLO_S);
    loop {
        descriptors.clear();
        let Some((question, more)) = hear(connection, &mut bytes, &mut descriptors) else { return };
        if matches!(question.kind, Kind::Restore | Kind::Bind) && is_known {
            let passed = core::mem::take(&mut descriptors);
            if !answer_about_several(keeper, connection, &repairs, (question, more), passed) {
                return;
            }
            continue;
        }
        let passed = match descriptors.len() {
            1 => descriptors.pop(),
            _ => None,
        };
        let answer = match (question.kind, passed) {
            (Kind::Hello, None) => {
                is_known = question.version == VERSION;
                wait_at_most(connection, 0);
                Packet { detail: keeper.namespace(), ..question.answered(0) }
            }
            (Kind::Resolve, None) if is_known => {
                let address = Ipv4Addr::from_bits(question.detail as u32);
                let asked =
                    Netlink::open().and_then(|mut netlink| netlink.resolve(question.value as u32, address));
                question.answered(asked.err().unwrap_or(0))
            }
            (Kind::Repair, Some(socket)) if is_known => {
                let errno = repairs.set(keeper.namespace(), socket, question.value);
                let answer = question.answered(errno);
                if !say(connection, answer) && errno == 0 {
                    repairs.take_back();
                    return;
                }
                continue;
            }
            (Kind::Status, None) if is_known && tell_status(keeper, connection, question) => continue,
            (Kind::Attach, Some(socket))
                if is_known && attach(keeper, connection, seat, question, &socket) =>
            {
                continue;
            }
            (Kind::Deafen, Some(socket)) if is_known => {
                let errno = repair::deafen(keeper.namespace(), &socket);
                if !say(connection, question.answered(errno)) && errno == 0 {
                    repair::undo_deafen(&socket);
                    return;
                }
                continue;
            }
            (Kind::Join, Some(other)) if is_known => {
                if is_connection(&other) {
                    keeper.admit(other, seat.user());
                }
                continue;
            }
            _ => return,
        };
        if !say(connection, answer) || !is_known {
            return;
        }
    }
}

/// Questions that come with more than one descriptor. False: that was none, or the client did not get its answer.
fn answer_about_several(
    keeper: &Keeper,
    connection: &Fd,
    repairs: &Repairs,
    (question, more): (Packet, &[u8]),
    passed: Vec<Fd>,
) -> bool {
    let errno = match (question.kind, &passed[..]) {
        (Kind::Restore, _) => keeper.held().restore(question.value as u32, more, passed, process(connection)),
        (Kind::Bind, [socket, listener]) => {
            let to = SocketAddrV4::new(Ipv4Addr::from_bits(question.detail as u32), question.value as u16);
            repairs.bind(keeper.namespace(), socket, listener, to)
        }
        _ => return false,
    };
    say(connection, question.answered(errno))
}

/// The next question, and what is behind it. `None`: the client has hung up, or said what is none.
fn hear<'a>(
    connection: &Fd,
    bytes: &'a mut [u8; LENGTH],
    descriptors: &mut Vec<Fd>,
) -> Option<(Packet, &'a [u8])> {
    let length = loop {
        match sys::socket::receive_descriptors(connection.raw(), bytes, descriptors, 0) {
            Ok(length @ 1..) => break length,
            Err(libc::EINTR) => {}
            _ => return None,
        }
    };
    let (packet, more) = bytes[..length].split_at(length.min(LEN));
    let question = Packet::read(packet).filter(|packet| !packet.is_answer)?;
    (more.is_empty() || question.kind == Kind::Restore && more.len() <= MORE_MAX).then_some((question, more))
}

/// The one that has the other end, or made it.
fn process(connection: &Fd) -> i32 {
    sys::socket::peer_process(connection.raw()).unwrap_or(0)
}

/// 0: for ever.
fn wait_at_most(connection: &Fd, seconds: i64) {
    let limit = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    let _ = sys::socket::set_option(connection.raw(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit);
}

/// Hands out an interface. False: the client did not get it.
fn attach(keeper: &Keeper, connection: &Fd, seat: &Seat, question: Packet, socket: &Fd) -> bool {
    if !reads_its_answers(connection) {
        return false;
    }
    let process = process(connection);
    let is_here = sys::socket::network_namespace(socket.raw()) == Ok(keeper.namespace());
    let given = match is_here {
        true => keeper.held().attach(question.value as u32, process),
        false => Err("it is the keeper of another network namespace".to_owned()),
    };
    let (answer, more, descriptors) = match &given {
        Ok(given) => {
            let detail = u64::from(given.has_policies);
            let mut descriptors = vec![given.monitor.raw()];
            descriptors.extend(given.handout.descriptors());
            (Packet { detail, ..question.answered(0) }, given.handout.description.as_slice(), descriptors)
        }
        Err(words) => {
            keeper.refusals().note(&Who { process, user: seat.user(), groups: Vec::new() }, words);
            (question.answered(libc::EPERM), &words.as_bytes()[..words.len().min(MORE_MAX)], Vec::new())
        }
    };
    let bytes = [&answer.bytes(), more].concat();
    // Whoever asks one question at a time has room for the answer.
    sys::socket::send_descriptors(connection.raw(), &bytes, &descriptors) == Ok(bytes.len())
}

/// Somebody who is not admitted has been told so, and asks for the status, or not.
pub(crate) fn let_look(keeper: &Keeper, connection: &Fd) {
    wait_at_most(connection, 1);
    for _ in [Kind::Hello, Kind::Status] {
        let mut bytes = [0; LEN + 1];
        let length = sys::socket::receive(connection.raw(), &mut bytes, 0).unwrap_or(0);
        match Packet::read(&bytes[..length]).filter(|packet| !packet.is_answer) {
            Some(Packet { kind: Kind::Hello, .. }) => {}
            Some(question @ Packet { kind: Kind::Status, .. }) => {
                tell_status(keeper, connection, question);
                return;
            }
            _ => return,
        }
    }
}

/// False: the client did not get it.
fn tell_status(keeper: &Keeper, connection: &Fd, question: Packet) -> bool {
    if !reads_its_answers(connection) {
        return false;
    }
    let (answer, file) = match status::file(keeper) {
        Ok(file) => (question.answered(0), Some(file)),
        Err(errno) => (question.answered(errno), None),
    };
    let descriptors: Vec<i32> = file.iter().map(Fd::raw).collect();
    sys::socket::send_descriptors(connection.raw(), &answer.bytes(), &descriptors) == Ok(LEN)
}

/// Descriptors that nobody takes are counted as ours by the kernel, which allows so many.
fn reads_its_answers(connection: &Fd) -> bool {
    sys::socket::ask(connection.raw(), libc::TIOCOUTQ as u32).is_ok_and(|unread| unread <= UNREAD_MAX)
}

/// Whoever does not read what it asked for has it closed. False: it did not get it.
pub(crate) fn say(connection: &Fd, answer: Packet) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    sys::socket::send(connection.raw(), &answer.bytes(), flags) == Ok(LEN)
}

fn is_connection(socket: &Fd) -> bool {
    let of = |name| option(socket.raw(), libc::SOL_SOCKET, name, 0i32);
    of(libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && of(libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET)
        && of(libc::SO_ACCEPTCONN) == Ok(0)
}
