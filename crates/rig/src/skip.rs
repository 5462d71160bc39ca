//! Tests that cannot run here say so where a summary finds it: on standard error and, under `cargo x test`, in a file.

use std::io::Write;

/// Names the file that collects `test<TAB>reason`, one a line; set by `cargo x test`.
pub const FILE_VARIABLE: &str = "SIDESTEP_SKIPPED_FILE";

/// Records that the calling test was skipped.
pub fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        // One write per line, so that tests in parallel do not mix theirs.
        let _ = file.write_all(format!("{test}\t{}\n", reason.replace('\n', " ")).as_bytes());
    }
}

/// Records that the calling test was skipped, or a part of it.
pub fn skipped_here(reason: &str) {
    skipped(&test_name(), reason);
}

/// Name of the calling test, as the test harness calls its thread.
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("unnamed test").to_owned()
}

/// True, and recorded, when the machine cannot run tests in namespaces:
/// `if rig::skip::without_namespaces() { return; }`.
pub fn without_namespaces() -> bool {
    match crate::requirements().reason() {
        Some(reason) => {
            skipped(&test_name(), &reason);
            true
        }
        None => false,
    }
}
