//! A child claims a socket of its parent, which moves it into the kernel: a connection, or a UDP socket with
//! what waits.
//!
//! Where a connection cannot move, because the parent has given up CAP_NET_ADMIN and there is no keeper, the child has
//! not got it: its descriptor is an unconnected socket, and a warning says so.

use super::{Family, State};
use crate::address;
use crate::answer::{Answer, Why};
use crate::errno::fail;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
use crate::turn::UNDER_WAY_NS;
use crate::udp_legs;
use core::sync::atomic::Ordering;
use sys::Fd;

/// A child, or several generations, and what they may claim.
pub(super) struct Channel {
    pub(super) fd: Fd,
    pub(super) objects: Claimables,
}

/// A socket that children may claim, as long as the object is that socket: who leaves a UDP socket to the kernel says
/// nothing here.
#[derive(Clone, Copy)]
struct Claimable {
    object: &'static Object,
    generation: u32,
    is_taken: bool,
}

impl Claimable {
    fn of(object: &'static Object) -> Claimable {
        Claimable { object, generation: object.generation.load(Ordering::SeqCst), is_taken: false }
    }

    fn token(&self) -> u64 {
        self.object.token()
    }

    fn object(self) -> Option<&'static Object> {
        let is_same = self.object.generation.load(Ordering::SeqCst) == self.generation;
        (is_same && !self.is_taken).then_some(self.object)
    }
}

/// What a fork gave to a child, in the order of their tokens: a server may have very many, and each is asked for, or
/// declined, by a message.
pub(super) struct Claimables {
    sorted: Vec<Claimable>,
    /// Those that were not taken.
    left: usize,
}

impl Claimables {
    /// Each of them once, also one that several descriptors name.
    pub(super) fn new(objects: impl Iterator<Item = &'static Object>) -> Claimables {
        let mut sorted: Vec<_> = objects.map(Claimable::of).collect();
        sorted.sort_unstable_by_key(Claimable::token);
        sorted.dedup_by_key(|one| one.token());
        let left = sorted.len();
        Claimables { sorted, left }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub(super) fn each(&self, visit: impl FnMut(&'static Object)) {
        self.sorted.iter().filter_map(|one| one.object()).for_each(visit);
    }

    /// Takes the one with this token out, if it is there and that socket still.
    fn take(&mut self, token: u64) -> Option<&'static Object> {
        let at = self.sorted.binary_search_by_key(&token, Claimable::token).ok()?;
        let one = &mut self.sorted[at];
        let object = one.object();
        if !core::mem::replace(&mut one.is_taken, true) {
            self.left -= 1;
        }
        object
    }
}

/// What a child told.
enum Told {
    Nothing,
    /// Nobody is at the other end any more.
    Gone,
    Declined(&'static Object),
    Claimed(&'static Object, Fd),
}

/// The answers to a claim: it cannot move; the shadow is the connection.
const STAYS: u8 = 0;
const MOVED: u8 = 1;

/// How long a call of the child waits for its parent's answer. A parent that is stopped does not give one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as it takes, as for data: until a signal handler has run, too.
    Blocks,
    /// It may not wait; but an answer takes microseconds, and finding nothing a busy machine's whim.
    Hardly,
    /// It cannot say "later": longer than any parent takes that runs.
    Long,
}

impl Patience {
    const fn nanoseconds(self) -> u64 {
        match self {
            Patience::Blocks => u64::MAX,
            Patience::Hardly => 100_000_000,
            Patience::Long => 5_000_000_000,
        }
    }
}

/// In the child.
impl Family {
    /// The child uses a socket of its parent, which is the kernel's from now on: true; or a connection that is lost:
    /// false. EAGAIN: the parent has not answered yet; EINTR: a signal handler ran first.
    #[cold]
    pub(crate) fn claim(
        &self,
        runtime: &'static Runtime,
        object: &'static Object,
        patience: Patience,
    ) -> Answer<bool> {
        let before = (runtime.os.handled)();
        let begun = sys::clock::now();
        loop {
            let near = {
                let mut claims = self.claims.lock();
                if !matches!(object.kind(), Kind::Lent | Kind::Inherited) {
                    // Another thread was faster.
                    return Ok(true);
                }
                let at = match claims.iter().position(|(claimed, _)| core::ptr::eq(*claimed, object)) {
                    Some(at) => at,
                    None => {
                        let Ok(near) = self.ask(object) else { return fail(libc::EAGAIN) };
                        claims.push((object, near));
                        claims.len() - 1
                    }
                };
                match answer_to_claim(&claims[at].1) {
                    Err(libc::EAGAIN) => claims[at].1.raw(),
                    answer => {
                        let (_, near) = claims.swap_remove(at);
                        drop(claims);
                        drop(near);
                        return Ok(settle(runtime, object, answer.ok()));
                    }
                }
            };
            let waited = sys::clock::now().saturating_sub(begun);
            if waited >= patience.nanoseconds() {
                return fail(libc::EAGAIN);
            }
            // In slices, since another thread may take the answer. No lock is held here.
            let slice = SLICE_NS.min(patience.nanoseconds() - waited);
            let mut answered = [libc::pollfd { fd: near, events: libc::POLLIN, revents: 0 }];
            let _ = runtime.os.poll_all(&mut answered, Some(slice), None);
            runtime.os.cancellation_point();
            if patience == Patience::Blocks
                && (runtime.os.handled)().without_restart != before.without_restart
            {
                return fail(libc::EINTR);
            }
        }
    }

    /// Sends the parents a claim, and one end of the pair that the answer comes by: of the one whose socket it is. The
    /// others know nothing of it, and let go of their end.
    fn ask(&self, object: &'static Object) -> sys::Result<Fd> {
        let (near, far) = sys::socket::pair(libc::SOCK_STREAM)?;
        for parent in &*self.parents.lock() {
            let _ = sys::socket::send_descriptors(parent.raw(), &object.token().to_ne_bytes(), &[far.raw()]);
        }
        Ok(near)
    }

    /// The child closes a socket that it did not use.
    pub(crate) fn decline(&self, object: &'static Object) {
        if self.is_shared.load(Ordering::Relaxed) {
            return;
        }
        if let Some(parent) = self.parents.lock().last() {
            let _ = sys::socket::send(
                parent.raw(),
                &object.token().to_ne_bytes(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            );
        }
    }
}

/// In the parent.
impl State {
    /// What children told.
    pub(super) fn hear(&mut self, runtime: &'static Runtime) {
        let mut at = 0;
        while let Some(channel) = self.channels.get_mut(at) {
            match channel.hear() {
                Told::Nothing => at += 1,
                Told::Declined(object) => self.release(runtime, object),
                Told::Claimed(object, far) => self.claimed(runtime, object, &far),
                Told::Gone => {
                    let objects = self.channels.swap_remove(at).objects;
                    objects.each(|object| self.release(runtime, object));
                }
            }
        }
    }

    fn claimed(&mut self, runtime: &'static Runtime, object: &'static Object, far: &Fd) {
        let moved = self.move_to_kernel(runtime, object, Why::Inherited);
        let answer = [if moved { MOVED } else { STAYS }];
        let _ = sys::socket::send(far.raw(), &answer, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        if !moved {
            self.release(runtime, object);
        }
    }

    /// Moves a socket into the kernel, for all who have it. False: a connection that cannot move.
    pub(super) fn move_to_kernel(
        &mut self,
        runtime: &'static Runtime,
        object: &'static Object,
        why: Why,
    ) -> bool {
        if object.kind() == Kind::Udp {
            udp_legs::detach(object);
            offload::leave(runtime, object, why);
            self.is_everybodys(object);
            return true;
        }
        let kept = self.kept.get(&object.token());
        let fd = match kept {
            Some(shadow) => shadow.as_ref().map_or(-1, Fd::raw),
            None => object.fd.load(Ordering::Relaxed),
        };
        let Some(moved) = tcp::to_kernel(runtime, object, fd, why) else { return false };
        self.moved.push((sys::clock::now() + UNDER_WAY_NS, moved));
        self.is_everybodys(object);
        if self.kept.remove(&object.token()).is_some() {
            object.release();
        }
        true
    }

    /// It is the kernel's: there is nothing to claim any more.
    pub(super) fn is_everybodys(&mut self, object: &'static Object) {
        // A thread that is closing it waits for our lock before it looks at this again.
        object.holders.store(0, Ordering::Release);
        for channel in &mut self.channels {
            let _ = channel.objects.take(object.token());
        }
    }

    /// Moves a connection into the kernel, from where it may come back. False: it cannot be moved.
    pub(super) fn carry(&mut self, runtime: &'static Runtime, object: &'static Object, fd: i32) -> bool {
        if object.holders.load(Ordering::Acquire) != 0 {
            return false;
        }
        let Some(moved) = tcp::to_carried(runtime, object, fd) else { return false };
        self.remember(moved);
        true
    }

    /// What is under way to the engine is left unanswered for a while.
    pub(super) fn remember(&mut self, moved: tcp::Moved) {
        self.moved.push((sys::clock::now() + UNDER_WAY_NS, moved));
    }

    /// This process ends: what its children may still use goes to the kernel.
    pub(super) fn leave_to_children(&mut self, runtime: &'static Runtime) {
        let mut held = Vec::new();
        self.channels.iter().for_each(|channel| channel.objects.each(|object| held.push(object)));
        for object in held {
            // (Of several children the first one's did it.)
            if object.leg().is_some() {
                self.move_to_kernel(runtime, object, Why::Inherited);
            }
        }
    }
}

impl Channel {
    /// The next message.
    fn hear(&mut self) -> Told {
        let mut token = [0u8; 8];
        while sys::poll::readable(self.fd.raw()) {
            let mut descriptors = Vec::new();
            let got = sys::socket::receive_descriptors(self.fd.raw(), &mut token, &mut descriptors, 0);
            if got != Ok(8) {
                return Told::Gone;
            }
            let token = u64::from_ne_bytes(token);
            let Some(object) = self.objects.take(token) else { continue };
            return match descriptors.pop() {
                Some(far) => Told::Claimed(object, far),
                None => Told::Declined(object),
            };
        }
        Told::Nothing
    }
}

/// EAGAIN: there is none yet. Any other error: nobody answers.
fn answer_to_claim(near: &Fd) -> sys::Result<u8> {
    let mut answer = [0u8];
    match sys::socket::receive(near.raw(), &mut answer, libc::MSG_DONTWAIT)? {
        1 => Ok(answer[0]),
        _ => Err(libc::EPIPE),
    }
}

/// Between two looks whether another thread took the answer.
const SLICE_NS: u64 = 100_000_000;

/// The claim is answered, or nobody is there who would. Whether the shadow is the connection.
fn settle(runtime: &'static Runtime, object: &'static Object, answer: Option<u8>) -> bool {
    let fd = object.fd.load(Ordering::Relaxed);
    if object.kind() == Kind::Inherited {
        // Who was killed has not done it.
        offload::unsteer(object);
        logger::debug!("fd {fd}: used in the child of a fork: steered to the kernel");
        offload::forget(runtime, object, Why::Inherited);
        return true;
    }
    // Who does not know the connection has moved it before, for another child or at its own end.
    let moved = match answer {
        Some(answer) => answer == MOVED,
        None => address::peer_of_shadow(&runtime.os, fd).is_some(),
    };
    let remote = object.control.lock().remote;
    let remote = remote.map_or_else(|| "nobody".into(), |remote| remote.to_string());
    match (moved, answer) {
        (true, _) => logger::debug!("fd {fd}: used in the child of a fork: moved into the kernel"),
        (false, Some(_)) => logger::warning!(
            "fd {fd}, connected to {remote}, is used in the child of a fork, and cannot move into the kernel, where it \
             would be found: that needs CAP_NET_ADMIN, or the keeper (sidestepd)"
        ),
        (false, None) => logger::warning!(
            "fd {fd}, connected to {remote}: the process that made this connection has ended it, or has ended"
        ),
    }
    offload::forget(runtime, object, Why::Inherited);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_socket_by_now_is_not_claimed_by_its_old_name() {
        let object = Object::new(Kind::Udp, 900_020, false);
        let (fd, child) = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
        let other = Object::new(Kind::Udp, 900_021, false);
        let mut channel = Channel { fd, objects: Claimables::new([object, other, object].into_iter()) };
        assert_eq!(channel.objects.left, 2, "one has two descriptors");
        let declines = || sys::socket::send(child.raw(), &object.token().to_ne_bytes(), libc::MSG_DONTWAIT);
        declines().unwrap();
        assert!(matches!(channel.hear(), Told::Declined(known) if core::ptr::eq(known, object)));
        declines().unwrap();
        assert!(matches!(channel.hear(), Told::Nothing), "it was declined");
        channel.objects = Claimables::new([object].into_iter());
        object.release();
        declines().unwrap();
        assert!(matches!(channel.hear(), Told::Nothing) && channel.objects.is_empty());
        other.release();
    }
}
