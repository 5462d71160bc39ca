//! The state of a connection, and which may follow which (RFC 9293, 3.3.2, figure 5). Every change goes through
//! [`Tcb::set_state`]: the field cannot be written elsewhere.

use super::State;
use super::control_block::Tcb;
use crate::Frame;

/// Holds the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase(State);

impl Phase {
    /// A block is made for a connect, or for a handshake that a listener began.
    pub(crate) fn begin(state: State) -> Phase {
        debug_assert!(matches!(state, State::SynSent | State::SynReceived));
        Phase(state)
    }
}

/// Whether `to` may follow `from`. LISTEN and what leads out of it are other types: a listener stays one, and a
/// half-open connection (SYN-RECEIVED) becomes a block when it is over.
pub(crate) fn may_follow(from: State, to: State) -> bool {
    use State::*;
    match (from, to) {
        // Handshake: of one side, or of both at once. A close while both SYNs are on their way lets the FIN follow.
        (SynSent, SynReceived | Established) => true,
        (SynReceived, Established | FinWait1) => true,
        // Our side closes first, theirs does, or both at once.
        (Established, FinWait1 | CloseWait) => true,
        (FinWait1, FinWait2 | Closing) => true,
        (FinWait2 | Closing, TimeWait) => true,
        (CloseWait, LastAck) => true,
        // The end: in order (LAST-ACK, TIME-WAIT), by reset, by timeout, by the application. Once is enough, but what
        // is closed may be closed.
        (_, Closed) => true,
        _ => false,
    }
}

impl<F: Frame> Tcb<F> {
    /// The state.
    #[inline]
    pub(crate) fn state(&self) -> State {
        self.phase.0
    }

    /// The one way to another state.
    #[inline]
    pub(crate) fn set_state(&mut self, to: State) {
        debug_assert!(may_follow(self.phase.0, to), "{:?} after {:?}", to, self.phase.0);
        self.phase = Phase(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 11] = [
        State::Listen,
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
        State::Closed,
    ];

    #[test]
    fn nothing_follows_the_end_and_nothing_leads_back() {
        for to in ALL.into_iter().filter(|to| *to != State::Closed) {
            assert!(!may_follow(State::Closed, to), "{to:?}");
            assert!(!may_follow(State::TimeWait, to), "{to:?}");
            assert!(!may_follow(State::LastAck, to), "{to:?}");
            // No circle of any length: what follows never comes before.
            for from in ALL {
                assert!(!(may_follow(from, to) && reaches(to, from)), "{from:?} and {to:?}");
            }
        }
        assert!(ALL.into_iter().all(|from| may_follow(from, State::Closed)));
    }

    fn reaches(from: State, to: State) -> bool {
        ALL.into_iter()
            .filter(|next| *next != State::Closed && may_follow(from, *next))
            .any(|next| next == to || reaches(next, to))
    }

    #[test]
    fn every_state_of_a_block_is_reached_by_a_handshake() {
        for to in ALL.into_iter().filter(|to| !matches!(to, State::Listen | State::SynSent | State::Closed)) {
            assert!(reaches(State::SynSent, to), "{to:?}");
        }
    }

    #[test]
    #[should_panic(expected = "CloseWait after FinWait1")]
    #[cfg(debug_assertions)]
    fn a_change_that_the_table_does_not_know_is_noticed() {
        let settings = crate::testing::tcp_settings();
        let at = |n| crate::Endpoint::new([10, 0, 0, n].into(), 1);
        let mut tcb = Tcb::<crate::testing::VecFrame>::new(
            crate::Instant::ZERO,
            at(1),
            at(2),
            &std::sync::Arc::new(settings.options.clone()),
            &settings,
            super::super::seq::Seq(0),
            0,
        );
        for state in [State::Established, State::FinWait1, State::CloseWait] {
            tcb.set_state(state);
        }
    }
}
