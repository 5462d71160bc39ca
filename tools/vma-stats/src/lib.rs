//! What tools share that watch running programs: their statistics files, and what the keeper tells.

pub mod keeper;
pub mod place;
pub mod programs;

/// Why a tool ends early.
#[derive(Debug)]
pub enum Failure {
    /// Standard output is gone.
    Output(std::io::Error),
    /// What to tell the user.
    Told(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}
