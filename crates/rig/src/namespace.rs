//! One network namespace: made, entered, configured by the kernel's own tools, deleted on drop.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cleanup;
use crate::{Context, Error, Result};

/// A network namespace of this process, visible to `ip netns` under [`Namespace::name`].
#[derive(Debug)]
pub struct Namespace {
    name: String,
    handle: File,
    /// It goes with this value.
    is_own: bool,
}

impl Namespace {
    /// Makes `rig-<pid>-<n>-<label>` with its loopback up.
    pub fn create(label: &str) -> Result<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rig-{}-{number}-{label}", std::process::id());
        run_tool(Command::new("ip").args(["netns", "add", &name]))?;
        cleanup::namespace_made(&name);
        let path = format!("/run/netns/{name}");
        let handle = File::open(&path).context(format_args!("open {path}"));
        let namespace = match handle {
            Ok(handle) => Namespace { name, handle, is_own: true },
            Err(error) => {
                cleanup::remove_namespace(&name);
                return Err(error);
            }
        };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The same one again: it is gone when the first value is.
    pub(crate) fn again(&self) -> Result<Namespace> {
        let handle = self.handle.try_clone().context(&self.name)?;
        Ok(Namespace { name: self.name.clone(), handle, is_own: false })
    }

    /// Its name in `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `ip -n <name> <words>`; returns what it printed.
    pub fn ip(&self, words: &str) -> Result<String> {
        run_tool(Command::new("ip").args(["-n", &self.name]).args(words.split_whitespace()))
    }

    /// Runs a configuration tool to its end inside the namespace; returns what it printed.
    pub fn tool(&self, program: &str, words: &str) -> Result<String> {
        let mut command = Command::new(program);
        command.args(words.split_whitespace());
        let handle = self.handle.as_raw_fd();
        // SAFETY: `enter` makes system calls only, as a forked child of a threaded process must.
        unsafe { command.pre_exec(move || enter(handle)) };
        run_tool(&mut command)
    }

    /// Runs `work` in a thread of its own inside the namespace: sockets and `/proc/thread-self/net` are the
    /// namespace's.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let handle = self.handle.as_raw_fd();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                set_network_namespace(handle).context("enter the namespace")?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub(crate) fn handle(&self) -> RawFd {
        self.handle.as_raw_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.is_own {
            cleanup::remove_namespace(&self.name);
        }
    }
}

/// Runs a tool to its end; an exit status other than 0 is an error that quotes what the tool said.
pub fn run_tool(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.stdin(std::process::Stdio::null()).output().context(&shown)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{shown}: {}: {}", output.status, said.trim())))
}

/// Moves the calling process, between fork and exec, into the namespace, and gives it a `/sys` that shows the
/// namespace's interfaces, as `ip netns exec` does. System calls only.
pub(crate) fn enter(handle: RawFd) -> io::Result<()> {
    set_network_namespace(handle)?;
    // SAFETY: every pointer is a C string literal or null, as mount(2) allows for these flags.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let no_data: *const libc::c_void = std::ptr::null();
        check(libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            no_data.cast(),
            libc::MS_SLAVE | libc::MS_REC,
            no_data,
        ))?;
        check(libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, no_data))
    }
}

fn set_network_namespace(handle: RawFd) -> io::Result<()> {
    // SAFETY: setns takes a descriptor and a flag.
    check(unsafe { libc::setns(handle, libc::CLONE_NEWNET) })
}

pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
