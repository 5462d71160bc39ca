//! The host as the checks see it: files of procfs and sysfs, links, directories, and answers of the kernel's
//! interfaces.
//!
//! [`Host`] has four questions and no more, so that a machine can be recorded while it is examined, and examined again
//! from the recording: by the tests, and by those who get a bug report. [`live::Live`] is this machine,
//! [`recording::Recording`] one that was recorded, [`recording::Recorder`] writes down what another host answers.

pub(crate) mod cpus;
pub(crate) mod ethtool;
pub(crate) mod facts;
pub(crate) mod go;
pub(crate) mod live;
pub(crate) mod netlink;
mod pci;
mod process;
pub(crate) mod recording;
pub(crate) mod system;

use serde_json::Value;

/// Somewhere to look.
pub(crate) trait Host {
    /// A file's text, without the last line's end.
    fn read(&self, path: &str) -> Answer<String>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> Answer<Vec<String>>;
    /// What a symbolic link says.
    fn link(&self, path: &str) -> Answer<String>;
    /// What the kernel answers about something: see [`facts`].
    fn ask(&self, topic: &str, about: &str) -> Answer<Value>;
}

pub(crate) type Answer<T> = Result<T, Unread>;

/// Something that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The path, or the question.
    pub(crate) what: String,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Not there, or the driver or kernel does not have it.
    Missing,
    /// This user may not.
    Denied,
    /// Another errno.
    Failed(i32),
}

impl Cause {
    pub(crate) fn from_errno(errno: i32) -> Cause {
        match errno {
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOTDIR | libc::ENOSYS => Cause::Missing,
            libc::EACCES | libc::EPERM => Cause::Denied,
            errno => Cause::Failed(errno),
        }
    }
}

impl Unread {
    pub(crate) fn new(what: impl Into<String>, cause: Cause) -> Unread {
        Unread { what: what.into(), cause }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.cause == Cause::Missing
    }
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = &self.what;
        match self.cause {
            Cause::Missing => write!(f, "{what} is not there"),
            Cause::Denied => write!(f, "{what} is not for this user"),
            Cause::Failed(errno) => {
                write!(f, "{what}: {}", std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}
