//! The interfaces that are held: opened when a program wants a lane, given back some time after the last lane has
//! gone. Who died is buried here, and its peers are told.

use crate::log::say;
use crate::telling;
use config::Interfaces;
use config::interfaces::Choice;
use netlink::{Netlink, PolicyMonitor};
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sys::{Fd, capability};
use xdp::{Census, HalfOpen, Handout, Kept, Leftovers, Options, Passed, Refusal};

/// What is kept where it is there: what opening interfaces takes, and CAP_NET_BIND_SERVICE, without which connections
/// on low ports do not come back from the wire.
pub(crate) const CAPABILITIES: u64 = capability::OPENING | capability::NET_BIND_SERVICE;

/// Connections whose peers are told at a time, and how long the queues of interfaces have then.
const TOLD_AT_ONCE: usize = 500;
const PAUSE: Duration = Duration::from_millis(2);

/// Programs of a predecessor have come by then.
const SETTLING: Duration = Duration::from_secs(4);

/// How interfaces are held.
pub(crate) struct Settings {
    /// Which.
    pub(crate) interfaces: Interfaces,
    /// For how long after the last lane has gone.
    pub(crate) hold: Duration,
    /// Packet buffers of each.
    pub(crate) frames: u32,
}

/// See the file's page.
pub(crate) struct Held {
    settings: Settings,
    began: Instant,
    /// Briefly: nobody asks the kernel for anything that takes long under this lock, or the dead would wait.
    all: Mutex<HashMap<u32, One>>,
    /// Who opens an interface. Taken before `all`.
    opening: Mutex<()>,
    /// Who takes one over, which does not wait for another one's driver. Taken before `all`.
    restoring: Mutex<()>,
}

struct One {
    name: String,
    kept: Arc<Kept>,
    /// When it was seen in use last, or handed out.
    used: Instant,
}

/// What a program gets beside the interface.
pub(crate) struct Given {
    pub(crate) handout: Handout,
    pub(crate) monitor: Fd,
    pub(crate) has_policies: bool,
}

impl Held {
    pub(crate) fn new(settings: Settings) -> Held {
        Held {
            settings,
            began: Instant::now(),
            all: Mutex::new(HashMap::new()),
            opening: Mutex::new(()),
            restoring: Mutex::new(()),
        }
    }

    /// A lane for a process on an interface, which is opened for it if need be. An error is for the program's log.
    pub(crate) fn attach(&self, index: u32, process: i32) -> Result<Given, String> {
        let (monitor, has_policies) = PolicyMonitor::for_another()
            .map_err(|errno| format!("IPsec policies: {why}", why = sys::Errno(errno)))?;
        let name = xdp::interface_name(index).map_err(|_| "no such interface".to_owned())?;
        self.await_predecessors(index);
        let kept = self.kept(index, &name, || self.open(&name))?;
        let handout = kept.hand_out(process).map_err(|refusal| refusal.to_string())?;
        Ok(Given { handout, monitor, has_policies })
    }

    /// An interface, held from now on. `open` takes the kernel its time.
    fn kept(
        &self,
        index: u32,
        name: &str,
        open: impl FnOnce() -> Result<Kept, String>,
    ) -> Result<Arc<Kept>, String> {
        if let Some(kept) = self.use_held(index) {
            return Ok(kept);
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.use_held(index) {
            return Ok(kept);
        }
        let kept = Arc::new(open()?);
        say!("{name}: held");
        let one = One { name: name.to_owned(), kept: kept.clone(), used: Instant::now() };
        match self.all().entry(index) {
            Entry::Vacant(free) => drop(free.insert(one)),
            // Handed over by another keeper's program in between: whose program is on the interface, one knows.
            Entry::Occupied(_) => return Err(format!("{name} was handed over just now; try again")),
        }
        Ok(kept)
    }

    fn use_held(&self, index: u32) -> Option<Arc<Kept>> {
        let mut all = self.all();
        let one = all.get_mut(&index)?;
        one.used = Instant::now();
        Some(one.kept.clone())
    }

    /// A process hands over an interface that another keeper held, which is gone. Returns 0 or errno.
    pub(crate) fn restore(&self, index: u32, description: &[u8], descriptors: Vec<Fd>, process: i32) -> i32 {
        let Ok(name) = xdp::interface_name(index) else { return libc::ENODEV };
        // By this client's own thread, as is the end of it: nobody else waits for what it passes.
        let passed = match Passed::look_at(index, description, descriptors) {
            Ok(passed) => passed,
            Err(refusal) => return errno_of(&refusal),
        };
        let taken = self.taken_over(index, &name, |held| match held {
            Some(kept) => kept.join(&passed, process).map(|()| None),
            None => Kept::restore(&passed, process).map(Some),
        });
        taken.err().unwrap_or(0)
    }

    /// `take` takes the kernel its time: it joins an interface that is held, or makes what is held from now on.
    fn taken_over(
        &self,
        index: u32,
        name: &str,
        take: impl FnOnce(Option<&Kept>) -> Result<Option<Kept>, Refusal>,
    ) -> Result<(), i32> {
        let _one = self.restoring.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.all().get(&index).map(|one| one.kept.clone());
        if held.is_none() {
            self.is_wanted(name).map_err(|_| libc::EPERM)?;
        }
        let taken = take(held.as_deref()).map_err(|refusal| errno_of(&refusal))?;
        let Some(kept) = taken else { return Ok(()) };
        match self.all().entry(index) {
            Entry::Vacant(free) => {
                free.insert(One { name: name.to_owned(), kept: Arc::new(kept), used: Instant::now() });
            }
            // Opened in between: its program is on the interface, and what was handed over is not.
            Entry::Occupied(_) => return Err(libc::EBUSY),
        }
        say!("{name}: taken over from a keeper that is gone");
        Ok(())
    }

    /// Whether an interface is one to hold.
    fn is_wanted(&self, name: &str) -> Result<(), String> {
        match self.settings.interfaces.choice(name) {
            Choice::Yes => Ok(()),
            Choice::No => Err(format!("{name} is not among its interfaces (--interfaces)")),
            Choice::Auto => xdp::caps::worth_it(name).map_err(|because| {
                format!("{name} is not chosen by itself: {because} (sidestepd --interfaces {name})")
            }),
        }
    }

    /// A keeper that has just begun may find programs of another one that is gone: they look for it once a second.
    fn await_predecessors(&self, index: u32) {
        let is_held = || self.all().contains_key(&index);
        while self.began.elapsed() < SETTLING && xdp::query::xdp_program(index).is_some() && !is_held() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn open(&self, name: &str) -> Result<Kept, String> {
        self.is_wanted(name)?;
        let mss = wire::tcp::announced_mss(mtu(name));
        let options =
            Options { frames: self.settings.frames, tx_ring: 2048, answer_mss: mss, ..Options::default() };
        Kept::open(name, &options).map_err(|refusal| refusal.to_string())
    }

    /// How they are held.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Each with its name, as it is used at the moment.
    pub(crate) fn census(&self) -> Vec<(String, Census)> {
        let mut each: Vec<_> = self.all().values().map(|one| (one.name.clone(), one.kept.clone())).collect();
        each.sort_by(|one, other| one.0.cmp(&other.0));
        each.into_iter().map(|(name, kept)| (name, kept.census())).collect()
    }

    /// Processes, once for each time that they were handed something which is not forgotten yet.
    #[cfg(test)]
    pub(crate) fn lanes_handed(&self) -> usize {
        self.all().values().map(|one| one.kept.handed()).sum()
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Once a second, and when a program has ended: the dead are buried, and what nobody uses is given back.
    pub(crate) fn tend(&self, waits: bool) {
        let each: Vec<Arc<Kept>> = self.all().values().map(|one| one.kept.clone()).collect();
        let gone: Vec<Leftovers> = each.iter().map(|kept| kept.bury_dead()).collect();
        drop(each);
        let_go(gone.into_iter().filter(|gone| !gone.is_empty()).collect());
        let mut unused = Vec::new();
        let mut all = self.all();
        for (index, one) in all.iter_mut() {
            // (Who is just being handed it, or buries its dead, has a copy.)
            if one.kept.is_used() || Arc::strong_count(&one.kept) > 1 {
                one.used = Instant::now();
            } else if one.used.elapsed() >= self.settings.hold || xdp::interface_name(*index).is_err() {
                unused.push(*index);
            }
        }
        let unused: Vec<One> = unused.iter().filter_map(|index| all.remove(index)).collect();
        drop(all);
        self.tell(waits);
        unused.iter().for_each(|one| say!("{}: given back", one.name));
        let_go(unused);
    }

    /// Tells the peers of the dead whose time has come. `waits`: the caller has the time to hear their answers.
    pub(crate) fn tell(&self, waits: bool) {
        let next = || {
            let mut all = self.all();
            let mut each = all.iter_mut();
            each.find_map(|(index, one)| {
                let half_open = one.kept.half_open(TOLD_AT_ONCE)?;
                Some((*index, one.name.clone(), half_open))
            })
        };
        while let Some((index, name, half_open)) = next() {
            tell(index, &name, &half_open, waits);
            std::thread::sleep(PAUSE);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, One>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn errno_of(refusal: &Refusal) -> i32 {
    match refusal {
        Refusal::System { errno, .. } => *errno,
        _ => libc::EBUSY,
    }
}

/// Closing takes the kernel its time, and of what strangers passed as long as they like: so nobody waits for it.
fn let_go<T: Send + 'static>(what: Vec<T>) {
    if !what.is_empty() {
        // Where no thread starts it is dropped here.
        let _ = std::thread::Builder::new().name("let go".to_owned()).spawn(move || drop(what));
    }
}

fn mtu(name: &str) -> u32 {
    let links = Netlink::open().and_then(|mut netlink| netlink.links()).unwrap_or_default();
    links.iter().find(|link| link.name == name).map_or(1500, |link| link.mtu)
}

/// Has the peers of killed processes find out.
fn tell(index: u32, name: &str, half_open: &HalfOpen, waits: bool) {
    let failure = telling::tell(index, half_open, waits);
    if half_open.is_first() {
        let count = half_open.connections().len();
        let how = failure
            .map_or(String::new(), |errno| format!(", not all of them: {why}", why = sys::Errno(errno)));
        say!("{name}: a process was killed: the peers of {count} connections are told{how}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn nobody_waits_while_an_interface_is_taken_over() {
        let (interfaces, _) = Interfaces::parse("none");
        let held = Held::new(Settings { interfaces, hold: Duration::ZERO, frames: 1 });
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel();
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            let held = &held;
            let takes = scope.spawn(move || {
                held.taken_over(u32::MAX, "none", |_| {
                    begun.send(()).unwrap();
                    let errno = goes_on.recv_timeout(PATIENCE).map_or(libc::ETIMEDOUT, |()| libc::ENOSPC);
                    Err(Refusal::System { call: "taking", errno })
                })
            });
            begins.recv_timeout(PATIENCE).unwrap();
            scope.spawn(move || {
                held.tend(false);
                done.send((held.is_empty(), held.census().len())).unwrap();
            });
            assert_eq!(is_done.recv_timeout(PATIENCE / 2), Ok((true, 0)), "the dead wait for an interface");
            go_on.send(()).unwrap();
            assert_eq!(takes.join().unwrap(), Err(libc::ENOSPC));
        });
    }

    #[test]
    fn nobody_waits_for_what_strangers_passed_to_be_closed() {
        struct Slow(std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<bool>);
        impl Drop for Slow {
            fn drop(&mut self) {
                let _ = self.1.send(self.0.recv_timeout(PATIENCE).is_ok());
            }
        }
        let (go_on, goes_on) = channel();
        let (done, is_done) = channel();
        let_go(vec![Slow(goes_on, done)]);
        go_on.send(()).unwrap();
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok(true), "it was waited for");
    }

    #[test]
    fn nobody_waits_while_an_interface_is_opened() {
        let (interfaces, _) = Interfaces::parse("!*");
        let held = Held::new(Settings { interfaces, hold: Duration::ZERO, frames: 1 });
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel();
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            let held = &held;
            let opens = scope.spawn(move || {
                let open = || {
                    begun.send(()).unwrap();
                    goes_on.recv_timeout(PATIENCE).map_err(|_| "nobody went on".to_owned())?;
                    Err::<Kept, _>("refused".to_owned())
                };
                held.kept(u32::MAX, "none", open).err()
            });
            begins.recv_timeout(PATIENCE).unwrap();
            scope.spawn(move || {
                held.tend(false);
                done.send((held.is_empty(), held.census().len())).unwrap();
            });
            assert_eq!(is_done.recv_timeout(PATIENCE / 2), Ok((true, 0)), "the dead wait for an interface");
            go_on.send(()).unwrap();
            assert_eq!(opens.join().unwrap().as_deref(), Some("refused"));
        });
    }
}
