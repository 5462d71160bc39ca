//! A socket as this layer sees it: what kind, which legs it stands on, who waits for it.
//!
//! Objects are type-stable: allocated once, reused, never freed. A thread that looked one up just before another
//! thread closed it finds a reused object at worst, as it would find a reused descriptor number in the kernel.

mod after_fork;
pub(crate) mod ancillary;
mod extra;
pub(crate) mod holders;
pub(crate) mod in_flight;
mod legs;
mod multicast;
pub(crate) mod pin;
pub(crate) mod price;
pub(crate) mod room;
mod seldom;
pub(crate) mod set;
pub(crate) mod traffic;
mod watch;

pub(crate) use crate::kind::Kind;
pub(crate) use extra::{Extra, Filter};
pub(crate) use legs::LEGS_MAX;
pub(crate) use multicast::{Membership, Multicast};
pub(crate) use pin::Pin;
pub(crate) use seldom::{Empty, Rarely};

use crate::counts;
use crate::locks::Rank;
use crate::peek::Place;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use legs::Leg;
use room::Room;
use std::net::SocketAddrV4;
use std::sync::Arc;
use traffic::Traffic;
use watch::Watch;

/// It never had a leg; it had one, and the kernel carries it by now; it has one, or had one last.
const NEVER: u8 = 0;
const WAS: u8 = 1;
const IS: u8 = 2;

/// Options by level and name, with their values.
pub(crate) type Inherited = Vec<(i32, i32, Vec<u8>)>;

/// Where the clients of a listener wait: its role.
#[derive(Default)]
pub(crate) enum Queue {
    /// It is no listener.
    #[default]
    None,
    /// In the engines of its legs; those of this host in the kernel.
    Engine,
    /// In the kernel.
    Kernel,
    /// In the kernel, where some have stand-ins: those that came before the fork, each in a message from here
    /// (family/listeners.rs).
    KernelAndBefore(sys::Fd),
}

impl Queue {
    /// Whether it is a listener's.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Queue::None)
    }

    /// The kernel listens, if it did not before.
    pub(crate) fn is_kernels(&mut self) {
        if !self.is_some() {
            *self = Queue::Kernel;
        }
    }
}

/// What only control calls touch.
#[derive(Default)]
pub(crate) struct Control {
    /// The local endpoint as the kernel's shadow has it, once bound.
    pub local: Option<SocketAddrV4>,
    /// The peer, once connected.
    pub remote: Option<SocketAddrV4>,
    /// What the steering map holds for this socket: leg index and flow.
    pub flows: Vec<(u8, xdp::Flow)>,
    /// SO_LINGER, seconds.
    pub linger: Option<u32>,
    /// The socket layer's own options of a TCP socket, for connect and listen to start with.
    pub tcp: Option<Box<stack::tcp::Options>>,
    /// Options the application set that accepted sockets inherit on their shadows: level, name, value.
    pub inherited: Option<Arc<Inherited>>,
    /// The socket layer's own options of a UDP socket, for its legs to start with.
    pub udp: Option<Box<stack::udp::Options>>,
    /// A duplicate of the shadow, for calls that still wait on a closed descriptor.
    pub kept: Option<sys::Fd>,
    /// Groups of a UDP socket.
    pub multicast: Rarely<Multicast>,
    /// The connection came by a listener: its shadow has no port.
    pub accepted: bool,
    /// A non-blocking connect whose result has not been told yet.
    pub connecting: bool,
    /// Whose a listener's clients are.
    pub queue: Queue,
    /// The shadow has SO_REUSEADDR for its port's sake (`tcp/port.rs`): the application did not ask for it.
    pub port_shared: bool,
    /// What was on its way when the connection went to the kernel, which does not tell that: the number behind it, and
    /// when the first of it left.
    pub on_way: Option<(u32, stack::Instant)>,
    /// The least round trip that an engine saw: the kernel, which is told the mean in milliseconds, may know none so
    /// short.
    pub least_round_trip: Option<stack::Duration>,
    /// The reason was counted and told already.
    pub told: bool,
}

/// One socket. Everything a data call needs is an atomic; the rest is under `control`. What calls need that are made
/// straight (carrier/straight.rs) is in one line of the cache.
#[repr(C, align(64))]
pub(crate) struct Object {
    /// Its statistics, see [`Object::counts`].
    counts: AtomicPtr<stats::Socket>,
    /// What the judge knows of a connection that may move (carrier/judge.rs).
    pub traffic: Traffic,
    kind: AtomicU8,
    /// O_NONBLOCK as the application set it.
    pub nonblocking: AtomicBool,
    /// Calls to come that are made straight (carrier/straight.rs).
    pub settled: AtomicU32,
    /// Calls that are in the kernel with a connection that it carries (carrier/carried.rs).
    pub in_flight: AtomicU32,
    /// Calls with little data after which it moves to the wire, beyond those that any connection needs; `u32::MAX`: it
    /// stays on its carrier.
    pub price: AtomicU32,
    /// Descriptors that name it (dup).
    pub fds: AtomicU32,
    /// One of them, for the shadow.
    pub fd: AtomicI32,
    /// SO_RCVTIMEO and SO_SNDTIMEO in nanoseconds; 0: none.
    pub receive_timeout: AtomicU64,
    /// See `receive_timeout`.
    pub send_timeout: AtomicU64,
    /// How often its carrier changed (wait/moves.rs). Never reset: a wait may outlive what the object was.
    pub moves: AtomicU32,
    /// Calls until it is asked whether its peer is on this host, which is known then (memory/place.rs).
    pub unplaced: AtomicU32,
    /// Calls that its thread is asked for (runtime/allocation.rs).
    pub strangers: AtomicU32,
    /// Where processes that have it are counted (object/holders.rs); 0: nowhere, this one has it alone.
    pub holders_word: AtomicU32,
    /// The kernel carries it, and the wire is demanded: it moves at its first call. Of a listener:
    /// what it accepts does.
    pub is_demanded: AtomicBool,
    /// The descriptor is an AF_INET6 socket: its names are IPv4-mapped addresses.
    pub is_mapped: AtomicBool,
    /// How often it was given back: it was another socket before.
    pub generation: AtomicU32,
    /// Calls that wait on it (wait/presence.rs), and pins (object/pin.rs).
    pub users: AtomicU32,
    /// Its last descriptor was closed meanwhile.
    pub ending: AtomicBool,
    /// SO_RCVLOWAT, bytes.
    pub receive_low_water: AtomicU32,
    /// SO_PEEK_OFF.
    pub peek: Place,
    /// What recvmsg tells of a datagram beside its bytes, and why sends go through the kernel: see udp/ancillary.rs.
    pub ancillary: AtomicU32,
    /// The interface that the socket is bound to (SO_BINDTODEVICE); 0: none.
    pub device: AtomicU32,
    /// Who is sent SIGURG, and SIGIO: F_SETOWN's word; 0: nobody.
    pub owner: AtomicI32,
    /// The signal that tells of readiness (O_ASYNC); 0: none.
    pub notice: AtomicI32,
    /// The shadow is known to hold something: look at once.
    pub shadow_ready: AtomicBool,
    /// A UDP socket that came from the kernel: what waits in the shadow comes first, for as long as something may still
    /// be on its way there, nanoseconds. 0: no longer.
    pub shadow_first: AtomicU64,
    /// When the shadow was looked at last.
    pub shadow_looked: AtomicU64,
    /// Spin budget of blocking calls, nanoseconds (adaptive, see spin.rs).
    pub spin: AtomicU32,
    /// shutdown(2) of each direction: 1 read, 2 write.
    pub shut: AtomicU8,
    /// Destination of the last unconnected send and the lane it took (see udp/send.rs).
    pub last_route: AtomicU64,
    /// Destination of the last unconnected send and the source address chosen for it.
    pub last_source: AtomicU64,
    /// What is known of its way through memory; null: it never could go there.
    room: AtomicPtr<Room>,
    /// What the extra API knows of it; null: it was never used on this socket.
    extra: AtomicPtr<Extra>,
    /// Whether it is counted among the accelerated: [`NEVER`], [`WAS`], [`IS`].
    accelerated: AtomicU8,
    /// The application waits for it by poll(2), select(2) or epoll(7), or has.
    pub is_polled: AtomicBool,
    /// The application did something to the shadow (options, flags), or another process has it too.
    pub shadow_changed: AtomicBool,
    /// Processes that may claim it (see family/).
    pub holders: AtomicU32,
    /// The only leg of most, and the others of a socket that was ever bound to several interfaces: kept with it.
    first_leg: Leg,
    more_legs: AtomicPtr<[Leg; LEGS_MAX - 1]>,
    leg_count: AtomicU32,
    /// See [`Control`].
    pub control: sys::Mutex<Control>,
    /// Who waits for it.
    pub watch: Watch,
}

fn nobody() -> *mut stats::Socket {
    core::ptr::from_ref(&counts::NOBODY).cast_mut()
}

static FREE: sys::Mutex<Vec<&'static Object>> = Rank::Objects.lock(Vec::new());

/// For a fork: keeps others from taking objects and giving them back.
pub(crate) fn lock_free() -> sys::MutexGuard<'static, Vec<&'static Object>> {
    FREE.lock()
}

/// In the child of a fork: no thread is about to find that one of these is not what it looked for.
pub(crate) fn after_fork(_: &sys::InChild) {
    // Held by nobody, unless what takes our locks before a fork has failed.
    let Some(free) = FREE.try_lock() else { return };
    for object in free.iter().filter(|object| object.users.load(Ordering::Relaxed) != 0) {
        object.users.store(0, Ordering::Relaxed);
    }
}

impl Object {
    /// A fresh object of `kind` for descriptor `fd`.
    pub(crate) fn new(kind: Kind, fd: i32, nonblocking: bool) -> &'static Object {
        let object = FREE.lock().pop().unwrap_or_else(|| Box::leak(Box::new(Object::blank())));
        debug_assert!(object.stands_nowhere(), "somebody gave legs to a socket that was gone");
        object.fds.store(1, Ordering::Relaxed);
        object.fd.store(fd, Ordering::Relaxed);
        object.nonblocking.store(nonblocking, Ordering::Relaxed);
        object.set_counts(counts::claim_soon(kind, fd, nonblocking));
        object.kind.store(kind as u8, Ordering::Release);
        object
    }

    fn stands_nowhere(&self) -> bool {
        self.leg_count.load(Ordering::Acquire) == 0 && self.control.lock().flows.is_empty()
    }

    /// SO_RCVTIMEO in nanoseconds; 0: none.
    #[inline]
    pub(crate) fn receive_timeout(&self) -> u64 {
        self.receive_timeout.load(Ordering::Relaxed)
    }

    /// SO_SNDTIMEO in nanoseconds; 0: none.
    #[inline]
    pub(crate) fn send_timeout(&self) -> u64 {
        self.send_timeout.load(Ordering::Relaxed)
    }

    /// Whether a call with these flags waits for what is not there yet.
    #[inline]
    pub(crate) fn may_wait(&self, flags: i32) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.nonblocking.load(Ordering::Relaxed)
    }

    fn blank() -> Object {
        Object {
            kind: AtomicU8::new(Kind::Free as u8),
            fds: AtomicU32::new(0),
            fd: AtomicI32::new(-1),
            nonblocking: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            moves: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            settled: AtomicU32::new(0),
            traffic: Traffic::new(),
            unplaced: AtomicU32::new(0),
            strangers: AtomicU32::new(0),
            price: AtomicU32::new(0),
            holders_word: AtomicU32::new(0),
            is_demanded: AtomicBool::new(false),
            is_mapped: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            users: AtomicU32::new(0),
            ending: AtomicBool::new(false),
            receive_low_water: AtomicU32::new(1),
            peek: Place::new(),
            ancillary: AtomicU32::new(0),
            device: AtomicU32::new(0),
            owner: AtomicI32::new(0),
            notice: AtomicI32::new(0),
            shadow_ready: AtomicBool::new(false),
            shadow_first: AtomicU64::new(0),
            shadow_looked: AtomicU64::new(0),
            spin: AtomicU32::new(0),
            shut: AtomicU8::new(0),
            last_route: AtomicU64::new(0),
            last_source: AtomicU64::new(0),
            room: AtomicPtr::new(core::ptr::null_mut()),
            extra: AtomicPtr::new(core::ptr::null_mut()),
            counts: AtomicPtr::new(nobody()),
            accelerated: AtomicU8::new(NEVER),
            is_polled: AtomicBool::new(false),
            shadow_changed: AtomicBool::new(false),
            holders: AtomicU32::new(0),
            first_leg: Leg::default(),
            more_legs: AtomicPtr::new(core::ptr::null_mut()),
            leg_count: AtomicU32::new(0),
            control: Rank::Control.lock(Control::default()),
            watch: Watch::new(),
        }
    }

    /// Gives the object back, after it was taken out of the table and its legs were closed.
    pub(crate) fn release(&'static self) {
        if let Some(extra) = self.extra() {
            extra.clear(self);
        }
        if let Some(room) = self.room() {
            room.clear();
        }
        self.kind.store(Kind::Free as u8, Ordering::Release);
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.leg_count.store(0, Ordering::Release);
        for atomic in [
            &self.receive_timeout,
            &self.send_timeout,
            &self.shadow_looked,
            &self.last_route,
            &self.last_source,
        ] {
            atomic.store(0, Ordering::Relaxed);
        }
        self.traffic.clear();
        self.unplaced.store(0, Ordering::Relaxed);
        self.settled.store(0, Ordering::Relaxed);
        self.strangers.store(0, Ordering::Relaxed);
        self.price.store(0, Ordering::Relaxed);
        self.holders_word.store(0, Ordering::Relaxed);
        self.is_demanded.store(false, Ordering::Relaxed);
        self.is_mapped.store(false, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
        self.receive_low_water.store(1, Ordering::Relaxed);
        self.peek.set(-1);
        self.ancillary.store(0, Ordering::Relaxed);
        self.device.store(0, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        self.notice.store(0, Ordering::Relaxed);
        self.shadow_ready.store(false, Ordering::Relaxed);
        self.shadow_first.store(0, Ordering::Relaxed);
        counts::release(self.part_with_counts());
        if self.accelerated.swap(NEVER, Ordering::Relaxed) == IS {
            counts::segment().process().sockets_open.subtract(1);
        }
        self.is_polled.store(false, Ordering::Relaxed);
        self.shadow_changed.store(false, Ordering::Relaxed);
        self.holders.store(0, Ordering::Relaxed);
        self.spin.store(0, Ordering::Relaxed);
        self.shut.store(0, Ordering::Relaxed);
        *self.control.lock() = Control::default();
        self.watch.clear();
        // `moves` goes on counting, for calls that began with the socket that was.
        in_flight::release(self);
    }

    /// Its socket is gone, and no call is in the kernel with it: it may be another's.
    pub(crate) fn give_on(&'static self) {
        FREE.lock().push(self);
    }

    /// Its statistics. Never absent: a socket without a block of its own counts for nobody.
    #[inline]
    pub(crate) fn counts(&self) -> &'static stats::Socket {
        // SAFETY: `set_counts` and `exchange_counts` stored a &'static.
        unsafe { &*self.counts.load(Ordering::Relaxed) }
    }

    fn set_counts(&self, block: &'static stats::Socket) {
        self.counts.store(core::ptr::from_ref(block).cast_mut(), Ordering::Relaxed);
    }

    /// It counts there from now on, and no longer where it did: false, if it did elsewhere.
    pub(crate) fn exchange_counts(&self, from: &'static stats::Socket, to: &'static stats::Socket) -> bool {
        let [from, to] = [from, to].map(|block| core::ptr::from_ref(block).cast_mut());
        self.counts.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The socket is left to the kernel: its block stays with the descriptor, and is no longer this object's.
    pub(crate) fn part_with_counts(&self) -> &'static stats::Socket {
        // SAFETY: `set_counts` and `exchange_counts` stored a &'static.
        unsafe { &*self.counts.swap(nobody(), Ordering::SeqCst) }
    }

    /// What it is now.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.load(Ordering::SeqCst) {
            1 => Kind::Udp,
            2 => Kind::TcpIdle,
            3 => Kind::Listener,
            4 => Kind::Stream,
            5 => Kind::Inherited,
            6 => Kind::Lent,
            7 => Kind::Carried,
            8 => Kind::Moving,
            9 => Kind::Memory,
            _ => Kind::Free,
        }
    }

    /// Becomes another kind; legs are in place before.
    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Release);
    }

    /// The caller moves the connection from here on: true. False: the kernel does not carry it, or somebody else moves
    /// it.
    pub(crate) fn begin_move(&self, _: &Pin) -> bool {
        let (from, to) = (Kind::Carried as u8, Kind::Moving as u8);
        self.kind.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Its connection went from its engine to the kernel, from where it may come back.
    pub(crate) fn is_carried_again(&self) {
        if self.accelerated.swap(WAS, Ordering::Relaxed) == IS {
            counts::carried(self.counts());
        }
    }

    /// The shadow, for a call that came with `fd`: that number may have been closed meanwhile and given out again.
    pub(crate) fn shadow(&self, fd: i32) -> i32 {
        if self.ending.load(Ordering::SeqCst) { self.fd.load(Ordering::SeqCst) } else { fd }
    }

    /// Sends the owner the signals that an edge deserves: SIGURG for urgent data, and with O_ASYNC one for readiness.
    #[inline]
    pub(crate) fn tell_owner(&self, edges: stack::Ready) {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            self.signal_owner(owner, edges);
        }
    }

    #[cold]
    fn signal_owner(&self, owner: i32, edges: stack::Ready) {
        if edges.has(stack::Ready::PRI) {
            sys::process::signal(owner, libc::SIGURG);
        }
        let notice = self.notice.load(Ordering::Relaxed);
        if notice != 0 && edges != stack::Ready::default() {
            sys::process::signal(owner, notice);
        }
    }

    /// The object as the token of its engine sockets.
    pub(crate) fn token(&'static self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    /// The inverse of [`Object::token`]; `None` for the token of sockets without an owner.
    ///
    /// # Safety
    /// `token` came from [`Object::token`], or is 0.
    #[inline]
    pub(crate) unsafe fn of_token(token: u64) -> Option<&'static Object> {
        // SAFETY: objects are never freed, and the caller vouches for the origin.
        unsafe { (token as *const Object).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What docs/design/sockets.md says of an idle connection.
    #[test]
    fn an_object_is_small() {
        assert!(size_of::<Object>() <= 448);
    }
}
