//! One line that says what failed, why, and what to do; the rig and the tools that use it print it and stop.

use std::fmt;

/// What went wrong, ready to be printed.
#[derive(Debug)]
pub struct Error(String);

/// The rig's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error from its sentence.
    pub fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Puts what was being done in front of why it failed.
pub trait Context<T> {
    /// `what: why`.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|why| Error(format!("{what}: {why}")))
    }
}
