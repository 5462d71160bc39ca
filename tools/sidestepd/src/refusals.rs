//! Who was refused, and why: the latest ones, for those who ask what the keeper does.

use crate::policy::Who;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Refusals that are remembered: of the same user for the same reason they are one.
const MOST: usize = 64;
/// Users whose refusal is told in the log: beyond, nothing is.
const TOLD_MAX: usize = 256;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Who it was the last time.
    pub(crate) process: i32,
    pub(crate) user: u32,
    /// What it was called.
    pub(crate) program: String,
    pub(crate) why: String,
    pub(crate) count: u64,
    /// When it was refused last.
    pub(crate) last: Instant,
}

/// See the file's page.
#[derive(Default)]
pub(crate) struct Refusals {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    latest: Vec<Refusal>,
    told: Vec<u32>,
}

impl Refusals {
    /// Somebody is refused. True: the log has no word on this user yet, and takes one.
    pub(crate) fn note(&self, who: &Who, why: &str) -> bool {
        let (process, user) = (who.process, who.user);
        let mut kept = self.kept();
        let known = kept.latest.iter().position(|refusal| refusal.user == user && refusal.why == why);
        let count = known.map_or(0, |at| kept.latest.remove(at).count);
        if kept.latest.len() >= MOST {
            kept.latest.remove(0);
        }
        let (program, why) = (crate::policy::program(process), why.to_owned());
        kept.latest.push(Refusal { process, user, program, why, count: count + 1, last: Instant::now() });
        let is_new = kept.told.len() < TOLD_MAX && !kept.told.contains(&user);
        if is_new {
            kept.told.push(user);
        }
        is_new
    }

    /// The latest ones, the last first.
    pub(crate) fn latest(&self) -> Vec<Refusal> {
        self.kept().latest.iter().rev().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: u32) -> Who {
        Who { process: sys::process::pid(), user, groups: Vec::new() }
    }

    #[test]
    fn the_same_user_for_the_same_reason_is_one_refusal_and_the_latest_are_kept() {
        let refusals = Refusals::default();
        assert!(refusals.note(&who(1), "this"), "the log takes it");
        assert!(!refusals.note(&who(1), "that"), "it has a word on that user");
        assert!(!refusals.note(&who(1), "this"));
        let all: Vec<(String, u64)> = refusals.latest().into_iter().map(|one| (one.why, one.count)).collect();
        assert_eq!(all, [("this".to_owned(), 2), ("that".to_owned(), 1)]);
        for user in 2..1000 {
            let is_told = refusals.note(&who(user), "this");
            assert_eq!(is_told, user <= TOLD_MAX as u32, "{user}");
        }
        let users: Vec<u32> = refusals.latest().into_iter().map(|one| one.user).collect();
        assert_eq!((users.len(), users[0], users[MOST - 1]), (MOST, 999, 1000 - MOST as u32));
    }
}
