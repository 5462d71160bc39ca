//! What opening an interface takes, and what of it this thread has not got.

use core::fmt;

/// THE LIST: capabilities and their bits. With each of them and no other an interface is opened.
const NEEDED: [(u32, &str); 5] = [
    // The program's type, and attaching it.
    (12, "CAP_NET_ADMIN"),
    // AF_XDP sockets.
    (13, "CAP_NET_RAW"),
    // Maps, and loading the program.
    (39, "CAP_BPF"),
    // The program computes with addresses.
    (38, "CAP_PERFMON"),
    // The arena is pinned.
    (IPC_LOCK, "CAP_IPC_LOCK"),
];

const IPC_LOCK: u32 = 14;
const PERFMON: u32 = 38;
const BPF: u32 = 39;
/// Stands for [`BPF`] and [`PERFMON`], which were part of it once.
const SYS_ADMIN: u32 = 21;

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
        if held & 1 << SYS_ADMIN != 0 {
            held |= 1 << BPF | 1 << PERFMON;
        }
        if may_lock {
            held |= 1 << IPC_LOCK;
        }
        Missing(NEEDED.iter().map(|(bit, _)| 1 << bit).fold(0, |all, bit| all | bit) & !held)
    }

    /// Whether the verifier forbids what our program does.
    pub(crate) fn has_perfmon(self) -> bool {
        self.0 & 1 << PERFMON != 0
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = || NEEDED.iter().filter(|(bit, _)| self.0 & 1 << bit != 0).map(|(_, name)| *name);
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

    const ALL: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 38 | 1 << 39;

    #[test]
    fn what_is_missing_is_named_and_nothing_else() {
        for (bit, name) in NEEDED {
            let told = Missing::of(ALL & !(1 << bit), false).to_string();
            assert!(told.starts_with(&format!("{name} is missing")), "{told}");
            assert_eq!(told.matches("CAP_").count(), 1, "{told}");
        }
        let none = Missing::of(0, false).to_string();
        assert!(
            none.starts_with("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK are missing"),
            "{none}"
        );
        assert!(!Missing::of(ALL, false).to_string().contains("CAP_"));
    }

    #[test]
    fn what_stands_for_another_is_not_missing() {
        assert_eq!(Missing::of(ALL & !(1 << IPC_LOCK), true), Missing(0));
        let old = 1 << 12 | 1 << 13 | 1 << SYS_ADMIN;
        assert_eq!(Missing::of(old, true), Missing(0));
        assert_eq!(Missing::of(old, false), Missing(1 << IPC_LOCK));
        assert!(
            Missing::of(ALL & !(1 << PERFMON), true).has_perfmon() && !Missing::of(old, true).has_perfmon()
        );
    }
}
