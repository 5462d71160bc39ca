//! What the box did, for people and as JSON.

use crate::link::{Counters, Link};
use crate::options::Options;
use crate::port::Port;
use std::fmt::Write;

/// The report at the end. `not_understood`: frames whose offload could not be undone, by direction.
pub(crate) fn render(
    options: &Options,
    seconds: f64,
    ports: &[Port; 2],
    links: &[Link; 2],
    not_understood: &[u64; 2],
) -> String {
    let mut out = String::new();
    let names =
        [("left_to_right", &options.left, &options.right), ("right_to_left", &options.right, &options.left)];
    if options.json {
        let _ = write!(out, "{{\"seed\":{},\"seconds\":{seconds:.3}", options.seed);
    } else {
        let _ = writeln!(out, "middlebox: {seconds:.1} s, seed {}", options.seed);
    }
    for (i, (direction, from, to)) in names.into_iter().enumerate() {
        let fields = fields(&links[i], ports[i].overrun, not_understood[i]);
        if options.json {
            let body: Vec<String> = fields.iter().map(|(name, n)| format!("\"{name}\":{n}")).collect();
            let _ = write!(out, ",\"{direction}\":{{{}}}", body.join(","));
        } else {
            let _ = writeln!(out, "  {from} to {to}:");
            for (name, n) in fields.iter().filter(|(_, n)| *n != 0) {
                let _ = writeln!(out, "    {name:<16} {n}");
            }
        }
    }
    if options.json {
        out.push_str("}\n");
    }
    out
}

fn fields(link: &Link, overrun: u64, not_understood: u64) -> [(&'static str, u64); 15] {
    let Counters {
        in_frames,
        in_bytes,
        out_frames,
        out_bytes,
        lost_random,
        lost_burst,
        lost_counted,
        lost_queue,
        reordered,
        duplicated,
        corrupted,
        queue_bytes_max,
    } = link.counters;
    [
        ("in_frames", in_frames),
        ("in_bytes", in_bytes),
        ("out_frames", out_frames),
        ("out_bytes", out_bytes),
        ("lost_random", lost_random),
        ("lost_burst", lost_burst),
        ("lost_counted", lost_counted),
        ("lost_queue", lost_queue),
        ("reordered", reordered),
        ("duplicated", duplicated),
        ("corrupted", corrupted),
        ("queue_bytes_max", queue_bytes_max),
        ("held", link.held() as u64),
        ("overrun", overrun),
        ("not_understood", not_understood),
    ]
}
