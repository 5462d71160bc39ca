//! Moves a living connection out of the engine and into it again, as the socket layer does between the engine and the
//! kernel. What lies between knows no more of it than TCP_REPAIR can say.

use super::Cx;
use stack::SocketId;
use stack::tcp::{Handover, Options};

/// A connection that is in no engine at the moment. What arrives for it is lost.
pub(super) struct Moving {
    id: SocketId,
    options: Options,
    connection: Handover,
}

/// Takes a connection out of its engine. `None`: it is not established, or over, or urgent data is under way, of which
/// TCP_REPAIR says nothing.
pub(super) fn take_out(cx: &mut Cx<'_>, id: SocketId) -> Option<Moving> {
    if cx.stack.tcp_has_urgent(id) {
        return None;
    }
    let options = cx.stack.tcp_options(id)?.clone();
    cx.stack.tcp_tell_all(cx.call, id, cx.ring);
    let described = cx.stack.tcp_describe(cx.call, id)?;
    let connection = Handover { timestamp_recent: None, ..described };
    cx.stack.tcp_handed_over(id);
    Some(Moving { id, options, connection })
}

/// Puts it into the engine of the same host.
pub(super) fn put_back(cx: &mut Cx<'_>, moving: Moving) -> Option<SocketId> {
    let Moving { id, options, connection } = moving;
    cx.stack.tcp_forget_flow(id, connection.local, connection.remote);
    let token = cx.token();
    match cx.stack.tcp_take_over(cx.call, &connection, &options, token, cx.ring) {
        Ok(id) => {
            cx.watch(id);
            Some(id)
        }
        Err(error) => {
            cx.ledger.alarm(|| format!("tcp_take_over answered {error:?}"));
            None
        }
    }
}
