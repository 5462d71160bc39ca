//! ICMP errors about segments of ours (RFC 5927): believed only if they quote what is in flight, and taken as hints
//! once a connection stands.

use super::State;
use super::control_block::Fate;
use super::seq::Seq;
use crate::icmp::{IcmpError, Kind};
use crate::mutation::planted;
use crate::net::Lowered;
use crate::stack::Socket;
use crate::{Frame, Instant, Outlet, SocketId, Stack};

/// An error quotes a segment of this socket's flow.
pub(crate) fn on_error<F: Frame>(
    stack: &mut Stack<F>,
    now: Instant,
    id: SocketId,
    error: IcmpError,
    out: &mut impl Outlet,
) {
    let seq = Seq(error.seq);
    let way = match stack.sockets.get(id) {
        Some(Socket::Tcp(tcb)) if !seq.before(tcb.snd_una) && seq.before(tcb.snd_nxt) => tcb.route.query,
        _ => return,
    };
    match error.kind {
        Kind::Ignored => {}
        Kind::TooBig(_) if planted!(NoPathMtu) => {}
        Kind::TooBig(mtu) => {
            let may_cut = stack.net.lower_mtu(now, way, mtu) == Lowered::MayCut;
            stack.with_tcp(now, id, out, |tcb, cx| {
                if !tcb.options.discover_mtu {
                    return Fate::Stays;
                }
                let before = tcb.mss;
                // Another connection may have lowered it already, while this one's segments were on their way.
                let mtu = cx.net.path_mtu(now, &mut tcb.route);
                tcb.set_mtu(mtu);
                if (tcb.mss < before || may_cut) && tcb.state() != State::SynSent {
                    tcb.control.set_mss(tcb.payload_max(), false);
                    // What is in flight was too large: send it again in smaller pieces (RFC 1191, 6.5), or so that
                    // routers may cut it.
                    tcb.board.all_lost(false);
                    tcb.output(cx);
                }
                Fate::Stays
            });
        }
        // A connect fails by any of them, as Linux's does; later they are hints.
        Kind::Unreachable { why, .. } => stack.with_tcp(now, id, out, |tcb, cx| {
            if matches!(tcb.state(), State::SynSent | State::SynReceived) {
                return tcb.finish(cx, Some(why));
            }
            tcb.soft_error = Some(why);
            Fate::Stays
        }),
    }
}
