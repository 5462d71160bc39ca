//! A listener that more than one process may have is the kernel's, and who accepts takes the connection to its own
//! lane.
//!
//! An engine has one while its process has it alone. At the fork it goes to the kernel, whose socket has listened all
//! the time, with the clients that nobody has accepted yet: each becomes a kernel's connection (`tcp/repair.rs`), and
//! waits in a pair of Unix sockets that parent and children have. A connection of this host's, from [`STANDS_IN`],
//! stands for it in the kernel's queue, so that whoever waits for clients, in whatever way, hears of it; who accepts
//! that one is given the client in its place. Handshakes that are under way end in the engine, and their clients
//! follow.

use super::State;
use crate::address::{self, Wanted};
use crate::answer::Why;
use crate::lane::Lane;
use crate::object::{Kind, Object, Queue};
use crate::runtime::Runtime;
use crate::tcp::Established;
use crate::wait::moves;
use crate::{counts, tcp};
use config::Role;
use core::sync::atomic::Ordering;
use libc::{c_int, socklen_t};
use stack::SocketId;
use std::net::{Ipv4Addr, SocketAddrV4};
use sys::Fd;

/// Whom connections come from that stand for clients. A stranger of this host's who uses it gains nothing.
const STANDS_IN: Ipv4Addr = Ipv4Addr::new(127, 83, 68, 1);

/// How long handshakes may take that were under way when their listener left its engine, nanoseconds.
const HANDSHAKE_NS: u64 = 3_000_000_000;

/// What is left in the engine of a listener that is the kernel's: handshakes that are under way.
pub(super) struct Leaving {
    listener: &'static Object,
    /// Of the object, which may be another socket by now.
    generation: u32,
    local: SocketAddrV4,
    legs: Vec<(&'static Lane, SocketId)>,
    /// What the steering maps still hold for it, by leg.
    flows: Vec<(u8, xdp::Flow)>,
    /// What its clients are given to.
    clients: Fd,
    until: u64,
}

impl State {
    /// Before a fork, in the parent: a listener is the kernel's from now on.
    pub(super) fn leave_engine(&mut self, runtime: &'static Runtime, listener: &'static Object) {
        share(listener);
        let legs: Vec<_> = listener.legs().collect();
        let pair = sys::socket::pair(libc::SOCK_SEQPACKET);
        let (local, flows) = {
            let mut control = listener.control.lock();
            listener.drop_legs();
            control.queue = Queue::Kernel;
            (control.local, core::mem::take(&mut control.flows))
        };
        listener.is_carried_again();
        listener.price.store(0, Ordering::Relaxed);
        listener.is_demanded.store(true, Ordering::Relaxed);
        listener.set_kind(Kind::Carried);
        moves::changed(&runtime.os, listener);
        let fd = listener.fd.load(Ordering::Relaxed);
        runtime.count(Why::Shared, format_args!("TCP listener (fd {fd})"));
        let (Some(local), Ok((clients, all))) = (local, pair) else { return };
        listener.control.lock().queue = Queue::KernelAndBefore(all);
        for (lane, id) in &legs {
            lane.lock().stack.set_token(*id, 0);
        }
        let generation = listener.generation.load(Ordering::Relaxed);
        let until = sys::clock::now() + HANDSHAKE_NS;
        let leaving = Leaving { listener, generation, local, legs, flows, clients, until };
        if leaving.serve(self, runtime) {
            self.leaving.push(leaving);
        } else if leaving.gave_none() {
            listener.control.lock().queue = Queue::Kernel;
        }
    }

    /// Whose handshake has ended meanwhile waits for who accepts.
    pub(super) fn serve_leaving(&mut self, runtime: &'static Runtime) {
        let mut leaving = core::mem::take(&mut self.leaving);
        leaving.retain(|leaving| leaving.serve(self, runtime));
        self.leaving = leaving;
    }
}

impl Leaving {
    /// False: it is over.
    fn serve(&self, state: &mut State, runtime: &'static Runtime) -> bool {
        let now = sys::clock::now();
        let stands = self.listener.generation.load(Ordering::SeqCst) == self.generation;
        let mut goes_on = false;
        for (lane, id) in &self.legs {
            lane.turn(now);
            while stands && let Some(Ok(client)) = tcp::established(runtime, self.listener, lane, *id, 0) {
                self.hand_over(state, runtime, &client);
            }
            goes_on |= stands && now < self.until && lane.lock().stack.tcp_handshakes(*id) > 0;
        }
        if !goes_on {
            for (leg, flow) in &self.flows {
                self.legs[usize::from(*leg)].0.lock().device.unsteer(*flow);
            }
            self.legs.iter().for_each(|(lane, id)| tcp::abort(lane, *id));
        }
        goes_on
    }

    /// A client becomes the kernel's connection, and waits for whoever accepts next. One that cannot is reset.
    fn hand_over(&self, state: &mut State, runtime: &'static Runtime, client: &Established) {
        let Established { object: client, fd, .. } = *client;
        if !state.carry(runtime, client, fd) {
            tcp::detach(client);
            let why = Why::NoPrivilege.text();
            logger::warning!(
                "fork: a connection that was not accepted yet is reset, since it cannot move: {why}"
            );
        } else if sys::socket::send_descriptors(self.clients.raw(), &[0], &[fd]).is_ok()
            && let Err(errno) = stand_in(self.local)
        {
            let _ = take_client(self.listener);
            logger::warning!(
                "fork: a connection that was not accepted yet is closed: no room ({why})",
                why = sys::Errno(errno)
            );
        }
        client.release();
        runtime.os.close_descriptor(fd);
    }

    /// Whether nobody will ever be found where its clients wait.
    fn gave_none(&self) -> bool {
        match &self.listener.control.lock().queue {
            Queue::KernelAndBefore(clients) => !sys::poll::readable(clients.raw()),
            _ => true,
        }
    }
}

/// Others get the listener, and this process keeps it: new clients are the kernel's from now on. Those who have come
/// already, or are about to, are this process' to accept.
pub(crate) fn share(listener: &Object) {
    let legs: Vec<_> = listener.legs().collect();
    let flows = listener.control.lock().flows.clone();
    for (leg, flow) in &flows {
        if let Some((lane, _)) = legs.get(usize::from(*leg)) {
            lane.lock().device.leave_new_to_kernel(flow);
        }
    }
}

/// Whether a listener is the kernel's, and what is accepted moves to the wire where that is demanded: other processes
/// may listen on the same port (SO_REUSEPORT), and the kernel shares the clients out; or threads have lanes of their
/// own, and whoever uses a client takes it to its lane.
pub(crate) fn is_shared_out(runtime: &Runtime, listener: &'static Object, fd: c_int) -> bool {
    let has_port_alone = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 0 as c_int) != Ok(1);
    if has_port_alone && !runtime.allocation.has_several() {
        return false;
    }
    let is_demanded = listener.kind() == Kind::TcpIdle
        || address::of_shadow(&runtime.os, fd)
            .is_ok_and(|local| crate::offload::is_demanded(runtime, Role::TcpServer, Some(local), None));
    listener.is_demanded.store(is_demanded, Ordering::Relaxed);
    if listener.kind() == Kind::TcpIdle {
        counts::begins_in_kernel(listener.counts());
        listener.set_kind(Kind::Carried);
        moves::changed(&runtime.os, listener);
    }
    true
}

/// A connection in the kernel's queue that stands for a client. The byte is for listeners that wait for data.
fn stand_in(local: SocketAddrV4) -> sys::Result<()> {
    let to = if local.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *local.ip() };
    let fd = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    sys::socket::bind(fd.raw(), &address::to_sockaddr(SocketAddrV4::new(STANDS_IN, 0)))?;
    // Inside the host that is over when the call returns, but it does not know yet.
    match sys::socket::connect(fd.raw(), &address::to_sockaddr(SocketAddrV4::new(to, local.port()))) {
        Ok(()) | Err(libc::EINPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    sys::socket::send(fd.raw(), &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).map(drop)
}

/// The next client that waits.
fn take_client(listener: &Object) -> Option<Fd> {
    let mut client = Vec::new();
    let mut control = listener.control.lock();
    let Queue::KernelAndBefore(clients) = &control.queue else { return None };
    match sys::socket::receive_descriptors(clients.raw(), &mut [0], &mut client, libc::MSG_DONTWAIT) {
        Err(libc::EAGAIN) | Ok(1..) => {}
        // All have been taken.
        _ => control.queue = Queue::Kernel,
    }
    client.pop()
}

/// Before the kernel accepts: whether clients of this listener may be others than it says, and then how long the name
/// may be that the application wants.
pub(crate) fn room_for_name(listener: &Object, name: Wanted) -> Option<socklen_t> {
    let has_clients = || matches!(listener.control.lock().queue, Queue::KernelAndBefore(_));
    (listener.kind() == Kind::Carried && has_clients()).then(|| name.room())
}

/// The kernel accepted `fd`: if it stands for a client, that one is behind the number from now on, and named.
pub(crate) fn accepted(
    runtime: &Runtime,
    listener: &Object,
    fd: c_int,
    flags: c_int,
    name: Wanted,
    room: socklen_t,
) {
    if address::peer_of_shadow(&runtime.os, fd).is_none_or(|peer| *peer.ip() != STANDS_IN) {
        return;
    }
    let Some(client) = take_client(listener) else { return };
    let status = if flags & libc::SOCK_NONBLOCK != 0 { libc::O_NONBLOCK } else { 0 };
    let _ = sys::fd::fcntl(client.raw(), libc::F_SETFL, status as usize);
    runtime.os.duplicate_onto(client.raw(), fd, flags & libc::SOCK_CLOEXEC);
    if let Some(peer) = address::peer_of_shadow(&runtime.os, fd) {
        name.write_over(room, peer);
    }
}
