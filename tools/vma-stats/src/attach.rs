//! Which program the options mean.

use crate::cli::{Options, Which};
use vma_stats::Failure;
use vma_stats::programs::{self, Program, name};

/// The program that the options mean.
pub(crate) fn find(options: &Options) -> Result<Program, Failure> {
    match &options.which {
        Which::Pid(pid) => {
            let program = Program::open(&options.directory, *pid)?;
            if program.lives() {
                return Ok(program);
            }
            Err(Failure::Told(format!("process {pid} has ended")))
        }
        Which::Name(_) | Which::Any => {
            let all = fitting(options)?;
            if let [first, others @ ..] = &all[..]
                && !others.is_empty()
            {
                let others = others.iter().map(|pid| described(*pid)).collect::<Vec<_>>().join(", ");
                let (first, count) = (described(*first), all.len());
                eprintln!("vmastat: {first} of {count} programs; the others: {others} (choose with -p)");
            }
            Program::open(&options.directory, all[0])
        }
    }
}

/// All programs that live, or those of a name: for views that show every one.
pub(crate) fn all(options: &Options) -> Result<Vec<Program>, Failure> {
    if let Which::Pid(_) = options.which {
        return Ok(vec![find(options)?]);
    }
    let all = fitting(options)?;
    let programs: Vec<Program> =
        all.iter().filter_map(|pid| Program::open(&options.directory, *pid).ok()).collect();
    if programs.is_empty() { Err(none(options, &all)) } else { Ok(programs) }
}

/// Numbers of the programs that the options mean: one at least.
fn fitting(options: &Options) -> Result<Vec<u32>, Failure> {
    let all = programs::of(&options.directory, options.keep_dead)?;
    let fitting: Vec<u32> = match &options.which {
        Which::Name(wanted) => {
            all.iter().copied().filter(|pid| names(*pid).any(|name| name == *wanted)).collect()
        }
        _ => all.clone(),
    };
    if fitting.is_empty() { Err(none(options, &all)) } else { Ok(fitting) }
}

fn none(options: &Options, candidates: &[u32]) -> Failure {
    let mut text = "Failed to identify process please provide pid of active process...".to_owned();
    match &options.which {
        Which::Name(name) if !candidates.is_empty() => {
            let there = candidates.iter().map(|pid| described(*pid)).collect::<Vec<_>>().join(", ");
            text += &format!("\n         No program is called {name}; there are: {there}");
        }
        _ => {
            let directory = options.directory.display();
            text += &format!(
                "\n         No program in {directory} keeps statistics. Start one with LD_PRELOAD=libvma.so, or say where \
                 it keeps them (-k)"
            );
        }
    }
    Failure::Told(text)
}

fn described(pid: u32) -> String {
    format!("{} ({pid})", name(pid).unwrap_or_else(|| "?".to_owned()))
}

/// What a program is called: the last part of its path. Where that is a link, as /usr/bin/redis-server is on Debian,
/// what it was started as, and what it calls itself, are other names for it.
fn names(pid: u32) -> impl Iterator<Item = String> {
    let started = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let started = started.split(|byte| *byte == 0 || *byte == b' ').next().unwrap_or_default();
    let started =
        String::from_utf8_lossy(started.rsplit(|byte| *byte == b'/').next().unwrap_or_default()).into_owned();
    let called =
        std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
    name(pid).into_iter().chain([started, called])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's redis-server, which is a link to redis-check-rdb.
    #[test]
    fn a_program_behind_a_link_has_both_names() {
        let link = std::env::temp_dir().join(format!("vmastat-link-{}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let mut child = std::process::Command::new(&link).arg("60").spawn().unwrap();
        // The arguments are the last that exec puts in their place.
        while std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let names: Vec<String> = names(child.id()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&link).unwrap();
        let own = link.file_name().unwrap().to_string_lossy().into_owned();
        assert!(names.contains(&own), "{names:?}");
    }
}
