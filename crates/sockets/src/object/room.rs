//! What an object knows of its way through memory, if it ever could go there; the room `memory` takes its steps.

use super::price::Role;
use crate::locks::Rank;
use ::memory::sign::Takes;
use ::memory::{Joined, Kept, Meeting};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stats::Verdict;

/// Connections of this process in memory, or on their way: each holds one descriptor more than the program knows.
pub(crate) static COUNT: AtomicU32 = AtomicU32::new(0);

/// One of them is over.
pub(crate) fn one_less() {
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// What an object knows of its way through memory. Kept with the object, as that is never freed.
pub(crate) struct Room {
    pub inner: sys::Mutex<Inner>,
    /// Calls that moved data or wanted to, while the kernel carried the connection.
    pub calls: AtomicU32,
    /// The other side may be found, or was.
    pub looks: AtomicBool,
    /// Bytes are kept for it ([`Rest`]): calls come here with the end of its stream.
    pub keeps: AtomicBool,
    /// The options that were set before the socket was ours are known.
    pub knows_options: AtomicBool,
}

/// How far a connection is.
#[derive(Default)]
pub(crate) enum Way {
    /// The kernel carries it.
    #[default]
    Apart,
    /// This side connected, and waits for a call of the other one. The object is [`Kind::Carried`].
    Offered(Meeting),
    /// The two talk.
    Meeting(Meeting),
    /// They have met.
    Joined(Box<Joined>),
}

/// See [`::memory::sign`].
pub(crate) struct Sign {
    pub takes: Takes,
    pub _up: Option<sys::Fd>,
}

/// What part the kernel's socket has in a connection that is [`Kind::Memory`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes come by it.
    pub receives: bool,
    /// Bytes go by it.
    pub sends: bool,
}

/// Bytes that were unread here when the connection went back to the kernel's socket. Its peer sends them again; where
/// the kernel's stream ends short of them, they are given from this copy.
#[derive(Default)]
pub(crate) struct Rest {
    pub kept: Option<Kept>,
    /// The stream ended by a reset, whoever was told of it.
    pub was_reset: bool,
    /// The error by which the kernel's stream ended, which comes behind the bytes; 0: none.
    pub untold: i32,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub way: Way,
    pub role: Option<Role>,
    /// Of a listener: by it peers know before they connect that it speaks SDP.
    pub sign: Option<Sign>,
    pub part: Part,
    /// Which meeting of this process it is ([`Inner::meets`]).
    pub meeting: u32,
    /// Bytes have come by the socket, and nothing was sent since that acknowledges them there.
    pub owes_ack: bool,
    /// Somebody found no room to send: there will be an edge.
    pub is_stuck: bool,
    /// When the kernel made the connection, this side offered a place, or it left the memory.
    pub begun: u64,
    /// When the bell was heard last, or the meeting place looked at.
    pub heard: u64,
    /// Bytes that the peer did not read here, and that went by the socket since.
    pub repaid: u64,
    /// Directions that the application shut down (1: receiving, 2: sending) and of which the kernel's socket has not
    /// heard: as soon as it carries them, behind what is owed there.
    pub shut_owed: u8,
    /// Both directions were shut down here, when so many bytes had come: what comes from then on resets the connection,
    /// as in the kernel.
    pub takes_until: Option<u64>,
    /// Calls that moved data here.
    pub served: u32,
    /// Rings that there had been when the judge looked last.
    pub rings_judged: u32,
    /// How often the thread that judged had lent its processor by then.
    pub lent_judged: u32,
    /// Has left the memory before, and looks for its peer again.
    pub looks_again: bool,
    /// Leaves for what only the kernel can do with it from now on.
    pub stays_out: bool,
    /// Goes back to the kernel as soon as that owes nothing, and why.
    pub parts: Option<Verdict>,
    /// Why the two ends do not meet, once that is known.
    pub never: Option<Verdict>,
    /// What was unread when this side left.
    pub rest: Rest,
    /// An error that the kernel's socket told, and that comes behind bytes of the segment; 0: none.
    pub untold: i32,
    /// The log has what was wrong with the peer.
    pub told_distrust: bool,
    /// Has told its error (ECONNRESET).
    pub told_reset: bool,
    /// A send after the peer was gone has succeeded, as it does where the RST is still to come.
    pub sent_in_vain: bool,
}

/// A connection's way through memory is over, and why. Who finds that acts on it later, without the lock, and another
/// thread may have before: `meeting` tells this one from the next, of this object or of who has it then.
#[derive(Clone, Copy)]
pub(crate) struct Over {
    pub why: Verdict,
    pub meeting: u32,
}

/// Meetings of this process.
static MEETINGS: AtomicU32 = AtomicU32::new(0);

impl Inner {
    /// The two sides talk to each other from now on.
    pub(crate) fn meets(&mut self) {
        self.meeting = MEETINGS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    }

    pub(crate) fn over(&self, why: Verdict) -> Over {
        Over { why, meeting: self.meeting }
    }

    /// Before this side leaves: what it has not read.
    pub(crate) fn keep(&mut self, joined: &Joined, fd: i32) {
        if let Some(kept) = joined.keep(fd) {
            self.rest = Rest { kept: Some(kept), ..Rest::default() };
        }
    }
}

impl Room {
    /// Whether the other side may be found, or was.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        self.looks.load(Ordering::Acquire)
    }

    fn new() -> Room {
        Room {
            inner: Rank::Room.lock(Inner::default()),
            calls: AtomicU32::new(0),
            looks: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            knows_options: AtomicBool::new(false),
        }
    }

    /// The object is another socket from now on.
    pub(crate) fn clear(&self) {
        let before = core::mem::take(&mut *self.inner.lock());
        if !matches!(before.way, Way::Apart) {
            one_less();
        }
        let has_looked = |role: &Role| match before.way {
            Way::Apart => self.calls.load(Ordering::Relaxed) >= role.price(),
            _ => matches!(before.way, Way::Offered(_)),
        };
        if let Some(role) = before.role.filter(has_looked) {
            role.was_worth(0);
        }
        self.calls.store(0, Ordering::Relaxed);
        self.looks.store(false, Ordering::Release);
        self.keeps.store(false, Ordering::Release);
        self.knows_options.store(false, Ordering::Release);
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}
