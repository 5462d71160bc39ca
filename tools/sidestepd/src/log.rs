//! The keeper's log: its standard error, which may be gone, or a pipe that nobody reads. Neither ends it, nor stops it:
//! a line that cannot be written now is not written.

use std::fmt::Arguments;
use std::io::Write;

/// `say!("{name}: held")`, with the program's name before it.
macro_rules! say {
    ($($words:tt)*) => { $crate::log::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// See [`say`]. Shorter than what a pipe takes at once, so that it is written whole, or not at all.
pub(crate) fn line(words: Arguments<'_>) {
    let mut one = [sys::poll::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 }];
    if sys::poll::poll(&mut one, Some(0), None) == Ok(1) {
        let line = format!("sidestepd: {words}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
