//! An interface that is held for the lanes of any number of processes, by one that has none itself: the keeper. What a
//! child of a fork inherits is handed out as descriptors, with AF_XDP sockets that are bound already.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use sys::afterwards::Hold;
use sys::{Fd, Mutex};

use super::half_open::Untold;
use super::open::open_shared;
use super::shared::Shared;
use super::{HalfOpen, Inherited, Options, Queue, large};
use crate::arena::{self, Arena, GRACE_S};
use crate::caps::Way;
use crate::interface::{Interface, name_of};
use crate::owner::Owner;
use crate::socket::{Anchor, Socket, af_xdp};
use crate::steering::Steering;
use crate::{Flow, Mode, Refusal};

/// Words that describe an interface to who is handed it.
const WORDS: usize = 16;
/// And the version of that.
const VERSION: u32 = 3;
/// Descriptors that all have before the anchors: arena (2), link, program, maps (6).
pub(super) const COMMON: usize = 10;

/// Handouts that one process may have: it may have failed to use some, or become another program.
const HANDED_MAX: usize = 8;

/// A held interface: see the module's page.
pub struct Kept {
    pub(super) shared: Arc<Shared>,
    /// They own the queues' rings, and receive nothing. None, if a keeper had them that is gone: the anchors keep the
    /// rings.
    _queues: Vec<Queue>,
    half_open: Mutex<Untold>,
    handed: Mutex<Vec<Handed>>,
}

/// Sockets of processes that are gone, of which this is the last copy. The kernel takes its time to close them, so they
/// are dropped where nobody waits for that.
#[must_use]
pub struct Leftovers(Vec<Handed>);

impl Leftovers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The AF_XDP sockets of a process. What was in their rings when it died is to be had by them alone.
struct Handed {
    process: i32,
    /// Of the process, as [`sys::process::identity`] tells it.
    identity: u64,
    /// When it was found dead, in seconds.
    died: Option<u32>,
    sockets: Vec<Fd>,
}

impl Handed {
    /// The frames in the receive rings.
    fn unread(&self, shared: &Shared) -> Vec<u32> {
        let of = |(queue, socket)| Socket::unread(socket, shared.binding(queue)).unwrap_or_default();
        (0..).zip(&self.sockets).flat_map(of).collect()
    }
}

/// What a process is handed: who gets both can make an [`Inherited`] of them.
pub struct Handout {
    /// What the interface is.
    pub description: Vec<u8>,
    /// What is only this process', and closed here behind the message.
    own: Vec<Fd>,
    common: Vec<i32>,
}

impl Handout {
    /// What is to be sent, behind a socket that hears of changes of IPsec policies: all descriptors, in order; and
    /// those of them that are only the process' own, which are to stay open until they were sent.
    pub fn behind(self, monitor: Fd) -> (Vec<i32>, Vec<Fd>) {
        let own = self.own.iter().map(Fd::raw);
        let descriptors = core::iter::once(monitor.raw()).chain(self.common).chain(own).collect();
        (descriptors, self.own.into_iter().chain([monitor]).collect())
    }
}

/// The name of an interface of this network namespace.
pub fn interface_name(index: u32) -> sys::Result<String> {
    let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    name_of(&socket, index)
}

/// More than a message or a process may have.
const TOO_MANY: Refusal = Refusal::System { call: "sendmsg", errno: libc::EMFILE };

fn system(call: &'static str) -> impl Fn(i32) -> Refusal {
    move |errno| Refusal::System { call, errno }
}

impl Kept {
    /// Takes all queues of an interface and attaches the program. Needs Linux 6.4, which maps rings of bound sockets.
    pub fn open(interface: &str, options: &Options) -> Result<Kept, Refusal> {
        let (shared, queues) = open_shared(interface, options)?;
        shared.make_anchors(&queues);
        if shared.anchors().len() != queues.len() {
            return Err(Refusal::System { call: "bind(AF_XDP)", errno: libc::ENOBUFS });
        }
        Ok(Self::of(shared, queues))
    }

    pub(super) fn of(shared: Arc<Shared>, queues: Vec<Queue>) -> Kept {
        shared.arena.keep();
        Kept {
            shared,
            _queues: queues,
            half_open: Mutex::new(Untold::default()),
            handed: Mutex::new(Vec::new()),
        }
    }

    /// What a process needs for a lane of its own. EMFILE: there are more queues than a message has room for, or it has
    /// asked too often.
    pub fn hand_out(&self, process: i32) -> Result<Handout, Refusal> {
        if self.has_enough(process) {
            return Err(TOO_MANY);
        }
        let handout = hand_out(&self.shared)?;
        let sockets = handout.own.iter().take(self.shared.anchors().len()).map(Fd::duplicate);
        let sockets = sockets.collect::<sys::Result<Vec<Fd>>>().map_err(system("fcntl(F_DUPFD)"))?;
        self.has_handed(process, sockets);
        Ok(handout)
    }

    /// These sockets are a process'.
    pub(super) fn has_handed(&self, process: i32, sockets: Vec<Fd>) {
        let identity = sys::process::identity(process);
        self.handed.lock().push(Handed { process, identity, died: None, sockets });
    }

    /// Whether a process has as many as one may.
    pub(super) fn has_enough(&self, process: i32) -> bool {
        self.handed.lock().iter().filter(|handed| handed.process == process).count() >= HANDED_MAX
    }

    /// How often something was handed out that is not forgotten yet.
    pub fn handed(&self) -> usize {
        self.handed.lock().len()
    }

    /// Whether a process has a lane here.
    pub fn is_used(&self) -> bool {
        self.shared.arena.is_used()
    }

    /// Now and then, and when a process ended: lanes of dead processes are taken out of the steering, and after a while
    /// their frames are taken back. What was told to nobody is [half-open](Kept::half_open) then. Takes the kernel its
    /// time.
    pub fn bury_dead(&self) -> Leftovers {
        self.shared.owner.hear();
        let now = arena::seconds();
        // Before lanes are looked for: those of whoever is dead by now are among them.
        for handed in self.handed.lock().iter_mut().filter(|handed| handed.died.is_none()) {
            let lives = sys::process::is_still_running(handed.process, handed.identity);
            handed.died = (!lives).then_some(now);
        }
        self.half_open.lock().extend(bury_those(&self.shared, Arena::find_dead_and_followed));
        let gone = self.forget(|handed| handed.died.is_some_and(|died| now - died >= GRACE_S));
        self.shared.arena.take_back_left(now);
        gone
    }

    /// So many, at the most, of the connections that died with their process, and whose peers are to be told by now.
    pub fn half_open(&self, most: usize) -> Option<HalfOpen> {
        self.half_open.lock().take(most, sys::clock::monotonic(), &self.shared)
    }
}

impl Kept {
    /// Sockets that have long received and sent nothing are nobody's any more.
    fn forget(&self, is_gone: impl Fn(&Handed) -> bool) -> Leftovers {
        let gone: Vec<Handed> = self.handed.lock().extract_if(.., |handed| is_gone(handed)).collect();
        let unread = gone.iter().flat_map(|handed| handed.unread(&self.shared));
        self.shared.arena.take_back(unread);
        Leftovers(gone)
    }
}

/// What a process needs for a lane beside those that there are.
fn hand_out(shared: &Shared) -> Result<Handout, Refusal> {
    let mut own = Vec::new();
    for (queue, anchor) in (0..).zip(shared.anchors()) {
        let socket = af_xdp()?;
        anchor.bind(&socket, shared.binding(queue))?;
        own.push(socket);
    }
    if shared.may_cut()
        && let Some(anchor) = shared.anchors().first()
        && let Ok(large) = large::open(&shared.interface, &anchor.fd)
    {
        own.push(large);
    }
    let common = common(shared);
    if common.len() + own.len() > sys::socket::DESCRIPTORS_MAX {
        return Err(TOO_MANY);
    }
    Ok(Handout { description: describe(shared), own, common })
}

/// Takes lanes of dead processes out of the steering, whose numbers are free then. Answers the connections of those
/// that were killed.
pub(super) fn bury(shared: &Shared) -> HashSet<Flow> {
    bury_those(shared, Arena::find_dead)
}

fn bury_those(shared: &Shared, find: impl Fn(&Arena) -> u64) -> HashSet<Flow> {
    let arena = &shared.arena;
    let _lock = arena.lock_steering();
    let dead = find(arena);
    if dead == 0 {
        return HashSet::new();
    }
    let half_open = shared.steering.bury(dead, arena.killed(dead));
    arena.bury(dead, arena::seconds());
    half_open
}

/// The descriptors that all have, in order.
pub(super) fn common(shared: &Shared) -> Vec<i32> {
    let link = shared.link.lock().as_ref().map_or(-1, Fd::raw);
    let mut common = shared.arena.descriptors().to_vec();
    common.extend([link, shared.program.raw()]);
    common.extend(shared.steering.descriptors());
    common.extend(shared.anchors().iter().map(|anchor| anchor.fd.raw()));
    common.extend(shared.offloads.as_ref().map(Hold::raw));
    common
}

/// Words of this machine's byte order; the driver's name behind them.
pub(super) fn describe(shared: &Shared) -> Vec<u8> {
    let Interface { index, mac, mtu, queues, queues_max, driver, .. } = &shared.interface;
    let (options, way) = (&shared.options, shared.way);
    let flags = u32::from(shared.is_native())
        | u32::from(way.zero_copy) << 1
        | u32::from(way.multi_buffer) << 2
        | u32::from(options.large) << 3
        | u32::from(shared.offloads.is_some()) << 4;
    let mut words = [0u32; WORDS];
    words[..11].copy_from_slice(&[
        VERSION,
        *index,
        *mtu,
        *queues,
        *queues_max,
        shared.arena.frames(),
        options.rx_ring,
        options.tx_ring,
        flags,
        u32::from_be_bytes([0, 0, mac[0], mac[1]]),
        u32::from_be_bytes([mac[2], mac[3], mac[4], mac[5]]),
    ]);
    let words = words.into_iter().flat_map(u32::to_ne_bytes);
    words.chain(driver.bytes().take(32)).collect()
}

/// What [`describe`] says.
pub(super) struct Described {
    pub(super) interface: Interface,
    options: Options,
    way: Way,
    /// What gives back the offloads is behind the anchors.
    has_offloads: bool,
}

impl Described {
    /// Descriptors that all have: the rest are a process' own.
    pub(super) fn common(&self) -> usize {
        COMMON + self.interface.queues as usize + usize::from(self.has_offloads)
    }
}

/// What was described. `None`: that is no description.
pub(super) fn read(description: &[u8]) -> Option<Described> {
    let (words, driver) = description.split_at_checked(WORDS * 4)?;
    let word = |at: usize| {
        let at = at * 4;
        u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
    };
    let (rx_ring, tx_ring, frames, flags) = (word(6), word(7), word(5), word(8));
    let is_sound = word(0) == VERSION
        && rx_ring.is_power_of_two()
        && tx_ring.is_power_of_two()
        && (256..=1 << 24).contains(&frames)
        && (1..=word(4)).contains(&word(3));
    is_sound.then_some(())?;
    let ([_, _, a, b], [c, d, e, f]) = (word(9).to_be_bytes(), word(10).to_be_bytes());
    let interface = Interface {
        index: word(1),
        mac: [a, b, c, d, e, f],
        mtu: word(2),
        ethernet: true,
        driver: String::from_utf8(driver.to_vec()).ok()?,
        queues: word(3),
        queues_max: word(4),
    };
    let way = Way { native: flags & 1 != 0, zero_copy: flags & 2 != 0, multi_buffer: flags & 4 != 0 };
    let mode = if way.native { Mode::Native } else { Mode::Generic };
    let large = flags & 8 != 0;
    let options = Options { mode, frames, rx_ring, tx_ring, large, huge_pages: true, answer_mss: 0 };
    Some(Described { interface, options, way, has_offloads: flags & 16 != 0 })
}

impl Inherited {
    /// What the keeper handed out. A device is [attached](super::Device::attach) to it once.
    pub fn received(description: &[u8], descriptors: Vec<Fd>) -> Result<Inherited, Refusal> {
        Shared::received(description, descriptors).map(|shared| Inherited { shared: Arc::new(shared) })
    }

    /// The same of what a process that forked this one has.
    pub fn received_of_family(description: &[u8], descriptors: Vec<Fd>) -> Result<Inherited, Refusal> {
        let shared = Shared::received(description, descriptors)?;
        Ok(Inherited { shared: Arc::new(Shared { is_of_family: true, ..shared }) })
    }

    /// What a child needs for a lane of its own. Needs Linux 6.4, and the privilege for AF_XDP sockets.
    pub fn hand_out(&self) -> Result<Handout, Refusal> {
        if self.shared.anchors().is_empty() {
            return Err(Refusal::System { call: "bind(AF_XDP)", errno: libc::ENOBUFS });
        }
        self.shared.arena.keep();
        hand_out(&self.shared)
    }
}

impl Shared {
    /// What was handed out, or handed over.
    pub(super) fn received(description: &[u8], mut descriptors: Vec<Fd>) -> Result<Shared, Refusal> {
        let described =
            read(description).ok_or(Refusal::System { call: "handed out", errno: libc::EPROTO })?;
        let common = described.common();
        let Described { interface, options, way, has_offloads } = described;
        let queues = interface.queues as usize;
        let few = Refusal::System { call: "handed out", errno: libc::EBADF };
        if descriptors.len() < common + queues {
            return Err(few);
        }
        let mut own = descriptors.split_off(common);
        let large = if own.len() > queues { own.pop() } else { None };
        own.reverse();
        let offloads = if has_offloads { descriptors.pop().map(Hold::received) } else { None };
        let anchors = descriptors.split_off(COMMON);
        let common: [Fd; COMMON] = descriptors.try_into().map_err(|_| few)?;
        let [file, maker, link, program, maps @ ..] = common;
        let steering = Steering::received(maps, interface.queues_max).map_err(system("mmap(flood)"))?;
        let arena = Arena::from_descriptors(file, maker, options.frames).map_err(system("mmap(arena)"))?;
        let keeper = arena.keeper();
        let binding = |queue| super::shared::binding(&interface, &options, way, queue);
        let anchors = (0..).zip(anchors).map(|(queue, fd)| Anchor::received(fd, binding(queue)));
        let anchors = anchors.collect::<sys::Result<Vec<_>>>().map_err(system("mmap(AF_XDP)"))?;
        Ok(Shared {
            link: Mutex::new(Some(link)),
            is_off: AtomicBool::new(false),
            program,
            native: AtomicBool::new(way.native),
            offloads,
            anchors: OnceLock::from(anchors),
            steering,
            arena: Arc::new(arena),
            interface,
            options,
            way,
            owner: Arc::new(Owner::nobody()),
            is_kept: true,
            is_of_family: false,
            bound: Mutex::new(own),
            is_inherited: AtomicBool::new(true),
            large: OnceLock::from(large),
            spare: Mutex::new(Vec::new()),
            known_to: AtomicI32::new(keeper),
        })
    }

    /// Whether the keeper, or the process that forked this one, looks after lanes of the dead.
    pub(super) fn is_tended(&self) -> bool {
        self.is_inherited.load(Ordering::Relaxed) && !self.arena.is_kept_here() && self.arena.has_keeper()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(words: [u32; WORDS], driver: &[u8]) -> Option<Described> {
        let words = words.into_iter().flat_map(u32::to_ne_bytes);
        read(&words.chain(driver.iter().copied()).collect::<Vec<u8>>())
    }

    #[test]
    fn a_description_is_read_and_what_is_none_is_refused() {
        let mut good = [0; WORDS];
        good[..11].copy_from_slice(&[VERSION, 7, 1500, 2, 4, 8192, 2048, 1024, 12, 0x0a0b, 0x0c0d_0e0f]);
        let Described { interface, options, way, has_offloads } = described(good, b"veth").unwrap();
        assert_eq!((interface.index, interface.mac, options.frames), (7, [10, 11, 12, 13, 14, 15], 8192));
        assert_eq!((interface.driver.as_str(), options.rx_ring, options.tx_ring), ("veth", 2048, 1024));
        assert!(!way.native && !way.zero_copy && way.multi_buffer && options.large && !has_offloads);
        for (at, wrong) in [(0, VERSION + 1), (3, 0), (3, 5), (5, 0), (5, u32::MAX), (6, 0), (6, 3), (7, 0)] {
            let mut bad = good;
            bad[at] = wrong;
            assert!(described(bad, b"veth").is_none(), "{at} {wrong}");
        }
        assert!(described(good, &[0xff]).is_none(), "a name");
        assert!((0..WORDS * 4).all(|length| read(&vec![1; length]).is_none()));
        assert!(Inherited::received(&[], Vec::new()).is_err());
    }
}
