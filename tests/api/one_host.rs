//! The programs about streams with both roles on one host: on the kernel's loopback first, then under libsdp.so and
//! under libvma.so, with connections that meet in memory before their first byte, as far as that can be.
//!
//! The witness is the kernel's count of bytes on loopback: what travels through memory is not among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rig::skip::skipped;
use rig::{Error, Host, LoopbackBytes, Program, Result};

use crate::declared::Sure;
use crate::{Ended, Suite, Way, fails_as_declared};

const LOOPBACK: Way =
    Way { name: "loopback", client: false, server: false, move_every: 0, carrier: "auto", is_local: true };
const MEMORY: Way =
    Way { name: "memory", client: true, server: true, move_every: 1, carrier: "auto", is_local: true };
/// They part after so many calls, and meet again.
const PARTING: Way =
    Way { name: "parting", client: true, server: true, move_every: 5, carrier: "auto", is_local: true };
/// As `memory` and `parting`, under libvma.so.
const LOCAL: Way =
    Way { name: "local", client: true, server: true, move_every: 1, carrier: "auto", is_local: true };
const LOCAL_PARTING: Way =
    Way { name: "local_parting", client: true, server: true, move_every: 5, carrier: "auto", is_local: true };
pub(crate) const WAYS: [Way; 5] = [LOOPBACK, MEMORY, LOCAL, PARTING, LOCAL_PARTING];

/// Goes through memory only when it is asked for: it waits a minute for a reset that memory does not have
/// (`differences.toml`).
const UNUSUAL: &str = "tcp_rare_options";

/// What a program may leave to the kernel and still have gone through memory: the first bytes of a connection do.
const PART: u64 = 2;
const RULES: &str = "use both server * *:*\nuse both client * *:*\n";

/// What runs on one host needs.
pub(crate) struct OneHost<'a> {
    bytes: LoopbackBytes<'a>,
    vma: PathBuf,
    /// `None`: there is none.
    sdp: Option<PathBuf>,
    rules: PathBuf,
}

impl Drop for OneHost<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.rules);
    }
}

impl OneHost<'_> {
    /// `vma`: libvma.so, or what stands in its place.
    pub(crate) fn new(host: &Host, vma: PathBuf) -> Result<OneHost<'_>> {
        let rules = std::env::temp_dir().join(format!("api-{}.conf", std::process::id()));
        std::fs::write(&rules, RULES).map_err(|error| Error::new(format!("{}: {error}", rules.display())))?;
        let sdp = tests::library().and_then(|vma| vma.with_file_name("libsdp.so").canonicalize().ok());
        Ok(OneHost { bytes: LoopbackBytes::watch(host)?, vma, sdp, rules })
    }

    pub(crate) fn library(&self, way: Way) -> Option<&Path> {
        if is_sdps(way) { self.sdp.as_deref() } else { Some(&self.vma) }
    }

    pub(crate) fn set_up(&self, role: Program) -> Program {
        role.environment("LIBSDP_CONFIG_FILE", &self.rules)
    }

    /// Bytes by port, since the last call.
    pub(crate) fn take(&self) -> Result<BTreeMap<u16, u64>> {
        self.bytes.take()
    }
}

fn is_sdps(way: Way) -> bool {
    [MEMORY.name, PARTING.name].contains(&way.name)
}

pub(crate) fn is_usual(program: &str) -> bool {
    program != UNUSUAL
}

pub(crate) fn is_about_streams(program: &str) -> bool {
    !program.starts_with("udp_") && !program.starts_with("multicast_")
}

impl Suite<'_> {
    /// In `only` this way or in all.
    pub(crate) fn on_one_host(&mut self, program: &str, executable: &Path, only: Option<&str>) {
        if !self.declared.is_for_one_host(program) {
            return;
        }
        let is_asked = |way: &Way| only.is_none_or(|only| only == way.name);
        let oracle = self.run(executable, LOOPBACK).and_then(|ended| ended.success().map(|()| ended.looped));
        let looped = oracle.as_ref().copied().unwrap_or(0);
        self.report.add(&format!("{program}::{}", LOOPBACK.name), oracle.map(drop));
        let is_parting = is_usual(program) && self.declared.moves(program) && !self.is_inert;
        for way in [PARTING, LOCAL_PARTING].into_iter().filter(|way| is_parting && is_asked(way)) {
            if self.has_library(program, way) {
                self.parting(program, executable, way);
            }
        }
        for way in [MEMORY, LOCAL].into_iter().filter(is_asked) {
            if self.has_library(program, way) {
                self.meeting(program, executable, way, looped);
            }
        }
    }

    fn has_library(&self, program: &str, way: Way) -> bool {
        let is_there = self.local.library(way).is_some();
        if !is_there {
            let name = format!("{program}::{}", way.name);
            skipped(&name, "no target/release/libsdp.so: cargo build --release -p libsdp");
        }
        is_there
    }

    fn meeting(&mut self, program: &str, executable: &Path, way: Way, looped: u64) {
        let name = format!("{program}::{}", way.name);
        let claims = looped > 0 && self.declared.goes_by_loopback(program, way).is_none();
        let result = self.in_memory(program, executable, way, looped);
        let result = match (self.is_inert, claims, result) {
            (true, true, Err(_)) => Ok(()),
            (true, true, Ok(())) => Err(Error::new("passes with a library that does nothing")),
            (true, false, _) => {
                self.report.remarks.push(format!("claims nothing: {name}"));
                Ok(())
            }
            (false, _, result) => result,
        };
        self.report.add(&name, result);
    }

    /// What goes by which carrier is a question of time here.
    fn parting(&mut self, program: &str, executable: &Path, way: Way) {
        let result = self.run(executable, way).and_then(|ended| ended.success());
        self.report.add(&format!("{program}::{}", way.name), result);
    }

    fn in_memory(&mut self, program: &str, executable: &Path, way: Way, looped: u64) -> Result<()> {
        let ended = self.run(executable, way)?;
        if let Some(difference) = self.declared.difference(program, way) {
            fails_as_declared(&ended, difference)?;
            let reason = &difference.reason;
            self.report.remarks.push(format!("declared difference: {program}::{}: {reason}", way.name));
            return Ok(());
        }
        ended.success()?;
        went_through_memory(&ended, looped, self.declared.goes_by_loopback(program, way))
    }
}

fn went_through_memory(ended: &Ended, looped: u64, declared: Option<Sure>) -> Result<()> {
    let by_kernel = ended.looped;
    let is_in_memory = by_kernel <= looped / PART;
    match declared {
        _ if looped == 0 => Ok(()),
        None if !is_in_memory => {
            Err(Error::new(format!("{by_kernel} bytes went by loopback, of {looped} without the library")))
        }
        Some(Sure::Always) if is_in_memory => {
            Err(Error::new("a row of api/differences.toml says that it goes by loopback: delete it"))
        }
        _ => Ok(()),
    }
}
