//! A socket's block in words: what VMA_STATS_FILE gets when a socket is closed, and `vma_stats -v 3` shows.

use crate::segment::{address_of, flag};
use crate::{Carrier, Count, Lane, Shared, Socket, Verdict, Why};
use core::net::Ipv4Addr;

/// Counts as they are, or per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Seconds that the counts cover; `None`: totals.
    pub interval_s: Option<u64>,
}

impl Rate {
    /// Totals.
    pub const TOTAL: Rate = Rate { interval_s: None };

    /// A count, as it is or per second.
    pub fn of(self, count: u64) -> u64 {
        self.interval_s.map_or(count, |seconds| count / seconds.max(1))
    }

    /// What follows the name of a count.
    pub fn suffix(self) -> &'static str {
        if self.interval_s.is_some() { "/s" } else { "" }
    }
}

/// All about a socket and the multicast groups that it joined, several lines.
pub fn socket(socket: &Socket, groups: &[Ipv4Addr], rates: Rate) -> String {
    let s = rates.suffix();
    let rate = |count: u64| rates.of(count);
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
    if !has(socket, flag::ACCELERATED) {
        out += &format!("- Not offloaded   : {}\n", reason(socket));
    }
    for group in groups {
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
    let value = |cells: [&Count; 4]| cells.map(Count::value);
    let os = |cells: [&Shared; 4]| cells.map(Shared::value);
    let c = socket;
    // In vain is counted once for the wire and for memory, with the wire.
    let mut active = traffic("Tx Offload", value([&c.tx_bytes, &c.tx_packets, &c.tx_eagain, &c.tx_errors]));
    active += traffic("Tx Memory", [c.tx_memory_bytes.value(), c.tx_memory_packets.value(), 0, 0]);
    active += traffic("Tx OS info", os([&c.tx_os_bytes, &c.tx_os_packets, &c.tx_os_eagain, &c.tx_os_errors]));
    active += traffic("Rx Offload", value([&c.rx_bytes, &c.rx_packets, &c.rx_eagain, &c.rx_errors]));
    active += traffic("Rx Memory", [c.rx_memory_bytes.value(), c.rx_memory_packets.value(), 0, 0]);
    active += traffic("Rx OS info", os([&c.rx_os_bytes, &c.rx_os_packets, &c.rx_os_eagain, &c.rx_os_errors]));
    if active == 0 {
        out += "Rx and Tx were not active\n";
    }
    out += &queues(socket, rates);
    out
}

fn queues(socket: &Socket, rates: Rate) -> String {
    let (s, rate) = (rates.suffix(), |count: u64| rates.of(count));
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
    for (name, count) in [
        ("Rx zero copy packets", &socket.rx_zero_copied),
        ("Rx filter dropped", &socket.rx_filter_dropped),
        ("Rx filter held", &socket.rx_filter_held),
        ("Rx completions", &socket.rx_completions),
        ("Tx Dummy messages", &socket.tx_dummy),
    ] {
        if count.value() > 0 {
            out += &format!("{name}: {}{s}\n", rate(count.value()));
        }
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

/// Calls (datagrams, of UDP) that passed data, or their bytes; both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// On the wire.
    pub wire: u64,
    /// In memory, inside the host.
    pub memory: u64,
    /// In the kernel.
    pub kernel: u64,
}

impl Carried {
    /// By whatever it was.
    pub fn all(self) -> u64 {
        self.wire + self.memory + self.kernel
    }
}

/// The calls of a socket, by what carried them.
pub fn calls(socket: &Socket) -> Carried {
    Carried {
        wire: socket.rx_packets.value() + socket.tx_packets.value(),
        memory: socket.rx_memory_packets.value() + socket.tx_memory_packets.value(),
        kernel: socket.rx_os_packets.value() + socket.tx_os_packets.value(),
    }
}

/// The bytes of a socket, by what carried them.
pub fn bytes(socket: &Socket) -> Carried {
    Carried {
        wire: socket.rx_bytes.value() + socket.tx_bytes.value(),
        memory: socket.rx_memory_bytes.value() + socket.tx_memory_bytes.value(),
        kernel: socket.rx_os_bytes.value() + socket.tx_os_bytes.value(),
    }
}

/// Why it is left to the kernel for good, if it is.
pub fn why(socket: &Socket) -> Option<Why> {
    Why::from_number(socket.why.value()).filter(|_| has(socket, flag::LEFT))
}

/// What carries it now.
pub fn carrier(socket: &Socket) -> Carrier {
    Carrier::from_number(socket.carrier.value())
}

/// Why its carrier carries it, in words with the numbers that the judge saw.
pub fn reason(socket: &Socket) -> String {
    if let Some(why) = why(socket) {
        return why.text().to_owned();
    }
    let verdict = Verdict::from_number(socket.verdict.value()).unwrap_or(Verdict::Undecided);
    let (calls, bytes) = (socket.verdict_calls.value(), socket.verdict_bytes.value());
    let each = bytes / calls.max(1);
    match verdict {
        // Calls without bytes are a price that was paid before, not calls that were seen.
        Verdict::SmallCalls | Verdict::Bulk | Verdict::BulkStays | Verdict::Between if each > 0 => {
            format!("{}: {each} bytes in each of {calls} calls", verdict.text())
        }
        Verdict::TooFewCalls => format!("{}: {calls} calls", verdict.text()),
        _ => verdict.text().to_owned(),
    }
}

/// For how long its carrier has carried it, seconds, as far as the clocks agree; `now_ns` is CLOCK_REALTIME.
pub fn since_s(socket: &Socket, now_ns: u64) -> f64 {
    now_ns.saturating_sub(socket.carrier_since_ns.value()) as f64 / 1e9
}

/// The descriptor; the block keeps it plus 1.
pub fn fd(socket: &Socket) -> i64 {
    i64::try_from(socket.fd.value()).map_or(-1, |named| named - 1)
}

/// Whether a flag is set.
pub fn has(socket: &Socket, flag: u64) -> bool {
    socket.flags.value() & flag != 0
}

/// `tcp` or `udp`.
pub fn protocol(socket: &Socket) -> &'static str {
    if has(socket, flag::TCP) { "tcp" } else { "udp" }
}

/// `address:port`, or `*:*` if there is none.
pub fn end(word: u64) -> String {
    if word == 0 {
        return "*:*".to_owned();
    }
    address_of(word).to_string()
}

/// Share of hits in percent; nothing is 0.
pub fn percent(hits: u64, misses: u64) -> f64 {
    let all = hits + misses;
    if all == 0 { 0.0 } else { hits as f64 * 100.0 / all as f64 }
}

/// States of TCP by number, RFC 9293's names as netstat(8) writes them.
pub fn tcp_state(number: u64) -> &'static str {
    const STATES: [&str; 11] = [
        "CLOSED",
        "LISTEN",
        "SYN_SENT",
        "SYN_RCVD",
        "ESTABLISHED",
        "FIN_WAIT_1",
        "FIN_WAIT_2",
        "CLOSE_WAIT",
        "CLOSING",
        "LAST_ACK",
        "TIME_WAIT",
    ];
    usize::try_from(number).ok().and_then(|number| STATES.get(number)).copied().unwrap_or("?")
}

/// The interface's name, from its two words.
pub fn interface(lane: &Lane) -> String {
    let words = [lane.name_low.value(), lane.name_high.value()];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    bytes.map(|byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

/// Kilobytes as VMA counts them.
pub fn kilo(bytes: u64) -> u64 {
    bytes / 1024
}
