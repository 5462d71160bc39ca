//! An application that accepts connections, promptly or late, and hands each to a talker.

use super::talker::{Plan, Talker};
use super::{App, Cx};
use stack::tcp::{Close, Options};
use stack::{Endpoint, SocketId};

/// The application.
pub struct Listener {
    pub local: Endpoint,
    pub backlog: u32,
    pub options: Options,
    /// Waits up to so long before it accepts, ns.
    pub delay_max: u64,
    /// By the client's endpoint: the conversation, and what its server does.
    pub guests: Vec<(Endpoint, usize, Plan)>,
    /// Whose connection was accepted, and whether it may end badly.
    pub served: Vec<(Endpoint, bool)>,
    pub id: Option<SocketId>,
    pub accept_at: u64,
}

impl Listener {
    pub fn act(&mut self, cx: &mut Cx<'_>) {
        let Some(id) = self.id else { return self.open(cx) };
        if cx.now.0 < self.accept_at {
            return;
        }
        if self.accept_at == 0 && self.delay_max > 0 {
            let delay = cx.chance.below(self.delay_max) + 1;
            self.accept_at = cx.now.0 + delay;
            return cx.again_after(delay);
        }
        self.accept_at = 0;
        while let Some(accepted) = cx.stack.tcp_accept(id) {
            let remote = cx.stack.remote(accepted);
            cx.watch(accepted);
            let Some(at) = self.guests.iter().position(|(client, ..)| Some(*client) == remote) else {
                // With SYN cookies a late segment of a connection that was reset begins it again (RFC 4987, 3.6).
                if self.served.iter().any(|(client, rude)| Some(*client) == remote && *rude) {
                    cx.stack.tcp_close(cx.call, accepted, Close::Abort, cx.ring);
                    continue;
                }
                return cx
                    .ledger
                    .alarm(|| format!("accepted a connection from {remote:?}, which nobody opened"));
            };
            let (client, conversation, plan) = self.guests.remove(at);
            cx.ledger.conversations[conversation].ends[1].begun = true;
            self.served.push((client, cx.ledger.conversations[conversation].rude));
            let token = cx.next + cx.born.len() + 1;
            cx.stack.set_token(accepted, token as u64);
            let wanted = &plan.options;
            let change = |options: &mut Options| {
                options.nodelay = wanted.nodelay;
                options.cork = wanted.cork;
                options.quickack = wanted.quickack;
                options.keepalive = wanted.keepalive;
                options.keepalive_idle = wanted.keepalive_idle;
                options.keepalive_interval = wanted.keepalive_interval;
                options.keepalive_count = wanted.keepalive_count;
                options.user_timeout = wanted.user_timeout;
                options.urgent_inline = wanted.urgent_inline;
            };
            cx.stack.tcp_configure(cx.call, accepted, change, cx.ring);
            cx.born.push(App::Talker(Box::new(Talker::accepted(conversation, accepted, plan))));
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        let token = cx.token();
        match cx.stack.tcp_listen(self.local, self.backlog, &self.options, token) {
            Ok(id) => self.id = Some(id),
            Err(error) => cx.ledger.alarm(|| format!("tcp_listen answered {error:?}")),
        }
    }

    pub fn end(&mut self, cx: &mut Cx<'_>) {
        if let Some(id) = self.id.take() {
            cx.stack.tcp_close(cx.call, id, Close::Orderly, cx.ring);
        }
    }
}
