//! Leaves the machine as it was found: on drop, on a signal, and for runs that were killed before they could.

use std::collections::BTreeSet;
use std::os::fd::IntoRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Namespaces and process groups of this process that still exist.
#[derive(Default)]
struct Alive {
    namespaces: BTreeSet<String>,
    processes: BTreeSet<i32>,
}

static ALIVE: Mutex<Alive> = Mutex::new(Alive { namespaces: BTreeSet::new(), processes: BTreeSet::new() });
/// Write end of the pipe that carries signal numbers out of the handler.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

fn alive() -> MutexGuard<'static, Alive> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn namespace_made(name: &str) {
    alive().namespaces.insert(name.to_owned());
}

pub(crate) fn remove_namespace(name: &str) {
    delete(name);
    alive().namespaces.remove(name);
}

pub(crate) fn process_started(pid: i32) {
    alive().processes.insert(pid);
}

pub(crate) fn process_reaped(pid: i32) {
    alive().processes.remove(&pid);
}

/// Kills a process group that this process started.
pub(crate) fn kill_group(pid: i32) {
    // SAFETY: kill takes no pointers; the group is a child's own (setpgid in the child), not ours.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
}

/// From here on SIGINT, SIGTERM and SIGHUP end the processes and namespaces of this process before they end it.
pub fn on_signals() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let Ok((mut reader, writer)) = std::io::pipe() else { return };
        SIGNAL_PIPE.store(writer.into_raw_fd(), Ordering::Release);
        std::thread::spawn(move || {
            let mut number = [0u8; 1];
            if std::io::Read::read_exact(&mut reader, &mut number).is_ok() {
                remove_everything();
                // SAFETY: _exit ends the process; buffered output of other threads is not worth a deadlock.
                unsafe { libc::_exit(128 + i32::from(number[0])) };
            }
        });
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: the handler only calls write(2), which is async-signal-safe.
            unsafe { libc::signal(signal, forward as *const () as libc::sighandler_t) };
        }
    });
}

extern "C" fn forward(signal: libc::c_int) {
    let number = [signal as u8];
    // SAFETY: one byte from a live array; the descriptor is never closed.
    unsafe { libc::write(SIGNAL_PIPE.load(Ordering::Acquire), number.as_ptr().cast(), 1) };
}

fn remove_everything() {
    let mut alive = alive();
    for pid in std::mem::take(&mut alive.processes) {
        kill_group(pid);
    }
    for name in std::mem::take(&mut alive.namespaces) {
        delete(&name);
    }
}

/// Removes namespaces of runs whose process is gone. Returns how many there were.
pub fn remove_leftovers() -> usize {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return 0 };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| owner_is_gone(name)).map(|name| delete(&name)).count()
}

/// `rig-<pid>-...` of a process that no longer runs.
fn owner_is_gone(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("rig-") else { return false };
    let Some((pid, _)) = rest.split_once('-') else { return false };
    pid.parse::<u32>().is_ok_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
}

fn delete(name: &str) {
    // A failure here means that it is gone already, which is what was wanted.
    let _ = Command::new("ip").args(["netns", "delete", name]).output();
}

#[cfg(test)]
mod tests {
    use super::owner_is_gone;

    #[test]
    fn only_names_of_dead_rigs_are_leftovers() {
        assert!(owner_is_gone("rig-4194305-1-left")); // above pid_max, so nobody's
        assert!(!owner_is_gone(&format!("rig-{}-1-left", std::process::id())));
        assert!(!owner_is_gone("somebody-4194305-1"));
        assert!(!owner_is_gone("rig-notanumber-1"));
    }
}
