//! poll(2).

use libc::{POLLIN, pollfd};

use crate::calls::calls;
use crate::exit::Result;

/// The array handed to the kernel.
#[derive(Default)]
pub struct Poll {
    entries: Vec<pollfd>,
}

impl Poll {
    /// Watches `fd`.
    pub fn add(&mut self, fd: i32) {
        self.entries.push(pollfd { fd, events: POLLIN, revents: 0 });
    }

    /// Forgets `fd`.
    pub fn remove(&mut self, fd: i32) {
        self.entries.retain(|e| e.fd != fd);
    }

    /// See [`Mux::wait`](super::Mux::wait).
    pub fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<i32>) -> Result<()> {
        // SAFETY: the pointer and length are those of `entries`.
        let n = unsafe { (calls().poll)(self.entries.as_mut_ptr(), self.entries.len() as u64, timeout_ms) };
        if n < 0 {
            return super::interrupted("poll");
        }
        if n > 0 {
            // Errors and hang-ups are readable: the read tells which.
            ready.extend(self.entries.iter().filter(|e| e.revents != 0).map(|e| e.fd));
        }
        Ok(())
    }
}
