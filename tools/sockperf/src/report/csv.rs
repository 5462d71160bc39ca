//! One row for each run, appended; the header is written when the file is new or empty.

use std::io::Write;

use crate::client::Outcome;
use crate::exit::{Code, Failure, Result};
use crate::report::text;
use crate::settings::{Mode, Settings};

const HEADER: &str = "label,mode,message_bytes,seconds,sent,received,dropped,duplicated,out_of_order,\
                      sent_per_sec,delivered,delivered_per_sec,mean_usec,p50_usec,p90_usec,p99_usec,p99.9_usec,p99.99_usec,max_usec,\
                      schedule_p99_usec,schedule_p99.9_usec,client_cpu_usec_per_msg,server_cpu_usec_per_msg";

/// Appends the row of `o` to `path`; `-` is standard output.
pub fn append(path: &str, s: &Settings, o: &Outcome) -> Result<()> {
    let failed = |e| Failure::new(Code::NotFound, format!("cannot write {path}: {e}"));
    let row = row(s, o);
    if path == "-" {
        return writeln!(std::io::stdout(), "{HEADER}\n{row}").map_err(failed);
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let fresh = file.metadata().map_err(failed)?.len() == 0;
    let text = if fresh { format!("{HEADER}\n{row}\n") } else { format!("{row}\n") };
    file.write_all(text.as_bytes()).map_err(failed)
}

fn row(s: &Settings, o: &Outcome) -> String {
    let seconds = o.rate.sec(o.total_ticks).max(1e-9);
    let d = o.servers.first().filter(|d| s.mode != Mode::Throughput && d.received > 0);
    let us = |ticks: u64| format!("{:.3}", o.rate.us(ticks) * text::factor(s));
    let of = |p| d.and_then(|d| d.plain.percentile(p)).map(us).unwrap_or_default();
    let scheduled = |p| {
        let value = d.and_then(|d| d.schedule.as_ref()).and_then(|h| h.percentile(p));
        value.map(us).unwrap_or_default()
    };
    let peer = o.peer.as_ref();
    let label = s.label.as_deref().unwrap_or("").replace('"', "\"\"");
    [
        format!("\"{label}\""),
        format!("{:?}", s.mode),
        s.msg_size.to_string(),
        format!("{seconds:.6}"),
        o.sent.to_string(),
        o.received.to_string(),
        d.map(|d| d.dropped.to_string()).unwrap_or_default(),
        d.map(|d| d.duplicates.to_string()).unwrap_or_default(),
        d.map(|d| d.out_of_order.to_string()).unwrap_or_default(),
        format!("{:.3}", o.sent as f64 / seconds),
        peer.map(|p| p.messages.to_string()).unwrap_or_default(),
        peer.map(|p| format!("{:.3}", p.messages as f64 / seconds)).unwrap_or_default(),
        d.map(|d| format!("{:.3}", o.rate.us(1) * d.plain.mean() * text::factor(s))).unwrap_or_default(),
        of(50.0),
        of(90.0),
        of(99.0),
        of(99.9),
        of(99.99),
        d.map(|d| us(d.plain.max())).unwrap_or_default(),
        scheduled(99.0),
        scheduled(99.9),
        format!("{:.4}", o.cpu.total_us() as f64 / o.sent.max(1) as f64),
        peer.map(|p| format!("{:.4}", p.cpu.total_us() as f64 / p.messages.max(1) as f64))
            .unwrap_or_default(),
    ]
    .join(",")
}
