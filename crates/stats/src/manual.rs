//! `docs/counters.md`, from the tables.

use crate::counters::{Lane, Process, Socket};
use crate::table::{Column, Kind};
use crate::verdict::Verdict;
use crate::why::Why;
use std::fmt::Write;

/// The whole document.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Counters\n\n\
         Generated from `counters.rs`, `why.rs` and `verdict.rs` of `crates/stats/src` by `cargo test -p stats`; do not edit.\n\n\
         `vma_stats` shows them; `vma_stats --json` shows all of them by these names.\n\n\
         ## Reasons for leaving a socket to the kernel\n\n\
         | Name | Meaning | What to do |\n|---|---|---|\n",
    );
    for why in Why::ALL {
        let _ = writeln!(out, "| {} | {} | {} |", why.name(), why.text(), why.remedy());
    }
    out += "\n## The judge's reasons for a carrier\n\n| Name | Meaning |\n|---|---|\n";
    for verdict in Verdict::ALL {
        let _ = writeln!(out, "| {} | {} |", verdict.name(), verdict.text());
    }
    block(&mut out, "Per process", Process::COLUMNS);
    block(&mut out, "Per lane", Lane::COLUMNS);
    block(&mut out, "Per socket", Socket::COLUMNS);
    out
}

fn block(out: &mut String, title: &str, columns: &[Column]) {
    let _ = write!(out, "\n## {title}\n\n| Name | Kind | Meaning |\n|---|---|---|\n");
    for column in columns {
        let kind = match column.kind {
            Kind::Count => "count",
            Kind::Level => "level",
            Kind::Peak => "peak",
            Kind::State => "state",
        };
        let doc = column.doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "| {} | {kind} | {} |", column.name, doc.trim());
    }
}
