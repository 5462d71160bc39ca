//! One connection in use elsewhere: bytes between the engine and a Unix socket, both ways, and their ends.

use crate::Stop;
use crate::object::Object;
use crate::runtime::Runtime;
use crate::tcp;
use core::sync::atomic::Ordering;
use stack::RecvError;
use sys::Fd;
use sys::poll::pollfd;

/// One connection in use elsewhere.
pub(super) struct Pump {
    pub(super) object: &'static Object,
    pub(super) far: Fd,
    pub(super) to_far: Pipe,
    pub(super) to_near: Pipe,
    /// Somebody reads there, or did: something came back.
    pub(super) is_served: bool,
}

#[derive(Default)]
pub(super) struct Pipe {
    bytes: Vec<u8>,
    from: usize,
    /// The source has ended.
    pub(super) ended: bool,
    /// The sink knows.
    told: bool,
}

impl Pipe {
    pub(super) fn is_empty(&self) -> bool {
        self.from == self.bytes.len()
    }
}

impl Pump {
    pub(super) fn new(object: &'static Object, far: Fd) -> Pump {
        Pump { object, far, to_far: Pipe::default(), to_near: Pipe::default(), is_served: false }
    }

    /// Moves what can be moved. False: it is over.
    pub(super) fn step(&mut self, runtime: &'static Runtime) -> bool {
        while self.out() | self.back(runtime) {}
        let near_over = self.to_far.ended && self.to_far.told;
        let far_over = self.to_near.ended && self.to_near.told;
        if near_over && far_over {
            return false;
        }
        // The child closed, not only shut down: nobody reads any more. What it wrote before comes first.
        let mut far = [pollfd { fd: self.far.raw(), events: 0, revents: 0 }];
        let gone = sys::poll::poll(&mut far, Some(0), None) == Ok(1)
            && far[0].revents & (libc::POLLHUP | libc::POLLERR) != 0;
        !(gone && far_over)
    }

    /// From the engine to the far side. True: something moved.
    fn out(&mut self) -> bool {
        let pipe = &mut self.to_far;
        let mut moved = false;
        if pipe.is_empty() && !pipe.ended {
            pipe.bytes.resize(BUFFER, 0);
            let got = tcp::take_now(self.object, &mut pipe.bytes);
            pipe.from = 0;
            pipe.bytes.truncate(got.unwrap_or(0));
            pipe.ended = got != Err(RecvError::WouldBlock) && pipe.bytes.is_empty();
            moved = !pipe.is_empty();
        }
        while !pipe.is_empty() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match sys::socket::send(self.far.raw(), &pipe.bytes[pipe.from..], flags) {
                Ok(n) => pipe.from += n,
                Err(libc::EAGAIN | libc::EINTR | libc::ENOTCONN) => return false,
                Err(_) => {
                    // The child reads no more.
                    pipe.from = pipe.bytes.len();
                    pipe.ended = true;
                }
            }
        }
        if pipe.ended && !pipe.told {
            shut_down(self.far.raw());
            pipe.told = true;
        }
        moved && !pipe.ended
    }

    /// From the far side to the engine. True: something moved.
    fn back(&mut self, runtime: &'static Runtime) -> bool {
        let pipe = &mut self.to_near;
        let mut moved = false;
        if pipe.is_empty() && !pipe.ended {
            pipe.bytes.resize(BUFFER, 0);
            pipe.from = 0;
            let got = sys::socket::receive(self.far.raw(), &mut pipe.bytes, libc::MSG_DONTWAIT);
            pipe.bytes.truncate(got.unwrap_or(0));
            let later = matches!(got, Err(libc::EAGAIN | libc::EINTR | libc::ENOTCONN));
            pipe.ended = !later && pipe.bytes.is_empty();
            moved = !pipe.is_empty();
            self.is_served |= moved;
        }
        while !pipe.is_empty() {
            let mut rest = &pipe.bytes[pipe.from..];
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match tcp::send(runtime, self.object, &mut rest, flags) {
                Ok(n) => pipe.from += n as usize,
                Err(Stop::Errno(libc::EAGAIN)) => return false,
                Err(_) => {
                    pipe.from = pipe.bytes.len();
                    pipe.ended = true;
                    pipe.told = true;
                }
            }
        }
        if pipe.ended && !pipe.told {
            pipe.told = true;
            // What only the child's copy of the descriptor closes is not the connection's end while we have one.
            if self.object.fds.load(Ordering::Acquire) == 0 || !is_gone(self.far.raw()) {
                let _ = tcp::shutdown(self.object, libc::SHUT_WR);
            }
        }
        moved && !pipe.ended
    }
}

/// The far side closed, rather than shut down one direction.
fn is_gone(fd: i32) -> bool {
    let mut one = [pollfd { fd, events: 0, revents: 0 }];
    sys::poll::poll(&mut one, Some(0), None) == Ok(1) && one[0].revents & libc::POLLHUP != 0
}

fn shut_down(fd: i32) {
    let _ = sys::socket::shutdown(fd, libc::SHUT_WR);
}

/// Bytes under way in one direction.
const BUFFER: usize = 1 << 16;
