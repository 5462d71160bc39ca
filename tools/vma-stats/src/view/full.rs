//! View 3: everything about each socket, and the lanes below them.

use super::{Frame, basic};
use stats::Lane;
use stats::report::{self, kilo};

const LINE: &str = "======================================================\n";
/// Clears the screen, as the view is read like top(1).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// One look; clears the screen if there are several.
pub(crate) fn text(frame: &Frame<'_>) -> String {
    let mut out = if frame.options.cycles == 1 { String::new() } else { CLEAR.to_owned() };
    for socket in frame.sockets() {
        out += LINE;
        out += &report::socket(socket, frame.rates());
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
    let asked = lane.interrupts_requested.value();
    out += &format!("Interrupts: {} [requests]{s}\n", frame.rate(asked));
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
