//! What can be known before a program starts: whether the loader will load the library into it, and whether this
//! process and its interfaces could be accelerated.

use crate::host::{go, system};
use config::Interfaces;
use config::interfaces::Choice;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// One thing that the user should know.
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    /// Nothing will be accelerated.
    pub(super) stops: bool,
    pub(super) text: String,
}

fn stops(check: &'static str, text: String) -> Finding {
    Finding { check, stops: true, text }
}

fn note(check: &'static str, text: String) -> Finding {
    Finding { check, stops: false, text }
}

/// The file that execvp(3) would start.
pub(super) fn locate(program: &Path) -> Result<PathBuf, String> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    if program.components().count() > 1 {
        return if is_program(program) {
            Ok(program.to_owned())
        } else {
            Err(format!("{}: no program that can be run", program.display()))
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_program(path));
    found.ok_or_else(|| format!("{}: not found in PATH", program.display()))
}

/// All checks. `interfaces`: the list that the user gave on the command line.
pub(super) fn all(program: &Path, interfaces: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = program.display().to_string();
    findings.extend(is_privileged(program, &name));
    findings.extend(loads(program, &name, 0));
    findings.extend(environment());
    if let Err(refusal) = xdp::caps::privilege() {
        findings.push(stops("privileges", format!("AF_XDP: {refusal}")));
    }
    let own = crate::params::in_force().0.interfaces;
    findings.extend(of_interfaces(interfaces.unwrap_or(&own)));
    findings
}

/// The loader ignores LD_PRELOAD for programs that run with more rights than who starts them.
fn is_privileged(program: &Path, name: &str) -> Option<Finding> {
    let of = program.metadata().ok()?;
    let (user, group) = (sys::process::user(), system::group());
    let as_other =
        of.mode() & 0o4000 != 0 && of.uid() != user || of.mode() & 0o2000 != 0 && of.gid() != group;
    let gains = user != 0 && system::has_capabilities(program);
    (as_other || gains).then(|| {
        stops(
            "privileged",
            format!(
                "{name} is set-user-ID or has capabilities of its own: the loader ignores LD_PRELOAD for it"
            ),
        )
    })
}

/// Whether the loader will be there, and is glibc's; scripts are their interpreter's.
fn loads(program: &Path, name: &str, depth: u32) -> Vec<Finding> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(program).and_then(|file| file.take(PROGRAM_MAX).read_to_end(&mut bytes));
    if let Err(error) = read {
        return vec![note("program", format!("{name} cannot be read ({error}), so it was not looked at"))];
    }
    if let Some(script) = bytes.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let mut words = line.split_whitespace();
        let interpreter = words.next().unwrap_or_default();
        let interpreter = match (interpreter.rsplit('/').next(), words.next()) {
            (Some("env"), Some(real)) => {
                locate(Path::new(real)).unwrap_or_else(|_| PathBuf::from(interpreter))
            }
            _ => PathBuf::from(interpreter),
        };
        if depth >= SCRIPTS_MAX {
            return Vec::new();
        }
        return loads(&interpreter, &format!("{name} ({})", interpreter.display()), depth + 1);
    }
    of_elf(&bytes, name)
}

/// Of a program no more than this is looked at.
const PROGRAM_MAX: u64 = 256 << 20;
/// Scripts whose interpreter is a script; the kernel allows as many.
const SCRIPTS_MAX: u32 = 4;
/// ELF: machine, and the type of the segment that names the loader.
const X86_64: u16 = 62;
const PT_INTERP: u32 = 3;

fn of_elf(bytes: &[u8], name: &str) -> Vec<Finding> {
    let half = |at: usize| bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    let long =
        |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    if !bytes.starts_with(b"\x7fELF") {
        return vec![note("program", format!("{name} is no ELF program; whatever runs it decides"))];
    }
    if bytes.get(4) != Some(&2) || half(18) != X86_64 {
        return vec![stops("program", format!("{name} is for another processor; the library is for x86-64"))];
    }
    let (at, size, count) = (long(32) as usize, usize::from(half(54)), usize::from(half(56)));
    let segment = (0..count).filter_map(|n| at.checked_add(n * size)).find(|at| word(*at) == PT_INTERP);
    let loader = segment.and_then(|at| {
        let from = usize::try_from(long(at.checked_add(8)?)).ok()?;
        let to = from.checked_add(usize::try_from(long(at.checked_add(32)?)).ok()?)?;
        Some(String::from_utf8_lossy(bytes.get(from..to)?).trim_end_matches('\0').to_owned())
    });
    let mut findings = Vec::new();
    match loader {
        None => findings.push(stops(
            "static",
            format!("{name} is a static program: LD_PRELOAD does not reach it; link it dynamically"),
        )),
        Some(loader) if loader.contains("musl") => {
            findings.push(stops("libc", format!("{name} uses musl ({loader}); the library is for glibc")));
        }
        Some(_) => {}
    }
    if go::built(bytes) {
        findings.push(stops(
            "go",
            format!("{name} is a Go program: it calls the kernel past libc, so nothing of it is accelerated"),
        ));
    }
    findings
}

/// What the environment has wrong, in the library's own words.
fn environment() -> Vec<Finding> {
    let (parameters, notices) = crate::params::in_force();
    let loud = notices.into_iter().filter(|notice| notice.level <= config::TraceLevel::Warning);
    let mut findings: Vec<Finding> = loud.map(|notice| note("environment", notice.text)).collect();
    if !parameters.offloaded_sockets {
        findings.push(stops("environment", "VMA_OFFLOADED_SOCKETS=0 switches acceleration off".to_owned()));
    }
    findings
}

fn of_interfaces(list: &str) -> Vec<Finding> {
    let (interfaces, notices) = Interfaces::parse(list);
    let mut findings: Vec<Finding> =
        notices.into_iter().map(|notice| note("interfaces", notice.text)).collect();
    let mut names: Vec<String> = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for pattern in interfaces.chosen() {
        if !names.iter().any(|name| config::glob::matches(pattern, name)) {
            findings.push(note(
                "interfaces",
                format!("no interface is called {pattern}; there are: {}", names.join(", ")),
            ));
        }
    }
    let mut chosen = 0;
    for name in &names {
        match (interfaces.choice(name), xdp::caps::worth_it(name)) {
            (Choice::No, _) | (_, Err(xdp::caps::NotWorth::Refused(_))) => {}
            (Choice::Yes, _) | (Choice::Auto, Ok(())) => chosen += 1,
            (Choice::Auto, Err(because)) => findings
                .push(note("interfaces", format!("{name}: {because} (sidestep run --interfaces {name})"))),
        }
    }
    if chosen == 0 {
        let list = names.join(", ");
        findings.push(stops(
            "interfaces",
            format!("no interface of this network namespace would be accelerated ({list})"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_does_not_reach_is_told() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(of_elf(&own, "x").is_empty());
        // The same program without the segment that names the loader.
        let mut fixed = own.clone();
        let at = u64::from_le_bytes(own[32..40].try_into().unwrap()) as usize;
        for n in 0..usize::from(u16::from_le_bytes([own[56], own[57]])) {
            if fixed[at + n * 56..][..4] == PT_INTERP.to_le_bytes() {
                fixed[at + n * 56..][..4].copy_from_slice(&0u32.to_le_bytes());
            }
        }
        assert_eq!(of_elf(&fixed, "x")[0].check, "static");
        let mut other = own.clone();
        other[18] = 183;
        assert_eq!(of_elf(&other, "x")[0].check, "program");
        for cut in [4, 20, 64, 100, 300] {
            let _ = of_elf(&own[..cut], "x");
        }
    }
}
