//! Where a process keeps its files, seen from here: in a container its folder is another one than ours of that name,
//! and its number is another one than ours for it.
//!
//! What the kernel does not let us see of other users' processes is taken to be as ours is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where files of a process are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its folder, as we reach it.
    pub folder: PathBuf,
    /// Its number, as it knows it itself: the one in the names of its files.
    pub number: u32,
}

/// A folder that was named, by its whole path: in a container the same path is looked for.
pub fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The place of a process that would call its folder `folder`.
pub fn of(folder: &Path, pid: u32) -> Place {
    let number = own_number(pid).unwrap_or(pid);
    let folder = if sees_our_files(pid) {
        folder.to_owned()
    } else {
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        PathBuf::from(format!("/proc/{pid}/root")).join(inside)
    };
    Place { folder, number }
}

/// Processes whose place is not that of ours, by our numbers for them.
pub fn elsewhere(folder: &Path) -> BTreeMap<u32, Place> {
    let Ok(all) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let places = pids.map(|pid| (pid, of(folder, pid)));
    places.filter(|(pid, place)| place.number != *pid || place.folder != folder).collect()
}

/// Its number in the innermost of its pid namespaces.
fn own_number(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

fn sees_our_files(pid: u32) -> bool {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt"));
    match (namespace(&pid.to_string()), namespace("self")) {
        (Ok(its), Ok(ours)) => its == ours,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_named_is_looked_for_by_its_whole_path() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(Path::new("stats")), here.join("stats"));
        assert_eq!(absolute(Path::new("./stats")), here.join("stats"));
        assert_eq!(absolute(Path::new("/tmp")), Path::new("/tmp"));
    }

    #[test]
    fn this_process_is_where_it_is() {
        let own = std::process::id();
        let folder = Path::new("/tmp");
        assert_eq!(of(folder, own).folder, folder);
        // In a container tests have a number of its own, and see no other.
        assert_eq!(of(folder, own).number, own_number(own).unwrap());
        assert!(!elsewhere(folder).contains_key(&own) || own_number(own) != Some(own));
    }
}
