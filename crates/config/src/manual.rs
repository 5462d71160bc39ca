//! `docs/parameters.md`, from the table.

use crate::parameters::{Parameters, ROWS};
use std::fmt::Write;

/// The whole document.
pub fn markdown() -> String {
    let defaults = Parameters::default();
    let mut out = String::from(
        "# Parameters\n\n\
         Generated from `crates/config/src/parameters.rs` by `cargo test -p config`; do not edit.\n\n\
         Every parameter is an environment variable. A value that is not understood, or is a number \
         out of range, is told by one WARNING and the default is used; where it says so, the nearest number that is \
         in range. Variables of VMA that change nothing here are accepted and say why.\n",
    );
    let mut group = "";
    for row in ROWS {
        if row.group != group {
            group = row.group;
            let _ = write!(out, "\n## {group}\n");
        }
        let default = row.value(&defaults);
        let default =
            if default.trim().is_empty() { "empty".to_owned() } else { format!("`{}`", default.trim()) };
        let _ = write!(out, "\n### {}\n\n{}\n", row.name, paragraph(row.doc));
        if let Some(why) = row.unused {
            let _ = write!(out, "\n**No effect:** {why}.\n");
        }
        let _ = write!(out, "\nDefault {default}. Takes {}.", row.takes());
        if !row.aliases.is_empty() {
            let _ = write!(out, " Old names: {}.", row.aliases.join(", "));
        }
        out.push('\n');
    }
    out
}

/// The lines of a doc comment as one paragraph.
fn paragraph(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}
