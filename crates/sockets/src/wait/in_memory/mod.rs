//! A connection in memory, as those who wait for it know it: a step takes in what has come, and tells them what that
//! changed. `ready.rs` tells readiness, and what those who sleep sleep on; `back.rs` is how a step ends the way
//! through memory; `debts.rs` is what the background thread sends by the socket where nobody calls. What calls do with
//! such connections is the room `memory`.

mod back;
mod debts;
mod ready;

pub(crate) use back::{HURRIES, finish, is_repaid, pass_on_shut, repay};
pub(crate) use debts::{
    Locked, fail_debts, forget_debts, leave_behind, lock_debts, paid, pay_at_exit, pay_debts, reset_at_close,
    watch_debts,
};
pub(crate) use ready::{
    arm, bell, disarm, kernel_part, look_at_all, poll, poll_unheard, ready, rung, with_bell, with_silent_bell,
};

use super::{LOOK_NS, epoll, moves};
use crate::object::room::{Inner, Over, Part, Room, Way};
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use ::memory::{Apart, Joined, Progress, Source};
use stack::Ready;
use stats::Verdict;

/// How long a peer that says nothing is taken to be alive, by calls that do not sleep; nanoseconds. Who sleeps, and
/// sets, hear its bell at once.
pub(crate) const HEAR_NS: u64 = 5_000_000;

/// Whether a step hears the bell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bell {
    /// It has rung, or may have.
    Rung,
    /// If the peer was silent for long enough.
    IfDue,
    /// As above during the meeting; afterwards somebody else hears it.
    Unheard,
}

/// What a step changed, for those who wait; told without the room's lock.
#[derive(Default)]
pub(crate) struct News {
    pub edges: Ready,
    /// The wish of this side is not in the segment, or is too small: the sets look at it themselves until they sleep.
    pub is_unarmed: bool,
    /// The kernel's part is another one.
    pub has_moved: bool,
    /// The kernel carries it from now on, and why.
    pub is_over: Option<Over>,
}

impl News {
    pub(crate) fn add(&mut self, more: News) {
        self.edges |= more.edges;
        self.is_unarmed |= more.is_unarmed;
        self.has_moved |= more.has_moved;
        self.is_over = self.is_over.or(more.is_over);
    }
}

impl Inner {
    /// Does what can be done without waiting: the meeting, what the peer says, what it is owed.
    pub(crate) fn go_on(&mut self, tcp: i32, now: u64, bell: Bell) -> News {
        let mut news = News::default();
        let silence = now.saturating_sub(self.heard);
        let was_rung = bell == Bell::Rung;
        let mut hears = was_rung;
        if matches!(self.way, Way::Meeting(_)) && (was_rung || silence >= LOOK_NS) {
            (self.heard, hears) = (now, true);
            self.go_on_meeting(tcp, &mut news);
        }
        if let Way::Joined(joined) = &mut self.way {
            let mut any = joined.take_in();
            // What came shows that the peer lives; that it begins nothing but the bell says.
            let patience = match (joined.has_begun(), bell) {
                (true, Bell::Unheard) => u64::MAX,
                (true, _) => HEAR_NS,
                (false, _) => LOOK_NS,
            };
            if any {
                self.heard = now;
            }
            if hears || !any && silence >= patience {
                self.heard = now;
                news.is_unarmed = joined.hear(tcp);
                any |= joined.take_in();
            }
            if let Some(until) = self.takes_until.filter(|until| joined.came() > *until) {
                refuse(joined, until);
            }
            self.told_distrust = self.told_distrust || tells_distrust(joined, tcp);
            if any || was_rung || news.is_unarmed {
                news.edges = news.edges | Ready::IN | Ready::RDHUP | Ready::HUP | Ready::ERR;
            }
            if self.is_stuck && joined.is_writable() {
                self.is_stuck = false;
                news.edges |= Ready::OUT;
            }
            if self.parts.is_some() || joined.has_peer_parted() {
                // One direction alone would cost system calls and keep a segment.
                joined.part();
            }
            if joined.has_left() {
                self.repaid += back::repay(joined, tcp, self.repaid, self.shut_owed & 2 != 0);
                if !back::is_repaid(joined, self.repaid) {
                    debts::note();
                }
            }
            if self.shut_owed != 0 {
                self.shut_owed &= !back::pass_on_shut(joined, tcp, self.shut_owed, self.repaid);
            }
            if back::is_over(joined, self.repaid) {
                let why = why_over(joined, self.parts);
                news.is_over = Some(Over { why, meeting: self.meeting });
            }
        }
        let part = self.part_of_kernel();
        if news.is_over.is_none() && part != self.part {
            self.part = part;
            news.has_moved = true;
        }
        news
    }

    fn go_on_meeting(&mut self, tcp: i32, news: &mut News) {
        match core::mem::take(&mut self.way) {
            Way::Meeting(meeting) => match meeting.go_on(tcp) {
                Progress::Waiting(meeting) => self.way = Way::Meeting(meeting),
                Progress::Joined(joined) => {
                    self.way = Way::Joined(joined);
                    self.owes_ack = true;
                    news.edges = Ready::IN | Ready::OUT;
                }
                Progress::Apart(why) => news.is_over = Some(self.over(verdict(why))),
            },
            way => self.way = way,
        }
    }

    pub(crate) fn part_of_kernel(&self) -> Part {
        match &self.way {
            Way::Joined(joined) => {
                // Behind the segment's last bytes there may be others: a look at all of them (MSG_PEEK) goes on there.
                let receives = matches!(joined.source(), Source::Socket(_)) || joined.has_peer_parted();
                Part { receives, sends: joined.has_left() }
            }
            _ => Part { receives: true, sends: true },
        }
    }
}

/// More has come than `until`, which nobody takes any more. What was unread before can be read still.
fn refuse(joined: &mut Joined, until: u64) {
    if joined.came() - joined.unread() as u64 >= until {
        joined.discard(usize::MAX);
    }
    joined.abort();
}

/// True: the peer wrote what cannot be, which the log has now.
fn tells_distrust(joined: &Joined, tcp: i32) -> bool {
    let what = joined.distrust();
    if let Some(what) = what {
        logger::warning!("fd {tcp}: the connection is reset: its peer in memory {what}");
    }
    what.is_some()
}

/// What follows a step, without the lock.
#[inline]
pub(crate) fn after(runtime: &'static Runtime, object: &'static Object, news: &News) {
    if news.is_over.is_some() || news.has_moved || news.is_unarmed {
        told(runtime, object, news);
    }
    if news.edges != Ready::default() {
        object.watch.edge(news.edges);
    }
}

#[cold]
pub(crate) fn told(runtime: &'static Runtime, object: &'static Object, news: &News) {
    if let Some(over) = news.is_over {
        back::finish(object, over);
    }
    if news.is_over.is_some() || news.has_moved {
        moves::changed(&runtime.os, object);
    } else {
        epoll::look_at(object);
    }
}

/// Whether the peer has gone back to the socket, and does not have all that it did not read here.
fn owes(object: &Object) -> bool {
    room(object).is_some_and(|room| room.inner.lock().owes())
}

impl Inner {
    fn owes(&self) -> bool {
        matches!(&self.way, Way::Joined(joined) if joined.has_left() && !is_repaid(joined, self.repaid))
    }
}

/// The room of an object that may travel through memory.
#[inline]
pub(crate) fn room(object: &Object) -> Option<&'static Room> {
    object.room()
}

/// What the statistics call it.
pub(crate) fn verdict(why: Apart) -> Verdict {
    match why {
        Apart::HungUp => Verdict::PeerHungUp,
        Apart::Nonsense | Apart::BadSegment => Verdict::PeerMistaken,
        Apart::Stranger => Verdict::PeerIsStranger,
        Apart::NoSegment => Verdict::NoSegment,
    }
}

/// Why the kernel carries a connection again. `parts`: why this side wanted it, if it did.
pub(crate) fn why_over(joined: &Joined, parts: Option<Verdict>) -> Verdict {
    match parts {
        _ if !joined.is_back_by_choice() => Verdict::PartedFromPeer,
        Some(why) => why,
        // The peer did.
        None if runtime::get().is_some_and(|runtime| runtime.parameters.move_every > 1) => Verdict::Shaken,
        None => Verdict::EachCallRings,
    }
}

/// Whether connections go through memory where it is asked for (libsdp.so), not by themselves.
pub(crate) fn is_asked_for() -> bool {
    runtime::get().is_some_and(|runtime| runtime.sdp.is_some())
}

/// The kernel carries a connection, for good. Where something else was asked for that is worth reading.
pub(crate) fn tell_kernels(fd: i32, why: Verdict) {
    if is_asked_for() {
        logger::info!("fd {fd}: TCP carries it: {}", why.text());
    } else {
        logger::debug!("fd {fd}: the kernel carries it: {}", why.text());
    }
}

/// The sets that hold a bell let go of it, which is about to be closed. Under the room's lock.
pub(crate) fn drop_bell(object: &'static Object, bell: i32) {
    for (set, slot) in object.watch.sets() {
        epoll::drop_bell(set, slot, bell);
    }
}

/// Whether it travels through memory, or is on its way there.
#[inline]
pub(crate) fn is_in(object: &Object) -> bool {
    object.kind() == Kind::Memory
}
