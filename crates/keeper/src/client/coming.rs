//! A keeper that is not there: it may be started, come later, or have been named in vain.

use super::{Client, Error, Result};
use crate::place::Place;
use sys::Errno;

/// What starting a keeper takes, as it takes it itself.
const START: u64 = sys::capability::OPENING;
/// One that was started listens within some milliseconds.
const STARTING_NS: u64 = 2_000_000_000;
const STARTING_LOOK_NS: u64 = 1_000_000;

impl Client {
    /// There is no keeper, and the user wants one to be started. Once: where it does not come, it never will.
    #[cold]
    pub(super) fn started(&mut self, error: Error) -> Result<()> {
        let Place::Start(program) = &self.place else { return Err(error) };
        let may = sys::process::user() == 0 && sys::process::capabilities().unwrap_or(0) & START == START;
        let Ok(program) = std::ffi::CString::new(program.as_str()) else { return Err(error) };
        if error != Error::Absent || !may {
            return Err(error);
        }
        let said = |what: &str| Some(format!("start={}: {what}", program.to_string_lossy()));
        self.place = Place::Default;
        if !sys::file::is_program(program.as_ptr()) {
            self.ended = said("there is no such program");
            return Err(error);
        }
        let deadline = sys::clock::monotonic() + STARTING_NS;
        let mut outcome = sys::daemon::start(&program, &[c"--linger", c"30"]).map_err(|_| error);
        while outcome.is_ok() {
            sys::thread::sleep(STARTING_LOOK_NS);
            self.failed = None;
            match self.connected() {
                Err(Error::Absent) if sys::clock::monotonic() < deadline => {}
                connected => {
                    outcome = connected;
                    break;
                }
            }
        }
        if outcome.is_err() {
            self.ended = said("it was started, and no keeper listens; started by hand as root it says why");
        }
        outcome
    }

    /// See [`comes`].
    pub(super) fn comes(&mut self) -> bool {
        if self.is_asked || self.lives() {
            return false;
        }
        self.connection = None;
        self.connected().is_ok()
    }

    /// Why what the user named is no keeper, in words. `None`: nothing was named, or it was not asked in vain.
    pub fn misnamed(&self) -> Option<String> {
        match (&self.place, &self.ended) {
            (_, Some(words)) => Some(words.clone()),
            (Place::Path(path), _) if self.unreached != 0 => {
                Some(format!("{path}: {}", Errno(self.unreached)))
            }
            _ => None,
        }
    }

    /// Where it was looked for, and why it could not be reached.
    pub fn unreached(&self) -> String {
        let place = self.place.path().unwrap_or_else(|_| "/proc/thread-self/ns/net".to_owned());
        format!("{place}: {}", Errno(self.unreached))
    }

    /// Whether nobody listens where the keeper of this network namespace would.
    pub fn is_not_there(&self) -> bool {
        let is_own = matches!(self.place, Place::Default | Place::Start(_));
        is_own && matches!(self.unreached, libc::ENOENT | libc::ECONNREFUSED)
    }
}
