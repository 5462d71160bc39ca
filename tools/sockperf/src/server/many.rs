//! Many sockets: listeners and connections behind one multiplexer.

use std::collections::HashMap;

use crate::address::Address;
use crate::exit::Result;
use crate::extra_api::ZeroCopy;
use crate::iomux::{Kind, Mux};
use crate::server::Listener;
use crate::server::responder::{Responder, datagram_buffer};
use crate::server::single::{Connection, Read, accept, read_datagram, read_stream};
use crate::settings::Settings;
use crate::signals;

/// How long one wait lasts, so that signals and deadlines are seen.
const WAIT_MS: i32 = 100;

struct Many<'a> {
    s: &'a Settings,
    listeners: HashMap<i32, &'a Listener>,
    connections: HashMap<i32, (Connection, i32)>,
    mux: Mux,
    loops: u32,
    zero_copy: Option<ZeroCopy>,
}

/// Serves all of `listeners` until a signal.
pub fn serve(s: &Settings, listeners: Vec<Listener>, responder: &mut Responder) -> Result<()> {
    let mut many = Many::new(s, s.mux)?;
    for listener in &listeners {
        if s.mux == Kind::Recvfrom {
            listener.socket.receive_timeout(WAIT_MS as u32)?;
        }
        many.mux.add(listener.socket.fd)?;
        many.listeners.insert(listener.socket.fd, listener);
    }
    let timeout = if s.mux_timeout_ms < 0 { -1 } else { s.mux_timeout_ms };
    many.run(responder, timeout, &|_| false)
}

/// Serves one listener and `connections` until at most one connection is left, which is given back.
pub fn until_one_is_left(
    s: &Settings,
    listener: &Listener,
    connections: Vec<Connection>,
    responder: &mut Responder,
) -> Result<Vec<Connection>> {
    let mut many = Many::new(s, Kind::Epoll)?;
    let listener_fd = listener.socket.fd;
    many.mux.add(listener_fd)?;
    many.listeners.insert(listener_fd, listener);
    for connection in connections {
        let fd = connection.socket.fd;
        many.mux.add(fd)?;
        many.connections.insert(fd, (connection, listener_fd));
    }
    many.run(responder, WAIT_MS, &|left| left <= 1)?;
    Ok(many.connections.into_values().map(|(connection, _)| connection).collect())
}

impl<'a> Many<'a> {
    fn new(s: &'a Settings, kind: Kind) -> Result<Many<'a>> {
        Ok(Many {
            s,
            listeners: HashMap::new(),
            connections: HashMap::new(),
            mux: Mux::new(kind)?,
            loops: s.recv_looping.unwrap_or(u32::MAX),
            zero_copy: if s.zcopy_read { Some(ZeroCopy::new()?) } else { None },
        })
    }

    fn run(
        &mut self,
        responder: &mut Responder,
        timeout_ms: i32,
        enough: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        let mut ready = Vec::new();
        let mut buffer = datagram_buffer();
        let mut from = Address::default();
        while !signals::stopped() && !enough(self.connections.len()) {
            self.mux.wait(timeout_ms, &mut ready)?;
            for fd in &ready {
                match self.listeners.get(fd) {
                    Some(listener) if listener.endpoint.tcp => self.accept(*fd, responder)?,
                    Some(listener) => {
                        for _ in 0..self.loops {
                            if read_datagram(listener, responder, &mut buffer, &mut from) != Read::Data {
                                break;
                            }
                        }
                    }
                    None => self.connection(*fd, responder)?,
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener_fd: i32, responder: &Responder) -> Result<()> {
        let Some(listener) = self.listeners.get(&listener_fd) else { return Ok(()) };
        let Some(connection) = accept(self.s, listener, responder)? else { return Ok(()) };
        let fd = connection.socket.fd;
        if let Mux::Turn(..) = self.mux {
            // In turn, a connection takes its listener's place: one for each.
            connection.socket.receive_timeout(WAIT_MS as u32)?;
            self.mux.replace(listener_fd, fd);
        } else {
            self.mux.add(fd)?;
        }
        self.connections.insert(fd, (connection, listener_fd));
        Ok(())
    }

    fn connection(&mut self, fd: i32, responder: &mut Responder) -> Result<()> {
        let Some((connection, listener_fd)) = self.connections.get_mut(&fd) else { return Ok(()) };
        let mut last = Read::Data;
        for _ in 0..self.loops {
            last = read_stream(connection, responder, &mut self.zero_copy);
            if last != Read::Data {
                break;
            }
        }
        if last == Read::Closed {
            if let Mux::Turn(..) = self.mux {
                self.mux.replace(fd, *listener_fd);
            } else {
                self.mux.remove(fd);
            }
            self.connections.remove(&fd);
        }
        Ok(())
    }
}
