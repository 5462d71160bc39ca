//! Hostile peers and strangers.
