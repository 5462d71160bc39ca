//! A program started in a namespace: pinned, under the preload or not, captured, with a deadline on everything.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace::{check, enter};
use crate::ports::has_port;
use crate::two_hosts::Protocol;
use crate::{Context, Error, Namespace, PATIENCE, POLL_INTERVAL, Result, cleanup, patience};

/// What is to be started, and how.
#[derive(Clone, Debug)]
pub struct Program {
    namespace: RawFd,
    name: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    preload: Option<PathBuf>,
    may_fall_back: bool,
    cpu: Option<usize>,
    user: Option<u32>,
    group: Option<u32>,
    session: bool,
    directory: Option<PathBuf>,
    piped: bool,
}

impl Program {
    /// `name` in `namespace`, which must outlive the start.
    pub fn new(namespace: &Namespace, name: impl AsRef<OsStr>) -> Program {
        Program {
            namespace: namespace.handle(),
            name: name.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            preload: None,
            may_fall_back: false,
            cpu: None,
            user: None,
            group: None,
            session: false,
            directory: None,
            piped: false,
        }
    }

    /// More arguments, one per word of `words`.
    pub fn words(mut self, words: &str) -> Program {
        self.arguments.extend(words.split_whitespace().map(OsString::from));
        self
    }

    /// One more argument, taken as it is.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Program {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// One variable of its environment.
    pub fn environment(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Under `LD_PRELOAD=library`; `None` leaves it to the kernel. Strict: what is expected to be accelerated and is
    /// not fails, and what is accelerated stays so, so that no test passes by way of the kernel.
    pub fn preload(mut self, library: Option<&Path>) -> Program {
        self.preload = library.map(Path::to_owned);
        self
    }

    /// Under the preload, but what cannot be accelerated goes by the kernel, as a user's programs do.
    pub fn may_fall_back(mut self) -> Program {
        self.may_fall_back = true;
        self
    }

    /// Pinned to one CPU.
    pub fn cpu(mut self, cpu: usize) -> Program {
        self.cpu = Some(cpu);
        self
    }

    /// Free to run on any CPU.
    pub fn any_cpu(mut self) -> Program {
        self.cpu = None;
        self
    }

    /// Without privilege: as this user and group id.
    pub fn user(mut self, id: u32) -> Program {
        self.user = Some(id);
        self
    }

    /// A member of this group, too, where it is a [user](Program::user)'s.
    pub fn group(mut self, id: u32) -> Program {
        self.group = Some(id);
        self
    }

    /// In a session of its own, as services are: the kernel shares a processor between sessions (sched_autogroup), and
    /// only then between their processes.
    pub fn session(mut self) -> Program {
        self.session = true;
        self
    }

    /// Started in this directory.
    pub fn directory(mut self, directory: &Path) -> Program {
        self.directory = Some(directory.to_owned());
        self
    }

    /// With a standard input that [`Running::tell`] writes to; otherwise it is empty.
    pub fn piped(mut self) -> Program {
        self.piped = true;
        self
    }

    /// Starts it. The process dies with the thread that started it, should that thread be killed.
    pub fn start(&self) -> Result<Running> {
        let shown = self.shown();
        let mut command = Command::new(&self.name);
        let stdin = if self.piped { Stdio::piped() } else { Stdio::null() };
        command.args(&self.arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("LD_PRELOAD");
        if let Some(library) = &self.preload {
            command
                .env("LD_PRELOAD", library)
                .env("SIDESTEP_STRICT", if self.may_fall_back { "0" } else { "1" })
                .env("SIDESTEP_CARRIER", "wire");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let ready = Prepared {
            namespace: self.namespace,
            cpu: self.cpu,
            user: self.user,
            group: self.group,
            session: self.session,
        };
        // SAFETY: `prepare` makes system calls only, as a forked child of a threaded process must.
        unsafe { command.pre_exec(move || prepare(&ready)) };
        let mut child = command.spawn().context(format_args!("start {shown}"))?;
        let process = match pidfd(child.id()) {
            Ok(process) => process,
            Err(error) => {
                let _ = child.kill();
                return Err(error).context(format_args!("pidfd of {shown}"));
            }
        };
        cleanup::process_started(child.id() as i32);
        let stdout = child.stdout.take().map(Capture::of).unwrap_or_default();
        let stderr = child.stderr.take().map(Capture::of).unwrap_or_default();
        Ok(Running { child, process, stdout, stderr, shown })
    }

    /// Starts it and waits for its end.
    pub fn run(&self, deadline: Duration) -> Result<Finished> {
        self.start()?.finish(deadline)
    }

    fn shown(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.arguments);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// What a child is before it is the program.
struct Prepared {
    namespace: RawFd,
    cpu: Option<usize>,
    user: Option<u32>,
    group: Option<u32>,
    session: bool,
}

/// Between fork and exec. System calls only.
fn prepare(wanted: &Prepared) -> io::Result<()> {
    let Prepared { namespace, cpu, user, group, session } = *wanted;
    // SAFETY: system calls on values and on one local, fully initialised set.
    unsafe {
        check(if session { libc::setsid() } else { libc::setpgid(0, 0) })?;
        enter(namespace)?;
        if let Some(cpu) = cpu {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set))?;
        }
        if let Some(user) = user {
            let groups = group.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            check(libc::setgroups(group.iter().len(), groups))?;
            check(libc::setgid(user))?;
            check(libc::setuid(user))?;
        }
        // After setuid, which would clear it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
    }
}

fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes values; a result that is not negative is a descriptor that nobody else owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A process that was started; killed with its group when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    process: OwnedFd,
    stdout: Capture,
    stderr: Capture,
    shown: String,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Writes to its standard input; see [`Program::piped`].
    pub fn tell(&mut self, text: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().ok_or_else(|| Error::new("its standard input is no pipe"))?;
        stdin.write_all(text.as_bytes()).context(&self.shown)
    }

    /// Sends a signal to the process, not to its group.
    pub fn signal(&self, signal: i32) -> Result<()> {
        // SAFETY: kill takes values; the child is not reaped yet, so the id is still its own.
        check(unsafe { libc::kill(self.pid() as i32, signal) }).context(format_args!("signal {}", self.shown))
    }

    /// Waits until the port is bound (UDP) or listening (TCP) in its namespace, by a process that lives.
    pub fn wait_for_port(&mut self, protocol: Protocol, port: u16, deadline: Duration) -> Result<()> {
        let what = format!("{protocol:?} port {port}");
        self.wait_until(&what, deadline, |running| has_port(running.pid(), protocol, port))
    }

    /// Waits until its standard output contains `text`.
    pub fn wait_for_output(&mut self, text: &str, deadline: Duration) -> Result<()> {
        self.wait_until(&format!("output {text:?}"), deadline, |running| running.stdout().contains(text))
    }

    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        deadline: Duration,
        ready: impl Fn(&Running) -> bool,
    ) -> Result<()> {
        let deadline = patience::for_program(deadline);
        let end = Instant::now() + deadline;
        while !ready(self) {
            if self.ended_within(POLL_INTERVAL)? && !ready(self) {
                return Err(self.error(&format!("ended before {what}")));
            }
            if Instant::now() > end {
                return Err(self.error(&format!("no {what} after {deadline:?}")));
            }
        }
        Ok(())
    }

    /// Waits for its end alone: what it started may hold its output open. Its descriptors are closed then.
    pub fn wait_for_end(&mut self, deadline: Duration) -> Result<()> {
        let deadline = patience::for_program(deadline);
        match self.ended_within(deadline)? {
            true => Ok(()),
            false => Err(self.error(&format!("still running after {deadline:?}"))),
        }
    }

    /// Waits for its end; past the deadline it is killed and that is an error.
    pub fn finish(mut self, deadline: Duration) -> Result<Finished> {
        let deadline = patience::for_program(deadline);
        if !self.ended_within(deadline)? {
            return Err(self.error(&format!("still running after {deadline:?}")));
        }
        // What it left running in its group would hold the pipes open. Not reaped yet, so the id is still its own.
        cleanup::kill_group(self.child.id() as i32);
        let status = self.child.wait().context(&self.shown)?;
        let (stdout, stderr) = (self.stdout.whole(), self.stderr.whole());
        Ok(Finished { status, stdout, stderr, shown: self.shown.clone() })
    }

    /// SIGKILL and reap.
    pub fn kill(self) -> Result<Finished> {
        self.signal(libc::SIGKILL)?;
        self.finish(PATIENCE)
    }

    fn ended_within(&self, limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let milliseconds = left.as_millis().min(i32::MAX as u128) as i32;
            let mut wanted = libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one initialised pollfd, count 1.
            match unsafe { libc::poll(&mut wanted, 1, milliseconds) } {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return Err(io::Error::last_os_error()).context("poll a process"),
                0 => return Ok(false),
                _ => return Ok(true),
            }
        }
    }

    fn error(&self, why: &str) -> Error {
        let quoted = |name: &str, text: String| match text.trim() {
            "" => String::new(),
            text => format!("\n  its {name}:\n    {}", text.replace('\n', "\n    ")),
        };
        let (stdout, stderr) = (quoted("stdout", self.stdout()), quoted("stderr", self.stderr()));
        Error::new(format!("{}: {why}{stdout}{stderr}", self.shown))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id() as i32;
        if let Ok(None) = self.child.try_wait() {
            cleanup::kill_group(pid);
            let _ = self.child.wait();
        }
        cleanup::process_reaped(pid);
    }
}

/// How a process ended, and what it said.
#[derive(Clone, Debug)]
pub struct Finished {
    /// As wait(2) reports it.
    pub status: ExitStatus,
    /// All of it.
    pub stdout: String,
    /// All of it.
    pub stderr: String,
    shown: String,
}

impl Finished {
    /// Itself if the exit status was 0; else an error that quotes its output.
    pub fn success(self) -> Result<Finished> {
        if self.status.success() {
            return Ok(self);
        }
        let how = match self.status.signal() {
            Some(signal) => format!("killed by signal {signal}"),
            None => format!("exit status {}", self.status.code().unwrap_or(-1)),
        };
        Err(Error::new(format!(
            "{}: {how}\n  stdout: {}\n  stderr: {}",
            self.shown, self.stdout, self.stderr
        )))
    }
}

/// Reads a pipe to its end in a thread of its own, so that a talkative process never blocks.
#[derive(Debug, Default)]
struct Capture {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    fn of(mut pipe: impl Read + Send + 'static) -> Capture {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
            }
        });
        Capture { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.text()
    }
}
