//! Which of an interface's lanes a connection stands on: VMA_RING_ALLOCATION_LOGIC_RX and _TX, what a socket asks for
//! itself (SO_VMA_RING_ALLOC_LOGIC), and who may move it.
//!
//! A lane receives and sends. So the parameter for receiving decides, and the one for sending where that is at its
//! default. An interface has as many lanes as there were threads, cores, sockets or addresses to have one, up to a
//! limit; beyond that they share them in turn. A connection that a thread of another lane uses for long goes there.

use config::{Parameters, RingLogic};
use core::cell::Cell;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Lanes of one interface. Each may hold an eighth of the arena's frames unread.
const MOST: u32 = 8;
/// Lanes of one interface where the process has one, and only sockets ask for others: the first may hold half of the
/// frames, and some must be left.
const MOST_ASKED: u32 = 4;

/// After the calls of the migration ratio: so many more, all by threads of another lane, and a connection goes there.
/// (VMA's number.)
const STEADY: u32 = 20;

/// What a socket asks for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Logic(RingLogic),
    /// The lane of all that have this number.
    User(u32),
}

impl Asked {
    /// Of VMA's number of a logic. `None`: there is none.
    pub(crate) fn of(logic: u32, user: u32) -> Option<Asked> {
        Some(match logic {
            0 => Asked::Logic(RingLogic::Interface),
            1 => Asked::Logic(RingLogic::Ip),
            10 => Asked::Logic(RingLogic::Socket),
            11 => Asked::User(user),
            20 => Asked::Logic(RingLogic::Thread),
            30 => Asked::Logic(RingLogic::Core),
            31 => Asked::Logic(RingLogic::CoreAttach),
            _ => return None,
        })
    }
}

/// See the module's page.
pub(crate) struct Allocation {
    logic: RingLogic,
    most: u32,
    /// Calls after which it is asked whose they are; 0: never.
    ratio: u32,
    /// Sockets that got a lane.
    sockets: AtomicU32,
}

impl Allocation {
    pub(crate) fn new(parameters: &Parameters) -> Allocation {
        let (logic, ratio) = match parameters.ring_allocation_logic_rx {
            RingLogic::Interface => (parameters.ring_allocation_logic_tx, parameters.ring_migration_ratio_tx),
            logic => (logic, parameters.ring_migration_ratio_rx),
        };
        let most = match parameters.ring_limit_per_interface {
            0 => MOST,
            limit => limit.min(MOST),
        };
        let follows = matches!(logic, RingLogic::Thread | RingLogic::Core | RingLogic::CoreAttach);
        let ratio = if follows { u32::try_from(ratio).unwrap_or(0) } else { 0 };
        Allocation { logic, most, ratio, sockets: AtomicU32::new(0) }
    }

    /// Whether an interface may have more than one lane, though no socket asks for one.
    #[inline]
    pub(crate) fn has_several(&self) -> bool {
        self.most > 1 && self.logic != RingLogic::Interface
    }

    /// The number of the lane for a socket that the calling thread begins to use; `addresses`: of the interface.
    pub(crate) fn number(&self, asked: Option<Asked>, local: Ipv4Addr, addresses: &[Ipv4Addr]) -> u32 {
        let most = if self.has_several() { self.most } else { self.most.min(MOST_ASKED) };
        let logic = match asked {
            Some(Asked::User(user)) => return user % most,
            Some(Asked::Logic(logic)) => logic,
            None => self.logic,
        };
        let number = match logic {
            RingLogic::Interface => 0,
            RingLogic::Ip => addresses.iter().position(|known| *known == local).unwrap_or(0) as u32,
            RingLogic::Socket => self.sockets.fetch_add(1, Ordering::Relaxed),
            RingLogic::Thread | RingLogic::Core | RingLogic::CoreAttach => of_caller(logic),
        };
        number % most
    }

    /// A call on a connection of the lane of this number ends. `calls`: what the connection counts for this. True: it
    /// is to move, as its calls come by another lane's threads.
    #[inline]
    pub(crate) fn is_elsewhere(&self, lane: u32, calls: &AtomicU32) -> bool {
        self.ratio != 0 && self.count(lane, calls)
    }

    fn count(&self, lane: u32, calls: &AtomicU32) -> bool {
        // Of two threads at once one may not be counted.
        let count = calls.load(Ordering::Relaxed).saturating_add(1);
        let is_asked = count >= self.ratio;
        let is_home = is_asked && of_caller(self.logic) % self.most == lane;
        let is_over = count >= self.ratio.saturating_add(STEADY);
        calls.store(if is_home || is_over { 0 } else { count }, Ordering::Relaxed);
        is_over && !is_home
    }
}

/// The number of the calling thread's lane, by one of the three that go by threads.
fn of_caller(logic: RingLogic) -> u32 {
    match logic {
        RingLogic::Core => sys::process::processor(),
        RingLogic::CoreAttach => {
            attach();
            sys::process::processor()
        }
        _ => thread(),
    }
}

/// The calling thread's number: threads are counted as they come.
fn thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(u32::MAX) };
    }
    if NUMBER.get() == u32::MAX {
        NUMBER.set(THREADS.fetch_add(1, Ordering::Relaxed) % u32::MAX);
    }
    NUMBER.get()
}

/// Binds the calling thread to a core, once: threads take those in turn that the first of them could have. One that the
/// program bound to a core stays there.
fn attach() {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    static THREADS: AtomicU32 = AtomicU32::new(0);
    /// Cores that threads were bound to, a bit for each of the first 64: what such a thread starts inherits that.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static IS_ATTACHED: Cell<bool> = const { Cell::new(false) };
    }
    if IS_ATTACHED.replace(true) {
        return;
    }
    let own = sys::thread::processors().unwrap_or_default();
    let bit = |core: usize| 1u64.checked_shl(core as u32).unwrap_or(0);
    if let [core] = own[..]
        && TAKEN.load(Ordering::Relaxed) & bit(core) == 0
    {
        return;
    }
    let cores = CORES.get_or_init(|| own);
    if cores.is_empty() {
        return;
    }
    let core = cores[THREADS.fetch_add(1, Ordering::Relaxed) as usize % cores.len()];
    TAKEN.fetch_or(bit(core), Ordering::Relaxed);
    let _ = sys::thread::pin(core);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(logic: RingLogic) -> Parameters {
        Parameters { ring_allocation_logic_rx: logic, ..Parameters::default() }
    }

    fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

    #[test]
    fn by_default_and_by_a_limit_of_one_an_interface_has_one_lane() {
        assert!(!Allocation::new(&Parameters::default()).has_several());
        let limited = Parameters { ring_limit_per_interface: 1, ..by(RingLogic::Thread) };
        assert!(!Allocation::new(&limited).has_several());
        assert!(Allocation::new(&by(RingLogic::Thread)).has_several());
    }

    #[test]
    fn what_receives_decides_and_what_sends_where_that_is_at_its_default() {
        let sends = Parameters { ring_allocation_logic_tx: RingLogic::Socket, ..Parameters::default() };
        let sends = Allocation::new(&sends);
        assert_eq!([(); 3].map(|()| sends.number(None, ANY, &[])), [0, 1, 2]);
        let both = Parameters { ring_allocation_logic_tx: RingLogic::Socket, ..by(RingLogic::Ip) };
        let both = Allocation::new(&both);
        let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        assert_eq!([addresses[1]; 2].map(|address| both.number(None, address, &addresses)), [1, 1]);
    }

    #[test]
    fn a_socket_that_asks_has_what_it_asks_for_and_leaves_frames_to_the_first_lane() {
        let own = Allocation::new(&Parameters::default());
        let by = |logic, user| own.number(Asked::of(logic, user), ANY, &[]);
        assert_eq!([0, 1, 5].map(|user| by(11, user)), [0, 1, 1], "of four");
        assert_eq!([(); 5].map(|()| by(10, 0)), [0, 1, 2, 3, 0]);
        assert_eq!((by(0, 7), own.number(None, ANY, &[])), (0, 0));
        assert_eq!((Asked::of(2, 0), Asked::of(32, 0)), (None, None));
        let limited = Parameters { ring_limit_per_interface: 1, ..Parameters::default() };
        assert_eq!(Allocation::new(&limited).number(Asked::of(11, 3), ANY, &[]), 0);
    }

    #[test]
    fn what_sends_has_a_migration_ratio_of_its_own() {
        let sends = Parameters { ring_allocation_logic_tx: RingLogic::Thread, ..Parameters::default() };
        let sends = Allocation::new(&Parameters { ring_migration_ratio_tx: 7, ..sends });
        let calls = AtomicU32::new(0);
        let elsewhere = (sends.number(None, ANY, &[]) + 1) % MOST;
        assert_eq!((1..1000).find(|_| sends.is_elsewhere(elsewhere, &calls)), Some(7 + STEADY));
    }

    #[test]
    fn threads_have_lanes_of_their_own_as_far_as_there_are_some() {
        let limited = Parameters { ring_limit_per_interface: 2, ..by(RingLogic::Thread) };
        let all = Allocation::new(&limited);
        let number = || all.number(None, ANY, &[]);
        assert_eq!(number(), number());
        let others: Vec<u32> = (0..8).map(|_| in_thread(number)).collect();
        assert!(others.contains(&0) && others.contains(&1) && others.iter().all(|other| *other < 2));
    }

    #[test]
    fn a_connection_moves_when_another_lanes_thread_alone_uses_it() {
        let parameters = Parameters { ring_migration_ratio_rx: 10, ..by(RingLogic::Thread) };
        let all = Allocation::new(&parameters);
        let home = all.number(None, ANY, &[]);
        let calls = AtomicU32::new(0);
        assert!((0..1000).all(|_| !all.is_elsewhere(home, &calls)));
        let elsewhere = (home + 1) % MOST;
        let until = |limit: u32| (1..=limit).find(|_| all.is_elsewhere(elsewhere, &calls));
        calls.store(0, Ordering::Relaxed);
        assert_eq!(until(100), Some(10 + STEADY));
        // A call of the lane's own thread in between: the count begins anew.
        assert_eq!(until(10 + STEADY - 1), None);
        assert!(!all.is_elsewhere(home, &calls));
        assert_eq!(until(100), Some(10 + STEADY));
        let never = Parameters { ring_migration_ratio_rx: -1, ..parameters };
        assert!((0..1000).all(|_| !Allocation::new(&never).is_elsewhere(elsewhere, &calls)));
    }

    #[test]
    fn attached_threads_are_bound_to_one_core_each_and_stay() {
        let cores = sys::thread::processors().unwrap();
        let all = Allocation::new(&by(RingLogic::CoreAttach));
        let core = || {
            all.number(None, ANY, &[]);
            let first = sys::thread::processors().unwrap();
            all.number(None, ANY, &[]);
            assert_eq!(sys::thread::processors().unwrap(), first);
            assert_eq!(first.len(), 1);
            first[0]
        };
        let taken: Vec<usize> = (0..cores.len()).map(|_| in_thread(core)).collect();
        assert!(cores.iter().all(|core| taken.contains(core)), "{taken:?} of {cores:?}");
        let inherits = in_thread(|| {
            let first = core();
            (first, in_thread(core))
        });
        assert!(cores.len() == 1 || inherits.0 != inherits.1, "what an attached thread starts has its own");
    }
}
