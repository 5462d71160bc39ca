//! socketxtreme: completions of the accelerator's rings instead of reads.

use std::collections::HashMap;

use crate::exit::Result;
use crate::extra_api::Completions;
use crate::server::Listener;
use crate::server::responder::{Responder, limit_sends};
use crate::server::single::Connection;
use crate::signals;
use crate::sockets::Socket;

/// Serves all of `listeners` by polling until a signal.
pub fn serve(listeners: Vec<Listener>, responder: &mut Responder) -> Result<()> {
    let (sockets, kept): (Vec<Socket>, Vec<_>) =
        listeners.into_iter().map(|l| (l.socket, (l.endpoint, l.groups))).unzip();
    let mut completions = Completions::of(&sockets)?;
    let listeners: HashMap<i32, Listener> = sockets
        .into_iter()
        .zip(kept)
        .map(|(socket, (endpoint, groups))| (socket.fd, Listener { socket, endpoint, groups }))
        .collect();
    let mut connections: HashMap<i32, Connection> = HashMap::new();
    let mut copy = Vec::new();
    while !signals::stopped() {
        completions.poll(&mut |event| {
            if event.accepted_by.is_some() {
                let socket = Socket::from_fd(event.fd);
                limit_sends(&socket);
                let connection = Connection::new(socket, responder.framer(), event.from);
                connections.insert(event.fd, connection);
            }
            if let Some(listener) = listeners.get(&event.fd).filter(|l| !l.endpoint.tcp) {
                copy.clear();
                copy.extend_from_slice(event.bytes);
                responder.datagram(listener, &mut copy, &event.from);
            } else if let Some(connection) = connections.get_mut(&event.fd) {
                let mut fine = !event.closed;
                for part in event.bytes.chunks(16 * 1024) {
                    fine = fine
                        && connection.framer.append(part).is_ok()
                        && responder.stream(&mut connection.framer, &connection.socket, &connection.from);
                }
                if !fine {
                    connections.remove(&event.fd);
                }
            }
        });
    }
    Ok(())
}
