//! Runs the programs of `api/`: each on the kernel first, which must pass, being the oracle; then with the client, the
//! server and both accelerated. Prints as the standard test harness does, so that one summary counts all.
//!
//! A program has two roles, `client` and `server`, on two hosts; see `api/api.h`. On an accelerated side no packet of
//! its ports may be the kernel's; what is otherwise on purpose stands in `api/differences.toml`, each with its reason.
//! Those about streams also run with both roles on one host, over memory (`api/one_host.rs`).
//!
//! What is accelerated is on the wire at once; in the way `default` it begins in the kernel, as it does for users. With
//! `SIDESTEP_MOVING=1` connections also go from one carrier to the other at every second call (not yet free of rare
//! failures, so nobody else's change is held up by it). With `SIDESTEP_INERT=1` the library under test does nothing,
//! and what passes is that its absence is noticed.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use rig::{Error, Finished, Host, KernelFlows, Options, Result, TwoHosts};
use serde::Deserialize;
use tests::{World, compile, folder};

use declared::{Allowed, Declared, Differs};
use one_host::OneHost;

#[path = "api/declared.rs"]
mod declared;
#[path = "api/one_host.rs"]
mod one_host;

/// The port of the next run, which may use the seven above it as well. Each has its own: what runs before it left in
/// TIME-WAIT in the kernel, and a client whose port happens to be that of such a connection is the kernel's to answer.
static PORT: AtomicU16 = AtomicU16::new(7000);
const PORTS: u16 = 8;
/// The programs end themselves after two minutes (`PATIENCE_MS` of `api/api.h`, twice).
const DEADLINE: Duration = Duration::from_secs(150);

/// So many programs run at once under a library that does nothing, on hosts of their own each.
const INERT_AT_ONCE: usize = 4;

/// A role, and the host that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    Client,
    Server,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Client, Side::Server];

    fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}

/// Who is accelerated.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    name: &'static str,
    client: bool,
    server: bool,
    /// Connections go from one carrier to the other at every so-manieth call, and are both sides'; 0: as it pays.
    move_every: u32,
    /// SIDESTEP_CARRIER. What is not on the wire at once is only looked at for what it does.
    carrier: &'static str,
    /// Both roles are on one host, and what is accelerated goes through memory.
    is_local: bool,
}

impl Way {
    /// It is looked at without being asked for.
    fn is_usual(self) -> bool {
        self.move_every == 0
    }

    fn accelerates(self, side: Side) -> bool {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

const ORACLE: Way =
    Way { name: "kernel", client: false, server: false, move_every: 0, carrier: "wire", is_local: false };
const WAYS: [Way; 5] = [
    Way { name: "accelerated", client: true, server: true, move_every: 0, carrier: "wire", is_local: false },
    Way {
        name: "accelerated_client",
        client: true,
        server: false,
        move_every: 0,
        carrier: "wire",
        is_local: false,
    },
    Way {
        name: "accelerated_server",
        client: false,
        server: true,
        move_every: 0,
        carrier: "wire",
        is_local: false,
    },
    Way { name: "moving", client: true, server: true, move_every: 2, carrier: "wire", is_local: false },
    Way { name: "default", client: true, server: true, move_every: 0, carrier: "auto", is_local: false },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    match run_all(&filter) {
        Ok(code) => code,
        Err(error) => {
            println!("test programs ... FAILED\n{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(filter: &str) -> Result<ExitCode> {
    let sources = sources()?;
    let programs: Vec<String> = sources.iter().map(|source| stem(source)).collect();
    let path = folder().join("api/differences.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::new(error.to_string()))?;
    let declared = Declared::parse(&text, &programs)
        .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    // One way of one program, as it is called below, one way of all (`::late`), or whatever contains the word.
    let (program, only) =
        filter.split_once("::").map_or((filter, None), |(program, way)| (program, Some(way)));
    let is_wanted = |source: &&PathBuf| {
        if only.is_some() && !program.is_empty() {
            stem(source) == program
        } else {
            stem(source).contains(program)
        }
    };
    let wanted: Vec<&PathBuf> = sources.iter().filter(is_wanted).collect();
    println!("\nrunning {} tests", wanted.len() * (1 + WAYS.len()));
    if tests::world(&Options::default()).is_none() {
        println!("test programs ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        return Ok(ExitCode::SUCCESS);
    }
    let is_inert = std::env::var_os("SIDESTEP_INERT").is_some();
    let next = AtomicUsize::new(0);
    let run = || -> Result<Report> {
        let Some(world) = tests::world(&Options::default()) else { return Ok(Report::default()) };
        let mut suite = Suite::new(&world, &declared, is_inert)?;
        while let Some(source) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            suite.ways(source, only);
        }
        Ok(suite.report)
    };
    // What is accelerated spins, and has the machine for itself. Under a library that does nothing most of them wait.
    let threads = if is_inert { INERT_AT_ONCE } else { 1 };
    let mut report = Report::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|thread| {
            report.join(thread.join().map_err(|_| Error::new("a thread of this harness panicked"))??);
            Ok(())
        })
    })?;
    Ok(report.print())
}

/// The programs, in order.
fn sources() -> Result<Vec<PathBuf>> {
    let folder = folder().join("api");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    sources.sort();
    Ok(sources)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Outcomes so far.
#[derive(Default)]
struct Report {
    passed: usize,
    failures: Vec<String>,
    remarks: Vec<String>,
}

impl Report {
    fn join(&mut self, other: Report) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.remarks.extend(other.remarks);
    }

    fn add(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failures.push(format!("{name}: {error}"));
                println!("test {name} ... FAILED");
            }
        }
    }

    fn print(&self) -> ExitCode {
        for failure in &self.failures {
            println!("---- {failure}\n");
        }
        for remark in &self.remarks {
            println!("{remark}");
        }
        let outcome = if self.failures.is_empty() { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {outcome}. {} passed; {} failed; 0 ignored",
            self.passed,
            self.failures.len()
        );
        if self.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Both roles of a program at their end.
struct Ended {
    roles: [Finished; 2],
    /// Packets of each host's kernel, by port above the program's first one.
    handled: [BTreeMap<u16, u64>; 2],
    /// Bytes of streams that the kernel of one host carried to itself.
    looped: u64,
}

impl Ended {
    /// Both passed; otherwise what both said, as either may explain the failure.
    fn success(&self) -> Result<()> {
        let failed: Vec<String> =
            self.roles.iter().filter_map(|role| Some(role.clone().success().err()?.to_string())).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::new(failed.join("\n"))) }
    }
}

struct Suite<'a> {
    world: &'a World,
    /// The hosts in the order of [`Side::BOTH`].
    watch: [KernelFlows<'a>; 2],
    local: OneHost<'a>,
    declared: &'a Declared,
    report: Report,
    is_inert: bool,
}

impl<'a> Suite<'a> {
    fn new(world: &'a World, declared: &'a Declared, is_inert: bool) -> Result<Suite<'a>> {
        let TwoHosts { left, right, .. } = &world.hosts;
        let mtu = Options::default().mtu;
        let watch = [KernelFlows::watch(left, mtu)?, KernelFlows::watch(right, mtu)?];
        let local = OneHost::new(right, world.library.clone())?;
        Ok(Suite { world, watch, local, declared, report: Report::default(), is_inert })
    }

    /// As on the kernel, and then in `only` this way or in all.
    fn ways(&mut self, source: &Path, only: Option<&str>) {
        let program = stem(source);
        let executable = match compile(&format!("api/{program}.c")) {
            Ok(executable) => executable,
            Err(error) => return self.report.add(&format!("{program}::compile"), Err(error)),
        };
        let oracle = self.run(executable.path(), ORACLE).and_then(|ended| ended.success().map(|()| ended));
        let handled = oracle.as_ref().map(|ended| ended.handled.clone()).unwrap_or_default();
        self.report.add(&format!("{program}::{}", ORACLE.name), oracle.map(drop));
        let is_inert = self.is_inert;
        let asked = std::env::var_os("SIDESTEP_MOVING").is_some();
        let moves = (asked || only.is_some()) && !is_inert && self.declared.moves(&program);
        let is_asked = |way: &Way| only.is_none_or(|only| way.name == only);
        // What begins in the kernel claims nothing.
        let is_debug = self.world.library.iter().any(|folder| folder == "debug");
        if is_debug && self.declared.needs_optimised(&program) {
            return self.report.remarks.push(format!("not under a debug library: {program}"));
        }
        let is_due = |way: &Way| (moves || way.is_usual()) && (way.carrier == "wire" || !is_inert);
        for way in WAYS.into_iter().filter(|way| is_asked(way) && is_due(way)) {
            let name = format!("{program}::{}", way.name);
            let result = if self.is_inert {
                self.notices(&program, executable.path(), way, &handled)
            } else {
                self.behaves(&program, executable.path(), way)
            };
            self.report.add(&name, result);
        }
        let is_local =
            (asked || only.is_some() || one_host::is_usual(&program)) && one_host::WAYS.iter().any(is_asked);
        if is_local && one_host::is_about_streams(&program) {
            self.on_one_host(&program, executable.path(), only);
        }
    }

    /// As on the kernel, and past it; or as is declared. What a peer says once more to a process that has ended is the
    /// kernel's to hear: packets that should not be its own count only if they come again.
    fn behaves(&mut self, program: &str, executable: &Path, way: Way) -> Result<()> {
        let ended = self.run(executable, way)?;
        if way.carrier == "auto" && ended.success().is_ok() {
            // It begins in the kernel. Differences are declared of what is on the wire.
            return Ok(());
        }
        if let Some(difference) = self.declared.difference(program, way) {
            fails_as_declared(&ended, difference)?;
            let (way, reason) = (way.name, &difference.reason);
            self.report.remarks.push(format!("declared difference: {program}::{way}: {reason}"));
            return Ok(());
        }
        ended.success()?;
        if !way.is_usual() || self.went_past_the_kernel(program, way, &ended).is_ok() {
            return Ok(());
        }
        let ended = self.run(executable, way)?;
        ended.success()?;
        self.went_past_the_kernel(program, way, &ended)
    }

    fn went_past_the_kernel(&self, program: &str, way: Way, ended: &Ended) -> Result<()> {
        let mut wrong = Vec::new();
        for (side, handled) in Side::BOTH.into_iter().zip(&ended.handled) {
            for port in (0..PORTS).filter(|_| way.accelerates(side)) {
                let count = handled.get(&port).copied().unwrap_or(0);
                let Allowed { least, most } = self.declared.allowed(program, side, port);
                let side = side.name();
                if count > most {
                    wrong.push(format!(
                        "the {side}'s kernel handled {count} packets of port +{port}, of {most} allowed"
                    ));
                } else if count < least {
                    let row = "a row of api/differences.toml says that it is the kernel's: delete it";
                    wrong.push(format!("port +{port} of the {side} went past the kernel; {row}"));
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Error::new(wrong.join("; "))) }
    }

    /// With a library that does nothing: fails, unless what goes past the kernel with a real one is nothing either.
    fn notices(
        &mut self,
        program: &str,
        executable: &Path,
        way: Way,
        oracle: &[BTreeMap<u16, u64>; 2],
    ) -> Result<()> {
        let claims = self.declared.difference(program, way).is_some()
            || Side::BOTH.into_iter().zip(oracle).filter(|(side, _)| way.accelerates(*side)).any(
                |(side, handled)| {
                    handled
                        .iter()
                        .any(|(port, count)| *count > self.declared.allowed(program, side, *port).most)
                },
            );
        match (self.behaves(program, executable, way), claims) {
            (Err(_), true) => Ok(()),
            (Ok(()), false) => {
                self.report.remarks.push(format!("claims nothing: {program}::{}", way.name));
                Ok(())
            }
            (Ok(()), true) => Err(Error::new("passes with a library that does nothing")),
            (Err(error), false) => Err(error),
        }
    }

    /// Both roles to their end. A role that hangs is an error.
    fn run(&self, executable: &Path, way: Way) -> Result<Ended> {
        let TwoHosts { left, right, .. } = &self.world.hosts;
        let [_, _, _] = [self.watch[0].take()?, self.watch[1].take()?, self.local.take()?];
        let library = if way.is_local { self.local.library(way) } else { Some(&*self.world.library) };
        let program = |host: &Host, side: Side| {
            let preload = library.filter(|_| way.accelerates(side));
            // Some are about what falls back; the kernels' counts tell.
            let role =
                host.program(executable).any_cpu().argument(side.name()).preload(preload).may_fall_back();
            let role = role.environment("SIDESTEP_CARRIER", way.carrier);
            let role = if way.is_local { self.local.set_up(role) } else { role };
            match way.move_every {
                0 => role,
                every => role.environment("SIDESTEP_MOVE_EVERY", every.to_string()),
            }
        };
        let port = PORT.fetch_add(PORTS, Ordering::Relaxed);
        let left = if way.is_local { right } else { left };
        let words = format!("{} {port} {}", right.address, left.address);
        let mut server = program(right, Side::Server).words(&words).start()?;
        server.wait_for_output("ready\n", DEADLINE)?;
        let client = program(left, Side::Client).words(&words).run(DEADLINE);
        let server = server.finish(DEADLINE);
        let roles = match (client, server) {
            (Ok(client), Ok(server)) => [client, server],
            (Err(client), Err(server)) => return Err(Error::new(format!("{client}\n{server}"))),
            (Err(one), _) | (_, Err(one)) => return Err(one),
        };
        let own = |all: BTreeMap<u16, u64>| -> BTreeMap<u16, u64> {
            all.into_iter()
                .filter(|(of, _)| (port..port + PORTS).contains(of))
                .map(|(of, count)| (of - port, count))
                .collect()
        };
        let handled = [own(self.watch[0].take()?), own(self.watch[1].take()?)];
        let looped = own(self.local.take()?).into_values().sum();
        Ok(Ended { roles, handled, looped })
    }
}

/// The role failed at the declared line, and at no other; it was not killed.
fn fails_as_declared(ended: &Ended, declared: &Differs) -> Result<()> {
    let [client, server] = &ended.roles;
    let role = if declared.side == Side::Client { client } else { server };
    let line = role.stderr.lines().find(|line| line.contains(".c:") || line.contains(".h:")).unwrap_or("");
    if role.status.code() == Some(1) && line.starts_with(&format!("{}:", declared.fails_at)) {
        return Ok(());
    }
    let how = match (role.status.code(), role.status.signal()) {
        (Some(0), _) => "it behaves as on the kernel: delete the row".to_owned(),
        (Some(code), _) => format!("it ended with status {code}, at: {line}"),
        (None, signal) => format!("it ended by signal {}", signal.unwrap_or(0)),
    };
    Err(Error::new(format!("api/differences.toml says that it fails at {}, but {how}", declared.fails_at)))
}
