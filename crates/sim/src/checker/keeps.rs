//! What a connection keeps for its reader: no more than its buffer has room for, and less than one unit of its scaled
//! window beyond. It is looked at after every call.

use crate::device::SimFrame;
use stack::{SocketId, Stack};

/// The connections of a host, with the most that each may keep.
#[derive(Default)]
pub struct Keeps {
    most: Vec<(SocketId, u64)>,
    wrong: Option<String>,
}

impl Keeps {
    /// From now on `id` is looked at, until it is gone.
    pub fn watch(&mut self, stack: &Stack<SimFrame>, id: SocketId) {
        // What it came with, and what its peer was told then: it may come from a place with more room.
        let unread = stack.tcp_queued(id).map_or(0, |queued| queued.unread as u64);
        let told = stack.tcp_info(stack_time(), id).map_or(0, |info| u64::from(info.rcv_wnd));
        self.most.push((id, unread + told));
    }

    /// Compares what is kept with the most that may be.
    pub fn look(&mut self, stack: &Stack<SimFrame>) {
        let wrong = &mut self.wrong;
        self.most.retain_mut(|(id, most)| {
            let (Some(queued), Some(info)) = (stack.tcp_queued(*id), stack.tcp_info(stack_time(), *id))
            else {
                return false;
            };
            // A buffer that became smaller keeps what it has.
            let unit = 1u64 << info.rcv_wscale.unwrap_or(0);
            *most = (*most).max(u64::from(info.rcv_ssthresh) + unit - 1);
            if queued.unread as u64 > *most && wrong.is_none() {
                *wrong = Some(format!("{} bytes are kept, {most} may be", queued.unread));
            }
            true
        });
    }

    /// The first that keeps too much.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }
}

/// Nothing that is asked here depends on it.
fn stack_time() -> stack::Instant {
    stack::Instant(0)
}
