//! Which programs there are, and their statistics files. Whoever only looks writes nothing.
//!
//! The directory is usually `/tmp`: any user can put anything there. So files are opened without following links and
//! without waiting, only regular ones are read, and nothing is written before the content has been recognised.

use crate::Failure;
use crate::place::{self, Place};
use stats::reader::SIZE_MAX;
use stats::segment::{FILE_PREFIX, file_name};
use stats::{Snapshot, Wish};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program's file.
#[derive(Debug)]
pub struct Program {
    /// The process, by our number for it.
    pub pid: u32,
    /// Where its files are.
    pub place: Place,
    path: PathBuf,
    file: File,
}

impl Program {
    /// The file of a process.
    pub fn open(directory: &Path, pid: u32) -> Result<Program, Failure> {
        let place = place::of(directory, pid);
        let path = place.folder.join(file_name(place.number));
        let file = open(&path, false).map_err(|error| {
            Failure::Told(match error.kind() {
                std::io::ErrorKind::NotFound => format!(
                    "VMA statistics data for process id {pid} not found in {}\n         Is it running under the \
                     library, and has it used sockets for some milliseconds? Does it keep its statistics \
                     elsewhere (VMA_STATS_SHMEM_DIR, option -k)?",
                    directory.display()
                ),
                _ => format!("cannot open {}: {error}", path.display()),
            })
        })?;
        Ok(Program { pid, place, path, file })
    }

    /// What the program's counters say now.
    pub fn look(&self) -> Result<Snapshot, Failure> {
        let bytes = self
            .read()
            .map_err(|error| Failure::Told(format!("cannot read {}: {error}", self.path.display())))?;
        let mut snapshot = Snapshot::parse(&bytes)
            .map_err(|why| Failure::Told(format!("{}: {why}", self.path.display())))?;
        // What it calls itself in there means nothing here.
        snapshot.pid = self.pid;
        Ok(snapshot)
    }

    fn read(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // From the beginning on every look, through a handle of its own position.
        let mut at = 0;
        let mut chunk = vec![0; 1 << 16];
        while at < SIZE_MAX {
            match self.file.read_at(&mut chunk, at as u64)? {
                0 => break,
                got => {
                    bytes.extend_from_slice(&chunk[..got]);
                    at += got;
                }
            }
        }
        Ok(bytes)
    }

    /// Tells the program something.
    pub fn wish(&self, wish: Wish) -> Result<(), Failure> {
        self.look()?;
        self.write(&wish.writes().iter().map(|(at, word)| (*at, word.as_slice())).collect::<Vec<_>>())
    }

    /// Lets all counts begin at zero for every reader; the program's own counters are not touched.
    pub fn zero(&self) -> Result<(), Failure> {
        let (at, from) = self.look()?.zeroing();
        let bytes = self.read().map_err(Failure::Output)?;
        let now = bytes.get(from).unwrap_or_default().to_vec();
        self.write(&[(at, &now)])
    }

    fn write(&self, pieces: &[(usize, &[u8])]) -> Result<(), Failure> {
        let told = |error: std::io::Error| {
            Failure::Told(format!(
                "cannot write {}: {error}\n         Only the program's user and root can ask it for something",
                self.path.display()
            ))
        };
        let file = open(&self.path, true).map_err(told)?;
        for (at, bytes) in pieces {
            file.write_all_at(bytes, *at as u64).map_err(told)?;
        }
        Ok(())
    }

    /// Whether the file is one that a program has begun and not finished.
    pub fn is_being_made(&self) -> bool {
        let mut mark = [0; 8];
        self.file.read_at(&mut mark, 0).is_ok() && mark == [0; 8]
    }

    /// Whose file it is.
    pub fn owner(&self) -> std::io::Result<u32> {
        Ok(self.file.metadata()?.uid())
    }

    /// Whether the process is still there.
    pub fn lives(&self) -> bool {
        lives(self.pid)
    }
}

fn open(path: &Path, write: bool) -> std::io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    Ok(file)
}

/// Whether a process is still there.
pub fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Process numbers of a folder's live files, and of those in that folder of other containers, lowest first; those that
/// the dead have left in ours are removed unless they are to be kept.
pub fn of(folder: &Path, keep_dead: bool) -> Result<Vec<u32>, Failure> {
    let directory = folder.display();
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::Told(format!("cannot read the directory {directory}: {error}")))?;
    let elsewhere = place::elsewhere(folder);
    let file = |place: &Place| identity(&place.folder.join(file_name(place.number)));
    let theirs: BTreeMap<u32, (u64, u64)> =
        elsewhere.iter().filter_map(|(pid, place)| Some((*pid, file(place)?))).collect();
    let mut pids: Vec<u32> = theirs.keys().copied().collect();
    let mut cleaning = Cleaning { begun: Instant::now(), removed: 0, told: 1 };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(FILE_PREFIX));
        let Some(pid) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
        if identity(&entry.path()).is_some_and(|own| theirs.values().any(|other| *other == own)) {
            // In a folder that we share with a process for which we have another number.
        } else if lives(pid) && !elsewhere.contains_key(&pid) {
            pids.push(pid);
        } else if !keep_dead && !lives(pid) {
            // Another user's file stays: it is not ours to remove, and the next program of that number replaces it.
            remove_left(&entry.path());
            if let Some(text) = cleaning.removed_one(cleaning.begun.elapsed()) {
                eprintln!("vmastat: {text}");
            }
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Files of the dead that are removed, of which people want to hear where it takes long.
struct Cleaning {
    begun: Instant,
    removed: u64,
    /// The last second in which something was said, or in which it is too early.
    told: u64,
}

impl Cleaning {
    /// One more is done, so long after the beginning: what is to be said now, once in each second after two.
    fn removed_one(&mut self, after: Duration) -> Option<String> {
        self.removed += 1;
        let is_due = after.as_secs() > self.told;
        self.told = self.told.max(after.as_secs());
        is_due.then(|| format!("{} files of programs that are gone are looked at and removed", self.removed))
    }
}

/// Which file it is, if it is one.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let about = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((about.dev(), about.ino()))
}

/// Removes what a dead process left, if it is a file of ours.
pub fn remove_left(path: &Path) {
    if recognised(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether a file is what its name says: statistics, or a ring of captured frames.
fn recognised(path: &Path) -> bool {
    let mut mark = [0; 8];
    open(path, false).is_ok_and(|mut file| file.read_exact(&mut mark).is_ok())
        && [*b"VMASTATS", *b"VMACAPT1"].contains(&mark)
}

/// The last part of the program's path.
pub fn name(pid: u32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_two_seconds_is_told_once_a_second() {
        let mut cleaning = Cleaning { begun: Instant::now(), removed: 0, told: 1 };
        let at = [0, 900, 1999, 2000, 2001, 2999, 3000, 5500];
        let told = at.map(|ms| cleaning.removed_one(Duration::from_millis(ms)).is_some());
        assert_eq!(told, [false, false, false, true, false, false, true, true]);
        assert!(cleaning.removed_one(Duration::from_secs(6)).unwrap().starts_with("9 files"));
    }
}
