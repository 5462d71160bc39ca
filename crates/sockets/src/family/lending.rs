//! A process that forks is the keeper of its children (`docs/keeper.md` has what a keeper is): they ask it for a lane
//! on an interface, which it opens when the first of them wants one, and for what takes a privilege that they gave up.
//! So nothing is opened before a fork, for children that may never gain by it.
//!
//! Children have one end of a pair of sockets, by which each asks for a connection of its own and nothing else; the
//! background thread answers, with what `keeper::session` has of the protocol. Nobody waits for a child.

use super::{Family, State};
use crate::opening::OPENING;
use crate::runtime::Runtime;
use core::cell::RefCell;
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use keeper::client;
use keeper::protocol::{OPENING_NS, Packet};
use keeper::session::{self, Attachment, Given, Lender, Next, Session};
use netlink::PolicyMonitor;
use sys::Fd;
use sys::poll::pollfd;

/// Children that are served at a time, and those that may come at a time.
const CLIENTS: usize = 256;
const JOINS: usize = 16;

/// What this process does for its children.
pub(super) struct Lending {
    /// Where they ask for connections, and their end of it.
    door: Fd,
    childrens: Fd,
    /// The background thread was told.
    is_served: bool,
    clients: Vec<Client>,
}

struct Client {
    session: Session,
    /// The question that waits for an interface, which one, and until when.
    waits: Option<(Packet, u32, u64)>,
}

impl Lending {
    fn begin() -> Option<Lending> {
        let (childrens, door) = client::pair_for_children().ok()?;
        Some(Lending { door, childrens, is_served: false, clients: Vec::new() })
    }

    /// In the child: its end, all else is its parent's.
    fn into_childrens(self) -> Fd {
        self.clients.into_iter().for_each(|client| client.session.after_fork());
        self.childrens
    }

    fn descriptors(&self) -> impl Iterator<Item = pollfd> {
        let of_clients = self.clients.iter().map(|client| client.session.descriptor());
        let all = core::iter::once(self.door.raw()).chain(of_clients);
        all.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 })
    }

    /// One question of each child.
    fn serve(&mut self, runtime: &'static Runtime) {
        let mut fds: Vec<pollfd> = self.descriptors().collect();
        if sys::poll::poll(&mut fds, Some(0), None) == Ok(0) && !self.waits() {
            return;
        }
        let parent = Parent { runtime, joined: RefCell::new(Vec::new()) };
        let mut speaks = fds[1..].iter().map(|fd| fd.revents != 0);
        self.clients.retain_mut(|client| client.goes_on(&parent, speaks.next() == Some(true)));
        let mut joined = parent.joined.into_inner();
        if fds[0].revents != 0 {
            let next = || sys::poll::readable(self.door.raw()).then(|| session::joining(&self.door));
            joined.extend(core::iter::from_fn(next).take(JOINS).flatten());
        }
        joined.truncate(CLIENTS.saturating_sub(self.clients.len()));
        let clients = joined.into_iter().map(|it| Client { session: Session::new(it), waits: None });
        self.clients.extend(clients);
    }

    fn waits(&self) -> bool {
        self.clients.iter().any(|client| client.waits.is_some())
    }
}

impl Client {
    /// False: it has left.
    fn goes_on(&mut self, parent: &Parent, speaks: bool) -> bool {
        let next = match self.waits.take() {
            Some((question, interface, until)) => match parent.lane(interface) {
                Attachment::Later if sys::clock::now() < until => {
                    self.waits = Some((question, interface, until));
                    return true;
                }
                Attachment::Later => self.session.attached(question, &refused("it takes too long to open")),
                attachment => self.session.attached(question, &attachment),
            },
            None if speaks => self.session.serve(parent, libc::MSG_DONTWAIT),
            None => Next::GoesOn,
        };
        if let Next::Waits(question) = next {
            self.waits = Some((question, question.value as u32, sys::clock::now() + OPENING_NS));
            return true;
        }
        next == Next::GoesOn
    }
}

/// This process, as its children see it.
struct Parent {
    runtime: &'static Runtime,
    joined: RefCell<Vec<Fd>>,
}

impl Parent {
    fn lane(&self, interface: u32) -> Attachment {
        match self.runtime.known_lane(interface) {
            None => {
                OPENING.for_child(self.runtime, interface);
                Attachment::Later
            }
            Some(Err(why)) => refused(why.text()),
            Some(Ok(lane)) => {
                let inherited = {
                    let inner = lane.lock();
                    (!lane.is_fenced() && !inner.device.is_kept()).then(|| inner.device.beside())
                };
                match inherited.ok_or("it is not this process'".to_owned()).and_then(|it| hand_out(&it)) {
                    Ok(given) => Attachment::Given(given),
                    Err(because) => Attachment::Refused(because),
                }
            }
        }
    }
}

impl Lender for Parent {
    fn namespace(&self) -> u64 {
        self.runtime.namespace()
    }

    fn attach(&self, interface: u32, _process: i32) -> Attachment {
        match self.runtime.is_here() {
            true => self.lane(interface),
            false => refused("the process that forked this one is in another network namespace"),
        }
    }

    fn resolve(&self, interface: u32, address: Ipv4Addr) -> i32 {
        self.runtime.netlink(|netlink| netlink.resolve(interface, address)).err().unwrap_or(0)
    }

    fn join(&self, connection: Fd) {
        self.joined.borrow_mut().push(connection);
    }
}

fn refused(because: &str) -> Attachment {
    Attachment::Refused(because.to_owned())
}

fn hand_out(inherited: &xdp::Inherited) -> Result<Given, String> {
    let (monitor, has_policies) = PolicyMonitor::for_another()
        .map_err(|errno| format!("IPsec policies: {why}", why = sys::Errno(errno)))?;
    let handout = inherited.hand_out().map_err(|refusal| refusal.to_string())?;
    let description = handout.description.clone();
    let (descriptors, own) = handout.behind(monitor);
    Ok(Given { description, descriptors, own, has_policies })
}

impl Family {
    /// Whether this process does something for its children.
    pub(crate) fn lends(&self) -> bool {
        self.state.lock().lending.is_some()
    }

    /// This process does nothing for its children any more, who find nobody.
    pub(crate) fn stop_lending(&self) {
        drop(self.state.lock().lending.take());
    }

    /// Whether anything must be looked at that no descriptor tells of.
    pub(crate) fn is_hurried(&self) -> bool {
        self.is_busy() && self.state.lock().is_hurried()
    }

    /// In the child: what its parent does for its children, it does for this one.
    pub(super) fn has_parent(&self, lending: Option<Lending>) {
        client::after_fork(lending.map(Lending::into_childrens));
        self.busy.store(false, Ordering::Relaxed);
    }
}

impl State {
    /// Before a fork of a process that does something for its children.
    pub(super) fn lend(&mut self) {
        if self.lending.is_none() {
            self.lending = Lending::begin();
        }
    }

    /// After the fork. True: the background thread does not know yet.
    pub(super) fn lends_anew(&mut self) -> bool {
        self.lending.as_mut().is_some_and(|lending| !core::mem::replace(&mut lending.is_served, true))
    }

    pub(super) fn watch_children(&self, fds: &mut Vec<pollfd>) {
        fds.extend(self.lending.iter().flat_map(Lending::descriptors));
    }

    pub(super) fn serve_children(&mut self, runtime: &'static Runtime) {
        if let Some(lending) = &mut self.lending {
            lending.serve(runtime);
        }
    }

    fn is_hurried(&self) -> bool {
        !self.moved.is_empty() || !self.leaving.is_empty()
    }
}
