//! Structure of the files: headers, lengths of files and functions, unsafe in its rooms, banned marks, paths in
//! documents.

use std::path::{Path, PathBuf};

use rig::{Context, Result};

use super::Finding;

/// Lines of a file without its tests.
const LONG: usize = 600;
const TOO_LONG: usize = 900;

/// Columns of a line of comment; rustfmt does not wrap those.
const WIDE: usize = 120;

/// Lines of a function that is seen whole.
const FUNCTION: usize = 70;

/// Functions that are longer, with their length today: no new ones, and none grows. Who shortens one takes its row
/// away.
const LONG_FUNCTIONS: [(&str, &str, usize); 9] = [
    ("crates/interpose/src/hooks/process.rs", "routed", 84),
    ("crates/sim/src/world.rs", "happen", 84),
    ("crates/sockets/src/tcp_info.rs", "bytes", 74),
    ("crates/stack/src/tcp/open.rs", "new", 93),
    ("crates/stack/src/tcp/recovery.rs", "recover", 76),
    ("tools/sockperf/src/client/ping_pong.rs", "run", 83),
    ("tools/sockperf/src/settings.rs", "defaults", 81),
    ("tools/xtask/src/guests.rs", "run", 88),
    ("tools/xtask/src/guests/cases.rs", "all", 86),
];

/// The rooms that may contain unsafe code, as prefixes of paths. Tests may, too: they play the world outside.
const UNSAFE_ROOMS: [&str; 43] = [
    "crates/sys/",
    "crates/xdp/",
    "crates/memory/src/kept",
    "crates/memory/src/segment",
    "crates/stats/src/segment",
    "crates/capture/src/writer",
    "crates/logger/",
    "crates/interpose/",
    "crates/preload/",
    "crates/libsdp/",
    "crates/rig/",
    "tools/sockperf/",
    "tools/middlebox/",
    "tools/sidestepd/src/names",
    "tools/sidestep/src/host/system",
    "tools/sidestep/src/capture/libpcap",
    // Tests and benchmarks that call the kernel as a C program would:
    "crates/drill/src/kernel",
    "tools/xtask/src/endpoint",
    // The socket layer. Where the application's pointers come in, and the types that wrap them:
    "crates/sockets/src/calls",
    "crates/sockets/src/carrier/across",
    "crates/sockets/src/carrier/carried",
    "crates/sockets/src/carrier/straight",
    "crates/sockets/src/extra/",
    "crates/sockets/src/filter",
    "crates/sockets/src/lent",
    "crates/sockets/src/address",
    "crates/sockets/src/message",
    "crates/sockets/src/options",
    "crates/sockets/src/udp/ancillary",
    "crates/sockets/src/udp/recv",
    "crates/sockets/src/arguments",
    "crates/sockets/src/wait/epoll/wait",
    "crates/sockets/src/wait/epoll/straight",
    // The genuine functions, and libc's own variables:
    "crates/sockets/src/genuine",
    "crates/sockets/src/settings",
    "crates/sockets/src/wait/waker",
    // Things that are made once and never freed, behind atomics:
    "crates/sockets/src/fd_table",
    "crates/sockets/src/object",
    "crates/sockets/src/runtime",
    "crates/sockets/src/lanes/mod",
    "crates/sockets/src/turn/mod",
    "crates/sockets/src/counts",
    "tests/",
];

/// The one file that says that a test was skipped.
const SKIPS: &str = "crates/rig/src/skip.rs";

/// Documents that must be there. The paths in these and in all others must exist.
const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

pub(super) fn findings(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in files_in(root, &["crates", "tools", "tests"], &["rs", "c"])? {
        let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).context(path.display())?;
        findings.extend(of_source(&shown, &text));
    }
    let mut documents: Vec<PathBuf> = DOCUMENTS.map(|document| root.join(document)).into();
    documents.extend(files_in(root, &["docs", "tests"], &["md"])?);
    for path in documents {
        let place = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let finding = |what| Finding { place: place.clone(), what, fatal: true };
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let dead = paths_in(&text).into_iter().filter(|path| !root.join(path).exists());
                findings.extend(dead.map(|path| finding(format!("names {path}, which does not exist"))));
            }
            Err(_) => findings.push(finding("does not exist".to_owned())),
        }
    }
    Ok(findings)
}

/// Every file with one of the endings in `folders` and below, in order.
pub(super) fn files_in(root: &Path, folders: &[&str], endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.context(folder.display())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn of_source(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |line: Option<usize>, what: String, fatal: bool| {
        let place = line.map_or_else(|| path.to_owned(), |line| format!("{path}:{}", line + 1));
        findings.push(Finding { place, what, fatal });
    };
    let rust = path.ends_with(".rs");
    let header =
        if rust { text.starts_with("//!") } else { text.starts_with("/*") || text.starts_with("//") };
    if !header {
        add(None, "does not begin by saying what it is for".to_owned(), true);
    }
    let length = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
    if length > TOO_LONG {
        add(None, format!("{length} lines; cut it by meaning (at most {TOO_LONG})"), true);
    } else if length > LONG {
        add(None, format!("{length} lines; {LONG} are enough for a file"), false);
    }
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let may_be_unsafe = is_test || UNSAFE_ROOMS.iter().any(|room| path.starts_with(room));
    if rust {
        findings.extend(long_functions(path, text));
    }
    let mut add = |line: Option<usize>, what: String, fatal: bool| {
        let place = line.map_or_else(|| path.to_owned(), |line| format!("{path}:{}", line + 1));
        findings.push(Finding { place, what, fatal });
    };
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for mark in banned_marks().iter().filter(|mark| line.contains(mark.as_str())) {
            add(Some(number), format!("{mark} must not stay in the tree"), true);
        }
        if rust && line.trim_start().starts_with("//") && line.chars().count() > WIDE {
            add(Some(number), format!("a comment of more than {WIDE} columns"), true);
        }
        if rust && path != SKIPS && is_silent_skip(line) {
            add(Some(number), "a test is skipped by rig::skip, which counts it".to_owned(), true);
        }
        if rust && !may_be_unsafe && has_unsafe(code) {
            add(
                Some(number),
                "unsafe outside its rooms (tools/xtask/src/check/tidy.rs lists them)".to_owned(),
                true,
            );
        }
    }
    findings
}

/// Functions over [`FUNCTION`] lines, in a file that rustfmt has written: a body ends with the indentation of its
/// beginning.
fn long_functions(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let allowed: Vec<_> = LONG_FUNCTIONS.iter().filter(|(file, ..)| *file == path).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_begun(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| line.strip_prefix(indentation) == Some("}");
        let length = 1 + lines[at..].iter().position(is_end).unwrap_or_default();
        match allowed.iter().find(|(_, of, _)| *of == name) {
            None if length > FUNCTION => {
                found.push((at, format!("{name} has {length} lines; a function has {FUNCTION}")))
            }
            Some((.., most)) if length > *most => {
                found.push((at, format!("{name} has grown to {length} lines; it may have {most}")));
            }
            Some(_) if length <= FUNCTION => {
                found.push((at, format!("{name} is short now: take its row away")))
            }
            _ => {}
        }
    }
    let absent =
        allowed.iter().filter(|(_, name, _)| !lines.iter().any(|line| function_begun(line) == Some(name)));
    found.extend(absent.map(|(_, name, _)| (0, format!("{name} is gone: take its row away"))));
    let place = |at: usize| format!("{path}:{}", at + 1);
    found.into_iter().map(|(at, what)| Finding { place: place(at), what, fatal: true }).collect()
}

/// The name of the function whose definition, of more than a line, begins here.
fn function_begun(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let ends_here = line.ends_with('}') || line.ends_with(';');
    (!ends_here).then(|| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())?
}

/// Put together here, so that this file does not contain them.
fn banned_marks() -> [String; 5] {
    [["TO", "DO"], ["FIX", "ME"], ["XX", "X:"], ["todo", "!("], ["unimplemented", "!("]]
        .map(|halves| halves.concat())
}

/// Whether a line says that a test was skipped where the summary does not find it.
fn is_silent_skip(line: &str) -> bool {
    let line = line.trim_start().to_lowercase();
    let says = ["skipped:", "skipped "].map(|word| format!("\"{word}"));
    says.iter().any(|says| line.contains(&format!("eprintln!({says}")) || line.starts_with(says.as_str()))
}

fn has_unsafe(code: &str) -> bool {
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    // `#[unsafe(no_mangle)]` and lint names are not blocks.
    words.any(|word| word == "unsafe") && !code.contains("#[") && !code.contains("#![") && !code.contains('"')
}

/// Words in backticks that look like paths of this repository.
fn paths_in(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let known =
            ["crates/", "tools/", "tests/", "docs/", ".ci/", "conf/", "include/", "bpf/", "fuzz/", "man/"];
        known.iter().any(|folder| word.starts_with(folder)) && !word.contains([' ', '*', '<', '{', '\n'])
    };
    quoted.filter(is_path).map(|word| word.split(':').next().unwrap_or(word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_header_is_found() {
        assert_eq!(of_source("crates/wire/src/a.rs", "fn f() {}\n").len(), 1);
        assert!(of_source("crates/wire/src/a.rs", "//! For f.\nfn f() {}\n").is_empty());
    }

    #[test]
    fn unsafe_is_allowed_in_its_rooms_only() {
        let text = "//! For f.\nfn f() { unsafe { g() } }\n";
        assert_eq!(of_source("crates/stack/src/a.rs", text).len(), 1);
        assert!(of_source("crates/sys/src/a.rs", text).is_empty());
        assert!(of_source("crates/stack/src/a.rs", "//! x\n#![forbid(unsafe_code)]\n").is_empty());
        assert!(of_source("crates/stack/src/a.rs", "//! x\n// unsafe is a word\n").is_empty());
    }

    #[test]
    fn long_files_warn_and_then_fail_but_tests_do_not_count() {
        let lines = |count: usize| format!("//! x\n{}", "a\n".repeat(count));
        assert!(!of_source("crates/wire/src/a.rs", &lines(700))[0].fatal);
        assert!(of_source("crates/wire/src/a.rs", &lines(1000))[0].fatal);
        assert!(
            of_source("crates/wire/src/a.rs", &format!("//! x\n#[cfg(test)]\n{}", "a\n".repeat(1000)))
                .is_empty()
        );
    }

    #[test]
    fn comments_end_at_a_column() {
        let comment = |columns: usize| format!("//! x\n// {}\n", "a".repeat(columns - 3));
        assert!(of_source("crates/wire/src/a.rs", &comment(WIDE)).is_empty());
        assert!(of_source("crates/wire/src/a.rs", &comment(WIDE + 1))[0].fatal);
    }

    #[test]
    fn a_skip_that_nobody_counts_is_found() {
        let says = |how: &str| format!("//! x\nfn f() {{\n    eprintln!({how}\"SKIPPED: no root\");\n}}\n");
        for how in ["", "\n        "] {
            assert_eq!(of_source("crates/wire/src/a.rs", &says(how)).len(), 1, "{how:?}");
            assert_eq!(of_source("crates/wire/src/a.rs", &says(how).to_lowercase()).len(), 1, "{how:?}");
            assert!(of_source(SKIPS, &says(how)).is_empty());
        }
        assert!(
            of_source("crates/wire/src/a.rs", "//! x\nfn f() {\n    skipped_here(\"no root\");\n}\n")
                .is_empty()
        );
    }

    #[test]
    fn a_function_that_cannot_be_seen_whole_is_found() {
        let file = |lines: usize| {
            format!(
                "//! x\nimpl A {{\n    pub(crate) fn long(\n    ) {{\n{}    }}\n}}\n",
                "        a();\n".repeat(lines)
            )
        };
        assert!(of_source("crates/wire/src/a.rs", &file(67)).is_empty());
        let found = of_source("crates/wire/src/a.rs", &file(68));
        assert!(found[0].fatal && found[0].what.contains("long has 71 lines"), "{}", found[0]);
    }

    #[test]
    fn paths_in_documents_are_recognised() {
        assert_eq!(
            paths_in("see `crates/rig` and `cargo x` and `tests/api/a.c:3`"),
            ["crates/rig", "tests/api/a.c"]
        );
    }
}
