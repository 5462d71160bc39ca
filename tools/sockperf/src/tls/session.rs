//! One TLS session: messages become records, records become bytes of messages.
//!
//! The socket is not in here, so a thread that waits for input holds nothing another thread needs to send. rustls is
//! used without its buffers: records are decrypted where they lie. It allocates once for each record even so.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// Most bytes of records held at once. More than the longest record, so that there is always room to read into; and
/// what they decrypt to is never longer.
pub const RECORDS: usize = 32 * 1024;

/// A session and what it has not worked off.
pub struct Session {
    state: Mutex<State>,
}

struct State {
    side: Side,
    records: Box<[u8]>,
    begin: usize,
    end: usize,
    /// What the session itself has to say, until somebody sends.
    own: Outgoing,
    /// Messages may be sent.
    established: bool,
    /// The peer has said goodbye.
    finished: bool,
    /// Something was wrong; rustls must not be asked again.
    failed: bool,
    /// Records were made that will not be sent.
    abandoned: bool,
}

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl Side {
    fn wants_write(&self) -> bool {
        match self {
            Side::Client(c) => c.wants_write(),
            Side::Server(c) => c.wants_write(),
        }
    }
}

/// Records on their way out. The room stays for the next ones.
#[derive(Default)]
pub struct Outgoing {
    room: Vec<u8>,
    len: usize,
}

/// What [`State::advance`] is to do once the session may send.
enum Wish<'a> {
    Nothing,
    Seal(&'a [u8]),
    Goodbye,
}

/// What the session is waiting for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// To be asked again.
    Turn,
    /// Bytes from the wire.
    Input,
    /// Nothing: messages may be sent.
    Message,
}

impl Session {
    /// The client's side.
    pub fn client(connection: UnbufferedClientConnection) -> Session {
        Session::new(Side::Client(connection))
    }

    /// The server's side.
    pub fn server(connection: UnbufferedServerConnection) -> Session {
        Session::new(Side::Server(connection))
    }

    fn new(side: Side) -> Session {
        let state = State {
            side,
            records: vec![0; RECORDS].into(),
            begin: 0,
            end: 0,
            own: Outgoing::default(),
            established: false,
            finished: false,
            failed: false,
            abandoned: false,
        };
        Session { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once messages may be sent.
    pub fn is_established(&self) -> bool {
        self.lock().established
    }

    /// True once the peer has ended the session.
    pub fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// How many bytes [`open`](Self::open) takes.
    pub fn room(&self) -> usize {
        let state = self.lock();
        RECORDS - (state.end - state.begin)
    }

    /// Decrypts what came from the wire into `space`, which must have [`RECORDS`] bytes; returns how many there are.
    /// Until the session is established, what it has to say goes to `speak`, and so does its last word when it fails.
    pub fn open(&self, wire: &[u8], space: &mut [u8], speak: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let mut state = self.lock();
        let handshaking = !state.established;
        let outcome = state.take(wire).and_then(|()| state.run(space));
        if (handshaking || outcome.is_err()) && state.own.len > 0 {
            speak(state.own.bytes());
            state.own.len = 0;
        }
        outcome
    }

    /// The records that carry `message`, with whatever the session has to say before them. `None` when it has failed.
    pub fn seal<'a>(&self, message: &[u8], out: &'a mut Outgoing) -> Option<&'a [u8]> {
        let mut state = self.lock();
        out.len = 0;
        if state.own.len > 0 {
            let State { own, .. } = &mut *state;
            std::mem::swap(own, out);
            own.len = 0;
        }
        state.send(Wish::Seal(message), out);
        (!state.failed && out.len >= message.len()).then_some(out.bytes())
    }

    /// The record that ends the session. None when it has not begun, or when records are missing.
    pub fn goodbye<'a>(&self, out: &'a mut Outgoing) -> &'a [u8] {
        let mut state = self.lock();
        out.len = 0;
        if state.established && !state.abandoned {
            state.send(Wish::Goodbye, out);
        }
        out.bytes()
    }

    /// Records that [`seal`](Self::seal) made were not sent: nothing may follow them.
    pub fn abandon(&self) {
        self.lock().abandoned = true;
    }

    /// Version and cipher, once they are agreed on.
    pub fn description(&self) -> String {
        let state = self.lock();
        let (version, suite) = match &state.side {
            Side::Client(c) => (c.protocol_version(), c.negotiated_cipher_suite()),
            Side::Server(c) => (c.protocol_version(), c.negotiated_cipher_suite()),
        };
        let version = version.and_then(|v| v.as_str().map(|name| name.replace('_', "."))).unwrap_or_default();
        format!("{version} {}", suite.map_or("", |suite| super::name_of(suite.suite())))
    }
}

impl State {
    fn take(&mut self, wire: &[u8]) -> Result<()> {
        self.records.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let Some(room) = self.records.get_mut(self.end..self.end + wire.len()) else {
            return Err(invalid("a handshake longer than any"));
        };
        room.copy_from_slice(wire);
        self.end += wire.len();
        Ok(())
    }

    /// Works off the records; returns how many bytes came into `space`.
    fn run(&mut self, space: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        let mut own = std::mem::take(&mut self.own);
        let outcome = loop {
            match self.advance(space, &mut got, &mut own, &Wish::Nothing) {
                Ok(Next::Turn) => {}
                Ok(_) => break Ok(got),
                Err(error) => break Err(error),
            }
        };
        if outcome.is_err() && !self.failed {
            // The alert that tells the peer why is all that is left to ask for.
            if self.side.wants_write() {
                let _ = self.advance(space, &mut got, &mut own, &Wish::Nothing);
            }
            self.failed = true;
        }
        self.own = own;
        outcome
    }

    /// What does not come about is seen by reading: there the session has failed or ended.
    fn send(&mut self, wish: Wish, out: &mut Outgoing) {
        while let Ok(Next::Turn) = self.advance(&mut [], &mut 0, out, &wish) {}
    }

    fn advance(
        &mut self,
        space: &mut [u8],
        got: &mut usize,
        out: &mut Outgoing,
        wish: &Wish,
    ) -> Result<Next> {
        if self.failed {
            return Err(invalid("the session has failed"));
        }
        let records = &mut self.records[self.begin..self.end];
        let (next, used, ended) = match &mut self.side {
            Side::Client(c) => step(c.process_tls_records(records), space, got, out, wish),
            Side::Server(c) => step(c.process_tls_records(records), space, got, out, wish),
        }?;
        self.begin += used;
        self.established |= next == Next::Message;
        self.finished |= ended;
        Ok(next)
    }
}

/// One state of the session, handled. Returns what comes next, how many bytes of records are used up, and whether the
/// peer has ended the session.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    space: &mut [u8],
    got: &mut usize,
    out: &mut Outgoing,
    wish: &Wish,
) -> Result<(Next, usize, bool)> {
    let mut used = status.discard;
    let mut ended = false;
    let next = match status.state.map_err(invalid)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(invalid)?;
                used += record.discard;
                let Some(room) = space.get_mut(*got..*got + record.payload.len()) else {
                    return Err(invalid("more bytes than were asked for"));
                };
                room.copy_from_slice(record.payload);
                *got += record.payload.len();
            }
            Next::Turn
        }
        ConnectionState::EncodeTlsData(mut data) => {
            out.add(|room| {
                data.encode(room).map_err(|error| match error {
                    EncodeError::InsufficientSize(size) => Some(size.required_size),
                    EncodeError::AlreadyEncoded => None,
                })
            });
            Next::Turn
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Next::Turn
        }
        ConnectionState::PeerClosed => {
            ended = true;
            Next::Turn
        }
        ConnectionState::Closed | ConnectionState::BlockedHandshake => Next::Input,
        ConnectionState::WriteTraffic(mut traffic) => {
            out.add(|room| {
                let outcome = match wish {
                    Wish::Nothing => Ok(0),
                    Wish::Seal(message) => traffic.encrypt(message, room),
                    Wish::Goodbye => traffic.queue_close_notify(room),
                };
                outcome.map_err(|error| match error {
                    EncryptError::InsufficientSize(size) => Some(size.required_size),
                    EncryptError::EncryptExhausted => None,
                })
            });
            Next::Message
        }
        _ => return Err(invalid("early data, which nobody offered")),
    };
    Ok((next, used, ended))
}

impl Outgoing {
    fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Adds what `write` puts into the room it is given. It says how much it needs when that is too little, or that
    /// there is nothing to add.
    fn add(&mut self, mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, Option<usize>>) {
        loop {
            match write(&mut self.room[self.len..]) {
                Ok(n) => {
                    self.len += n;
                    return;
                }
                Err(Some(needed)) => self.room.resize(self.len + needed, 0),
                Err(None) => return,
            }
        }
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}
