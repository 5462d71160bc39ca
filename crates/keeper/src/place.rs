//! Where the keeper of a network namespace is found: /run/sidestep/keeper-INODE, INODE being that of the namespace, as
//! `/proc/self/ns/net` shows it.

use sys::Result;

/// The folder, which root makes.
pub const FOLDER: &str = "/run/sidestep";

/// The keeper, where it is installed.
const PROGRAM: &str = "/usr/sbin/sidestepd";

/// Bytes of a path that a Unix socket can have, the null byte at its end included.
const PATH_LEN: usize = 108;

/// What SIDESTEP_KEEPER says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `none`: there is no keeper.
    Nowhere,
    /// `auto`: the keeper of the network namespace that the caller is in.
    Default,
    /// `start`, or `start=PROGRAM`: the same, and where there is none, this program is started as one.
    Start(String),
    /// The socket with this path.
    Path(String),
}

impl Place {
    /// Of the parameter's value.
    pub fn of(value: &str) -> Place {
        match value {
            "none" => Place::Nowhere,
            "auto" | "" => Place::Default,
            "start" => Place::Start(PROGRAM.to_owned()),
            other => match other.strip_prefix("start=") {
                Some(program) => Place::Start(program.to_owned()),
                None => Place::Path(other.to_owned()),
            },
        }
    }

    /// The path of the socket. ENOENT: there is none.
    pub fn path(&self) -> Result<String> {
        match self {
            Place::Nowhere => Err(libc::ENOENT),
            Place::Default | Place::Start(_) => Ok(format!("{FOLDER}/keeper-{}", namespace()?)),
            Place::Path(path) => Ok(path.clone()),
        }
    }
}

/// The inode of the calling thread's network namespace.
pub fn namespace() -> Result<u64> {
    let file = sys::file::open(c"/proc/thread-self/ns/net", libc::O_RDONLY, 0)?;
    sys::identity::identity(file.raw()).map(|identity| identity.inode)
}

/// A path as connect(2) and bind(2) want it. EINVAL: no socket can have it.
pub fn address(path: &str) -> Result<libc::sockaddr_un> {
    let bytes = path.as_bytes();
    if bytes.is_empty() || bytes.len() >= PATH_LEN || bytes.contains(&0) {
        return Err(libc::EINVAL);
    }
    let mut address =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; PATH_LEN] };
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_names_a_path_none_or_the_namespaces_own() {
        assert_eq!(Place::of("none").path(), Err(libc::ENOENT));
        assert_eq!(Place::of("/tmp/x").path().as_deref(), Ok("/tmp/x"));
        let own = Place::of("auto").path().unwrap();
        assert!(own.starts_with("/run/sidestep/keeper-") && Place::of("").path() == Ok(own.clone()));
        assert_eq!(Place::of("start=/x").path(), Ok(own));
        assert_eq!(Place::of("start"), Place::of("start=/usr/sbin/sidestepd"));
        assert_eq!(address(&"x".repeat(108)).err(), Some(libc::EINVAL));
        assert_eq!(address("").err(), Some(libc::EINVAL));
    }
}
