//! Scripted applications. They live by edges alone, as a program under EPOLLET does: who misses one hangs, and that is
//! seen at the end.

pub mod listener;
mod mover;
pub mod talker;
pub mod writer;

use crate::chance::Chance;
use crate::checker::keeps::Keeps;
use crate::checker::states::States;
use crate::device::{SimFrame, TxRing};
use crate::ledger::Ledger;
use stack::{Instant, Ready, SocketId, Stack};

/// What an application sees of its host.
pub struct Cx<'a> {
    pub stack: &'a mut Stack<SimFrame>,
    pub ring: &'a mut TxRing,
    /// The host's clock.
    pub now: Instant,
    /// The time that calls of the stack come with: now, or a little earlier.
    pub call: Instant,
    pub chance: &'a mut Chance,
    pub ledger: &'a mut Ledger,
    /// Wishes to be called again: ns from now, and by whom.
    pub alarms: &'a mut Vec<(u64, usize)>,
    /// Applications that a listener starts.
    pub born: &'a mut Vec<App>,
    /// The checker of states, to be told of connections.
    pub states: &'a mut States,
    /// The checker of what they keep.
    pub keeps: &'a mut Keeps,
    /// The index of the application itself.
    pub own: usize,
    /// Index that the first of `born` gets.
    pub next: usize,
    /// The network is whole again: no more misdeeds that would keep things from ending.
    pub healed: bool,
}

impl Cx<'_> {
    /// The token of the application's socket. Connections that wait to be accepted have none: zero.
    pub fn token(&self) -> u64 {
        self.own as u64 + 1
    }

    /// From now on this connection is looked at.
    pub fn watch(&mut self, id: SocketId) {
        self.states.watch(self.stack, id);
        self.keeps.watch(self.stack, id);
    }

    /// Calls the application again after `span` ns.
    pub fn again_after(&mut self, span: u64) {
        let own = self.own;
        self.alarms.push((span, own));
    }
}

/// An application.
pub enum App {
    Talker(Box<talker::Talker>),
    Listener(listener::Listener),
    Writer(Box<writer::Writer>),
}

impl App {
    /// Something happened to its socket (`edges`), or it wished to be called.
    pub fn act(&mut self, cx: &mut Cx<'_>, edges: Ready) {
        match self {
            App::Talker(talker) => talker.act(cx, edges),
            App::Listener(listener) => listener.act(cx),
            App::Writer(writer) => writer.act(cx, edges),
        }
    }

    /// A writer that has not written all it had to.
    pub fn is_late_writer(&self) -> bool {
        matches!(self, App::Writer(writer) if !writer.is_done())
    }

    /// Ends whatever it does: the world is over.
    pub fn end(&mut self, cx: &mut Cx<'_>) {
        match self {
            App::Talker(talker) => talker.end(cx),
            App::Listener(listener) => listener.end(cx),
            App::Writer(writer) => writer.end(cx),
        }
    }
}
