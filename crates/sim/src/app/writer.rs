//! An application that writes datagrams to others and reads what it gets.

use super::Cx;
use stack::udp::Options;
use stack::{Endpoint, Frame, Ready, RecvError, SendError, SocketId};

/// What one is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub local: Endpoint,
    /// Whom to write to.
    pub peers: Vec<Endpoint>,
    /// Connect to the first peer.
    pub connect: bool,
    pub letters: u32,
    /// Length of a datagram at most, bytes.
    pub len_max: u64,
    /// Time between datagrams at most, ns.
    pub gap_max: u64,
    /// One in so many reads it rests for a while; zero: never.
    pub lazy: u64,
    /// Begins at, ns.
    pub start: u64,
    pub options: Options,
}

/// The application.
pub struct Writer {
    plan: Plan,
    /// Its number among all senders.
    sender: usize,
    id: Option<SocketId>,
    written: u32,
    write_at: u64,
    read_at: u64,
    can_read: bool,
    greeted: bool,
    buffer: Vec<u8>,
}

impl Writer {
    pub fn new(plan: Plan, sender: usize) -> Writer {
        let write_at = plan.start;
        Writer {
            plan,
            sender,
            id: None,
            written: 0,
            write_at,
            read_at: 0,
            can_read: false,
            greeted: false,
            buffer: Vec::new(),
        }
    }

    pub fn act(&mut self, cx: &mut Cx<'_>, edges: Ready) {
        let Some(id) = self.id else { return self.open(cx) };
        if edges.any(Ready::ERR) {
            cx.stack.take_error(id);
        }
        self.can_read |= edges.has(Ready::IN);
        if self.can_read && cx.now.0 >= self.read_at {
            self.read(cx, id);
        }
        if self.written < self.plan.letters && cx.now.0 >= self.write_at {
            let len = if cx.chance.one_in(8) { 0 } else { cx.chance.magnitude(1, self.plan.len_max) };
            let to = cx.chance.one_of(&self.plan.peers);
            self.write(cx, id, len as usize, to);
            self.written += 1;
            let gap = cx.chance.below(self.plan.gap_max) + 1;
            self.write_at = cx.now.0 + gap;
            cx.again_after(gap);
        }
        if cx.healed && !self.greeted {
            // After the network healed everyone must be reachable.
            self.greeted = true;
            for to in self.plan.peers.clone() {
                let number = cx.ledger.letters[self.sender].len();
                self.write(cx, id, 64, to);
                // All have buffers of one size; small ones may overflow, which UDP tells nobody. Nor is one that found
                // the ring full on its way.
                if self.plan.options.receive_buffer > 65536 && cx.ledger.letters[self.sender].len() > number {
                    cx.ledger.greetings.push((self.sender, number));
                }
            }
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        let Some(id) = cx.stack.udp_open(self.plan.local, &self.plan.options, cx.token()) else {
            return cx.ledger.alarm(|| "udp_open found no room".to_string());
        };
        self.id = Some(id);
        if self.plan.connect {
            cx.stack.udp_connect(id, self.plan.local, Some(self.plan.peers[0]));
            self.plan.peers.truncate(1);
        }
        cx.again_after(1);
    }

    fn write(&mut self, cx: &mut Cx<'_>, id: SocketId, len: usize, to: Endpoint) {
        cx.ledger.write_letter(self.sender, [self.plan.local, to], len, &mut self.buffer);
        let result = cx.stack.udp_send(cx.call, id, None, to, &mut self.buffer.as_slice(), cx.ring);
        match result {
            Ok(sent) if sent == len => {}
            Err(SendError::WouldBlock | SendError::Failed(_)) => cx.ledger.unwrite_letter(self.sender),
            other => cx.ledger.alarm(|| format!("udp_send of {len} bytes answered {other:?}")),
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, id: SocketId) {
        loop {
            let peeked = match cx.chance.one_in(4) {
                true => cx.stack.udp_peek(id).ok().map(|d| d.len),
                false => None,
            };
            match cx.stack.udp_recv(id) {
                Ok(datagram) => {
                    let (from, len) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
                    self.buffer.clear();
                    self.buffer.extend_from_slice(&datagram.head.bytes()[from..from + len]);
                    datagram.tail.iter().for_each(|frame| self.buffer.extend_from_slice(frame.bytes()));
                    if self.buffer.len() != datagram.len || peeked.is_some_and(|len| len != datagram.len) {
                        let found = self.buffer.len();
                        cx.ledger.alarm(|| {
                            format!("datagram says {}, holds {found}, peek {peeked:?}", datagram.len)
                        });
                    }
                    cx.ledger.on_letter(datagram.from, self.plan.local, &self.buffer);
                }
                Err(RecvError::WouldBlock) => {
                    self.can_read = false;
                    return;
                }
                Err(RecvError::Failed(_)) => {}
                Err(other) => return cx.ledger.alarm(|| format!("udp_recv answered {other:?}")),
            }
            if self.plan.lazy != 0 && cx.chance.one_in(self.plan.lazy) {
                let rest = cx.chance.below(50_000_000) + 1;
                self.read_at = cx.now.0 + rest;
                return cx.again_after(rest);
            }
        }
    }

    /// Whether it wrote all it had to.
    pub fn is_done(&self) -> bool {
        self.written == self.plan.letters && self.greeted
    }

    pub fn end(&mut self, cx: &mut Cx<'_>) {
        let Some(id) = self.id.take() else { return };
        cx.stack.udp_close(id);
        if cx.stack.udp_recv(id).err() != Some(RecvError::NoSocket) {
            cx.ledger.alarm(|| "a closed UDP socket still answers".to_string());
        }
    }
}
