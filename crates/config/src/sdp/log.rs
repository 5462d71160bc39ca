//! `log [destination stderr|syslog|file NAME] [min-level 1-9]`: what is logged where.

use super::Dialect;
use super::place::number;
use crate::notice::quoted;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// The system's log.
    Syslog,
    /// A file of this name, without a folder: see [`Destination::paths`].
    File(String),
}

/// A file that could be the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPath {
    /// A folder that is to be made, and to belong to the user alone.
    pub folder: Option<String>,
    /// The file.
    pub file: String,
}

impl Destination {
    /// Where the file may be, best first: Topspin's libsdp writes to /tmp/NAME, OFED's to /var/log/NAME for root. A
    /// user whose name there belongs to somebody else has a folder for it.
    pub fn paths(&self, dialect: Option<Dialect>, user: u32) -> Vec<LogPath> {
        let Destination::File(name) = self else { return Vec::new() };
        let folder = format!("/tmp/{name}.{user}");
        let own = LogPath { file: format!("{folder}/log"), folder: Some(folder) };
        match (dialect, user) {
            (Some(Dialect::Use), 0) => vec![LogPath { folder: None, file: format!("/var/log/{name}") }, own],
            (Some(Dialect::Use), _) => vec![own],
            _ => vec![LogPath { folder: None, file: format!("/tmp/{name}") }, own],
        }
    }
}

/// How to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Lines of this level and above: 9 errors, 8 warnings, 7 what became of each connection and listener, 4 rules that
    /// fit, 3 rules that do not, 2 sockets that are made, 1 calls and what they return.
    pub min_level: u8,
    /// Where to.
    pub destination: Destination,
}

impl Default for Log {
    fn default() -> Self {
        Log { min_level: 9, destination: Destination::Stderr }
    }
}

impl Log {
    /// Applies one line; what it does not mention stays.
    pub(super) fn change(&mut self, change: Change) {
        self.min_level = change.min_level.unwrap_or(self.min_level);
        if let Some(destination) = change.destination {
            self.destination = destination;
        }
    }
}

/// What one line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    min_level: Option<u8>,
    destination: Option<Destination>,
}

/// Reads what follows the word `log`.
pub(super) fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<(Change, Option<String>), String> {
    let mut change = Change::default();
    let mut warning = None;
    while let Some(word) = words.next() {
        match word {
            "destination" => {
                let place = words.next();
                change.destination = Some(match place {
                    Some("stderr") => Destination::Stderr,
                    Some("syslog") => Destination::Syslog,
                    Some("file") => {
                        let given = words.next().ok_or("log destination file needs a name")?;
                        let name = plain_name(given)?;
                        warning = (name != given).then(|| {
                            format!("{}: of a log file only the name counts, {}", quoted(given), quoted(name))
                        });
                        Destination::File(name.to_owned())
                    }
                    other => {
                        let other = quoted(other.unwrap_or(""));
                        return Err(format!(
                            "{other} is no log destination; expected stderr, syslog or file NAME"
                        ));
                    }
                });
            }
            "min-level" => {
                let level = words.next().unwrap_or("");
                let known = number(level).filter(|level| (1..=9).contains(level));
                let Some(known) = known.and_then(|level| u8::try_from(level).ok()) else {
                    return Err(format!(
                        "{} is no level; expected 1 (everything) to 9 (errors)",
                        quoted(level)
                    ));
                };
                change.min_level = Some(known);
            }
            other => {
                return Err(format!("{} in a log line; expected destination or min-level", quoted(other)));
            }
        }
    }
    if change == Change::default() {
        return Err("log needs destination, min-level, or both".to_owned());
    }
    Ok((change, warning))
}

/// The last part of a path, where it can name a file.
fn plain_name(path: &str) -> Result<&str, String> {
    /// With what is added to it, a name must be one for the file system.
    const LONGEST: usize = 200;
    let name = path.rsplit('/').next().unwrap_or("");
    match name {
        "" | "." | ".." => Err(format!("{} names no file", quoted(path))),
        _ if name.len() > LONGEST || name.chars().any(char::is_control) => {
            Err(format!("{} cannot be the name of a file", quoted(path)))
        }
        _ => Ok(name),
    }
}
