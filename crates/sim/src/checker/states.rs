//! States of connections as their owners see them: what one segment, one timer or one command may make of each. The
//! table is the simulator's own, read from RFC 9293 and not from the engine (stack/src/tcp/state.rs), and it looks
//! after every call, so that nothing hides between two looks.

use crate::device::SimFrame;
use stack::tcp::State;
use stack::{SocketId, Stack};

/// What the stack was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One segment arrived; it may hold ACK, data and FIN.
    Segment,
    /// Timers fired.
    Time,
    /// An application did something.
    Command,
}

/// The connections of a host, with the state that each was seen in last.
#[derive(Default)]
pub struct States {
    seen: Vec<(SocketId, State)>,
    wrong: Option<String>,
}

impl States {
    /// From now on `id` is looked at, until it is gone.
    pub fn watch(&mut self, stack: &Stack<SimFrame>, id: SocketId) {
        if let Some(state) = stack.tcp_state(id) {
            self.seen.push((id, state));
        }
    }

    /// Compares all states with those of the last look. What was closed and is over is gone, which is as CLOSED.
    pub fn look(&mut self, stack: &Stack<SimFrame>, cause: Cause) {
        let wrong = &mut self.wrong;
        self.seen.retain_mut(|(id, last)| {
            let found = stack.tcp_state(*id);
            let now = found.unwrap_or(State::Closed);
            if now != *last && !may_become(*last, now, cause) && wrong.is_none() {
                *wrong = Some(format!("{now:?} after {last:?} by {cause:?}"));
            }
            *last = now;
            found.is_some()
        });
    }

    /// The first change that must not be.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }
}

/// A socket that an application holds is never seen in TIME-WAIT: for it the connection is CLOSED, as on Linux.
fn may_become(from: State, to: State, cause: Cause) -> bool {
    use State::*;
    if to == Closed {
        // By reset, by timeout, by the application; or in order, which the streams show.
        return true;
    }
    match cause {
        Cause::Time => false,
        Cause::Command => matches!((from, to), (Established, FinWait1) | (CloseWait, LastAck)),
        Cause::Segment => matches!(
            (from, to),
            (SynSent, SynReceived | Established)
                | (SynReceived, Established | CloseWait | FinWait1 | Closing)
                | (Established, CloseWait)
                | (FinWait1, FinWait2 | Closing)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_segment_establishes_and_only_a_command_closes() {
        assert!(may_become(State::SynSent, State::Established, Cause::Segment));
        assert!(!may_become(State::SynSent, State::Established, Cause::Time));
        assert!(may_become(State::Established, State::FinWait1, Cause::Command));
        assert!(!may_become(State::Established, State::FinWait1, Cause::Segment));
        assert!(!may_become(State::CloseWait, State::FinWait1, Cause::Command));
        assert!(!may_become(State::Closed, State::Established, Cause::Segment));
    }
}
