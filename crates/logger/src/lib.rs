//! Logging that is safe inside someone else's process.
