//! The limit of locked memory, which the kernel charges packet memory to, and before Linux 5.11 maps and programs as
//! well.

/// Raises RLIMIT_MEMLOCK by so many bytes, on top of what the application locks itself: beyond the hard limit if we
/// may, else up to it. True if that changed something.
pub(crate) fn allow(bytes: u64) -> bool {
    let memlock = libc::RLIMIT_MEMLOCK as i32;
    let Ok(limit) = sys::process::limit(memlock) else { return false };
    let soft = limit.soft.saturating_add(bytes);
    let beyond = sys::process::Limit { soft, hard: limit.hard.max(soft) };
    let within = sys::process::Limit { soft: soft.min(limit.hard), ..limit };
    beyond != limit && sys::process::set_limit(memlock, beyond).is_ok()
        || within != limit && sys::process::set_limit(memlock, within).is_ok()
}
