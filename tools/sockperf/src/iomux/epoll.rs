//! epoll(7), level-triggered.

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLIN, epoll_event};

use crate::calls::calls;
use crate::exit::{Failure, Result};

/// Most events taken at once; the rest stay ready.
const BATCH: usize = 256;

/// An epoll instance and room for its events.
pub struct Epoll {
    instance: i32,
    events: Vec<epoll_event>,
}

impl Epoll {
    /// A new, empty instance.
    pub fn new() -> Result<Epoll> {
        // SAFETY: no pointers.
        let instance = unsafe { (calls().epoll_create1)(libc::EPOLL_CLOEXEC) };
        if instance < 0 {
            return Err(Failure::socket("cannot create an epoll instance"));
        }
        Ok(Epoll { instance, events: vec![epoll_event { events: 0, u64: 0 }; BATCH] })
    }

    /// Watches `fd`.
    pub fn add(&mut self, fd: i32) -> Result<()> {
        let mut event = epoll_event { events: EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: `event` outlives the call.
        if unsafe { (calls().epoll_ctl)(self.instance, EPOLL_CTL_ADD, fd, &mut event) } != 0 {
            return Err(Failure::socket("cannot add a socket to epoll"));
        }
        Ok(())
    }

    /// Forgets `fd`.
    pub fn remove(&mut self, fd: i32) {
        let mut event = epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` outlives the call; an unknown descriptor is an error that changes nothing.
        unsafe { (calls().epoll_ctl)(self.instance, EPOLL_CTL_DEL, fd, &mut event) };
    }

    /// See [`Mux::wait`](super::Mux::wait).
    pub fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<i32>) -> Result<()> {
        // SAFETY: the pointer and length are those of `events`.
        let n = unsafe {
            (calls().epoll_wait)(self.instance, self.events.as_mut_ptr(), BATCH as i32, timeout_ms)
        };
        if n < 0 {
            return super::interrupted("epoll_wait");
        }
        ready.extend(self.events.iter().take(n as usize).map(|e| e.u64 as i32));
        Ok(())
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and not used afterwards.
        unsafe { (calls().close)(self.instance) };
    }
}
