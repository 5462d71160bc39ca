//! The side channel to a server of our own: what it received and what it cost, asked off the data path.
//!
//! A question is a warm-up message with a magic payload on a socket of its own. An original server echoes or ignores
//! it, and never counts it against the test; ours answers with its counters. The answer is as long as the question,
//! so a forged source address gains nothing.
//!
//! ```text
//!  header 14 | magic 16 | questions: ports listed u16, then 32 ports u16
//!                       | answers:   messages, bytes (of the listed ports), messages, bytes (all),
//!                       |            user us, system us, malformed: u64 each, all big-endian
//! ```

use crate::address::Address;
use crate::calls::calls;
use crate::cpu::Usage;
use crate::message::{FROM_CLIENT, Framer, HEADER, Header, WANTS_REPLY, WARM_UP};
use crate::settings::{Mode, Settings};
use crate::sockets::{self, Socket};
use crate::stream::{self, Reader};
use crate::tls::Outgoing;

/// Whole length of question and answer.
pub const LENGTH: usize = 160;
const QUESTION: &[u8; 16] = b"sockperf side Q1";
const ANSWER: &[u8; 16] = b"sockperf side A1";
const BODY: usize = HEADER + 16;
const MAX_PORTS: usize = 32;

/// What a server has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Messages from the ports asked about.
    pub own_messages: u64,
    /// Bytes from the ports asked about.
    pub own_bytes: u64,
    /// Messages from everyone.
    pub messages: u64,
    /// Bytes from everyone.
    pub bytes: u64,
    /// Processor time of the server.
    pub cpu: Usage,
    /// Datagrams and streams refused.
    pub malformed: u64,
}

/// What the server counted during one test.
#[derive(Clone, Copy, Debug)]
pub struct PeerDelta {
    /// Messages received.
    pub messages: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Processor time spent.
    pub cpu: Usage,
    /// The counts are of all clients, because ours could not be told apart.
    pub whole_server: bool,
}

/// True when `message` is a question of a client like us.
#[inline]
pub fn is_question(header: &Header, message: &[u8]) -> bool {
    header.flags & WARM_UP != 0
        && message.len() == LENGTH
        && message.get(HEADER..BODY).is_some_and(|magic| magic == QUESTION)
}

/// The ports a question lists.
pub fn ports_of(message: &[u8]) -> Vec<u16> {
    let word = |i: usize| {
        message.get(BODY + 2 * i..BODY + 2 * i + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
    };
    (1..=usize::from(word(0)).min(MAX_PORTS)).map(word).collect()
}

/// Turns a question into its answer.
pub fn write_answer(message: &mut [u8], counters: &Counters) {
    let Some(message) = message.get_mut(..LENGTH) else { return };
    Header { seq: 0, flags: WANTS_REPLY | WARM_UP, length: LENGTH as u32 }.write(message);
    message[HEADER..].fill(0);
    message[HEADER..BODY].copy_from_slice(ANSWER);
    let c = counters;
    let values =
        [c.own_messages, c.own_bytes, c.messages, c.bytes, c.cpu.user_us, c.cpu.system_us, c.malformed];
    for (i, value) in values.iter().enumerate() {
        message[BODY + 8 * i..BODY + 8 * i + 8].copy_from_slice(&value.to_be_bytes());
    }
}

fn write_question(ports: &[u16]) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    Header { seq: 0, flags: FROM_CLIENT | WANTS_REPLY | WARM_UP, length: LENGTH as u32 }.write(&mut message);
    message[HEADER..BODY].copy_from_slice(QUESTION);
    let listed = if ports.len() > MAX_PORTS { &[] } else { ports };
    message[BODY..BODY + 2].copy_from_slice(&(listed.len() as u16).to_be_bytes());
    for (i, port) in listed.iter().enumerate() {
        message[BODY + 2 + 2 * i..BODY + 4 + 2 * i].copy_from_slice(&port.to_be_bytes());
    }
    message
}

fn read_answer(message: &[u8]) -> Option<Counters> {
    if message.len() != LENGTH || &message[HEADER..BODY] != ANSWER {
        return None;
    }
    let value = |i: usize| {
        let bytes = message[BODY + 8 * i..].first_chunk::<8>();
        bytes.map_or(0, |b| u64::from_be_bytes(*b))
    };
    Some(Counters {
        own_messages: value(0),
        own_bytes: value(1),
        messages: value(2),
        bytes: value(3),
        cpu: Usage { user_us: value(4), system_us: value(5), ..Usage::default() },
        malformed: value(6),
    })
}

/// Asks the server of the first endpoint; `None` when it is not ours or does not answer.
pub fn ask(s: &Settings, ports: &[u16]) -> Option<Counters> {
    let endpoint = s.endpoints.first()?;
    endpoint.address.ip()?;
    let mut plain = s.clone();
    // The question must not take the test's own port, nor join the group as the test does.
    (plain.client_port, plain.nonblocked, plain.buffer_size, plain.debug) = (0, false, None, false);
    plain.mode = Mode::Throughput;
    let socket = sockets::client(&plain, endpoint).ok()?;
    let question = write_question(ports);
    let (tries, wait_ms) = if endpoint.tcp { (1, 400) } else { (3, 60) };
    socket.receive_timeout(wait_ms).ok()?;
    for _ in 0..tries {
        let answer = if endpoint.tcp {
            by_stream(&socket, &question)
        } else {
            by_datagram(&socket, &endpoint.address, &question)
        };
        match answer {
            Some(bytes) => return read_answer(&bytes),
            None if crate::signals::stopped() => return None,
            None => {}
        }
    }
    None
}

fn by_datagram(socket: &Socket, to: &Address, question: &[u8]) -> Option<Vec<u8>> {
    let mut answer = vec![0; LENGTH];
    let (mut from, flags) = (Address::default(), libc::MSG_NOSIGNAL);
    let (address, len) = from.as_out();
    // SAFETY: the question and its address outlive the call; the answer and its address are writable for the lengths
    // given.
    let n = unsafe {
        (calls().sendto)(socket.fd, question.as_ptr().cast(), question.len(), flags, to.as_ptr(), to.len());
        (calls().recvfrom)(socket.fd, answer.as_mut_ptr().cast(), answer.len(), 0, address, len)
    };
    (n as usize == LENGTH).then_some(answer)
}

fn by_stream(socket: &Socket, question: &[u8]) -> Option<Vec<u8>> {
    let mut records = Outgoing::default();
    let bytes = stream::wire(socket.session.as_deref(), question, &mut records)?;
    if !stream::send_all(socket.fd, bytes, stream::PATIENCE) {
        return None;
    }
    let (mut reader, mut framer) = (Reader::new(socket), Framer::new(LENGTH));
    loop {
        match reader.read(framer.space()) {
            Ok(n) if n > 0 => framer.filled(n),
            _ => return None,
        }
        if let Some((_, answer)) = framer.next().ok()? {
            return Some(answer.to_vec());
        }
    }
}

/// After a test: asks until the server has worked off what is still on its way, and subtracts `before`.
pub fn settle(s: &Settings, before: &Counters, ports: &[u16], sent: u64) -> Option<PeerDelta> {
    let mut last: Option<Counters> = None;
    for _ in 0..50 {
        let now = ask(s, ports)?;
        let all_in = now.own_messages.wrapping_sub(before.own_messages) >= sent;
        if all_in || last.is_some_and(|l| l.messages == now.messages) {
            return Some(delta(before, &now));
        }
        last = Some(now);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    last.map(|now| delta(before, &now))
}

fn delta(before: &Counters, now: &Counters) -> PeerDelta {
    let own = now.own_messages.saturating_sub(before.own_messages);
    let whole_server = own == 0 && now.messages > before.messages;
    let (messages, bytes) = if whole_server {
        (now.messages.saturating_sub(before.messages), now.bytes.saturating_sub(before.bytes))
    } else {
        (own, now.own_bytes.saturating_sub(before.own_bytes))
    };
    PeerDelta { messages, bytes, cpu: now.cpu.since(before.cpu), whole_server }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer_survive_the_wire() {
        let mut message = write_question(&[1, 65535, 7]);
        let header = Header::read(&message).unwrap();
        assert!(is_question(&header, &message));
        assert_eq!((header.seq, header.length as usize, header.flags), (0, LENGTH, 7));
        assert_eq!(ports_of(&message), [1, 65535, 7]);
        let counters = Counters {
            own_messages: 1,
            own_bytes: 2,
            messages: 3,
            bytes: u64::MAX,
            cpu: Usage { user_us: 5, system_us: 6, ..Usage::default() },
            malformed: 7,
        };
        write_answer(&mut message, &counters);
        assert_eq!(read_answer(&message), Some(counters));
    }

    #[test]
    fn an_echo_of_the_question_is_not_an_answer() {
        assert_eq!(read_answer(&write_question(&[])), None);
        assert_eq!(read_answer(&[]), None);
    }

    #[test]
    fn a_question_that_claims_too_many_ports_is_cut() {
        let mut message = write_question(&[]);
        message[BODY..BODY + 2].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(ports_of(&message).len(), MAX_PORTS);
        assert_eq!(ports_of(&message[..BODY]).len(), 0);
    }

    #[test]
    fn counts_of_all_clients_are_used_only_when_ours_are_unknown() {
        let before = Counters { messages: 10, ..Counters::default() };
        let now = Counters { messages: 30, own_messages: 15, ..Counters::default() };
        assert_eq!((delta(&before, &now).messages, delta(&before, &now).whole_server), (15, false));
        let now = Counters { messages: 30, ..Counters::default() };
        assert_eq!((delta(&before, &now).messages, delta(&before, &now).whole_server), (20, true));
    }
}
