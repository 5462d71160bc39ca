//! One line on standard error that says what is being done; rewritten in place on a terminal.

use std::io::{IsTerminal, Write};

/// `[3/8] what`; the line disappears when dropped.
pub(crate) struct Progress {
    done: usize,
    total: usize,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Progress {
        Progress { done: 0, total, terminal: std::io::stderr().is_terminal() }
    }

    /// The next step begins.
    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        let line = format!("[{}/{}] {what}", self.done, self.total);
        if self.terminal {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
