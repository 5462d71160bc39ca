//! Is there what is to be captured? A process or an interface that is named, and never comes, would be waited for in
//! vain; programs that are not named may begin later.

use super::programs::Choice;
use vma_stats::place;
use vma_stats::programs::lives;

/// The error names what is not there.
pub(super) fn check(choice: &Choice) -> Result<(), String> {
    for pid in &choice.pids {
        if !lives(*pid) {
            return Err(format!("there is no process {pid}"));
        }
        let place = place::of(&choice.folder, *pid);
        let has_file = place.folder.join(stats::segment::file_name(place.number)).exists();
        if !has_file && has_library(*pid) == Some(false) {
            return Err(format!("process {pid} runs without libvma.so: tcpdump shows its packets"));
        }
    }
    match choice.interfaces.iter().find(|name| !is_somewhere(name)) {
        Some(name) => Err(format!("there is no interface {name}, neither here nor where another process is")),
        None => Ok(()),
    }
}

/// `None`: we may not see that.
fn has_library(pid: u32) -> Option<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut files = maps.lines().map(|line| line.trim_end_matches(" (deleted)"));
    // A thread of the kernel, and a process that is ending, have none.
    Some(files.any(|file| file.ends_with("/libvma.so") || file.ends_with("/libsdp.so")))
}

/// Whether the network namespace of any process has an interface of this name.
fn is_somewhere(name: &str) -> bool {
    let has = |process: &str| {
        let devices = std::fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
        devices.lines().any(|line| line.split(':').next().is_some_and(|device| device.trim() == name))
    };
    let Ok(all) = std::fs::read_dir("/proc") else { return true };
    let pids = all.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    has("self") || pids.filter(|name| name.parse::<u32>().is_ok()).any(|pid| has(&pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_is_found_and_what_is_nowhere_is_not() {
        assert!(is_somewhere("lo") && !is_somewhere("nosuch0"));
        assert_eq!(has_library(std::process::id()), Some(false));
        assert_eq!(has_library(0), None);
    }
}
