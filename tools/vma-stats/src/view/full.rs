//! View 3: everything about each socket, and the lanes below them.

use super::{Frame, basic, end, fd, groups, has, kilo, percent, protocol, tcp_state};
use stats::{Lane, Socket, flag};

const LINE: &str = "======================================================\n";
/// Clears the screen, as the view is read like top(1).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// One look; clears the screen if there are several.
pub(crate) fn text(frame: &Frame<'_>) -> String {
    let mut out = if frame.options.cycles == 1 { String::new() } else { CLEAR.to_owned() };
    for socket in frame.sockets() {
        out += LINE;
        out += &self::socket(frame, socket);
    }
    let multiplexing = basic::multiplexing(frame);
    if !multiplexing.is_empty() {
        out += LINE;
        out += &multiplexing;
    }
    for (number, lane) in &frame.snapshot.lanes {
        out += LINE;
        out += &self::lane(frame, *number, lane);
    }
    out += LINE;
    out
}

fn socket(frame: &Frame<'_>, socket: &Socket) -> String {
    let s = frame.per_second();
    let rate = |count: u64| frame.rate(count);
    let blocking = if has(socket, flag::NONBLOCKING) { "Non-blocked" } else { "Blocked" };
    let mut out = format!("\tFd=[{}]\n- {}, {blocking}", fd(socket), protocol(socket).to_uppercase());
    if !has(socket, flag::TCP) {
        out += if has(socket, flag::MC_LOOP) { ", MC Loop Enabled " } else { ", MC Loop Disabled" };
    }
    out += &format!("\n- Local Address   = [{}]\n", end(socket.local.value()));
    if socket.remote.value() != 0 {
        out += &format!("- Foreign Address = [{}]\n", end(socket.remote.value()));
    }
    if has(socket, flag::TCP) {
        out += &format!("- State           = {}\n", tcp_state(socket.tcp_state.value()));
    }
    if has(socket, flag::LEFT)
        && let Some(why) = stats::Why::from_number(socket.why.value())
    {
        out += &format!("- Not offloaded   : {}\n", why.text());
    }
    for group in groups(socket) {
        out += &format!("- Member of = [{group}]\n");
    }
    out += &format!("- Thread Id Rx: {:5}, Tx: {:5}\n", socket.rx_thread.value(), socket.tx_thread.value());
    let mut traffic = |name: &str, cells: [u64; 4]| {
        if cells.iter().any(|count| *count > 0) {
            let [bytes, packets, eagains, errors] = [kilo(cells[0]), cells[1], cells[2], cells[3]].map(rate);
            out += &format!(
                "{name}: {bytes} / {packets} / {eagains} / {errors} [kilobytes/packets/eagains/errors]{s}\n"
            );
        }
        cells.iter().sum::<u64>()
    };
    let value = |cells: [&stats::Count; 4]| cells.map(stats::Count::value);
    let os = |cells: [&stats::Shared; 4]| cells.map(stats::Shared::value);
    let c = socket;
    let mut active = traffic("Tx Offload", value([&c.tx_bytes, &c.tx_packets, &c.tx_eagain, &c.tx_errors]));
    active += traffic("Tx OS info", os([&c.tx_os_bytes, &c.tx_os_packets, &c.tx_os_eagain, &c.tx_os_errors]));
    active += traffic("Rx Offload", value([&c.rx_bytes, &c.rx_packets, &c.rx_eagain, &c.rx_errors]));
    active += traffic("Rx OS info", os([&c.rx_os_bytes, &c.rx_os_packets, &c.rx_os_eagain, &c.rx_os_errors]));
    if active == 0 {
        out += "Rx and Tx where not active\n";
    }
    out += &queues(frame, socket);
    out
}

fn queues(frame: &Frame<'_>, socket: &Socket) -> String {
    let (s, rate) = (frame.per_second(), |count: u64| frame.rate(count));
    let mut out = String::new();
    if socket.rx_packets.value() > 0 || socket.rx_queued_bytes_max.value() > 0 {
        out += &format!(
            "Rx byte: cur {} / max {} / dropped{s} {} / limit {}\n",
            socket.rx_queued_bytes.value(),
            socket.rx_queued_bytes_max.value(),
            rate(socket.rx_dropped_bytes.value()),
            socket.rx_bytes_limit.value(),
        );
        out += &format!(
            "Rx pkt : cur {} / max {} / dropped{s} {}\n",
            socket.rx_queued_packets.value(),
            socket.rx_queued_packets_max.value(),
            rate(socket.rx_dropped_packets.value()),
        );
    }
    if socket.rx_zero_copy.value() > 0 {
        out += &format!("Rx zero copy buffers: cur {}\n", socket.rx_zero_copy.value());
    }
    let (hits, misses) = (socket.rx_poll_hit.value(), socket.rx_poll_miss.value());
    if hits + misses > 0 {
        let share = percent(hits, misses);
        out += &format!("Rx poll: {} / {} ({share:.2}%) [miss/hit]\n", rate(misses), rate(hits));
    }
    if socket.tx_queued_bytes.value() > 0 {
        out += &format!("Tx byte: cur {}\n", socket.tx_queued_bytes.value());
    }
    if socket.tx_dropped.value() > 0 {
        out += &format!("Tx dropped: {}{s}\n", rate(socket.tx_dropped.value()));
    }
    if socket.tx_retransmits.value() > 0 {
        out += &format!("Retransmissions: {}{s}\n", rate(socket.tx_retransmits.value()));
    }
    out
}

fn lane(frame: &Frame<'_>, number: usize, lane: &Lane) -> String {
    let s = frame.per_second();
    let mode =
        |bit: u64, yes: &'static str, no: &'static str| if lane.mode.value() & bit != 0 { yes } else { no };
    let mut out = format!(
        "\tRING_ETH=[{number}]\nMaster: {} (index {}, {} queues, {}, {})\n",
        interface(lane),
        lane.interface.value(),
        lane.queues.value(),
        mode(2, "program in the driver", "generic program"),
        mode(1, "zero copy", "copies"),
    );
    for (name, bytes, packets) in
        [("Tx Offload", &lane.tx_bytes, &lane.tx_frames), ("Rx Offload", &lane.rx_bytes, &lane.rx_frames)]
    {
        let (bytes, packets) = (frame.rate(kilo(bytes.value())), frame.rate(packets.value()));
        out += &format!("{name}: {bytes} / {packets} [kilobytes/packets]{s}\n");
    }
    out += &format!("Retransmissions: {}{s}\n", frame.rate(lane.tcp_retransmits.value()));
    let (asked, came) = (lane.interrupts_requested.value(), lane.interrupts_received.value());
    out += &format!("Interrupts: {} / {} [requests/received]{s}\n", frame.rate(asked), frame.rate(came));
    out += &format!("Buffer pool: {} free\n", lane.frames_free.value());
    // The rest only if there is something to see: each of these is worth a look.
    for (column, count) in Lane::COLUMNS.iter().zip(lane.words()) {
        if count > 0 && column.doc.contains("Worry") {
            out += &format!("{}: {}{s}   {}\n", column.name, frame.rate(count), paragraph(column.doc));
        }
    }
    out
}

/// The interface's name, from its two words.
fn interface(lane: &Lane) -> String {
    let words = [lane.name_low.value(), lane.name_high.value()];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    bytes.map(|byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

fn paragraph(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
