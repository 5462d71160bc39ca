//! The files that results go to, before the test: a long run must not end with what cannot be written.

use crate::exit::{Code, Failure, Result};
use crate::settings::Settings;

/// Opens each, as it will be opened for the results; what is in it stays.
pub fn check(s: &Settings) -> Result<()> {
    let named =
        [("--json", &s.json), ("--csv", &s.csv), ("--report", &s.report), ("--full-log", &s.full_log)];
    for (option, path) in named {
        let Some(path) = path.as_deref().filter(|path| *path != "-") else { continue };
        let is_new = !std::path::Path::new(path).exists();
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|error| {
            Failure::new(Code::NotFound, format!("{option}: cannot write {path}: {error}"))
        })?;
        // A run that fails leaves no empty file.
        if is_new {
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}
