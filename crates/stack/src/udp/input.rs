//! Datagrams that arrive, and errors about datagrams that left.

use super::handover::pass_on;
use super::{Datagram, MtuDiscover, true_size};
use crate::icmp::{IcmpError, Kind};
use crate::ingress::{Drop, IpMeta};
use crate::mutation::planted;
use crate::net::Lowered;
use crate::stack::Socket;
use crate::unrouted::ReversePath;
use crate::{Endpoint, Frame, Instant, Ready, SocketError, SocketId, Stack};
use core::net::Ipv4Addr;
use core::ops::Range;
use wire::udp::{HEADER_LEN, Header};

/// A datagram for this host, a group or all stations, which begins at `range` of `head`.
#[inline]
pub(crate) fn on_datagram<F: Frame>(
    stack: &mut Stack<F>,
    now: Instant,
    meta: &IpMeta,
    head: F,
    mut range: Range<usize>,
    tail: &mut Vec<F>,
) -> Result<(), Drop> {
    let entry = range.clone();
    let header = Header::parse(&head.bytes()[range.clone()], meta.len).ok_or(Drop::Transport)?;
    if header.len < meta.len {
        // What follows the datagram in its packet is nobody's; over several frames it is nothing that hosts send.
        if !tail.is_empty() {
            return Err(Drop::Transport);
        }
        range.end = range.start + header.len;
    }
    if header.checksum != 0 {
        stack.verify(meta, &head.bytes()[range.clone()], tail, header.len, CHECKSUM)?;
    }
    let mut head = head;
    if stack.unrouted.rule != ReversePath::Off {
        let (to, from) = (Endpoint::new(meta.dst, header.dst), Endpoint::new(meta.src, header.src));
        // Whom a connected socket talks to was vetted by its connect, as in Linux.
        if stack.demux.udp.flow(to, from).is_none() {
            match stack.vet(now, meta, head, entry, tail)? {
                Some(vetted) => head = vetted,
                None => return Ok(()),
            }
        }
    }
    let to = Endpoint::new(meta.dst, header.dst);
    let datagram = Datagram {
        from: if planted!(SenderMistaken) { to } else { Endpoint::new(meta.src, header.src) },
        to,
        len: header.len - HEADER_LEN,
        ttl: meta.ttl,
        tos: meta.tos,
        received: now,
        range: ((range.start + HEADER_LEN) as u16, (range.len() - HEADER_LEN) as u16),
        head,
        tail: core::mem::take(tail),
        shown: false,
    };
    if meta.to_group && !stack.net.is_local(meta.dst) {
        return to_group(stack, datagram);
    }
    let table = &stack.demux.udp;
    let id = table.flow(datagram.to, datagram.from).or_else(|| table.best(datagram.to).last().copied());
    enqueue(stack, id.ok_or(Drop::NoSocket)?, datagram);
    Ok(())
}

/// Multicast and broadcast: to every socket of the port that wants it.
#[cold]
fn to_group<F: Frame>(stack: &mut Stack<F>, datagram: Datagram<F>) -> Result<(), Drop> {
    let (group, source) = (*datagram.to.ip(), *datagram.from.ip());
    let mut receivers = core::mem::take(&mut stack.receivers);
    let table = &stack.demux.udp;
    let members = stack.demux.members(group);
    // Without a member, the group reached us by accident of the link.
    if !group.is_multicast() || !members.is_empty() {
        let every = Endpoint::new(Ipv4Addr::UNSPECIFIED, datagram.to.port());
        let candidates = table.at(datagram.to).iter().chain(table.at(every)).copied();
        let wants = |id: &SocketId| {
            // As IP_MULTICAST_ALL, Linux's default: who did not join hears it because another one did; who joined
            // for some sources hears only those.
            match members.iter().find(|member| member.id == *id) {
                Some(member) => member.sources.has(source),
                None => hears_all(&stack.sockets, *id),
            }
        };
        receivers.extend(candidates.chain(table.flow(datagram.to, datagram.from)).filter(wants));
    }
    leave_out_handed_over(&stack.sockets, &mut receivers);
    let last = receivers.pop();
    for id in receivers.drain(..) {
        enqueue(stack, id, duplicate(&datagram));
    }
    stack.receivers = receivers;
    enqueue(stack, last.ok_or(Drop::NoSocket)?, datagram);
    Ok(())
}

/// What the kernel is given for one of its sockets all of them hear: once is enough, and nothing where sockets here
/// hear it, who would again.
fn leave_out_handed_over<F: Frame>(sockets: &crate::slab::Slab<Socket<F>>, receivers: &mut Vec<SocketId>) {
    let is_handed_over =
        |id: &SocketId| matches!(sockets.get(*id), Some(Socket::Udp(udp)) if udp.handed_over.is_some());
    if receivers.iter().all(is_handed_over) {
        receivers.truncate(1);
    } else {
        receivers.retain(|id| !is_handed_over(id));
    }
}

/// IP_MULTICAST_ALL, which concerns groups only.
fn hears_all<F: Frame>(sockets: &crate::slab::Slab<Socket<F>>, id: SocketId) -> bool {
    matches!(sockets.get(id), Some(Socket::Udp(udp)) if udp.options.multicast_all)
}

fn duplicate<F: Frame>(datagram: &Datagram<F>) -> Datagram<F> {
    Datagram {
        head: datagram.head.duplicate(),
        tail: datagram.tail.iter().map(F::duplicate).collect(),
        ..*datagram
    }
}

/// Puts a datagram into a socket's queue, or drops it when the buffer is full: as Linux, when what waits already
/// exceeds it.
#[inline]
fn enqueue<F: Frame>(stack: &mut Stack<F>, id: SocketId, mut datagram: Datagram<F>) {
    let Some(Socket::Udp(udp)) = stack.sockets.get_mut(id) else { return };
    if let Some(heard) = udp.handed_over {
        return pass_on(&mut stack.net, &datagram, heard);
    }
    if udp.charged > udp.options.receive_buffer {
        udp.dropped += 1;
        return;
    }
    udp.charged += true_size(datagram.len);
    stack.budget.admit(&mut datagram.head, &mut udp.held);
    for frame in &mut datagram.tail {
        stack.budget.admit(frame, &mut udp.held);
    }
    udp.queue.push_back(datagram);
    stack.events.raise(id, Ready::IN);
}

/// An ICMP error quotes a datagram from `local` to `remote`.
pub(crate) fn on_error<F: Frame>(
    stack: &mut Stack<F>,
    now: Instant,
    local: Endpoint,
    remote: Endpoint,
    error: IcmpError,
) -> Result<(), Drop> {
    let table = &stack.demux.udp;
    let id = table.flow(local, remote).or_else(|| table.best(local).last().copied()).ok_or(Drop::NoSocket)?;
    let Some(Socket::Udp(udp)) = stack.sockets.get(id) else { return Err(Drop::NoSocket) };
    match error.kind {
        Kind::TooBig(mtu) => {
            let discovers = udp.options.mtu_discover != MtuDiscover::Dont;
            let lowered = stack.net.lower_mtu(now, udp.way(*local.ip(), remote), mtu);
            if lowered != Lowered::Nothing && discovers {
                fail(stack, id, SocketError::MessageTooBig);
            }
        }
        Kind::Unreachable { why, hard: true } => fail(stack, id, why),
        Kind::Unreachable { hard: false, .. } | Kind::Ignored => {}
    }
    Ok(())
}

/// Leaves an error for the next call on the socket. Only connected sockets learn errors (without IP_RECVERR): the
/// others could not say whom it concerns.
pub(crate) fn fail<F: Frame>(stack: &mut Stack<F>, id: SocketId, why: SocketError) {
    if let Some(Socket::Udp(udp)) = stack.sockets.get_mut(id)
        && udp.remote.is_some()
    {
        udp.error = Some(why);
        stack.events.raise(id, Ready::ERR | Ready::IN | Ready::OUT);
    }
}

/// Where the header has its checksum.
const CHECKSUM: usize = 6;
