//! What a run can end with: the exit codes, and the one error type that carries them up to `main`.
//!
//! The numbers are the original's own error classes. The original returns 0 in most of these cases; we return 0
//! only when the test was valid (docs/sockperf.md has the two columns side by side).

use std::fmt;

/// Exit codes of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Bad argument, bad option value, conflicting options.
    Argument = 1,
    /// A feed, playback or data message that does not say what it must.
    Malformed = 2,
    /// The option is known, but this machine or build cannot do it.
    Unsupported = 3,
    /// A file or host that is not there.
    NotFound = 4,
    /// The run cannot go on.
    Fatal = 6,
    /// A socket call failed: bind, connect, join, or the peer closed the connection.
    Socket = 7,
    /// No answer came, or none inside the measured window.
    Timeout = 8,
}

/// An error on its way to `main`: one line for the user and the exit code.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Exit code of the process.
    pub code: Code,
    /// One line: what failed, why, what to do.
    pub text: String,
}

/// Result of everything that can end the run.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of class `code` that says `text`.
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into() }
    }

    /// A failed socket call: `what` was attempted, the reason is the current errno.
    pub fn socket(what: impl fmt::Display) -> Failure {
        let reason = std::io::Error::last_os_error();
        Failure::new(Code::Socket, format!("{what}: {reason}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
