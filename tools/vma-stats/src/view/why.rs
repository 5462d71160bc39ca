//! `--why`: how many sockets were left to the kernel for which reason, what to do about it; and of each that is open,
//! what carries it, since when, and why.

use super::chosen;
use stats::report::{calls, carrier, end, fd, protocol, reason, since_s};
use stats::{Snapshot, Socket};
use std::time::{SystemTime, UNIX_EPOCH};

/// The answer for one program.
pub(crate) fn text(snapshot: &Snapshot, ranges: &[(i32, i32)]) -> String {
    let (accelerated, left) =
        (snapshot.process.sockets_accelerated.value(), snapshot.process.sockets_left.value());
    let mut out =
        format!("vmastat: stats for application: {} with pid: {}\n", snapshot.program, snapshot.pid);
    out += &format!("Sockets so far: {accelerated} accelerated, {left} left to the kernel\n");
    let process = &snapshot.process;
    let moves = (process.moves_to_wire.value(), process.moves_to_kernel.value());
    if moves != (0, 0) {
        out += &format!("Connections moved: {} to the wire, {} to the kernel\n", moves.0, moves.1);
    }
    let (met, parted) = (process.moves_to_memory.value(), process.moves_from_memory.value());
    if met != 0 {
        out +=
            &format!("Connections inside the host: {met} moved into memory, {parted} back to the kernel\n");
    }
    let mut reasons: Vec<_> = snapshot.left.iter().filter(|(_, count)| *count > 0).collect();
    reasons.sort_by_key(|(why, count)| (std::cmp::Reverse(*count), *why as u8));
    if !reasons.is_empty() {
        out += "\n   Count  Reason\n";
        for (why, count) in reasons {
            out += &format!("{count:>8}  {}\n", why.text());
            if !why.remedy().is_empty() {
                out += &format!("          -> {}\n", why.remedy());
            }
        }
    }
    let open = chosen(snapshot, ranges);
    if !open.is_empty() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        out += "\nOpen now:\n";
        open.into_iter().for_each(|one| out += &socket(one, now));
    }
    if accelerated == 0 && left == 0 && snapshot.sockets.is_empty() {
        out += "The program has not opened a TCP or UDP socket over IPv4 yet.\n";
    }
    out.push('\n');
    out
}

/// A line that says which, one that says what carries it and why, and one of its calls, if it made any.
fn socket(socket: &Socket, now_ns: u64) -> String {
    let mut out = format!(
        "  fd {:<4} {} {} -> {}\n          ",
        fd(socket),
        protocol(socket),
        end(socket.local.value()),
        end(socket.remote.value())
    );
    if let Some(name) = carrier(socket).name() {
        out += &format!("{name} since {:.1} s", since_s(socket, now_ns));
        out += &match socket.carrier_moves.value() {
            0 => ": ".to_owned(),
            1 => ", 1 move: ".to_owned(),
            moves => format!(", {moves} moves: "),
        };
    }
    out += &reason(socket);
    out.push('\n');
    let calls = calls(socket);
    if calls.all() > 0 {
        // A connection is between hosts or inside one: the other carrier is only named where it was one.
        let ours = match calls.memory {
            0 => format!("{} on the wire", calls.wire),
            memory if calls.wire == 0 => format!("{memory} in memory"),
            memory => format!("{} on the wire, {memory} in memory", calls.wire),
        };
        out += &format!("          calls so far: {ours}, {} in the kernel\n", calls.kernel);
    }
    out
}
