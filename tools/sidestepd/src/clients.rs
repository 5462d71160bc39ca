//! The keeper as a whole: whom it has as clients, how many of them, and when it ends.

use crate::interfaces::Held;
use crate::listening::Listening;
use crate::policy::{Policy, Who};
use crate::session;
use keeper::protocol::{Kind, Packet};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sys::Fd;

/// Stack of a client's thread.
const STACK: usize = 128 << 10;
/// How often the main thread looks whether the last client has left.
const LOOK: Duration = Duration::from_millis(250);
/// A process that ends closes its descriptors a moment before it is gone.
const DYING: Duration = Duration::from_millis(500);
/// How often interfaces are looked after.
const TEND: Duration = Duration::from_secs(1);
/// Users whose refusal is told: beyond, nothing is.
const TOLD_MAX: usize = 256;

/// How many clients there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) of_all: u32,
    pub(crate) of_a_user: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { of_all: 4096, of_a_user: 1024 }
    }
}

/// See the file's page.
pub(crate) struct Keeper {
    policy: Policy,
    limits: Limits,
    namespace: u64,
    held: Held,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    all: u32,
    by_user: HashMap<u32, u32>,
    /// Users who were told about in the log.
    refused: Vec<u32>,
    /// When the last one left; `None`: there are some.
    empty_since: Option<Instant>,
}

/// A client's place, as long as it is a client.
pub(crate) struct Seat {
    keeper: Arc<Keeper>,
    user: u32,
}

impl Seat {
    pub(crate) fn user(&self) -> u32 {
        self.user
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut clients = self.keeper.clients();
        clients.all -= 1;
        if let Some(count) = clients.by_user.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                clients.by_user.remove(&self.user);
            }
        }
        if clients.all == 0 {
            clients.empty_since = Some(Instant::now());
        }
    }
}

impl Keeper {
    pub(crate) fn new(policy: Policy, limits: Limits, held: Held) -> Result<Arc<Keeper>, String> {
        let probe = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let namespace = probe.and_then(|socket| sys::socket::network_namespace(socket.raw()));
        let namespace = namespace.map_err(|_| "Linux 5.14 is needed (SO_NETNS_COOKIE)")?;
        let clients = Clients { empty_since: Some(Instant::now()), ..Clients::default() };
        Ok(Arc::new(Keeper { policy, limits, namespace, held, clients: Mutex::new(clients) }))
    }

    /// The network namespace whose keeper this is, as SO_NETNS_COOKIE has it.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// The interfaces.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Takes clients, until none has been there for as long as `linger`, if that is given.
    pub(crate) fn serve(self: &Arc<Keeper>, listening: Listening, linger: Option<Duration>) {
        let mut tended = Instant::now();
        loop {
            // A client may have an interface opened at any time.
            let looks = linger.is_some() || self.clients().all > 0 || !self.held.is_empty();
            let next = listening.next(looks.then_some(LOOK));
            if tended.elapsed() >= TEND {
                self.held.tend();
                tended = Instant::now();
            }
            match next {
                Some(connection) => self.greet(connection),
                None if linger.is_some_and(|linger| self.is_empty_for(linger)) => break,
                None => {}
            }
        }
        // Who came meanwhile is served; others find the name gone.
        let mut late = false;
        for connection in listening.end() {
            self.greet(connection);
            late = true;
        }
        while late && self.clients().all > 0 {
            std::thread::sleep(LOOK);
        }
    }

    fn is_empty_for(&self, linger: Duration) -> bool {
        self.clients().empty_since.is_some_and(|since| since.elapsed() >= linger)
    }

    /// Somebody connected.
    fn greet(self: &Arc<Keeper>, connection: Fd) {
        match Who::at(connection.raw()) {
            Ok(who) if self.policy.admits(&who) => self.admit(connection, who.user),
            Ok(who) => {
                self.note_refused(&who);
                refuse(&connection, libc::EACCES);
            }
            Err(_) => {}
        }
    }

    /// Serves a client, in a thread of its own, as one of this user's.
    pub(crate) fn admit(self: &Arc<Keeper>, connection: Fd, user: u32) {
        let Some(seat) = self.seat(user) else { return refuse(&connection, libc::EMFILE) };
        let keeper = Arc::clone(self);
        // What does not start closes the connection, and gives the seat back.
        let body = move || {
            session::serve(&keeper, &connection, &seat);
            keeper.mourn(&connection);
        };
        let thread = std::thread::Builder::new().name("client".to_owned()).stack_size(STACK).spawn(body);
        if let Err(error) = thread {
            eprintln!("sidestepd: a client of user {user} is refused: {error}");
        }
    }

    /// A client has hung up. If its process ends, the peers of its connections are to know.
    fn mourn(&self, connection: &Fd) {
        let process = sys::socket::peer_process(connection.raw()).unwrap_or(0);
        if process == 0 || self.held.is_empty() {
            return;
        }
        let end = Instant::now() + DYING;
        while sys::process::is_running(process) {
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.held.tend();
    }

    fn seat(self: &Arc<Keeper>, user: u32) -> Option<Seat> {
        let mut clients = self.clients();
        let of_user = clients.by_user.get(&user).copied().unwrap_or(0);
        if clients.all >= self.limits.of_all || of_user >= self.limits.of_a_user {
            return None;
        }
        clients.all += 1;
        clients.by_user.insert(user, of_user + 1);
        clients.empty_since = None;
        Some(Seat { keeper: Arc::clone(self), user })
    }

    fn note_refused(&self, who: &Who) {
        let mut clients = self.clients();
        if clients.refused.len() < TOLD_MAX && !clients.refused.contains(&who.user) {
            clients.refused.push(who.user);
            let Who { process, user, .. } = who;
            eprintln!(
                "sidestepd: process {process} of user {user} is refused: neither root nor named nor in a group that is"
            );
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why, as the answer to the Hello that is coming or has come.
fn refuse(connection: &Fd, errno: i32) {
    session::say(connection, Packet::question(Kind::Hello, 1, 0).answered(errno));
}

/// Whether this process may switch repair mode here.
pub(crate) fn can_repair() -> bool {
    sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0)
        .and_then(|socket| sys::socket::set_option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_REPAIR, &1i32))
        .is_ok()
}
