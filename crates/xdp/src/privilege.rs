//! What opening an interface takes, and what of it this thread has not got.

use core::fmt;
use sys::capability::{BPF, IPC_LOCK, NET_ADMIN, NET_RAW, OPENING, PERFMON, SYS_ADMIN};

/// THE LIST: capabilities by name. With each of them and no other an interface is opened.
const NEEDED: [(u64, &str); 5] = [
    // The program's type, and attaching it.
    (NET_ADMIN, "CAP_NET_ADMIN"),
    // AF_XDP sockets.
    (NET_RAW, "CAP_NET_RAW"),
    // Maps, and loading the program.
    (BPF, "CAP_BPF"),
    // The program computes with addresses.
    (PERFMON, "CAP_PERFMON"),
    // The arena is pinned.
    (IPC_LOCK, "CAP_IPC_LOCK"),
];

/// Bytes that may be locked without [`IPC_LOCK`], if the limit allows them: an arena.
const ARENA: u64 = 64 << 20;

/// What of it is missing, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(u64);

impl Missing {
    /// Of this thread, as it is now.
    pub(crate) fn now() -> Missing {
        let may_lock =
            sys::process::limit(libc::RLIMIT_MEMLOCK as i32).is_ok_and(|limit| limit.soft >= ARENA);
        Missing::of(sys::process::capabilities().unwrap_or(0), may_lock)
    }

    /// Of whoever holds these, and may lock an arena by the limit.
    fn of(held: u64, may_lock: bool) -> Missing {
        let mut held = held;
        if held & SYS_ADMIN != 0 {
            held |= BPF | PERFMON;
        }
        if may_lock {
            held |= IPC_LOCK;
        }
        Missing(OPENING & !held)
    }

    /// Whether the verifier forbids what our program does.
    pub(crate) fn has_perfmon(self) -> bool {
        self.0 & PERFMON != 0
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = || NEEDED.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name);
        let count = names().count();
        for (number, name) in names().enumerate() {
            let before = match number {
                0 => "",
                _ if number + 1 == count => " and ",
                _ => ", ",
            };
            write!(f, "{before}{name}")?;
        }
        f.write_str(match count {
            0 => {
                "the process has all capabilities that it takes, but in a user namespace of its own, where they do not \
                 count for this, or a security module forbids it; a keeper (sidestepd) outside of it can help"
            }
            1 => " is missing; grant it, run as root, or have a keeper (sidestepd) run",
            _ => " are missing; grant them, run as root, or have a keeper (sidestepd) run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_nothing_else() {
        assert_eq!(NEEDED.iter().fold(0, |all, (bit, _)| all | bit), OPENING, "each has a name");
        for (bit, name) in NEEDED {
            let told = Missing::of(OPENING & !bit, false).to_string();
            assert!(told.starts_with(&format!("{name} is missing")), "{told}");
            assert_eq!(told.matches("CAP_").count(), 1, "{told}");
        }
        let none = Missing::of(0, false).to_string();
        assert!(
            none.starts_with("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK are missing"),
            "{none}"
        );
        assert!(!Missing::of(OPENING, false).to_string().contains("CAP_"));
    }

    #[test]
    fn what_stands_for_another_is_not_missing() {
        assert_eq!(Missing::of(OPENING & !IPC_LOCK, true), Missing(0));
        let old = NET_ADMIN | NET_RAW | SYS_ADMIN;
        assert_eq!(Missing::of(old, true), Missing(0));
        assert_eq!(Missing::of(old, false), Missing(IPC_LOCK));
        assert!(Missing::of(OPENING & !PERFMON, true).has_perfmon() && !Missing::of(old, true).has_perfmon());
    }
}
