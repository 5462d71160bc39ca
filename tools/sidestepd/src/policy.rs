//! Who may: root, users that are named, and members of groups that are; by default of the group `sidestep`. What the
//! names mean is looked for again when somebody would be refused: a group may be made later, or a server that has the
//! names be found.

use crate::names;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whose members are admitted if no group is named.
const GROUP: &str = "sidestep";
/// Supplementary groups of a client that are looked at; the kernel allows 65536.
const GROUPS_MAX: usize = 4096;

/// Names are looked for again at most so often.
const AGAIN: Duration = Duration::from_secs(2);

/// The users and groups that are admitted.
#[derive(Debug)]
pub(crate) struct Policy {
    users: Vec<String>,
    groups: Vec<String>,
    numbers: Mutex<Numbers>,
    /// When their names were looked for last. Held by who looks, which may take long.
    looked: Mutex<Instant>,
}

/// Of those whose names are known.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    users: Vec<Option<u32>>,
    groups: Vec<Option<u32>>,
}

/// Who connected, as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// In the keeper's pid namespace; 0: not in there.
    pub(crate) process: i32,
    pub(crate) user: u32,
    pub(crate) groups: Vec<u32>,
}

impl Policy {
    /// An error names the word that is no user or group.
    pub(crate) fn new<'a>(
        users: impl Iterator<Item = &'a str>,
        groups: impl Iterator<Item = &'a str>,
    ) -> Result<Policy, String> {
        let own = |name: &str| name.to_owned();
        let (users, named): (Vec<String>, Vec<String>) =
            (users.map(own).collect(), groups.map(own).collect());
        if let Some(name) = users.iter().find(|name| names::user(name).is_none()) {
            return Err(format!("there is no user {name}"));
        }
        if let Some(name) = named.iter().find(|name| names::group(name).is_none()) {
            return Err(format!("there is no group {name}"));
        }
        let groups = if named.is_empty() { vec![own(GROUP)] } else { named };
        let numbers = Mutex::new(Numbers::of(&users, &groups));
        Ok(Policy { users, groups, numbers, looked: Mutex::new(Instant::now()) })
    }

    /// What the names mean by now, unless that was just looked for: takes as long as whoever knows them does.
    pub(crate) fn look_again(&self) {
        let Ok(mut looked) = self.looked.try_lock() else { return };
        if looked.elapsed() >= AGAIN {
            if let Some(numbers) = names::apart(|| Numbers::of(&self.users, &self.groups)) {
                self.numbers().learn(&numbers);
            }
            *looked = Instant::now();
        }
    }

    pub(crate) fn admits(&self, who: &Who) -> bool {
        let numbers = self.numbers();
        let is_member = || who.groups.iter().any(|group| numbers.groups.contains(&Some(*group)));
        who.user == 0 || numbers.users.contains(&Some(who.user)) || is_member()
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    fn of(users: &[String], groups: &[String]) -> Numbers {
        let users = users.iter().map(|name| names::user(name)).collect();
        let groups = groups.iter().map(|name| names::group(name)).collect();
        Numbers { users, groups }
    }

    /// What was known stays where nobody answers: a directory that is down takes nothing from anybody.
    fn learn(&mut self, now: &Numbers) {
        let known = self.users.iter_mut().chain(&mut self.groups);
        for (known, found) in known.zip(now.users.iter().chain(&now.groups)) {
            *known = found.or(*known);
        }
    }
}

impl Who {
    /// Who is at the other end of a Unix socket: as they were when they connected.
    pub(crate) fn at(fd: i32) -> sys::Result<Who> {
        let nobody = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let peer = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, nobody)?;
        let mut bytes = vec![0; GROUPS_MAX * 4];
        let length =
            sys::socket::option_bytes(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, &mut bytes).unwrap_or(0);
        let more = bytes[..length.min(GROUPS_MAX * 4)].chunks_exact(4);
        let more = more.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let groups = std::iter::once(peer.gid).chain(more).collect();
        Ok(Who { process: peer.pid, user: peer.uid, groups })
    }
}

/// What a process is called; empty if it is gone.
pub(crate) fn program(process: i32) -> String {
    let name = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Whose a process is. `None`: it is gone.
pub(crate) fn user_of(process: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: u32, groups: &[u32]) -> Who {
        Who { process: 1, user, groups: groups.to_vec() }
    }

    #[test]
    fn root_named_users_and_members_are_admitted_and_nobody_else() {
        let policy = Policy::new(["1000"].into_iter(), ["77"].into_iter()).unwrap();
        assert!(policy.admits(&who(0, &[0])) && policy.admits(&who(1000, &[1000])));
        assert!(policy.admits(&who(1001, &[1001, 5, 77])));
        assert!(!policy.admits(&who(1001, &[1000, 5])), "a user's number is no group's");
        assert!(!policy.admits(&who(u32::MAX, &[])));
    }

    #[test]
    fn names_are_those_of_the_system_and_others_are_told() {
        let policy = Policy::new(["root"].into_iter(), ["root"].into_iter()).unwrap();
        assert_eq!(*policy.numbers(), Numbers { users: vec![Some(0)], groups: vec![Some(0)] });
        let unknown = Policy::new(["no such user"].into_iter(), [].into_iter());
        assert_eq!(unknown.err().as_deref(), Some("there is no user no such user"));
        let unknown = Policy::new([].into_iter(), ["no such group"].into_iter());
        assert_eq!(unknown.err().as_deref(), Some("there is no group no such group"));
    }

    #[test]
    fn a_directory_that_is_down_takes_nothing_from_who_was_known() {
        let mut known = Numbers { users: vec![Some(7), None], groups: vec![Some(8)] };
        known.learn(&Numbers { users: vec![None, Some(9)], groups: vec![None] });
        assert_eq!(known, Numbers { users: vec![Some(7), Some(9)], groups: vec![Some(8)] });
    }

    #[test]
    fn a_name_that_was_not_known_is_looked_for_again_and_not_at_once() {
        let policy = Policy::new([].into_iter(), ["root"].into_iter()).unwrap();
        *policy.numbers() = Numbers { users: Vec::new(), groups: vec![None] };
        policy.look_again();
        assert!(!policy.admits(&who(1, &[0])), "just looked for");
        let long_ago = Instant::now().checked_sub(AGAIN).unwrap();
        *policy.looked.lock().unwrap() = long_ago;
        policy.look_again();
        assert!(policy.admits(&who(1, &[0])));
    }

    #[test]
    fn credentials_are_the_kernels() {
        let (ours, _theirs) = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
        let who = Who::at(ours.raw()).unwrap();
        assert_eq!((who.process, who.user), (sys::process::pid(), sys::process::user()));
    }
}
