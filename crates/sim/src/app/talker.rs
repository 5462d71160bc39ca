//! An application with one TCP connection: says its bytes, reads the other's, and ends it politely or not.

use super::Cx;
use super::mover::{self, Moving};
use crate::content;
use crate::ledger::stream_of;
use stack::tcp::{Close, Options, Push, Take};
use stack::{Endpoint, Ready, RecvError, SendError, SocketError, SocketId};

/// How a talker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Shuts its direction down after its bytes, reads to the end, closes.
    Polite,
    /// Reads to the end and says its bytes, then closes both directions at once.
    Late,
    /// Closes when its bytes are said, whatever comes.
    Abrupt,
    /// Resets after so many bytes in either direction.
    Reset(u64),
    /// Closes after it read so many bytes.
    Sated(u64),
}

/// What one is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub bytes: u64,
    /// Size of a write and of a read at most.
    pub write_max: u64,
    pub read_max: u64,
    /// One in so many writes (reads) it rests up to `rest_max` ns; zero: never.
    pub write_lazy: u64,
    pub read_lazy: u64,
    pub rest_max: u64,
    /// Uses `Push::Later` and `Push::More` as well.
    pub pushes: bool,
    /// Writes `write_max` at a time, and only when all that it wrote was acknowledged.
    pub patient: bool,
    /// The last byte of one in so many writes is urgent; zero: never.
    pub urgent: u64,
    /// One in so many calls it moves its connection out of the engine and back, up to `away_max` ns later, so often in
    /// all.
    pub move_lazy: u64,
    pub moves_max: u32,
    pub away_max: u64,
    pub ending: Ending,
    pub options: Options,
}

/// The application.
pub struct Talker {
    conversation: usize,
    side: usize,
    plan: Plan,
    id: Option<SocketId>,
    endpoints: Option<(Endpoint, Endpoint)>,
    connected: bool,
    can_write: bool,
    can_read: bool,
    write_at: u64,
    read_at: u64,
    said: u64,
    shut: bool,
    saw_end: bool,
    done: bool,
    /// Between two engines until then, ns.
    moving: Option<(u64, Moving)>,
    buffer: Vec<u8>,
}

impl Talker {
    /// Connects when it is first called.
    pub fn client(conversation: usize, local: Endpoint, remote: Endpoint, plan: Plan) -> Talker {
        Talker { endpoints: Some((local, remote)), ..Talker::new(conversation, 0, None, plan) }
    }

    /// Has a connection.
    pub fn accepted(conversation: usize, id: SocketId, plan: Plan) -> Talker {
        Talker { connected: true, ..Talker::new(conversation, 1, Some(id), plan) }
    }

    fn new(conversation: usize, side: usize, id: Option<SocketId>, plan: Plan) -> Talker {
        Talker {
            conversation,
            side,
            plan,
            id,
            endpoints: None,
            connected: false,
            can_write: true,
            can_read: true,
            write_at: 0,
            read_at: 0,
            said: 0,
            shut: false,
            saw_end: false,
            done: false,
            moving: None,
            buffer: Vec::new(),
        }
    }

    pub fn act(&mut self, cx: &mut Cx<'_>, edges: Ready) {
        if self.done {
            return;
        }
        if self.moving.as_ref().is_some_and(|(until, _)| cx.now.0 < *until) {
            return;
        }
        self.come_back(cx);
        let Some(id) = self.id else { return self.connect(cx) };
        if edges.any(Ready::ERR)
            && let Some(error) = cx.stack.take_error(id)
        {
            return self.fail(cx, error);
        }
        self.can_write |= edges.any(Ready::OUT | Ready::HUP);
        self.can_read |= edges.any(Ready::IN | Ready::RDHUP | Ready::HUP);
        if !self.connected {
            if !edges.has(Ready::OUT) {
                return;
            }
            self.connected = true;
        }
        // Both directions in turn, so that neither waits for the other.
        let mut busy = true;
        while busy && !self.done {
            busy = self.write(cx, id);
            busy |= !self.done && self.read(cx, id);
            self.maybe_end(cx, id);
        }
        let moved = cx.ledger.conversations[self.conversation].ends[self.side].moves;
        // What arrives meanwhile is lost, and without timestamps a timeout that doubled stays long until new data is
        // answered (RFC 6298, 5): such a connection stays where it is once the network is whole.
        let measures = || cx.stack.tcp_info(cx.now, id).is_some_and(|info| info.timestamps);
        let may_move = moved < self.plan.moves_max && !self.done && (!cx.healed || measures());
        if may_move && cx.chance.one_in(self.plan.move_lazy) {
            self.go_away(cx, id);
        }
    }

    fn go_away(&mut self, cx: &mut Cx<'_>, id: SocketId) {
        let Some(moving) = mover::take_out(cx, id) else { return };
        // What comes meanwhile is lost.
        cx.ledger.disturbed += 1;
        let span = cx.chance.magnitude(1, self.plan.away_max);
        self.moving = Some((cx.now.0 + span, moving));
        cx.ledger.conversations[self.conversation].ends[self.side].moves += 1;
        cx.again_after(span);
    }

    fn come_back(&mut self, cx: &mut Cx<'_>) {
        let Some((_, moving)) = self.moving.take() else { return };
        cx.ledger.disturbed += 1;
        self.id = mover::put_back(cx, moving);
        self.can_write = true;
        self.can_read = true;
    }

    fn connect(&mut self, cx: &mut Cx<'_>) {
        let Some((local, remote)) = self.endpoints else { return };
        cx.ledger.conversations[self.conversation].ends[0].unlimited =
            self.plan.options.congestion == stack::tcp::Congestion::None;
        let token = cx.token();
        match cx.stack.tcp_connect(cx.call, local, remote, &self.plan.options, token, cx.ring) {
            Ok(id) => {
                self.id = Some(id);
                cx.ledger.conversations[self.conversation].ends[0].begun = true;
                cx.watch(id);
            }
            Err(error) => cx.ledger.alarm(|| format!("tcp_connect answered {error:?}")),
        }
    }

    /// One write; whether there is more to do at once.
    fn write(&mut self, cx: &mut Cx<'_>, id: SocketId) -> bool {
        if !self.can_write || self.shut || self.said == self.plan.bytes || cx.now.0 < self.write_at {
            return false;
        }
        if self.plan.patient && cx.stack.tcp_queued(id).is_some_and(|queued| queued.send > 0) {
            self.write_at = cx.now.0 + PATIENCE;
            cx.again_after(PATIENCE);
            return false;
        }
        let len = match self.plan.patient {
            true => self.plan.write_max,
            false => cx.chance.magnitude(1, self.plan.write_max),
        };
        let len = len.min(self.plan.bytes - self.said) as usize;
        self.buffer.resize(len, 0);
        content::fill(stream_of(self.conversation, self.side), self.said, &mut self.buffer);
        let push = match self.plan.pushes {
            true => cx.chance.one_of(&[Push::Now, Push::Now, Push::Later, Push::More]),
            false => Push::Now,
        };
        let urgent = self.plan.urgent != 0 && cx.chance.one_in(self.plan.urgent);
        let push = if urgent { Push::Urgent } else { push };
        match cx.stack.tcp_send(cx.call, id, &mut self.buffer.as_slice(), push, cx.ring) {
            Ok(taken) if taken > 0 && taken <= len => {
                self.said += taken as u64;
                let end = &mut cx.ledger.conversations[self.conversation].ends[self.side];
                end.accepted = self.said;
                if urgent && taken == len {
                    end.urgent.push(self.said - 1);
                }
            }
            Err(SendError::WouldBlock) => {
                self.can_write = false;
                return false;
            }
            Err(SendError::Failed(error)) => {
                self.fail(cx, error);
                return false;
            }
            Err(SendError::Closed) => {
                self.fail(cx, SocketError::BrokenPipe);
                return false;
            }
            other => cx.ledger.alarm(|| format!("tcp_send of {len} bytes answered {other:?}")),
        }
        if self.plan.write_lazy != 0 && cx.chance.one_in(self.plan.write_lazy) {
            self.write_at = self.rest(cx);
        }
        cx.ledger.violation.is_none()
    }

    /// One read; whether there is more to do at once.
    fn read(&mut self, cx: &mut Cx<'_>, id: SocketId) -> bool {
        if !self.can_read || self.saw_end || cx.now.0 < self.read_at {
            return false;
        }
        self.look_for_urgent(cx, id);
        self.look_for_skipped(cx, id, 0);
        if cx.stack.tcp_at_mark(id) {
            cx.ledger.on_mark(self.conversation, self.side);
        }
        let room = cx.chance.magnitude(1, self.plan.read_max) as usize;
        self.buffer.resize(room, 0);
        let peeked = match cx.chance.one_in(8) {
            true => {
                cx.stack.tcp_recv(cx.call, id, &mut self.buffer.as_mut_slice(), Take::Peek(0), cx.ring).ok()
            }
            false => None,
        };
        let answer = cx.stack.tcp_recv(cx.call, id, &mut self.buffer.as_mut_slice(), Take::Consume, cx.ring);
        self.look_for_skipped(cx, id, *answer.as_ref().unwrap_or(&0));
        match answer {
            Ok(taken) => {
                if taken > room || peeked.is_some_and(|peeked| peeked != taken) {
                    cx.ledger.alarm(|| format!("peek showed {peeked:?}, recv gave {taken}, room {room}"));
                    return false;
                }
                if taken == 0 {
                    self.saw_end = true;
                    cx.ledger.on_end(self.conversation, self.side);
                    return false;
                }
                cx.ledger.on_read(self.conversation, self.side, &self.buffer[..taken]);
            }
            Err(RecvError::WouldBlock) => {
                self.can_read = false;
                return false;
            }
            Err(RecvError::Failed(error)) => {
                self.fail(cx, error);
                return false;
            }
            other => cx.ledger.alarm(|| format!("tcp_recv answered {other:?}")),
        }
        if self.plan.read_lazy != 0 && cx.chance.one_in(self.plan.read_lazy) {
            self.read_at = self.rest(cx);
        }
        cx.ledger.violation.is_none()
    }

    /// Takes the urgent byte that is read apart, if there is one.
    fn look_for_urgent(&mut self, cx: &mut Cx<'_>, id: SocketId) {
        let mut byte = [0];
        match cx.stack.tcp_recv(cx.call, id, &mut byte.as_mut_slice(), Take::Urgent, cx.ring) {
            Ok(1) => cx.ledger.on_urgent(self.conversation, self.side, byte[0]),
            Err(RecvError::NoUrgentData | RecvError::WouldBlock) => {}
            other => cx.ledger.alarm(|| format!("tcp_recv of urgent data answered {other:?}")),
        }
    }

    /// Sees how far the engine is, of which it gave the last `given` bytes now.
    fn look_for_skipped(&self, cx: &mut Cx<'_>, id: SocketId, given: usize) {
        if cx.ledger.conversations[self.conversation].ends[1 - self.side].urgent.is_empty() {
            return;
        }
        let (info, queued) = (cx.stack.tcp_info(cx.now, id), cx.stack.tcp_queued(id));
        if let (Some(info), Some(queued)) = (info, queued) {
            let position = info.bytes_received - (queued.unread + given) as u64;
            // What came before it was accepted and set up came to a socket that reads apart.
            let early = self.side == 1 && cx.ledger.conversations[self.conversation].ends[1].read == 0;
            let inline = self.plan.options.urgent_inline && !early;
            cx.ledger.on_skipped_to(self.conversation, self.side, position, inline);
        }
    }

    fn rest(&self, cx: &mut Cx<'_>) -> u64 {
        let longest = if cx.healed { self.plan.rest_max.min(10_000_000) } else { self.plan.rest_max };
        let span = cx.chance.below(longest) + 1;
        cx.again_after(span);
        cx.now.0 + span
    }

    fn maybe_end(&mut self, cx: &mut Cx<'_>, id: SocketId) {
        if self.done {
            return;
        }
        let said_all = self.said == self.plan.bytes;
        let read = cx.ledger.conversations[self.conversation].ends[self.side].read;
        match self.plan.ending {
            Ending::Polite => {
                if said_all && !self.shut {
                    self.shut = true;
                    self.finish(cx);
                    if let Err(error) = cx.stack.tcp_shutdown_write(cx.call, id, cx.ring) {
                        self.on_shutdown_error(cx, error);
                    }
                }
                if self.shut && self.saw_end && !self.done {
                    self.close(cx, Close::Orderly);
                }
            }
            Ending::Late if said_all && self.saw_end => self.close(cx, Close::Orderly),
            Ending::Abrupt if said_all => self.close(cx, Close::Orderly),
            Ending::Reset(after) if self.said >= after || read >= after || self.saw_end => {
                self.close(cx, Close::Abort);
            }
            Ending::Sated(after) if read >= after || self.saw_end => self.close(cx, Close::Orderly),
            _ => {}
        }
    }

    fn on_shutdown_error(&mut self, cx: &mut Cx<'_>, error: SendError) {
        match error {
            SendError::Failed(error) => self.fail(cx, error),
            SendError::NotConnected => self.fail(cx, SocketError::Reset),
            other => cx.ledger.alarm(|| format!("tcp_shutdown_write answered {other:?}")),
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        cx.ledger.conversations[self.conversation].ends[self.side].finished = true;
    }

    fn close(&mut self, cx: &mut Cx<'_>, how: Close) {
        if how == Close::Orderly {
            self.finish(cx);
        }
        if let Some(id) = self.id.take() {
            if let Some(info) = cx.stack.tcp_info(cx.call, id) {
                cx.ledger.on_round_trip(self.conversation, self.side, info.min_rtt.as_nanos() as u64);
            }
            cx.stack.tcp_close(cx.call, id, how, cx.ring);
        }
        self.done = true;
        cx.ledger.conversations[self.conversation].ends[self.side].done = true;
    }

    fn fail(&mut self, cx: &mut Cx<'_>, error: SocketError) {
        cx.ledger.on_error(self.conversation, self.side, error);
        self.close(cx, Close::Orderly);
    }

    /// Ends a connection that cannot end by itself, such as one whose peer's RST was lost.
    pub fn end(&mut self, cx: &mut Cx<'_>) {
        if !self.done {
            self.come_back(cx);
            self.close(cx, Close::Abort);
        }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }
}

/// How often who waits for acknowledgments looks, ns.
const PATIENCE: u64 = 50_000_000;
