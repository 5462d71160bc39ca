//! Processes that carry a mark in their environment, as all do that a command with it started, whoever their parent is
//! by now: what a test left behind is found by it, and what stands still is ended by it.

use std::fmt;
use std::process::Command;

/// The variable that is the mark.
const VARIABLE: &str = "SIDESTEP_TEST_RUN";

/// One mark, of this process alone.
#[derive(Clone, Debug)]
pub struct Mark(String);

/// A process that carries a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    pid: u32,
    /// Its command line.
    words: String,
    /// The system call's place in the kernel that it sleeps in, of each of its threads.
    waits_in: String,
}

impl Default for Mark {
    fn default() -> Mark {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Mark(format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Mark {
    /// `command`, and all that it starts, will carry the mark.
    pub fn put_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// Who carries it now, zombies left out.
    pub fn processes(&self) -> Vec<Marked> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment
                .split(|byte| *byte == 0)
                .any(|word| word == wanted.as_bytes())
                .then(|| Marked::of(pid))
        })
        .collect()
    }
}

impl Marked {
    fn of(pid: u32) -> Marked {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: String = String::from_utf8_lossy(&words).replace('\0', " ").chars().take(160).collect();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut waits: Vec<String> =
            threads.filter_map(|task| std::fs::read_to_string(task.path().join("wchan")).ok()).collect();
        waits.sort();
        waits.dedup();
        Marked { pid, words: words.trim_end().to_owned(), waits_in: waits.join(" ") }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks it to end, by SIGTERM, upon which the rig removes what it made.
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Ends it at once, by SIGKILL.
    pub fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill takes no pointers; the process carries a mark of ours, so it was started by us.
        unsafe { libc::kill(self.pid as libc::pid_t, signal) };
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} (in {})", self.pid, self.words, self.waits_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_of_a_marked_command_is_found_and_ended() {
        let mark = Mark::default();
        let mut command = Command::new("sh");
        mark.put_on(command.args(["-c", "sleep 1000 & wait"]));
        let mut shell = command.spawn().unwrap();
        let sleeps = |one: &Marked| one.words == "sleep 1000";
        crate::eventually("the shell's child", || mark.processes().iter().any(sleeps));
        assert!(Mark::default().processes().is_empty());
        mark.processes().iter().for_each(Marked::kill);
        shell.wait().unwrap();
        crate::eventually("their end", || mark.processes().is_empty());
    }
}
