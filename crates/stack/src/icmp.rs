//! ICMP: errors that quote one of our packets reach the socket that sent it. Everything else is the kernel's.

use crate::ingress::{Drop, IpMeta};
use crate::{Endpoint, Frame, Instant, Outlet, SocketError, Stack, tcp, udp};
use wire::checksum::Sum;
use wire::{icmpv4, ipv4};

/// An error that a router or the peer's host reports about a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub(crate) kind: Kind,
    /// The sequence number of the TCP segment that is quoted; 0 for UDP.
    pub(crate) seq: u32,
}

/// What the error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It could not be delivered. `hard`: trying again will not help (Linux's icmp_err_convert; RFC 5927 lets TCP
    /// take it as soft once a connection stands).
    Unreachable {
        /// What the application is told.
        why: SocketError,
        /// See above.
        hard: bool,
    },
    /// It was larger than this MTU with fragmentation forbidden. The path is not changed yet: TCP calls
    /// `Net::lower_mtu` once it believes the quoted sequence number.
    TooBig(u32),
    /// Source quench and the like: nothing to do.
    Ignored,
}

/// Takes in a message to this host.
pub(crate) fn on_message<F: Frame>(
    stack: &mut Stack<F>,
    now: Instant,
    meta: &IpMeta,
    bytes: &[u8],
    tail: &[F],
    out: &mut impl Outlet,
) -> Result<(), Drop> {
    // An error is far smaller than a frame; nobody has reason to spread one.
    if !tail.is_empty() {
        return Err(Drop::Transport);
    }
    let message = icmpv4::Message::parse(bytes).ok_or(Drop::Transport)?;
    if !Sum::ZERO.bytes(bytes).is_valid() {
        return Err(Drop::Checksum);
    }
    if !matches!(message.kind(), icmpv4::UNREACHABLE | icmpv4::TIME_EXCEEDED | icmpv4::PARAMETER_PROBLEM) {
        return Err(Drop::NoSocket);
    }
    let (quoted, transport) = message.quoted().ok_or(Drop::Transport)?;
    // We only believe what is said about packets that we may have sent.
    if quoted.src() != meta.dst {
        return Err(Drop::NotOurs);
    }
    let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let local = Endpoint::new(quoted.src(), word(0));
    let remote = Endpoint::new(quoted.dst(), word(2));
    let kind = kind_of(&message, quoted.total_len());
    match quoted.protocol() {
        ipv4::TCP => {
            let id = stack.demux.tcp.flow(local, remote).ok_or(Drop::NoSocket)?;
            let seq = u32::from(word(4)) << 16 | u32::from(word(6));
            tcp::icmp::on_error(stack, now, id, IcmpError { kind, seq }, out);
            Ok(())
        }
        ipv4::UDP => udp::input::on_error(stack, now, local, remote, IcmpError { kind, seq: 0 }),
        _ => Err(Drop::NoSocket),
    }
}

/// By Linux's icmp_err_convert, and by its icmp_unreach for what says nothing (RFC 1122, 3.2.2.1).
fn kind_of(message: &icmpv4::Message, quoted_len: usize) -> Kind {
    let unreachable = |why, hard| Kind::Unreachable { why, hard };
    match (message.kind(), message.code()) {
        (icmpv4::UNREACHABLE, 2) => unreachable(SocketError::ProtocolUnreachable, true),
        (icmpv4::UNREACHABLE, 3) => unreachable(SocketError::Refused, true),
        // A packet that would have fit was not the cause: somebody guesses (RFC 5927, 7).
        (icmpv4::UNREACHABLE, 4) => match message.next_hop_mtu() {
            0 => Kind::TooBig(plateau_below(quoted_len)),
            mtu if usize::from(mtu) < quoted_len => Kind::TooBig(u32::from(mtu)),
            _ => Kind::Ignored,
        },
        (icmpv4::UNREACHABLE, 0 | 11) => unreachable(SocketError::NetUnreachable, false),
        (icmpv4::UNREACHABLE, 1 | 12) => unreachable(SocketError::HostUnreachable, false),
        (icmpv4::UNREACHABLE, 5) => unreachable(SocketError::SourceRouteFailed, false),
        (icmpv4::UNREACHABLE, 6 | 9) => unreachable(SocketError::NetUnreachable, true),
        (icmpv4::UNREACHABLE, 7) => unreachable(SocketError::HostDown, true),
        (icmpv4::UNREACHABLE, 8) => unreachable(SocketError::HostIsolated, true),
        (icmpv4::UNREACHABLE, 10 | 13..=15) => unreachable(SocketError::HostUnreachable, true),
        // The peer's reassembly ran out of time: some fragments were lost, the way is there.
        (icmpv4::TIME_EXCEEDED, 1) => Kind::Ignored,
        (icmpv4::TIME_EXCEEDED, _) => unreachable(SocketError::HostUnreachable, false),
        (icmpv4::PARAMETER_PROBLEM, _) => unreachable(SocketError::ParameterProblem, true),
        _ => Kind::Ignored,
    }
}

/// The next smaller MTU of known links, for routers that do not tell theirs (RFC 1191, 7).
fn plateau_below(len: usize) -> u32 {
    [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68]
        .into_iter()
        .find(|plateau| (*plateau as usize) < len)
        .unwrap_or(68)
}

#[cfg(test)]
mod tests;
