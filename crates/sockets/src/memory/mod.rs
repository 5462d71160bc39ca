//! Connections inside the host that travel through memory (the crate `memory`), as sockets.
//!
//! ```text
//!   the object is      its room holds           bytes go
//!   `Kind::Carried`    nothing, or an offer     by the kernel's socket
//!   `Kind::Memory`     a meeting                by the kernel's socket, until the other side begins
//!   `Kind::Memory`     a joined connection      by the segment; by the socket before and after it
//! ```
//!
//! `meet.rs` says when a connection looks for its other side, and makes it [`Kind::Memory`]: after how many calls
//! (`object/price.rs`), and which connections do so that no rule names (`place.rs`); `data.rs` sends and
//! receives; `ready.rs` tells readiness, and what those who sleep sleep on; `leave.rs` goes back to the kernel's
//! socket, and ends; `judge.rs` says who is better carried there.
//!
//! As long as the kernel's socket has a part in a connection ([`Part`]), the kernel tells that part's readiness: its
//! socket stays in poll's array and in epoll sets, for just these events. Whenever the part changes, so does the count
//! of moves, and all who wait look again from the start.

mod data;
mod judge;
mod leave;
mod meet;
mod place;
mod ready;

pub(crate) use data::{receive, send, unread};
pub(crate) use leave::{
    after_fork, before_fork, close, is_closed, leave, leave_to_next, shutdown, take_error,
};
pub(crate) use meet::{accepted, accepted_sdp, before_call, connected, know_options, looks};
pub(crate) use place::{before_first_call, may_be_here, may_ever_meet};
pub(crate) use ready::{
    arm, bell, disarm, kernel_part, poll, poll_unheard, ready, rung, with_bell, with_silent_bell,
};

use crate::object::room::{Inner, Part, Room, Sign, Way};
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::wait::{LOOK_NS, epoll, moves};
use ::memory::sign::{self, Takes};
use ::memory::{Progress, Source};
use stack::Ready;
use stats::Verdict;

/// How long a peer that says nothing is taken to be alive, by calls that do not sleep; nanoseconds. Who sleeps, and
/// sets, hear its bell at once.
const HEAR_NS: u64 = 5_000_000;

/// Whether a step hears the bell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bell {
    /// It has rung, or may have.
    Rung,
    /// If the peer was silent for long enough.
    IfDue,
    /// As above during the meeting; afterwards somebody else hears it.
    Unheard,
}

/// What a step changed, for those who wait; told without the room's lock.
#[derive(Default)]
struct News {
    edges: Ready,
    /// The wish of this side is not in the segment, or is too small: the sets look at it themselves until they sleep.
    is_unarmed: bool,
    /// The kernel's part is another one.
    has_moved: bool,
    /// The kernel carries it from now on, and why.
    is_over: Option<Verdict>,
}

impl News {
    fn add(&mut self, more: News) {
        self.edges |= more.edges;
        self.is_unarmed |= more.is_unarmed;
        self.has_moved |= more.has_moved;
        self.is_over = self.is_over.or(more.is_over);
    }
}

impl Inner {
    /// Does what can be done without waiting: the meeting, what the peer says, what it is owed.
    fn go_on(&mut self, tcp: i32, now: u64, bell: Bell) -> News {
        let mut news = News::default();
        let silence = now.saturating_sub(self.heard);
        let was_rung = bell == Bell::Rung;
        let mut hears = was_rung;
        match core::mem::take(&mut self.way) {
            Way::Meeting(meeting) if was_rung || silence >= LOOK_NS => {
                (self.heard, hears) = (now, true);
                match meeting.go_on(tcp) {
                    Progress::Waiting(meeting) => self.way = Way::Meeting(meeting),
                    Progress::Joined(joined) => {
                        self.way = Way::Joined(joined);
                        self.owes_ack = true;
                        news.edges = Ready::IN | Ready::OUT;
                    }
                    Progress::Apart(why) => news.is_over = Some(meet::verdict(why)),
                }
            }
            way => self.way = way,
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
                self.repaid += leave::repay(joined, tcp, self.repaid, self.shut_owed & 2 != 0);
            }
            if self.shut_owed != 0 {
                self.shut_owed &= !leave::pass_on_shut(joined, tcp, self.shut_owed, self.repaid);
            }
            if leave::is_over(joined, self.repaid) {
                news.is_over = Some(judge::why_over(joined, self.parts));
            }
        }
        let part = self.part_of_kernel();
        if news.is_over.is_none() && part != self.part {
            self.part = part;
            news.has_moved = true;
        }
        news
    }

    fn part_of_kernel(&self) -> Part {
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

/// What follows a step, without the lock.
#[inline]
fn after(runtime: &'static Runtime, object: &'static Object, news: &News) {
    if news.is_over.is_some() || news.has_moved || news.is_unarmed {
        told(runtime, object, news);
    }
    if news.edges != Ready::default() {
        object.watch.edge(news.edges);
    }
}

#[cold]
fn told(runtime: &'static Runtime, object: &'static Object, news: &News) {
    if let Some(why) = news.is_over {
        leave::finish(object, why);
    }
    if news.is_over.is_some() || news.has_moved {
        moves::changed(&runtime.os, object);
    } else {
        epoll::look_at(object);
    }
}

/// The room of an object that may travel through memory.
#[inline]
fn room(object: &Object) -> Option<&'static Room> {
    object.room()
}

/// A listener speaks SDP from now on: its sign goes up.
pub(crate) fn listens(object: &'static Object, fd: i32, takes: Takes) {
    let up = sys::socket::own_end(fd).and_then(|end| sign::put_up(end, takes));
    object.room_or_new().inner.lock().sign = Some(Sign { takes, _up: up.ok() });
}

/// Whom a listener takes in; `None`: it does not speak SDP.
pub(crate) fn takes(listener: &Object) -> Option<Takes> {
    room(listener)?.inner.lock().sign.as_ref().map(|sign| sign.takes)
}

/// Whether nothing is known of a socket's way through memory.
pub(crate) fn is_strange_to(object: &Object) -> bool {
    room(object).is_none_or(|room| {
        let inner = room.inner.lock();
        inner.role.is_none() && inner.sign.is_none() && matches!(inner.way, Way::Apart)
    })
}

/// Whether connections go through memory where it is asked for (libsdp.so), not by themselves.
fn is_asked_for() -> bool {
    runtime::get().is_some_and(|runtime| runtime.sdp.is_some())
}

/// The kernel carries a connection, for good. Where something else was asked for that is worth reading.
fn tell_kernels(fd: i32, why: Verdict) {
    if is_asked_for() {
        logger::info!("fd {fd}: TCP carries it: {}", why.text());
    } else {
        logger::debug!("fd {fd}: the kernel carries it: {}", why.text());
    }
}

/// The sets that hold a bell let go of it, which is about to be closed. Under the room's lock.
fn drop_bell(object: &'static Object, bell: i32) {
    for (set, slot) in object.watch.sets() {
        epoll::drop_bell(set, slot, bell);
    }
}

/// Whether it travels through memory, or is on its way there.
#[inline]
pub(crate) fn is_in(object: &Object) -> bool {
    object.kind() == Kind::Memory
}
