//! The start-up banner, in VMA's format.

use crate::{Level, enabled, write};

/// The rule above and below.
pub const RULE: &str = "---------------------------------------------------------------------------";

/// Writes the banner: version, command line, at DEBUG what is known of the host, and per parameter its line, at INFO if
/// its value was changed, at DETAILS otherwise.
pub fn print<'a>(
    version: &str,
    command_line: &str,
    host: &[(&str, String)],
    parameters: impl Iterator<Item = (bool, &'a str)>,
) {
    if !enabled(Level::Info) {
        return;
    }
    info!("{RULE}");
    info!("VMA_VERSION: {version}");
    info!("Cmd Line: {command_line}");
    for (what, text) in host {
        debug!("{what}: {text}");
    }
    info!("{RULE}");
    for (changed, text) in parameters {
        let level = if changed { Level::Info } else { Level::Details };
        if enabled(level) {
            write(level, format_args!("{text}"));
        }
    }
    info!("{RULE}");
    if enabled(Level::Debug) {
        write(
            Level::Warning,
            format_args!(
                "VMA_TRACELEVEL is DEBUG or finer: logging itself costs time; use it for looking, not for measuring"
            ),
        );
    }
}
