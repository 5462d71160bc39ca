//! The socket that programs connect to: made here, or passed by systemd (sd_listen_fds(3)). Only what a keeper left
//! that is gone is removed to make place for it: a socket at which nobody listens.

use keeper::place::{self, Place};
use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use sys::Fd;
use sys::socket::option;

/// Programs that wait to be greeted.
const BACKLOG: i32 = 1024;
/// The first descriptor that systemd passes.
const PASSED: i32 = 3;
/// Behind the path of a socket, the name of its lock.
const LOCK: &str = ".lock";
/// Between two attempts where descriptors or memory are short.
const PAUSE: Duration = Duration::from_millis(10);

/// See the file's page.
pub(crate) struct Listening {
    socket: Fd,
    path: String,
    /// `None`: the path is systemd's.
    made: Option<Made>,
}

/// A path that was made here.
struct Made {
    /// Nobody else listens at this path as long as it is locked.
    _lock: File,
    /// Device and inode of the socket there.
    identity: Option<(u64, u64)>,
}

impl Listening {
    /// At `path`, or where the programs of this network namespace look.
    pub(crate) fn begin(path: Option<&str>) -> Result<Listening, String> {
        if let Some(socket) = passed()? {
            return Ok(Listening { socket, path: "the socket that was passed".to_owned(), made: None });
        }
        let path = match path {
            Some(path) => path.to_owned(),
            None => {
                make_folder(Path::new(place::FOLDER))?;
                sweep(Path::new(place::FOLDER));
                let errno =
                    |errno| format!("the network namespace has no number: {why}", why = sys::Errno(errno));
                Place::Default.path().map_err(errno)?
            }
        };
        let lock = lock(&path)?;
        clear(&path)?;
        let said = |what: &str, errno: i32| format!("{path}: {what}: {why}", why = sys::Errno(errno));
        let address = place::address(&path).map_err(|errno| said("no path for a socket", errno))?;
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK;
        let socket = sys::socket::socket(libc::AF_UNIX, kind, 0).map_err(|errno| said("socket", errno))?;
        sys::socket::bind(socket.raw(), &address).map_err(|errno| said("bind", errno))?;
        // Everybody may ask, and is told: the policy decides.
        std::fs::set_permissions(&path, Permissions::from_mode(0o666))
            .map_err(|error| format!("{path}: {error}"))?;
        sys::socket::listen(socket.raw(), BACKLOG).map_err(|errno| said("listen", errno))?;
        let identity = identity(&path);
        Ok(Listening { socket, path, made: Some(Made { _lock: lock, identity }) })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Who connects next. `None`: nobody did within `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Option<Fd> {
        match sys::socket::accept(self.socket.raw()) {
            Ok(connection) => return Some(connection),
            Err(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
        let mut one = [sys::poll::pollfd { fd: self.socket.raw(), events: libc::POLLIN, revents: 0 }];
        let _ = sys::poll::poll(&mut one, patience.map(|patience| patience.as_nanos() as u64), None);
        sys::socket::accept(self.socket.raw()).ok()
    }

    /// Takes the name away. Returns who had connected by it before.
    pub(crate) fn end(self) -> Vec<Fd> {
        // Unless somebody else has put something in its place.
        if self.made.as_ref().is_some_and(|made| made.identity == identity(&self.path)) {
            let _ = std::fs::remove_file(&self.path);
        }
        std::iter::from_fn(|| sys::socket::accept(self.socket.raw()).ok()).collect()
    }
}

/// The folder is root's, and nobody else can put a socket there.
fn make_folder(path: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Removes what keepers left that were killed, of other network namespaces: nobody holds their locks.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for name in entries.flatten().map(|entry| entry.path()) {
        let Some(socket) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else { continue };
        if let Ok(file) = File::options().write(true).open(&name)
            && file.try_lock().is_ok()
        {
            let _ = clear(socket);
            let _ = std::fs::remove_file(&name);
        }
    }
}

/// Removes what a keeper left at a path that was killed. An error: somebody has the path, or it is no keeper's.
fn clear(path: &str) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{path}: {error}");
    let there = match std::fs::symlink_metadata(path) {
        Ok(there) => there.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(said(error)),
    };
    match (there.is_socket() || there.is_symlink()).then(|| knock(path)) {
        // What a symbolic link leads to may listen again later: systemd's, whose unit has it.
        Some(Err(libc::ECONNREFUSED)) if there.is_socket() => std::fs::remove_file(path).map_err(said),
        Some(Err(libc::ENOENT)) => std::fs::remove_file(path).map_err(said),
        Some(Err(libc::ECONNREFUSED)) => Err(format!(
            "{path}: a symbolic link to a socket that is not ours: start sidestepd.socket, or name another --socket"
        )),
        Some(Ok(()) | Err(libc::EAGAIN)) => Err(format!("{path}: another keeper has it")),
        Some(Err(errno)) => Err(said(std::io::Error::from_raw_os_error(errno))),
        None => Err(format!("{path}: there is a file that is no socket; name another --socket")),
    }
}

/// Whether somebody listens there, or why not, by errno. EAGAIN: more wait to be greeted than there is room for.
fn knock(path: &str) -> sys::Result<()> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK;
    let socket = sys::socket::socket(libc::AF_UNIX, kind, 0)?;
    sys::socket::connect(socket.raw(), &place::address(path)?)
}

/// What has this name.
fn identity(path: &str) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()))
}

fn lock(path: &str) -> Result<File, String> {
    let name = format!("{path}{LOCK}");
    let said = |error: std::io::Error| format!("{name}: {error}");
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(&name).map_err(said)?;
        match file.try_lock() {
            // Another one may have swept it away in between.
            Ok(()) if is_at(&file, &name) => return Ok(file),
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(format!("{path}: another keeper has it")),
            Err(std::fs::TryLockError::Error(error)) => return Err(said(error)),
        }
    }
}

/// Whether a file has this name.
fn is_at(file: &File, name: &str) -> bool {
    let own = file.metadata().map(|file| file.ino());
    std::fs::metadata(name).is_ok_and(|there| own.is_ok_and(|own| own == there.ino()))
}

/// The socket that systemd listens at for us, if it started us.
fn passed() -> Result<Option<Fd>, String> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    if variable("LISTEN_PID") != Some(sys::process::pid()) || variable("LISTEN_FDS").unwrap_or(0) < 1 {
        return Ok(None);
    }
    let of = |name| option(PASSED, libc::SOL_SOCKET, name, 0i32);
    let is_right = of(libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && of(libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET)
        && of(libc::SO_ACCEPTCONN) == Ok(1);
    if !is_right {
        return Err("what was passed by LISTEN_FDS is no listening socket of type SOCK_SEQPACKET".to_owned());
    }
    let socket = Fd::adopt(PASSED as usize);
    let flags = sys::fd::fcntl(socket.raw(), libc::F_GETFL, 0).unwrap_or(0);
    let _ = sys::fd::fcntl(socket.raw(), libc::F_SETFL, (flags | libc::O_NONBLOCK) as usize);
    Ok(Some(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequential(path: &str) -> Fd {
        let socket = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0).unwrap();
        sys::socket::bind(socket.raw(), &place::address(path).unwrap()).unwrap();
        sys::socket::listen(socket.raw(), 1).unwrap();
        socket
    }

    #[test]
    fn what_a_killed_keeper_left_is_swept_away_and_what_a_living_one_has_is_not() {
        let folder = std::env::temp_dir().join(format!("keeper-sweep-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let listens = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).unwrap();
        drop((listens("dead"), listens("living"), listens("unlocked")));
        let _systemd = sequential(&path("systemds"));
        std::os::unix::fs::symlink("systemds", path("linked")).unwrap();
        for name in ["dead.lock", "linked.lock", "file", "file.lock"] {
            std::fs::write(path(name), "").unwrap();
        }
        let held = lock(&path("living")).unwrap();
        sweep(&folder);
        let there = |name: &str| std::fs::symlink_metadata(path(name)).is_ok();
        assert!(!there("dead") && !there("dead.lock"));
        for name in ["living", "living.lock", "unlocked", "systemds", "linked", "file"] {
            assert!(there(name), "{name}");
        }
        assert!(lock(&path("living")).is_err());
        drop(held);
        assert!(lock(&path("dead")).is_ok() && lock(&path("living")).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
