//! The full log: send and receive time of every measured message as CSV between dashes, as the original writes it.

use std::io::{BufWriter, Write};

use crate::client::Outcome;
use crate::exit::{Code, Failure, Result};
use crate::report::{plain, text};
use crate::settings::Settings;

const DASHES: &str = "------------------------------";

/// Writes the log to `path`.
pub fn write(path: &str, s: &Settings, o: &Outcome) -> Result<()> {
    let failed = |e| Failure::new(Code::NotFound, format!("cannot write the full log {path}: {e}"));
    let file = std::fs::File::create(path).map_err(failed)?;
    let mut out = BufWriter::new(file);
    body(&mut out, s, o).and_then(|()| out.flush()).map_err(failed)
}

fn body(out: &mut impl Write, s: &Settings, o: &Outcome) -> std::io::Result<()> {
    writeln!(out, "{DASHES}\n{}\n{DASHES}", text::parameters(s))?;
    for line in text::latency_lines(s, o).0 {
        writeln!(out, "{}", plain(&line))?;
    }
    let (word, factor) = if s.full_rtt { ("rtt", 1.0) } else { ("latency", 0.5) };
    writeln!(out, "{DASHES}\npacket, txTime(sec), rxTime(sec), {word}(usec)")?;
    for (index, (tx, rx)) in o.log.iter().enumerate() {
        let since = |ticks: u64| o.rate.sec(ticks.saturating_sub(o.epoch));
        let latency = o.rate.us(rx.saturating_sub(*tx)) * factor;
        writeln!(out, "{index}, {:.9}, {:.9}, {latency:.3}", since(*tx), since(*rx))?;
    }
    writeln!(out, "{DASHES}")?;
    if let Some(bins) = s.bins {
        for server in &o.servers {
            for (label, _, count) in text::binned(&server.plain, o.rate, factor, bins) {
                writeln!(out, "{label}  {count}")?;
            }
        }
    }
    Ok(())
}
