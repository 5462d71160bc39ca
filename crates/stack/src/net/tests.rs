//! Paths, neighbours and what waits for them.
