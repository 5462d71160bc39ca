//! The keeper's protocol from both sides. Bytes that a client may send are read as the keeper reads them; and a program
//! asks a keeper that answers what the input says: packets in order, out of order, of other questions, cut off, with
//! descriptors that nobody asked for. What the program believes must be what a plain reading of the answers gives, what
//! the keeper hears must be what the program asked, and no descriptor may stay behind.

use crate::input::Input;
use keeper::client::{Client, Error};
use keeper::protocol::{Kind, LEN, MORE_MAX, Packet, VERSION};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use sys::Fd;

/// Answers, and questions, of one input: less than a socket has room for.
const MOST: usize = 24;

/// What a program asks, with what it says beside.
struct Question {
    kind: Kind,
    value: u16,
    address: Ipv4Addr,
    behind: Vec<u8>,
}

/// What the keeper says: one packet.
struct Said {
    bytes: Vec<u8>,
    /// Copies of a descriptor beside it.
    descriptors: usize,
}

/// What comes of a question, by the answers alone.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// What was behind the answer, and whether there are policies.
    Attached(Vec<u8>, usize, bool),
    Words(Vec<u8>),
    Failed(Error),
}

pub(crate) fn run(bytes: &[u8]) {
    read(bytes);
    let mut input = Input::new(bytes);
    let (mut said, mut questions) = (VecDeque::new(), Vec::new());
    while !input.is_empty() && said.len() < MOST && questions.len() < MOST {
        match input.u8() % 3 {
            0 => questions.extend(question(&mut input)),
            _ => said.push_back(answer(&mut input)),
        }
    }
    converse(said, &questions);
}

/// As the keeper reads what comes from a client, and a client what is handed out.
fn read(bytes: &[u8]) {
    if let Some(packet) = Packet::read(bytes) {
        assert_eq!(packet.bytes().as_slice(), bytes, "what is read is what would be written");
    }
    for length in 0..LEN.min(bytes.len()) {
        assert_eq!(Packet::read(&bytes[..length]), None, "a packet of {length} bytes");
    }
    assert!(xdp::Inherited::received(bytes, Vec::new()).is_err(), "an interface without descriptors");
}

/// `None`: the program says that by itself, and is given no answer.
fn question(input: &mut Input<'_>) -> Option<Question> {
    let kind = input.one_of(&Kind::ALL);
    let (value, address) = (input.u16(), Ipv4Addr::from_bits(input.u32()));
    let behind = match kind {
        Kind::Hello | Kind::Join => return None,
        Kind::Restore => {
            let length = usize::from(input.u8());
            input.bytes(length).to_vec()
        }
        _ => Vec::new(),
    };
    Some(Question { kind, value, address, behind })
}

fn answer(input: &mut Input<'_>) -> Said {
    let packet = Packet {
        kind: input.one_of(&Kind::ALL),
        is_answer: input.u8() != 255,
        version: if input.u8() == 255 { input.u16() } else { VERSION },
        number: u32::from(input.u8() % 8),
        value: input.one_of(&[0, 0, 0, libc::EPERM, libc::EACCES, libc::EMFILE, -1]),
        detail: u64::from(input.u8() & 1),
    };
    let mut bytes = packet.bytes().to_vec();
    let more = usize::from(input.u8());
    bytes.extend(input.bytes(more));
    match input.u8() {
        // At least a byte, as none is the end.
        253 => bytes.truncate(1 + usize::from(input.u8())),
        254 => bytes.resize(LEN + MORE_MAX + usize::from(input.u8()), 7),
        255 => {
            let at = usize::from(input.u8()) % bytes.len();
            bytes[at] ^= 1 << (input.u8() % 8);
        }
        _ => {}
    }
    Said { bytes, descriptors: usize::from(input.u8() % 4) }
}

fn converse(mut said: VecDeque<Said>, questions: &[Question]) {
    let Ok((ours, theirs)) = sys::socket::pair(libc::SOCK_SEQPACKET) else { return };
    // Its other end hears when the last copy is gone.
    let Ok((passed, hears)) = sys::socket::pair(libc::SOCK_STREAM) else { return };
    for answer in &said {
        let descriptors = vec![passed.raw(); answer.descriptors];
        let sent = sys::socket::send_descriptors(theirs.raw(), &answer.bytes, &descriptors);
        assert_eq!(sent, Ok(answer.bytes.len()), "the answers of one input fit");
    }
    let _ = sys::socket::shutdown(theirs.raw(), libc::SHUT_WR);
    let mut client = Client::over(ours);
    let (mut is_over, mut asked) = (false, Vec::new());
    for (number, question) in (1..).zip(questions) {
        let kind = question.kind;
        let got = ask(&mut client, question, &passed);
        if is_over {
            assert!(matches!(got, Outcome::Failed(_)), "{got:?} without a keeper");
            continue;
        }
        asked.push(question.as_heard(number));
        let expected = expected(&mut said, kind, number);
        // Who only looks does not give up the connection.
        is_over = kind != Kind::Status
            && matches!(&expected, Outcome::Failed(error) if !matches!(error, Error::Errno(_)));
        let expected = match expected {
            // The connection is given up; an answer that had come already holds.
            Outcome::Failed(error) if is_over && kind != Kind::Attach => {
                late(&mut said, kind, number, error)
            }
            expected => expected,
        };
        assert_eq!(got, expected, "question {number}, {kind:?}");
    }
    assert_eq!(heard(&theirs), asked, "what the keeper hears");
    drop((client, theirs, passed));
    let heard = sys::socket::receive(hears.raw(), &mut [0], libc::MSG_DONTWAIT);
    assert_eq!(heard, Ok(0), "descriptors stay behind");
}

/// A packet, what is behind it, and how many descriptors are beside it.
type Heard = (Packet, Vec<u8>, usize);

impl Question {
    /// What a keeper is to hear of it.
    fn as_heard(&self, number: u32) -> Heard {
        let address = u64::from(self.address.to_bits());
        let (value, detail, descriptors) = match self.kind {
            Kind::Bind => (self.value, address, 2),
            Kind::Resolve => (self.value, address, 0),
            Kind::Deafen => (1, 0, 1),
            Kind::Status => (0, 0, 0),
            _ => (self.value, 0, 1),
        };
        let packet = Packet { detail, ..Packet::question(self.kind, number, value.into()) };
        (packet, self.behind.clone(), descriptors)
    }
}

/// All that was asked.
fn heard(keeper: &Fd) -> Vec<Heard> {
    let (mut all, mut bytes) = (Vec::new(), [0; LEN + MORE_MAX]);
    let mut descriptors = Vec::new();
    loop {
        let got = sys::socket::receive_descriptors(
            keeper.raw(),
            &mut bytes,
            &mut descriptors,
            libc::MSG_DONTWAIT,
        );
        match got {
            Ok(length @ 1..) => {
                let packet = Packet::read(&bytes[..LEN]).expect("a question");
                all.push((packet, bytes[LEN..length].to_vec(), descriptors.len()));
            }
            // Said once, where the program left answers unread; its questions come behind.
            Err(libc::ECONNRESET) => {}
            _ => break,
        }
        descriptors.clear();
    }
    all
}

fn ask(client: &mut Client, question: &Question, socket: &Fd) -> Outcome {
    let &Question { kind, value, address, .. } = question;
    let done = match kind {
        Kind::Attach => {
            return match client.attach(value.into(), socket.raw()) {
                Ok(given) => {
                    assert!(given.description.len() <= MORE_MAX);
                    Outcome::Attached(given.description, given.descriptors.len(), given.has_policies)
                }
                Err(Ok(words)) => Outcome::Words(words.into_bytes()),
                Err(Err(error)) => Outcome::Failed(error),
            };
        }
        Kind::Status => client.status().map(drop),
        Kind::Repair => client.repair(socket.raw(), value.into()),
        Kind::Deafen => client.deafen(socket.raw()),
        Kind::Resolve => client.resolve(value.into(), address),
        Kind::Restore => client.restore(value.into(), &question.behind, &[socket.raw()]),
        Kind::Bind => client.bind(socket.raw(), socket.raw(), SocketAddrV4::new(address, value)),
        Kind::Hello | Kind::Join => unreachable!("no question of a program's"),
    };
    done.map_or_else(Outcome::Failed, |()| Outcome::Done)
}

/// What the rules say: answers in order, the first that is this question's.
fn expected(said: &mut VecDeque<Said>, kind: Kind, number: u32) -> Outcome {
    while let Some(answer) = said.pop_front() {
        let (head, behind) = answer.bytes.split_at(answer.bytes.len().min(LEN));
        let Some(packet) = Packet::read(head).filter(|packet| packet.is_answer) else {
            return Outcome::Failed(Error::Silent);
        };
        match packet {
            Packet { version, .. } if version != VERSION => return Outcome::Failed(Error::Version(version)),
            Packet { kind: Kind::Hello, value: 0, .. } => {}
            Packet { kind: Kind::Hello, .. } if kind == Kind::Status => {}
            Packet { kind: Kind::Hello, value, .. } => {
                return Outcome::Failed(match value {
                    libc::EACCES => Error::Denied,
                    libc::EMFILE => Error::Full,
                    errno => Error::Errno(errno),
                });
            }
            Packet { number: of, value, detail, .. } if of == number => {
                let behind = behind[..behind.len().min(MORE_MAX)].to_vec();
                return match (kind, value) {
                    (Kind::Attach, 0) => Outcome::Attached(behind, answer.descriptors, detail != 0),
                    (Kind::Attach, _) => {
                        Outcome::Words(String::from_utf8_lossy(&behind).into_owned().into_bytes())
                    }
                    (Kind::Status, 0) if answer.descriptors == 0 => Outcome::Failed(Error::Silent),
                    (_, 0) => Outcome::Done,
                    (_, errno) => Outcome::Failed(Error::Errno(errno)),
                };
            }
            _ => {}
        }
    }
    Outcome::Failed(Error::Absent)
}

/// What had come when the connection was given up.
fn late(said: &mut VecDeque<Said>, kind: Kind, number: u32, error: Error) -> Outcome {
    let rest = said.drain(..).filter_map(|answer| Packet::read(&answer.bytes[..answer.bytes.len().min(LEN)]));
    let mut own = rest.filter(|packet| packet.is_answer && (packet.kind, packet.number) == (kind, number));
    match own.next() {
        Some(Packet { value: 0, .. }) => Outcome::Done,
        _ => Outcome::Failed(error),
    }
}
