//! Our own system calls, made directly so that our hooks never see them.
