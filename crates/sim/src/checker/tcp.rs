//! What must hold of every TCP segment that a host sends, given what was delivered to it:
//!
//! - payload is what the application said at that place, never more than it said; FIN is where it stopped;
//! - nothing is sent beyond the right edge of a window that reached the sender, nor longer than the peer's MSS;
//! - an ACK acknowledges only what was delivered without a gap, and never goes back; nor does the window's edge;
//! - SACK blocks hold only what was delivered; DSACK what was delivered;
//! - timestamps are on every segment or on none, do not go back, and echo what was delivered;
//! - options of SYN-ACK answer options of the SYN;
//! - ECN (RFC 3168) only where both agreed: ECT on new data only, ECE from a mark's delivery until CWR's, and not
//!   before;
//! - timeouts come to an end where nothing is lost: the sender learns how long the path is;
//! - an urgent pointer points behind a byte that the application said to be urgent.

use super::needless::Needless;
use super::ranges::Ranges;
use super::{Tag, ecn};
use crate::attack::Victim;
use crate::chance::Chance;
use crate::content;
use crate::ledger::{Ledger, stream_of};
use crate::packet::{ACK, FIN, Options, Packet, RST, SYN, Tcp, URG};

/// All connections of a world.
#[derive(Default)]
pub struct Flows {
    flows: Vec<Flow>,
    /// Client's and server's address and port by conversation.
    conversations: Vec<[Place; 2]>,
    /// Bytes of payload that were sent again.
    pub resent: u64,
}

/// Address and port.
pub type Place = (u32, u16);

struct Flow {
    ends: [Place; 2],
    /// The conversation, and which of its sides `ends[0]` is.
    conversation: Option<(usize, usize)>,
    /// What `ends[0]` says, what `ends[1]` says.
    streams: [Stream; 2],
}

/// One direction. Positions count from the SYN, which is 0; the first byte is 1.
#[derive(Default)]
pub struct Stream {
    isn: Option<u32>,
    old_isns: Vec<u32>,
    /// SYNs that an attacker sent in its name: a listener answers them, as it must.
    forged_syns: Vec<u32>,
    /// Numbers of the SYN-ACKs that answered such a SYN: sequence and acknowledgment.
    half_open: Vec<(u32, u32)>,
    generation: u32,
    offered: Options,
    pub(super) sent_end: u64,
    /// Highest acknowledgement that reached the sender.
    ack_known: u64,
    /// Segments of the peer that reached the sender: each may tell of a delivery.
    answers: u64,
    /// How often the sender sent its oldest byte in vain, and heard nothing since the time before: by a timeout.
    in_vain: u32,
    /// What `answers` was at the last of these.
    heard: u64,
    needless: Needless,
    pub(super) fin_at: Option<u64>,
    pub(super) marks: ecn::Marks,
    tsval: Option<u32>,
    /// How often its sender's connection had moved when it sent last.
    moves: u32,
    /// What reached the receiver.
    delivered: Ranges,
    delivered_tsval: Option<u32>,
    /// Highest acknowledgement and right edge that the receiver sent.
    pub(super) acked: u64,
    edge_offered: u64,
    /// Highest right edge that reached the sender.
    edge_known: u64,
}

impl Stream {
    /// Position of a sequence number; `None`: not of this stream.
    pub(super) fn position(&self, seq: u32) -> Option<u64> {
        let distance = seq.wrapping_sub(self.isn?);
        (distance < NEAR).then_some(u64::from(distance))
    }

    /// Whether the number belongs to an earlier connection.
    fn is_old(&self, seq: u32) -> bool {
        self.old_isns.iter().any(|isn| seq.wrapping_sub(*isn) < NEAR)
    }

    /// Whether an acknowledgment is of a SYN-ACK before the last one. A server that answered a SYN by cookie, or forgot
    /// it, answers the next by another number: the client may have chosen the first, and what it was told then is not
    /// known here.
    pub(super) fn is_forgotten(&self, t: &Tcp<'_>) -> bool {
        t.has(ACK) && self.position(t.ack).is_none() && self.is_old(t.ack)
    }

    /// The sender's connection has moved so often. Timeouts that doubled, marks to be echoed and the peer's latest
    /// timestamp do not move with it.
    fn on_moves(&mut self, moves: u32) {
        if self.moves != moves {
            self.moves = moves;
            self.in_vain = 0;
            self.needless = Needless::default();
            self.marks.forget();
        }
    }

    /// A SYN is sent; whether it begins another connection than the last.
    fn begin(&mut self, isn: u32, offered: Options) -> bool {
        if self.isn == Some(isn) {
            // A SYN that goes again may tell a new MTU's MSS, and either may be the one that arrives.
            self.offered.mss = self.offered.mss.max(offered.mss);
            return false;
        }
        let mut old_isns = std::mem::take(&mut self.old_isns);
        let forged_syns = std::mem::take(&mut self.forged_syns);
        let half_open = std::mem::take(&mut self.half_open);
        old_isns.extend(self.isn);
        *self = Stream {
            isn: Some(isn),
            old_isns,
            forged_syns,
            half_open,
            generation: self.generation + 1,
            offered,
            ..Stream::default()
        };
        true
    }
}

impl Flows {
    /// The conversations that will happen.
    pub fn new(conversations: Vec<[Place; 2]>) -> Flows {
        Flows { conversations, ..Flows::default() }
    }

    fn find(&mut self, from: Place, to: Place) -> (usize, usize) {
        for (i, flow) in self.flows.iter().enumerate() {
            if flow.ends == [from, to] {
                return (i, 0);
            }
            if flow.ends == [to, from] {
                return (i, 1);
            }
        }
        let conversation = self.conversations.iter().enumerate().find_map(|(i, ends)| match () {
            () if *ends == [from, to] => Some((i, 0)),
            () if *ends == [to, from] => Some((i, 1)),
            () => None,
        });
        self.flows.push(Flow { ends: [from, to], conversation, streams: Default::default() });
        (self.flows.len() - 1, 0)
    }

    /// A direction of a connection that stands or stood, for an attacker.
    pub fn victim(&self, chance: &mut Chance) -> Option<Victim> {
        let flow = self.flows.get(chance.below(self.flows.len() as u64) as usize)?;
        let way = chance.below(2) as usize;
        let (mine, theirs) = (&flow.streams[way], &flow.streams[1 - way]);
        let (my_isn, their_isn) = (mine.isn?, theirs.isn?);
        Some(Victim {
            source: flow.ends[way],
            destination: flow.ends[1 - way],
            expected: my_isn.wrapping_add(mine.delivered.prefix() as u32),
            ends: mine.delivered.ends().map(|end| my_isn.wrapping_add(end as u32)).collect(),
            sent: their_isn.wrapping_add(theirs.sent_end as u32),
            acked: their_isn.wrapping_add(theirs.acked as u32),
            stands: mine.acked > 0 && theirs.acked > 0,
            // Of what acknowledged data: a server that answered by SYN cookie has no older timestamp to compare with.
            stamp: mine.delivered_tsval.filter(|_| {
                mine.acked > 1
                    && mine.offered.timestamps.is_some()
                    && theirs.offered.timestamps.is_some()
                    && theirs.acked > 0
            }),
        })
    }

    /// A host sends a segment.
    pub fn on_sent(&mut self, packet: &Packet<'_>, t: &Tcp<'_>, ledger: &mut Ledger) -> Tag {
        let (index, way) = self.find((packet.source, t.source), (packet.destination, t.destination));
        let flow = &mut self.flows[index];
        let side = flow.conversation.map(|(conversation, first)| (conversation, first ^ way));
        let [first, second] = &mut flow.streams;
        let (mine, theirs) = if way == 0 { (first, second) } else { (second, first) };
        if t.has(RST) {
            return Tag { flow: index as u32 + 1, generation: mine.generation };
        }
        if t.has(SYN) && theirs.forged_syns.contains(&t.ack.wrapping_sub(1)) {
            mine.half_open.push((t.seq, t.ack));
            return Tag::default();
        }
        // What answers nonsense while that handshake is half open.
        if t.span() == 0 && mine.half_open.contains(&(t.seq.wrapping_sub(1), t.ack)) {
            return Tag::default();
        }
        if t.has(SYN) && mine.begin(t.seq, t.options) {
            // What the earlier connection acknowledged says nothing about this one.
            (theirs.acked, theirs.edge_offered) = (0, 0);
        }
        let tag = Tag { flow: index as u32 + 1, generation: mine.generation };
        if let Some((conversation, side)) = side {
            mine.on_moves(ledger.conversations[conversation].ends[side].moves);
        }
        let Some(begin) = mine.position(t.seq) else {
            if !mine.is_old(t.seq) {
                ledger.alarm(|| format!("sequence number {} is of no connection", t.seq));
            }
            return tag;
        };
        let result = check_data(mine, theirs, t, begin, side, ledger)
            .and_then(|()| ecn::check(mine, theirs, packet, t, begin))
            .and_then(|()| {
                if side.is_some_and(|(conversation, side)| side == 1 && ledger.may_begin_again(conversation))
                {
                    (theirs.acked, theirs.edge_offered) = (0, 0);
                }
                check_ack(mine, theirs, t)
            })
            .and_then(|current| if current { check_timestamps(mine, theirs, t) } else { Ok(()) });
        if let Err(why) = result {
            ledger.alarm(|| format!("{}: {why}", crate::trace::describe_tcp(packet, t)));
        }
        let end = begin + u64::from(t.span());
        mine.needless.on_sent(ledger.disturbed, mine.sent_end);
        if t.span() > 0 && begin < mine.sent_end && begin == mine.ack_known {
            // A half-open connection repeats its SYN-ACK to a SYN that comes again, too.
            let by_timeout = mine.heard == mine.answers && !(t.has(SYN) && t.has(ACK));
            mine.heard = mine.answers;
            mine.in_vain += u32::from(by_timeout);
            if by_timeout
                && ledger.is_steady
                && let Err(why) = mine.needless.on_timeout(begin)
            {
                ledger.alarm(|| why);
            }
            if mine.in_vain > IN_VAIN_MAX {
                ledger.alarm(|| {
                    format!("position {begin} was sent {IN_VAIN_MAX} times: the timeout does not double")
                });
            }
        }
        self.resent +=
            t.payload.len() as u64 - (end.max(mine.sent_end) - mine.sent_end).min(t.payload.len() as u64);
        mine.sent_end = mine.sent_end.max(end);
        tag
    }

    /// A segment is about to enter its receiver.
    pub fn on_delivered(&mut self, t: &Tcp<'_>, packet: &Packet<'_>, tag: Tag) {
        if tag == Tag::FORGED && t.has(SYN) {
            let (index, way) = self.find((packet.source, t.source), (packet.destination, t.destination));
            self.flows[index].streams[way].forged_syns.push(t.seq);
        }
        if tag.flow == 0 || t.has(RST) {
            return;
        }
        let (index, way) = self.find((packet.source, t.source), (packet.destination, t.destination));
        let [first, second] = &mut self.flows[index].streams;
        let (mine, theirs) = if way == 0 { (first, second) } else { (second, first) };
        if tag.generation != mine.generation {
            return;
        }
        if let Some(begin) = mine.position(t.seq) {
            let end = begin + u64::from(t.span());
            let next = (begin == mine.delivered.prefix()).then_some(end);
            ecn::on_delivered(mine, theirs, packet, t, begin, next);
            mine.delivered.add(begin, end);
        }
        if let Some((value, _)) = t.options.timestamps
            && mine.delivered_tsval.is_none_or(|last| value.wrapping_sub(last) as i32 > 0)
        {
            mine.delivered_tsval = Some(value);
        }
        let ack = if t.has(ACK) { theirs.position(t.ack) } else { Some(1) };
        if let Some(ack) = ack
            && (ack <= theirs.sent_end || !t.has(ACK))
        {
            // SACK blocks may tell of many deliveries at once.
            theirs.answers += if t.options.sack_count > 0 { 1000 } else { 1 };
            if t.has(ACK) && ack > theirs.ack_known {
                theirs.ack_known = ack;
                theirs.in_vain = 0;
            }
            let edge = ack + (u64::from(t.window) << scale(mine, theirs, t));
            theirs.edge_known = theirs.edge_known.max(edge);
        }
    }
}

/// The shift of the window in a segment from the sender of `mine`.
fn scale(mine: &Stream, theirs: &Stream, t: &Tcp<'_>) -> u8 {
    match (mine.offered.window_scale, theirs.offered.window_scale) {
        (Some(shift), Some(_)) if !t.has(SYN) => shift.min(14),
        _ => 0,
    }
}

fn check_data(
    mine: &mut Stream,
    theirs: &Stream,
    t: &Tcp<'_>,
    begin: u64,
    side: Option<(usize, usize)>,
    ledger: &Ledger,
) -> Result<(), String> {
    let len = t.payload.len() as u64;
    if t.has(SYN) {
        return check_syn(theirs, t);
    }
    if begin == 0 && len > 0 {
        return Err("data in the SYN's place".to_string());
    }
    let end = begin + len;
    let unlimited =
        side.is_some_and(|(conversation, side)| ledger.conversations[conversation].ends[side].unlimited);
    let carries = len > 0 || t.has(FIN);
    if let Some(fin) = mine.fin_at
        && (end > fin + u64::from(!carries) || t.has(FIN) && end != fin)
    {
        return Err(format!("position {end} after the FIN at {fin}"));
    }
    if carries && !theirs.is_forgotten(t) {
        let fin = u64::from(t.has(FIN));
        if end + fin > mine.edge_known + fin {
            return Err(format!("ends at {end}, the window that reached it ends at {}", mine.edge_known));
        }
        let room = u64::from(theirs.offered.mss.unwrap_or(536));
        if mine.ack_known <= 1 && !unlimited && end > 1 + (INITIAL_WINDOW + mine.answers) * room {
            return Err(format!("{end} bytes before anything is acknowledged, MSS {room}"));
        }
        if len + t.options_len as u64 > room {
            return Err(format!("{len} bytes and {} of options, MSS {room}", t.options_len));
        }
    }
    let Some((conversation, side)) = side else { return Ok(()) };
    let said = &ledger.conversations[conversation].ends[side];
    if end > said.accepted + 1 + u64::from(mine.fin_at.is_some()) {
        return Err(format!("sends byte {end}, the application said {}", said.accepted));
    }
    if len > 0
        && let Some(at) = content::first_difference(stream_of(conversation, side), begin - 1, t.payload)
    {
        return Err(format!("byte {} is not what the application said", begin - 1 + at as u64));
    }
    if t.has(URG) {
        let at = (begin + u64::from(t.urgent)).wrapping_sub(2);
        if !said.urgent.contains(&at) {
            return Err(format!("urgent pointer to byte {at}, which is not urgent"));
        }
    }
    if t.has(FIN) {
        if !said.finished || end != said.accepted + 1 {
            return Err(format!(
                "FIN at {end}; the application said {}, closed {}",
                said.accepted, said.finished
            ));
        }
        mine.fin_at = Some(end);
    }
    Ok(())
}

fn check_syn(theirs: &Stream, t: &Tcp<'_>) -> Result<(), String> {
    if !t.payload.is_empty() || t.has(FIN) {
        return Err("SYN with data or FIN".to_string());
    }
    let (o, asked) = (t.options, theirs.offered);
    if o.mss.is_none() || o.window_scale.is_some_and(|shift| shift > 14) {
        return Err("SYN without MSS or with a scale above 14".to_string());
    }
    if t.has(ACK)
        && (o.window_scale.is_some() && asked.window_scale.is_none()
            || o.timestamps.is_some() && asked.timestamps.is_none()
            || o.sack_permitted && !asked.sack_permitted)
    {
        return Err("SYN-ACK offers what the SYN did not".to_string());
    }
    Ok(())
}

/// Checks the acknowledgement; `Ok(false)`: it is about an earlier connection.
fn check_ack(mine: &Stream, theirs: &mut Stream, t: &Tcp<'_>) -> Result<bool, String> {
    if !t.has(ACK) {
        return if t.has(SYN) { Ok(true) } else { Err("neither SYN nor ACK".to_string()) };
    }
    let Some(ack) = theirs.position(t.ack) else {
        return if theirs.is_old(t.ack) {
            Ok(false)
        } else {
            Err("acknowledges nothing that was sent".to_string())
        };
    };
    if ack > theirs.delivered.prefix() {
        if theirs.is_old(t.ack) {
            // Of a connection whose numbers lie just before this one's.
            return Ok(false);
        }
        return Err(format!("acknowledges {ack}, {} was delivered", theirs.delivered.prefix()));
    }
    if ack < theirs.acked {
        return Err(format!("acknowledges {ack} after {}", theirs.acked));
    }
    theirs.acked = ack;
    let shift = scale(mine, theirs, t);
    let edge = ack + (u64::from(t.window) << shift);
    if t.has(SYN) {
        // Who answers by cookie knows nothing of an answer before, which came by another MTU perhaps.
        theirs.edge_offered = 0;
    }
    if edge + (1 << shift) <= theirs.edge_offered {
        return Err(format!("right edge {edge} after {}", theirs.edge_offered));
    }
    theirs.edge_offered = theirs.edge_offered.max(edge);
    let sacks = &t.options.sacks[..t.options.sack_count];
    let agreed = mine.offered.sack_permitted && theirs.offered.sack_permitted;
    if !agreed && !sacks.is_empty() {
        return Err("SACK that was not agreed on".to_string());
    }
    for (i, (from, to)) in sacks.iter().enumerate() {
        let (Some(from), Some(to)) = (theirs.position(*from), theirs.position(*to)) else {
            return Err("SACK outside the stream".to_string());
        };
        if from >= to || !theirs.delivered.contains(from, to) {
            return Err(format!("SACK {from}..{to} was not delivered"));
        }
        if i > 0 && from <= ack {
            return Err(format!("SACK {from}..{to} is not above the acknowledgement {ack}"));
        }
    }
    Ok(true)
}

fn check_timestamps(mine: &mut Stream, theirs: &Stream, t: &Tcp<'_>) -> Result<(), String> {
    let agreed = mine.offered.timestamps.is_some() && theirs.offered.timestamps.is_some();
    let Some((value, echo)) = t.options.timestamps else {
        return if agreed { Err("timestamps are missing".to_string()) } else { Ok(()) };
    };
    if !agreed && !t.has(SYN) {
        return Err("timestamps that were not agreed on".to_string());
    }
    // The lowest bits of a SYN cookie's timestamp are the options, so it may be that much older than the SYN-ACK
    // before.
    let older = if t.has(SYN) && t.has(ACK) { COOKIE_TIMESTAMP } else { 0 };
    if mine.tsval.is_some_and(|last| (value.wrapping_sub(last) as i32) < -older) {
        return Err(format!("timestamp {value} after {:?}", mine.tsval));
    }
    mine.tsval = Some(value);
    let forgotten = mine.moves > 0 && echo == 0;
    if t.has(ACK)
        && !forgotten
        && theirs.delivered_tsval.is_none_or(|newest| (echo.wrapping_sub(newest) as i32) > 0)
    {
        return Err(format!("echoes timestamp {echo}, newest delivered is {:?}", theirs.delivered_tsval));
    }
    Ok(())
}

/// Retransmissions of one thing: doubling from 200 ms to two minutes makes less than these in a world's time.
const IN_VAIN_MAX: u32 = 24;
/// Milliseconds that the lowest six bits count.
const COOKIE_TIMESTAMP: i32 = 64;
/// Segments before the first acknowledgement: ten (RFC 6928) and a probe.
const INITIAL_WINDOW: u64 = 11;
/// Streams of a world are shorter than this; initial numbers of two connections are further apart, nearly always.
const NEAR: u32 = 1 << 23;
