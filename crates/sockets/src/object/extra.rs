//! What few sockets have: what VMA's extra API (`extra/`) knows of one, and of a lane those that it is to tell of.

use super::Object;
use crate::abi::ReceiveCallback;
use crate::lane::Completions;
use crate::locks::Rank;
use crate::runtime::{self, Asked};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use stack::Ready;

/// The program's callback (filter.rs).
#[derive(Clone, Copy)]
pub(crate) struct Filter {
    pub callback: ReceiveCallback,
    pub context: usize,
}

/// What few sockets have: made with the first use of the API on one, and kept with its object.
pub(crate) struct Extra {
    /// The program filters what arrives.
    pub is_filtered: AtomicBool,
    pub filter: sys::Mutex<Option<Filter>>,
    /// A thread asks the filter.
    pub asks: AtomicBool,
    /// Pieces that it was lent as packets.
    pub lent: AtomicU32,
    pub user_data: AtomicU64,
    pub has_user_data: AtomicBool,
    pub flow_tag: AtomicU32,
    /// SO_VMA_RING_ALLOC_LOGIC: the number of the logic plus 1, and in the lower half the user's; 0: not set.
    pub lane: AtomicU64,
    /// Edges that no completion has told yet, and whether the socket waits for its turn to tell.
    pub edges: AtomicU32,
    pub is_queued: AtomicBool,
}

impl Default for Extra {
    fn default() -> Extra {
        Extra {
            is_filtered: AtomicBool::new(false),
            filter: Rank::Extra.lock(None),
            asks: AtomicBool::new(false),
            lent: AtomicU32::new(0),
            user_data: AtomicU64::new(0),
            has_user_data: AtomicBool::new(false),
            flow_tag: AtomicU32::new(0),
            lane: AtomicU64::new(0),
            edges: AtomicU32::new(0),
            is_queued: AtomicBool::new(false),
        }
    }
}

impl Extra {
    #[inline]
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered.load(Ordering::Acquire)
    }

    /// The socket is closed. What it was lent as packets is taken back: nobody could return it.
    pub(crate) fn clear(&self, object: &'static Object) {
        if self.lent.swap(0, Ordering::Relaxed) > 0 {
            let lanes = runtime::get().into_iter().flat_map(|runtime| runtime.lanes());
            lanes.for_each(|lane| lane.lock().lent.take_all_back(object.token()));
        }
        *self.filter.lock() = None;
        for flag in [&self.is_filtered, &self.asks, &self.has_user_data, &self.is_queued] {
            flag.store(false, Ordering::Relaxed);
        }
        self.user_data.store(0, Ordering::Relaxed);
        self.flow_tag.store(0, Ordering::Relaxed);
        self.lane.store(0, Ordering::Relaxed);
        self.edges.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: what the parent's threads did with it is over, and what it was lent is the parent's.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.filter.take_over(child);
        self.asks.store(false, Ordering::Relaxed);
        self.lent.store(0, Ordering::Relaxed);
        self.is_queued.store(false, Ordering::Relaxed);
    }

    /// What completions call the socket.
    pub(crate) fn user_data(&self, object: &Object) -> u64 {
        match self.has_user_data.load(Ordering::Relaxed) {
            true => self.user_data.load(Ordering::Relaxed),
            false => object.fd.load(Ordering::Relaxed) as u64,
        }
    }

    /// The lane that the socket asks for.
    pub(crate) fn asked_lane(&self) -> Option<Asked> {
        let asked = self.lane.load(Ordering::Relaxed);
        let logic = (asked >> 32).checked_sub(1)?;
        Asked::of(logic as u32, asked as u32)
    }

    /// So many pieces more, or less, are lent.
    pub(crate) fn holds(&self, object: &Object, change: i32) {
        let now = match change {
            0.. => self.lent.fetch_add(change as u32, Ordering::Relaxed) + change as u32,
            _ => self.lent.fetch_sub(change.unsigned_abs(), Ordering::Relaxed) - change.unsigned_abs(),
        };
        object.counts().rx_zero_copy.set(u64::from(now));
    }
}

impl Completions {
    /// A socket had an edge.
    #[inline]
    pub(crate) fn edge(&mut self, object: &'static Object, edges: Ready) {
        if self.is_on {
            self.add(object, edges);
        }
    }

    #[cold]
    fn add(&mut self, object: &'static Object, edges: Ready) {
        let extra = object.extra_or_new();
        extra.edges.fetch_or(u32::from(edges.0), Ordering::Relaxed);
        if !extra.is_queued.swap(true, Ordering::Relaxed) {
            self.waiting.push_back(object.token());
        }
    }
}
