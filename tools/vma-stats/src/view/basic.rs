//! Views 1 and 2: two rows per socket, a line per kind of multiplexing. What the wire and memory carry is offloaded,
//! and stands together, in VMA's columns.

use super::Frame;
use crate::cli::View;
use stats::report::{calls, fd, kilo, percent};
use stats::{Process, Socket};

/// Looks between two titles.
const TITLE_EVERY: u64 = 24;
/// The line that ends a look with multiplexing.
const LINE: &str = "-------------------------------------------------------------------------------";

/// One look.
pub(crate) fn text(frame: &Frame<'_>) -> String {
    let extra = frame.options.view == View::Extra;
    let mut out = if frame.number.is_multiple_of(TITLE_EVERY) { title(frame, extra) } else { String::new() };
    for socket in frame.sockets() {
        out += &rows(frame, socket, extra);
    }
    let others = &frame.snapshot.others;
    let theirs = calls(others);
    if theirs.wire + theirs.memory > 0 && frame.options.sockets.is_empty() {
        out += "sockets beyond VMA_STATS_FD_NUM, together:\n";
        out += &rows(frame, others, extra);
    }
    out += &multiplexing(frame);
    out += LINE;
    out.push('\n');
    out
}

fn title(frame: &Frame<'_>, extra: bool) -> String {
    let (ours, os) = if frame.options.deltas {
        ("--------------- offloaded ----------------", "---------- os ---------")
    } else {
        ("------------ total offloaded -------------", "--------- total os ----------")
    };
    let queue = if extra { " -------------- queue pkt --------------" } else { "" };
    let s = frame.per_second();
    let name = |name: &str| format!("{name}{s}");
    let mut out = format!(" {:<3} {:<3} {ours} {os}{queue}\n", "fd", "");
    out += &format!(
        " {:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:>6} {:>7} {:>7} {:>7} {:>7}",
        "",
        "",
        name("pkt"),
        name("Kbyte"),
        name("eagain"),
        name("error"),
        "poll%",
        name("pkt"),
        name("Kbyte"),
        name("eagain"),
        name("error"),
    );
    if extra {
        out += &format!(" {:>7} {:>7} {:>10}", "cur", "max", name("drop"));
    }
    out.push('\n');
    out
}

fn rows(frame: &Frame<'_>, socket: &Socket, extra: bool) -> String {
    let rate = |count: u64| frame.rate(count);
    let number = match fd(socket) {
        -1 => "*".to_owned(),
        fd => fd.to_string(),
    };
    let mut out = format!(
        " {number:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:>6.1} {:>7} {:>7} {:>7} {:>7}",
        "Rx:",
        rate(socket.rx_packets.value() + socket.rx_memory_packets.value()),
        rate(kilo(socket.rx_bytes.value() + socket.rx_memory_bytes.value())),
        rate(socket.rx_eagain.value()),
        rate(socket.rx_errors.value()),
        percent(socket.rx_poll_hit.value(), socket.rx_poll_miss.value()),
        rate(socket.rx_os_packets.value()),
        rate(kilo(socket.rx_os_bytes.value())),
        rate(socket.rx_os_eagain.value()),
        rate(socket.rx_os_errors.value()),
    );
    if extra {
        let (now, most) = (socket.rx_queued_packets.value(), socket.rx_queued_packets_max.value());
        out += &format!(" {now:>7} {most:>7} {:>10}", rate(socket.rx_dropped_packets.value()));
    }
    out += &format!(
        "\n {:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:<6} {:>7} {:>7} {:>7} {:>7}\n",
        "",
        "Tx:",
        rate(socket.tx_packets.value() + socket.tx_memory_packets.value()),
        rate(kilo(socket.tx_bytes.value() + socket.tx_memory_bytes.value())),
        rate(socket.tx_eagain.value()),
        rate(socket.tx_errors.value()),
        "",
        rate(socket.tx_os_packets.value()),
        rate(kilo(socket.tx_os_bytes.value())),
        rate(socket.tx_os_eagain.value()),
        rate(socket.tx_os_errors.value()),
    );
    out
}

/// One line for each of select/poll and epoll that did anything.
pub(crate) fn multiplexing(frame: &Frame<'_>) -> String {
    let p: &Process = &frame.snapshot.process;
    let poll = [
        &p.poll_ready_os,
        &p.poll_ready_ours,
        &p.poll_timeouts,
        &p.poll_errors,
        &p.poll_hits,
        &p.poll_misses,
    ];
    let epoll = [
        &p.epoll_ready_os,
        &p.epoll_ready_ours,
        &p.epoll_timeouts,
        &p.epoll_errors,
        &p.epoll_hits,
        &p.epoll_misses,
    ];
    let mut out = String::new();
    for (name, cells) in [("poll", poll), ("epoll", epoll)] {
        let [os, ours, timeouts, errors, hits, misses] = cells.map(|cell| cell.value());
        if os + ours + timeouts + errors > 0 {
            out += &format!(
                "{name}{} Rx Ready:{}/{} [os/offload] Timeouts:{} Errors:{} Poll:{:.2}% Polling CPU:{}%\n",
                frame.per_second(),
                frame.rate(os),
                frame.rate(ours),
                frame.rate(timeouts),
                frame.rate(errors),
                percent(hits, misses),
                p.polling_cpu_percent.value(),
            );
        }
    }
    out
}
