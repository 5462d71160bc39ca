//! The array that poll(2) is given for one sleep.

use libc::pollfd;

/// Descriptors to sleep on: without allocating, unless there are many.
pub(super) struct Polled {
    few: [pollfd; Polled::FEW],
    count: usize,
    many: Vec<pollfd>,
}

impl Polled {
    const FEW: usize = 12;

    pub(super) fn new() -> Polled {
        Polled { few: [pollfd { fd: -1, events: 0, revents: 0 }; Polled::FEW], count: 0, many: Vec::new() }
    }

    pub(super) fn push(&mut self, fd: i32, events: i16) {
        let polled = pollfd { fd, events, revents: 0 };
        if self.count < Polled::FEW {
            self.few[self.count] = polled;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(polled);
        }
        self.count += 1;
    }

    pub(super) fn slice(&mut self) -> &mut [pollfd] {
        if self.many.is_empty() { &mut self.few[..self.count] } else { &mut self.many }
    }
}
