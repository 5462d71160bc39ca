//! Programs that people run, between two hosts: how each is started, driven, and found to have answered correctly.
//!
//! One table, [`ALL`]; `cargo x bench apps` compares speed and `tests/product/apps.rs` asserts correctness with the
//! same entries. An entry fails when an answer was wrong or missing, never because it was slow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::requirements::installed;
use crate::sockperf::Witness;
use crate::{Context, Error, Finished, Host, Package, Program, Protocol, Result, Router, Running, TwoHosts};

mod commands;
pub mod company;
mod loops;
mod memcached;
mod messages;
mod nginx;
mod parse;
mod redis;
mod scripts;
mod servers;
mod streams;

/// For the start or the end of anything that is not itself told how long to run.
const GRACE: Duration = crate::PATIENCE;

/// What a program and its load are called, what they need, and how they run.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// For the command line and the table.
    pub name: &'static str,
    /// What is run, in a few words.
    pub what: &'static str,
    /// What [`Outcome::rate`] counts.
    pub unit: &'static str,
    /// Debian's packages.
    pub needs: &'static [Package],
    /// Needs the router between the hosts, as a host of its own.
    pub middle: bool,
    /// Its packets cross the wire and all of them can be accelerated.
    pub bypasses: bool,
    /// Packets that programs beside it, left to the kernel on purpose, may exchange in a run of a second.
    pub beside: u64,
    /// Too large to be installed unasked: runs only where it is already.
    pub large: bool,
    /// The product's promise: at least this many times the kernel's rate.
    pub goal: Option<f64>,
    run: fn(&Stage<'_>) -> Result<Figures>,
}

/// All of them.
pub const ALL: &[&[App]] = &[
    redis::APPS,
    memcached::APPS,
    nginx::APPS,
    servers::APPS,
    commands::APPS,
    scripts::APPS,
    streams::APPS,
    loops::APPS,
    messages::APPS,
];

/// Which ends run under the library.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'l> {
    /// Absolute path of `libvma.so`.
    pub library: &'l Path,
    /// The left host's programs.
    pub client: bool,
    /// The right host's programs, and the router's.
    pub server: bool,
    /// What is expected to be accelerated and is not fails. Otherwise as a user's programs are.
    pub strict: bool,
    /// Variables of the server's programs, where it is accelerated.
    pub environment: &'l [(String, String)],
    /// Variables of both sides' programs, where they are accelerated.
    pub everywhere: &'l [(String, String)],
}

/// What a load generator said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Per second, of [`App::unit`].
    pub rate: f64,
    /// Median of the answers' times, in microseconds, where the generator tells it.
    pub p50_us: Option<f64>,
    /// 99th percentile, likewise.
    pub p99_us: Option<f64>,
}

impl App {
    /// The entry of that name.
    pub fn by_name(name: &str) -> Option<&'static App> {
        ALL.iter().copied().flatten().find(|app| app.name == name)
    }

    /// Installs what is missing; an error says what to install by hand.
    pub fn install(&self) -> Result<()> {
        match self.needs.iter().find(|one| self.large && !installed(one.program)) {
            Some(one) => {
                let (program, package) = (one.program, one.package);
                Err(Error::new(format!("no {program} here; by hand: apt-get install {package}")))
            }
            None => crate::install(self.needs),
        }
    }

    /// Runs it once for about `seconds`; an error says what was answered wrongly.
    pub fn run(&self, hosts: &TwoHosts, ends: Ends<'_>, seconds: u32) -> Result<(Figures, Witness)> {
        let stage = Stage { hosts, ends, seconds, folder: Folder::new(self.name)? };
        let before = (hosts.left.counters()?, hosts.right.counters()?);
        let figures = (self.run)(&stage).context(format_args!("{} ({ends})", self.name))?;
        let client = hosts.left.counters()?.since(&before.0);
        let server = hosts.right.counters()?.since(&before.1);
        Ok((figures, Witness { client, server }))
    }
}

impl std::fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.client, self.server) {
            (false, false) => "kernel",
            (true, true) => "accelerated",
            (true, false) => "client accelerated",
            (false, true) => "server accelerated",
        })
    }
}

/// Where one run takes place.
struct Stage<'a> {
    hosts: &'a TwoHosts,
    ends: Ends<'a>,
    seconds: u32,
    folder: Folder,
}

impl Stage<'_> {
    fn client(&self, name: &str) -> Program {
        self.at(&self.hosts.left, name, self.ends.client)
    }

    fn server(&self, name: &str) -> Program {
        let program = self.at(&self.hosts.right, name, self.ends.server);
        let accelerated = if self.ends.server { self.ends.environment } else { &[] };
        accelerated.iter().fold(program, |program, (name, value)| program.environment(name, value))
    }

    /// A server on the host between the two.
    fn middle(&self, router: &Router, name: &str) -> Program {
        self.under(router.program(name), self.ends.server)
    }

    fn at(&self, host: &Host, name: &str, accelerated: bool) -> Program {
        self.under(host.program(name), accelerated)
    }

    fn under(&self, program: Program, accelerated: bool) -> Program {
        let program = program.preload(accelerated.then_some(self.ends.library));
        if self.ends.strict {
            return program;
        }
        let carrier = std::env::var("SIDESTEP_CARRIER").unwrap_or_else(|_| "auto".to_owned());
        let program = program.may_fall_back().environment("SIDESTEP_CARRIER", carrier);
        let everywhere = if accelerated { self.ends.everywhere } else { &[] };
        everywhere.iter().fold(program, |program, (name, value)| program.environment(name, value))
    }

    /// Starts a server and waits until it listens.
    fn serve(&self, program: &Program, port: u16) -> Result<Running> {
        let mut server = program.start()?;
        server.wait_for_port(Protocol::Tcp, port, GRACE)?;
        Ok(server)
    }

    /// Runs a client to its successful end.
    fn ask(&self, program: &Program) -> Result<Finished> {
        program.run(Duration::from_secs(self.seconds.into()) + GRACE)?.success()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }
}

/// Lets a server end as its administrator would, so that what it logs and leaves is checked, too.
fn end(server: Running) -> Result<Finished> {
    server.signal(libc::SIGTERM)?;
    server.finish(GRACE)
}

/// A folder of one run, gone when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rig-{}-{number}-{label}", std::process::id()));
        std::fs::create_dir_all(&path).context(path.display())?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that no shift or exchange of blocks leaves equal.
fn content(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|index| ((index ^ seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
