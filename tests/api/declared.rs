//! What is declared of the programs: `differences.toml`, read strictly.

use serde::Deserialize;

use crate::{PORTS, Side, Way};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declared {
    #[serde(default)]
    by_the_kernel: Vec<ByTheKernel>,
    #[serde(default)]
    differs: Vec<Differs>,
    #[serde(default)]
    stays: Vec<Stays>,
    #[serde(default)]
    two_hosts: Vec<Stays>,
    #[serde(default)]
    optimised: Vec<Stays>,
    #[serde(default)]
    by_loopback: Vec<ByLoopback>,
}

/// A program whose roles are on one host, and most of whose bytes the kernel carries although its sides may meet in
/// memory. The program must pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ByLoopback {
    program: String,
    /// The only way in which it is so; else all on one host.
    way: Option<String>,
    /// Whether they are most of its bytes is for the scheduler to say.
    #[serde(default)]
    sometimes: bool,
    #[allow(dead_code, reason = "owed to who reads the file")]
    reason: String,
}

/// A program that is not run with connections that move all the time; or not with both roles on one host; or not under
/// a debug library.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stays {
    program: String,
    #[allow(dead_code, reason = "owed to who reads the file")]
    reason: String,
}

/// Flows of a program that come to the kernel although their side is accelerated. The program must pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ByTheKernel {
    program: String,
    side: Side,
    /// Above the program's first port.
    ports: Vec<u16>,
    /// Only so many packets, of more: those before or after are accelerated.
    at_most: Option<u64>,
    /// Whether any come to the kernel is for the scheduler to say.
    #[serde(default)]
    sometimes: bool,
    #[allow(dead_code, reason = "owed to who reads the file")]
    reason: String,
}

/// A program that must fail when this side is accelerated, at one line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Differs {
    program: String,
    /// The only way in which it fails; else those on two hosts that accelerate this side.
    way: Option<String>,
    /// Whose role fails.
    pub(crate) side: Side,
    /// `file.c:line`, as `CHECK` prints it.
    pub(crate) fails_at: String,
    pub(crate) reason: String,
}

/// How many packets of one port may, and must, come to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// How sure a declaration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sure {
    Always,
    Sometimes,
}

impl Declared {
    /// Every row must name one of `programs`.
    pub(crate) fn parse(text: &str, programs: &[String]) -> Result<Declared, String> {
        let declared: Declared = toml::from_str(text).map_err(|error| error.to_string())?;
        let rows = declared.by_the_kernel.iter().map(|row| &row.program);
        let rows = rows.chain(declared.stays.iter().map(|row| &row.program));
        let rows = rows.chain(declared.optimised.iter().map(|row| &row.program));
        let rows = rows.chain(declared.two_hosts.iter().map(|row| &row.program));
        let rows = rows.chain(declared.by_loopback.iter().map(|row| &row.program));
        for program in rows.chain(declared.differs.iter().map(|row| &row.program)) {
            if !programs.contains(program) {
                return Err(format!("there is no program {program}"));
            }
        }
        match declared.by_the_kernel.iter().flat_map(|row| &row.ports).find(|port| **port >= PORTS) {
            Some(port) => Err(format!("port {port}: a program has {PORTS}, from 0")),
            None => Ok(declared),
        }
    }

    /// Whether a program is run with connections that move all the time.
    pub(crate) fn moves(&self, program: &str) -> bool {
        !self.stays.iter().any(|row| row.program == program)
    }

    /// Whether a program is about what only an optimised library promises.
    pub(crate) fn needs_optimised(&self, program: &str) -> bool {
        self.optimised.iter().any(|row| row.program == program)
    }

    /// For a port above the program's first one. What is not declared must go past the kernel.
    pub(crate) fn allowed(&self, program: &str, side: Side, port: u16) -> Allowed {
        let is_it =
            |row: &&ByTheKernel| row.program == program && row.side == side && row.ports.contains(&port);
        match self.by_the_kernel.iter().find(is_it) {
            None => Allowed { least: 0, most: 0 },
            Some(row) => Allowed { least: u64::from(!row.sometimes), most: row.at_most.unwrap_or(u64::MAX) },
        }
    }

    /// Whether a program makes sense with both roles on one host.
    pub(crate) fn is_for_one_host(&self, program: &str) -> bool {
        !self.two_hosts.iter().any(|row| row.program == program)
    }

    /// On one host: whether the kernel must carry most bytes of this program, or may. `None`: it must not.
    pub(crate) fn goes_by_loopback(&self, program: &str, way: Way) -> Option<Sure> {
        let is_in = |row: &ByLoopback| row.way.as_ref().is_none_or(|name| name == way.name);
        let row = self.by_loopback.iter().find(|row| row.program == program && is_in(row))?;
        Some(if row.sometimes { Sure::Sometimes } else { Sure::Always })
    }

    /// The failure that is owed in this way.
    pub(crate) fn difference(&self, program: &str, way: Way) -> Option<&Differs> {
        let is_in = |row: &Differs| match &row.way {
            Some(name) => name == way.name,
            None => !way.is_local && way.accelerates(row.side),
        };
        self.differs.iter().find(|row| row.program == program && is_in(row))
    }
}
