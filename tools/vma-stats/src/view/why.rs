//! `--why`: how many sockets were left to the kernel for which reason, what to do about it, and which are open now.

use super::chosen;
use stats::report::{end, fd, has, protocol};
use stats::{Snapshot, Why, flag};

/// The answer for one program.
pub(crate) fn text(snapshot: &Snapshot, ranges: &[(i32, i32)]) -> String {
    let (accelerated, left) =
        (snapshot.process.sockets_accelerated.value(), snapshot.process.sockets_left.value());
    let mut out =
        format!("vmastat: stats for application: {} with pid: {}\n", snapshot.program, snapshot.pid);
    out += &format!("Sockets so far: {accelerated} accelerated, {left} left to the kernel\n");
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
    let open: Vec<_> =
        chosen(snapshot, ranges).into_iter().filter(|socket| !has(socket, flag::ACCELERATED)).collect();
    if !open.is_empty() {
        out += "\nOpen now and not accelerated:\n";
        for socket in open {
            let reason = Why::from_number(socket.why.value()).filter(|_| has(socket, flag::LEFT));
            out += &format!(
                "  fd {:<4} {} {} -> {}: {}\n",
                fd(socket),
                protocol(socket),
                end(socket.local.value()),
                end(socket.remote.value()),
                reason.map_or("not decided yet (neither bound nor connected)", Why::text),
            );
        }
    }
    if accelerated == 0 && left == 0 && snapshot.sockets.is_empty() {
        out += "The program has not opened a TCP or UDP socket over IPv4 yet.\n";
    }
    out.push('\n');
    out
}
