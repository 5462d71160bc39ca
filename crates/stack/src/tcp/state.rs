//! What a TCP socket is made of.
use crate::{Config, Endpoint, Frame, Instant, Ready, SocketError};

/// What all TCP sockets of a stack share.
pub(crate) struct Shared<F: Frame> {
    _frames: core::marker::PhantomData<F>,
}

impl<F: Frame> Shared<F> {
    pub(crate) fn new(_config: &Config, _now: Instant) -> Self {
        Shared { _frames: core::marker::PhantomData }
    }
}

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) local: Endpoint,
}

impl Listener {
    pub(crate) fn ready(&self) -> Ready {
        Ready::default()
    }
    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        None
    }
    pub(crate) fn abandon(&mut self, _why: SocketError) {}
}

/// A connection in any state between SYN-SENT and LAST-ACK.
pub(crate) struct Connection<F: Frame> {
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    _frames: core::marker::PhantomData<F>,
}

impl<F: Frame> Connection<F> {
    pub(crate) fn ready(&self) -> Ready {
        Ready::default()
    }
    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        None
    }
    /// Fails the connection without a word to the peer.
    pub(crate) fn abandon(&mut self, _why: SocketError) {}
}

/// What remains of a connection in TIME-WAIT.
pub(crate) struct TimeWait {
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
}
