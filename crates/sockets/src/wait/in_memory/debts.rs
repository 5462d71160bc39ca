//! What peers have not read here that went back to the kernel's socket: it is sent there by whoever calls, and where
//! nobody does by the background thread, as the kernel does with what it has queued. So it is with connections whose
//! last descriptor was closed meanwhile, whose end comes behind it.

use super::Bell;
use super::back::{is_repaid, repay};
use crate::background::BACKGROUND;
use crate::fd_table;
use crate::locks::Rank;
use crate::object::{Kind, Object, holders};
use crate::runtime::Runtime;
use ::memory::Joined;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use libc::{c_int, pollfd};
use sys::{Fd, MutexGuard};

/// One of them.
struct Debt {
    joined: Box<Joined>,
    /// Keeps the connection: its end comes when this is closed.
    tcp: Fd,
    /// Bytes that were sent.
    done: u64,
    /// No other process has the connection.
    is_alone: bool,
}

/// Connections that are closed and owe: each holds two descriptors and a segment. Those beyond are reset.
const MOST: usize = 64;

/// Of connections that are closed.
static DEBTS: sys::Mutex<Vec<Debt>> = Rank::Debts.lock(Vec::new());
/// Whether there are some.
static ANY: AtomicBool = AtomicBool::new(false);
/// Bytes that were paid, of all.
static PAID: AtomicU64 = AtomicU64::new(0);
/// Whether a connection that is open may owe something.
static OPEN_ONES: AtomicBool = AtomicBool::new(false);

/// A connection that is open owes what the kernel has no room for.
pub(super) fn note() {
    let is_news = !OPEN_ONES.swap(true, Ordering::AcqRel);
    // The background thread itself goes on when the socket has room.
    if is_news && BACKGROUND.tid.load(Ordering::Relaxed) != sys::process::tid() {
        BACKGROUND.look();
    }
}

/// Takes a debt over from the descriptor `fd`, which is about to be closed. `Some`: it cannot be paid.
pub(crate) fn leave_behind(
    joined: Box<Joined>,
    object: &Object,
    fd: c_int,
    done: u64,
) -> Option<Box<Joined>> {
    if !BACKGROUND.is_running() {
        return Some(joined);
    }
    let mut debts = DEBTS.lock();
    match Fd::duplicate_of(fd) {
        Ok(tcp) if debts.len() < MOST => {
            debts.push(Debt { joined, tcp, done, is_alone: holders::is_alone(object) });
        }
        _ => return Some(joined),
    }
    ANY.store(true, Ordering::Release);
    drop(debts);
    BACKGROUND.look();
    None
}

/// Pays what the kernel has room for, and lets go of what is paid or has nobody to be paid to. True: debts are left.
pub(crate) fn pay_debts(runtime: &'static Runtime) -> bool {
    if OPEN_ONES.swap(false, Ordering::AcqRel) {
        // Whoever still owes says so.
        let now = sys::clock::now();
        owing().for_each(|object| _ = super::poll_unheard(runtime, object, now));
    }
    ANY.load(Ordering::Acquire) && pay_closed(DEBTS.lock()) || OPEN_ONES.load(Ordering::Acquire)
}

fn pay_closed(mut debts: MutexGuard<'_, Vec<Debt>>) -> bool {
    debts.retain_mut(|debt| {
        debt.done += repay(&debt.joined, debt.tcp.raw(), debt.done, true);
        !is_repaid(&debt.joined, debt.done)
    });
    ANY.store(!debts.is_empty(), Ordering::Release);
    !debts.is_empty()
}

/// What tells that there is room for more.
pub(crate) fn watch_debts(fds: &mut Vec<pollfd>) {
    let watched = |fd| pollfd { fd, events: libc::POLLOUT, revents: 0 };
    if ANY.load(Ordering::Acquire) {
        fds.extend(DEBTS.lock().iter().map(|debt| watched(debt.tcp.raw())));
    }
    if OPEN_ONES.load(Ordering::Acquire) {
        fds.extend(owing().map(|object| watched(object.fd.load(Ordering::Relaxed))));
    }
}

fn owing() -> impl Iterator<Item = &'static Object> {
    let sockets = (0..fd_table::end()).filter_map(fd_table::socket);
    sockets.filter(|object| object.kind() == Kind::Memory && super::owes(object))
}

/// Bytes that were paid to all peers by now.
pub(crate) fn paid() -> u64 {
    PAID.load(Ordering::Relaxed)
}

pub(super) fn count_paid(bytes: u64) {
    PAID.fetch_add(bytes, Ordering::Relaxed);
}

/// The process ends with debts: a stream that ends short of what was sent must not end as if it were whole.
pub(crate) fn fail_debts(patience: u64) {
    let debts = DEBTS.lock_until(patience);
    for debt in debts.iter().flat_map(|debts| debts.iter()).filter(|debt| debt.is_alone) {
        reset_at_close(debt.tcp.raw());
    }
    let sockets = (0..fd_table::end()).filter_map(fd_table::socket);
    for object in sockets.filter(|object| object.kind() == Kind::Memory && holders::is_alone(object)) {
        if owes_after_a_step(object, patience) {
            reset_at_close(object.fd.load(Ordering::Relaxed));
        }
    }
}

/// Takes a step of a connection in memory, and tells nobody. True: it owes its peer something.
fn owes_after_a_step(object: &Object, patience: u64) -> bool {
    let Some(mut inner) = object.room().and_then(|room| room.inner.lock_until(patience)) else {
        return false;
    };
    if object.kind() != Kind::Memory {
        return false;
    }
    let _ = inner.go_on(object.fd.load(Ordering::Relaxed), sys::clock::now(), Bell::Rung);
    inner.owes()
}

/// The last close of the kernel's socket resets the connection.
pub(crate) fn reset_at_close(tcp: c_int) {
    let _ = sys::socket::set_option(tcp, libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]);
}

/// At the process' end: peers that go back are answered, and get what they have not read. Nobody who waits here is
/// told. True: more is owed.
pub(crate) fn pay_at_exit(patience: u64) -> bool {
    let sockets = (0..fd_table::end()).filter_map(fd_table::socket);
    let in_memory = sockets.filter(|object| object.kind() == Kind::Memory);
    let owing = in_memory.filter(|object| owes_after_a_step(object, patience)).count();
    DEBTS.lock_until(patience).is_some_and(pay_closed) || owing > 0
}

/// Held over a fork, so that the child can let go of the parent's.
pub(crate) struct Locked(#[expect(dead_code, reason = "is held")] MutexGuard<'static, Vec<Debt>>);

/// Before a fork.
pub(crate) fn lock_debts() -> Locked {
    Locked(DEBTS.lock())
}

/// In the child of a fork: they are the parent's.
pub(crate) fn forget_debts(child: &sys::InChild) {
    DEBTS.take_over(child);
    DEBTS.lock().clear();
    ANY.store(false, Ordering::Release);
    OPEN_ONES.store(false, Ordering::Release);
}
