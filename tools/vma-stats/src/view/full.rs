//! View 3: everything about each socket, and the lanes below them.

use super::{Frame, basic};
use stats::Lane;
use stats::report::{self, interface, kilo};

const LINE: &str = "======================================================\n";
/// Bytes of a packet buffer.
const FRAME: usize = 4096;
/// Clears the screen, as the view is read like top(1).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// One look; clears the screen if there are several.
pub(crate) fn text(frame: &Frame<'_>) -> String {
    let mut out = if frame.options.cycles == 1 { String::new() } else { CLEAR.to_owned() };
    for socket in frame.sockets() {
        out += LINE;
        out += &report::socket(socket, &frame.snapshot.groups(socket), frame.rates());
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

fn lane(frame: &Frame<'_>, number: usize, lane: &Lane) -> String {
    let s = frame.per_second();
    let mode =
        |bit: u64, yes: &'static str, no: &'static str| if lane.mode.value() & bit != 0 { yes } else { no };
    let rate = |count: u64| frame.rate(count);
    let dropped = lane.rx_ring_full.value() + lane.rx_fill_empty.value() + lane.rx_dropped.value();
    let mut out = format!(
        "\tCQ=[{number}]\n\
         Packets dropped: {} [packets]{s}\n\
         Packets queue len: {} [frames in sockets' queues]\n\
         Drained max: {} [frames in a turn]\n\
         Buffer pool size: {} [free frames of {FRAME} bytes]\n{LINE}",
        rate(dropped),
        lane.rx_frames_held.value(),
        lane.drained_max.value(),
        lane.frames_free.value(),
    );
    out += &format!(
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
        let (bytes, packets) = (rate(kilo(bytes.value())), rate(packets.value()));
        out += &format!("{name}: {bytes} / {packets} [kilobytes/packets]{s}\n");
    }
    out += &format!("Interrupt requests: {} [sleeps]{s}\n", rate(lane.interrupts_requested.value()));
    out += &format!(
        "Interrupt received: {} [sleeps that packets ended]{s}\n",
        rate(lane.interrupts_received.value())
    );
    out += &match lane.moderation.value() {
        0 => format!("Moderation: the driver's, ethtool -c {}\n", interface(lane)),
        by => format!(
            "Moderation frame count: {}{}\nModeration usec period: {}\n",
            lane.moderation_count.value(),
            if by == 1 { " (not counted by this driver)" } else { "" },
            lane.moderation_usec.value(),
        ),
    };
    // The rest only if there is something to see: each of these is worth a look.
    for (column, count) in Lane::COLUMNS.iter().zip(lane.words()) {
        if count > 0 && column.doc.contains("Worry") {
            out += &format!("{}: {}{s}   {}\n", column.name, frame.rate(count), paragraph(column.doc));
        }
    }
    out
}

fn paragraph(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
