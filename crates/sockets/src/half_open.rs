//! Speaks to the peers of connections whose process was killed, while others of its family live. Nobody else would:
//! what the killed one knew of them died with it, and a peer that only waits would wait for ever. What is said is in
//! `wire::half_open`.

use wire::half_open::opening;

/// Connections whose peers are told at a time: to their firewalls a flood of such segments is an attack.
pub(crate) const AT_ONCE: usize = 500;

/// Makes the peers find out.
pub(crate) fn probe(half_open: &xdp::HalfOpen) {
    let connections = half_open.connections();
    let mut failure = None;
    for (local, remote) in connections.iter().filter_map(|flow| Some((flow.local, flow.remote?))) {
        failure = half_open.send(&opening(local, remote), *remote.ip()).err().or(failure);
    }
    let count = connections.len();
    match failure {
        _ if !half_open.is_first() => {}
        None => logger::debug!("a process was killed: the peers of {count} connections are told"),
        Some(errno) => logger::warning!(
            "a process was killed: peers of its {count} connections may learn it only when they send ({why})",
            why = sys::Errno(errno)
        ),
    }
}
