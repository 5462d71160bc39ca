//! select(2), with sets as long as the highest descriptor needs: the kernel takes any length.

use libc::{c_ulong, timeval};

use crate::calls::calls;
use crate::exit::Result;

const WORD: usize = c_ulong::BITS as usize;
/// An accelerator may copy whole `fd_set`s, so the sets are never shorter than one.
const FEWEST_WORDS: usize = size_of::<libc::fd_set>() / size_of::<c_ulong>();

/// The watched descriptors and the set handed to the kernel.
#[derive(Default)]
pub struct Select {
    fds: Vec<i32>,
    watched: Vec<c_ulong>,
    working: Vec<c_ulong>,
    highest: i32,
}

impl Select {
    /// Watches `fd`.
    pub fn add(&mut self, fd: i32) {
        self.fds.push(fd);
        self.rebuild();
    }

    /// Forgets `fd`.
    pub fn remove(&mut self, fd: i32) {
        self.fds.retain(|f| *f != fd);
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.highest = self.fds.iter().copied().max().unwrap_or(-1);
        let words = ((self.highest + 1) as usize).div_ceil(WORD).max(FEWEST_WORDS);
        self.watched = vec![0; words];
        for fd in &self.fds {
            self.watched[*fd as usize / WORD] |= 1 << (*fd as usize % WORD);
        }
        self.working = self.watched.clone();
    }

    /// See [`Mux::wait`](super::Mux::wait).
    pub fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<i32>) -> Result<()> {
        self.working.copy_from_slice(&self.watched);
        let ms = i64::from(timeout_ms);
        let mut timeout = timeval { tv_sec: ms / 1000, tv_usec: ms % 1000 * 1000 };
        let timeout = if timeout_ms < 0 { std::ptr::null_mut() } else { &raw mut timeout };
        let null = std::ptr::null_mut();
        // SAFETY: `working` holds at least `highest + 1` bits and `timeout` is null or outlives the call.
        let n = unsafe {
            (calls().select)(self.highest + 1, self.working.as_mut_ptr().cast(), null, null, timeout)
        };
        if n < 0 {
            return super::interrupted("select");
        }
        let is_set = |fd: &&i32| self.working[**fd as usize / WORD] & (1 << (**fd as usize % WORD)) != 0;
        if n > 0 {
            ready.extend(self.fds.iter().filter(is_set));
        }
        Ok(())
    }
}
