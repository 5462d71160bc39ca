//! View 5: all sockets of all programs, as netstat(8) lists them.

use super::chosen;
use stats::report::{end, has, protocol, tcp_state};
use stats::{Snapshot, flag};

/// The title, once.
pub(crate) fn title() -> String {
    row([
        "Proto",
        "Offloaded",
        "Recv-Q",
        "Send-Q",
        "Local Address",
        "Foreign Address",
        "State",
        "Inode",
        "PID/Program name",
    ])
}

/// One program's sockets.
pub(crate) fn rows(snapshot: &Snapshot, ranges: &[(i32, i32)]) -> String {
    let program = format!("{}/{}", snapshot.pid, snapshot.program);
    let mut out = String::new();
    for socket in chosen(snapshot, ranges) {
        out += &row([
            protocol(socket),
            if has(socket, flag::ACCELERATED) { "Yes" } else { "No" },
            &socket.rx_queued_bytes.value().to_string(),
            &socket.tx_queued_bytes.value().to_string(),
            &end(socket.local.value()),
            &end(socket.remote.value()),
            if has(socket, flag::TCP) { tcp_state(socket.tcp_state.value()) } else { "" },
            &socket.inode.value().to_string(),
            &program,
        ]);
    }
    out
}

fn row(cells: [&str; 9]) -> String {
    let [protocol, offloaded, receive, send, local, remote, state, inode, program] = cells;
    let line = format!(
        "{protocol:<5} {offloaded:<9} {receive:>6} {send:>6} {local:<23} {remote:<23} {state:<11} {inode:<10} {program}"
    );
    line.trim_end().to_owned() + "\n"
}
