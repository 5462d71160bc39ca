//! libsdp's environment and configuration file, and where its log goes.

use crate::sdp_rules::Sdp;
use config::sdp::{Destination, Dialect, Event, Log, LogPath, Rules};
use std::ffi::CString;

/// Where OFED's libsdp looks.
const CONFIG_FILE: &str = "/etc/libsdp.conf";

/// Any value of these makes everything SDP, whatever a file says.
const SIMPLE: [&str; 2] = ["SIMPLE_LIBSDP", "ALWAYS_USE_SDP"];

/// Reads the rules for this program, and starts the log as they say; trouble is told, never fatal.
pub(super) fn read(environment: &[(String, String)]) -> Sdp {
    let value =
        |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let program = super::program_name();
    let mut started = Log::default();
    start_log(&program, &started, None);
    let rules = if SIMPLE.iter().any(|name| value(name).is_some()) {
        Rules::simple()
    } else {
        let (rules, events) = rules(value("LIBSDP_CONFIG_FILE"));
        for event in events {
            match event {
                Event::Log(log) => {
                    if log.destination == started.destination {
                        // The place stays open.
                        logger::libsdp::set_min_level(log.min_level);
                    } else {
                        start_log(&program, &log, rules.dialect());
                    }
                    started = log;
                }
                Event::Trouble(trouble) if trouble.is_error => logger::error!("{}", trouble.text),
                Event::Trouble(trouble) => logger::warning!("{}", trouble.text),
            }
        }
        rules
    };
    Sdp::new(&rules, &program)
}

fn rules(named: Option<&str>) -> (Rules, Vec<Event>) {
    // Set to nothing it names nothing.
    let named = named.filter(|path| !path.is_empty());
    let path = named.unwrap_or(CONFIG_FILE);
    let read = CString::new(path)
        .map_err(|_| libc::EINVAL)
        .and_then(|path| sys::file::read_whole(&path, config::FILE_MAX));
    match read {
        Ok(bytes) => Rules::parse(path, &String::from_utf8_lossy(&bytes)),
        Err(libc::ENOENT) if named.is_none() => {
            logger::debug!("{path} is not there: no rules");
            Rules::parse(path, "")
        }
        Err(errno) => {
            let name = if named.is_some() { "LIBSDP_CONFIG_FILE=" } else { "" };
            logger::error!(
                "{name}{path}: cannot be read ({}): no rules; SDP with peers that speak it, TCP with the others",
                sys::Errno(errno)
            );
            Rules::parse(path, "")
        }
    }
}

fn start_log(program: &str, log: &Log, dialect: Option<Dialect>) {
    let destination = match &log.destination {
        Destination::Stderr => Ok(logger::libsdp::Destination::Stderr),
        Destination::Syslog => Ok(logger::libsdp::Destination::Syslog),
        Destination::File(name) => open_log(&log.destination.paths(dialect, sys::process::user()))
            .map(logger::libsdp::Destination::File)
            .map_err(|errno| (name.as_str(), errno)),
    };
    let (destination, refused) = match destination {
        Ok(destination) => (destination, None),
        Err(refused) => (logger::libsdp::Destination::Stderr, Some(refused)),
    };
    if let Err(errno) = logger::libsdp::start(program, log.min_level, destination) {
        logger::error!(
            "log destination syslog: /dev/log does not answer ({}); logging to standard error",
            sys::Errno(errno)
        );
    }
    if let Some((name, errno)) = refused {
        logger::error!(
            "log destination file {name}: no file of this name can be opened that is this user's alone ({}); \
             logging to standard error",
            sys::Errno(errno)
        );
    }
}

/// The first of these files that can be had and is safe; the errno of the last that was tried.
fn open_log(paths: &[LogPath]) -> Result<sys::Fd, i32> {
    let mut refused = libc::ENOENT;
    for path in paths {
        match open_safely(path) {
            Ok(file) => return Ok(file),
            Err(errno) => refused = errno,
        }
    }
    Err(refused)
}

/// Everybody may write to /tmp. So no link is followed, nothing is truncated, and what is there must be a file of this
/// user with one name, that nobody else can read or write.
fn open_safely(path: &LogPath) -> Result<sys::Fd, i32> {
    if let Some(folder) = &path.folder {
        let folder = CString::new(folder.as_str()).map_err(|_| libc::EINVAL)?;
        match sys::file::make_folder(&folder, 0o700) {
            Ok(()) | Err(libc::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        // In /tmp, which has the sticky bit, nobody else can rename what is this user's.
        let opened = sys::file::open(&folder, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)?;
        is_private(&opened)?;
    }
    let file = CString::new(path.file.as_str()).map_err(|_| libc::EINVAL)?;
    let flags = libc::O_WRONLY
        | libc::O_CREAT
        | libc::O_APPEND
        | libc::O_NOFOLLOW
        | libc::O_NOCTTY
        | libc::O_NONBLOCK;
    let file = sys::file::open(&file, flags, 0o600)?;
    is_private(&file)?;
    let is_plain = sys::identity::identity(file.raw())?.is(libc::S_IFREG);
    let names = sys::identity::owner(file.raw())?.names;
    if is_plain && names == 1 { Ok(file) } else { Err(libc::EPERM) }
}

/// Fails if it is another user's, or others may use it.
fn is_private(file: &sys::Fd) -> Result<(), i32> {
    let others = sys::identity::identity(file.raw())?.mode & 0o077;
    let user = sys::identity::owner(file.raw())?.user;
    if others == 0 && user == sys::process::user() { Ok(()) } else { Err(libc::EPERM) }
}
