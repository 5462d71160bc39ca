//! Who may: root, users that are named, and members of groups that are; by default of the group `sidestep`.

use std::path::Path;

/// Whose members are admitted if no group is named.
const GROUP: &str = "sidestep";
/// Supplementary groups of a client that are looked at; the kernel allows 65536.
const GROUPS_MAX: usize = 4096;

/// Numbers of the users and groups that are admitted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    users: Vec<u32>,
    groups: Vec<u32>,
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
        let users: Result<Vec<u32>, String> = users
            .map(|name| number(Path::new("/etc/passwd"), name).ok_or(format!("there is no user {name}")))
            .collect();
        let named: Vec<&str> = groups.collect();
        let groups: Result<Vec<u32>, String> = named
            .iter()
            .map(|name| number(Path::new("/etc/group"), name).ok_or(format!("there is no group {name}")))
            .collect();
        let groups = match named.is_empty() {
            true => number(Path::new("/etc/group"), GROUP).into_iter().collect(),
            false => groups?,
        };
        Ok(Policy { users: users?, groups })
    }

    pub(crate) fn admits(&self, who: &Who) -> bool {
        let is_member = || who.groups.iter().any(|group| self.groups.contains(group));
        who.user == 0 || self.users.contains(&who.user) || is_member()
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

/// A user's name, or the number where it has none in /etc/passwd.
pub(crate) fn user_name(user: u32) -> String {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = user.to_string();
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(number.as_str())).then(|| name.to_owned())
    };
    text.lines().find_map(of_line).unwrap_or(number)
}

/// Of a name in a file whose lines are `name:x:number:...`, or that is a number itself.
fn number(file: &Path, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let text = std::fs::read_to_string(file).ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    text.lines().find_map(of_line)
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
        assert_eq!(policy, Policy { users: vec![0], groups: vec![0] });
        let unknown = Policy::new(["no such user"].into_iter(), [].into_iter());
        assert_eq!(unknown, Err("there is no user no such user".to_owned()));
        let unknown = Policy::new([].into_iter(), ["no such group"].into_iter());
        assert_eq!(unknown, Err("there is no group no such group".to_owned()));
    }

    #[test]
    fn credentials_are_the_kernels() {
        let (ours, _theirs) = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
        let who = Who::at(ours.raw()).unwrap();
        assert_eq!((who.process, who.user), (sys::process::pid(), sys::process::user()));
    }
}
