//! The keeper as a whole: whom it has as clients, how many of them, and when it ends.

use crate::interfaces::Held;
use crate::listening::Listening;
use crate::log::say;
use crate::policy::{Policy, Who};
use crate::refusals::Refusals;
use crate::session;
use crate::status::Told;
use keeper::protocol::{Kind, Packet};
use keeper::session::{Session, let_look};
use std::collections::{BTreeMap, HashMap};
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
/// Who is not admitted and may ask for the status: so many at a time.
const STRANGERS: u32 = 16;

/// Why somebody is refused.
const NOT_ADMITTED: &str = "neither root nor named nor in a group that is";
const TOO_MANY: &str = "as many clients as it takes, of this user or of all";

/// How many clients there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) of_all: usize,
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
    socket: String,
    held: Held,
    refusals: Refusals,
    told: Told,
    clients: Mutex<Clients>,
    began: Instant,
}

#[derive(Default)]
struct Clients {
    /// Process and user of each, in the order in which they came.
    all: BTreeMap<u64, (i32, u32)>,
    by_user: HashMap<u32, u32>,
    strangers: u32,
    /// When the last one left; `None`: there are some.
    empty_since: Option<Instant>,
}

/// A client's place, as long as it is a client.
pub(crate) struct Seat {
    keeper: Arc<Keeper>,
    number: u64,
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
        clients.all.remove(&self.number);
        if let Some(count) = clients.by_user.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                clients.by_user.remove(&self.user);
            }
        }
        if clients.all.is_empty() {
            clients.empty_since = Some(Instant::now());
        }
    }
}

impl Keeper {
    pub(crate) fn new(
        policy: Policy,
        limits: Limits,
        socket: String,
        held: Held,
    ) -> Result<Arc<Keeper>, String> {
        let probe = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let namespace = probe.and_then(|socket| sys::socket::network_namespace(socket.raw()));
        let namespace = namespace.map_err(|_| "Linux 5.14 is needed (SO_NETNS_COOKIE)")?;
        let clients = Clients { empty_since: Some(Instant::now()), ..Clients::default() };
        Ok(Arc::new(Keeper {
            policy,
            limits,
            namespace,
            socket,
            held,
            refusals: Refusals::default(),
            told: Told::default(),
            clients: Mutex::new(clients),
            began: Instant::now(),
        }))
    }

    /// The network namespace whose keeper this is, as SO_NETNS_COOKIE has it.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// The interfaces.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Those who were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// What was told of it last.
    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    /// Since when it runs.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Process and user of each client.
    pub(crate) fn all_clients(&self) -> Vec<(i32, u32)> {
        self.clients().all.values().copied().collect()
    }

    /// Takes clients, until none has been there for as long as `linger`, if that is given.
    pub(crate) fn serve(self: &Arc<Keeper>, listening: Listening, linger: Option<Duration>) {
        let mut tended = Instant::now();
        loop {
            // A client may have an interface opened at any time.
            let looks = linger.is_some() || !self.clients().all.is_empty() || !self.held.is_empty();
            let next = listening.next(looks.then_some(LOOK));
            if tended.elapsed() >= TEND {
                self.held.tend(false);
                tended = Instant::now();
            }
            self.held.tell(false);
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
        while late && !self.clients().all.is_empty() {
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
            Ok(who) => self.hear_stranger(connection, who),
            Err(_) => {}
        }
    }

    /// Serves a client, in a thread of its own, as one of this user's.
    pub(crate) fn admit(self: &Arc<Keeper>, connection: Fd, user: u32) {
        let process = sys::socket::peer_process(connection.raw()).unwrap_or(0);
        let Some(seat) = self.seat(process, user) else {
            self.note_refused(&Who { process, user, groups: Vec::new() }, TOO_MANY);
            return refuse(&connection, libc::EMFILE);
        };
        let keeper = Arc::clone(self);
        // What does not start closes the connection, and gives the seat back.
        let body = move || {
            let mut session = Session::new(connection);
            session::serve(&keeper, &mut session, &seat);
            let process = session.process();
            // What it has in repair mode leaves that.
            drop(session);
            keeper.mourn(process);
        };
        if let Err(error) = start(body) {
            say!("a client of user {user} is refused: {error}");
        }
    }

    /// Somebody who is not admitted, unless what the names of the policy mean has changed. Who is refused may ask for
    /// the status, once and at once. Only so many at a time are heard.
    fn hear_stranger(self: &Arc<Keeper>, connection: Fd, who: Who) {
        let has_place = {
            let mut clients = self.clients();
            let has_place = clients.strangers < STRANGERS;
            clients.strangers += u32::from(has_place);
            has_place
        };
        if !has_place {
            return self.turn_away(&connection, &who);
        }
        let keeper = Arc::clone(self);
        let body = move || {
            keeper.policy.look_again();
            if keeper.policy.admits(&who) {
                keeper.admit(connection, who.user);
            } else {
                keeper.turn_away(&connection, &who);
                let_look(&session::Client { keeper: &keeper, seat: None }, &connection);
            }
            keeper.clients().strangers -= 1;
        };
        // Without a thread it is hung up on.
        if start(body).is_err() {
            self.clients().strangers -= 1;
        }
    }

    fn turn_away(&self, connection: &Fd, who: &Who) {
        self.note_refused(who, NOT_ADMITTED);
        refuse(connection, libc::EACCES);
    }

    /// A client has hung up. If its process ends, the peers of its connections are to know.
    fn mourn(&self, process: i32) {
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
        self.held.tend(true);
    }

    fn seat(self: &Arc<Keeper>, process: i32, user: u32) -> Option<Seat> {
        let mut clients = self.clients();
        let of_user = clients.by_user.get(&user).copied().unwrap_or(0);
        if clients.all.len() >= self.limits.of_all || of_user >= self.limits.of_a_user {
            return None;
        }
        let number = clients.all.last_key_value().map_or(0, |(last, _)| last + 1);
        clients.all.insert(number, (process, user));
        clients.by_user.insert(user, of_user + 1);
        clients.empty_since = None;
        Some(Seat { keeper: Arc::clone(self), number, user })
    }

    fn note_refused(&self, who: &Who, why: &str) {
        if self.refusals.note(who, why) {
            say!("process {} of user {} is refused: {why}", who.process, who.user);
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("client".to_owned()).stack_size(STACK).spawn(body).map(drop)
}

/// Says why, as the answer to the Hello that is coming or has come.
fn refuse(connection: &Fd, errno: i32) {
    keeper::session::say(connection, Packet::question(Kind::Hello, 1, 0).answered(errno));
}

/// Whether this process may switch repair mode here.
pub(crate) fn can_repair() -> bool {
    sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0)
        .and_then(|socket| sys::socket::set_option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_REPAIR, &1i32))
        .is_ok()
}

#[cfg(test)]
mod tests;
