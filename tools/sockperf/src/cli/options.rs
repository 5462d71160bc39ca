//! The table of options: spelling, argument, subcommands, help. The man page and the tests are checked against it.

use crate::settings::Mode;

/// Whether an option takes a value, and what the value is called in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A flag.
    None,
    /// Must have a value.
    Required(&'static str),
    /// May have one.
    Optional(&'static str),
}

/// One row of the table.
pub struct OptionSpec {
    /// Short letters, possibly none.
    pub short: &'static str,
    /// Long names; the first is the one used in the code.
    pub long: &'static [&'static str],
    /// Its value.
    pub argument: Argument,
    /// Subcommands that know it.
    pub modes: u8,
    /// One or two lines for people.
    pub help: &'static str,
}

impl OptionSpec {
    /// The name by which the program knows the option.
    pub fn name(&self) -> &'static str {
        self.long[0]
    }
}

const UL: u8 = 1;
const PP: u8 = 2;
const TP: u8 = 4;
const PB: u8 = 8;
const SR: u8 = 16;
const CLIENTS: u8 = UL | PP | TP | PB;
const ALL: u8 = CLIENTS | SR;

/// The bit of a subcommand in [`OptionSpec::modes`].
pub fn bit(mode: Mode) -> u8 {
    match mode {
        Mode::UnderLoad => UL,
        Mode::PingPong => PP,
        Mode::Throughput => TP,
        Mode::Playback => PB,
        Mode::Server => SR,
    }
}

/// The option of `mode` with this long name.
pub fn find_long(mode: Mode, name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|o| o.modes & bit(mode) != 0 && o.long.contains(&name))
}

/// The option of `mode` with this letter.
pub fn find_short(mode: Mode, letter: char) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|o| o.modes & bit(mode) != 0 && o.short.contains(letter))
}

const fn flag(
    modes: u8,
    short: &'static str,
    long: &'static [&'static str],
    help: &'static str,
) -> OptionSpec {
    OptionSpec { short, long, argument: Argument::None, modes, help }
}

const fn value(
    modes: u8,
    short: &'static str,
    long: &'static [&'static str],
    what: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { short, long, argument: Argument::Required(what), modes, help }
}

const fn maybe(
    modes: u8,
    long: &'static [&'static str],
    what: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { short: "", long, argument: Argument::Optional(what), modes, help }
}

/// Every option, in the order of the help: common, client, by mode, server, and ours.
#[rustfmt::skip]
pub static OPTIONS: &[OptionSpec] = &[
    flag(ALL, "h?", &["help", "usage"], "Show this text."),
    flag(ALL, "", &["tcp", "stream"], "Use a stream (TCP, or SOCK_STREAM on a path) instead of datagrams."),
    value(ALL, "i", &["ip", "addr"], "host", "Listen on or send to this address, host name or absolute Unix socket path."),
    value(ALL, "p", &["port"], "port", "Listen on or send to this port (default 11111)."),
    value(ALL, "f", &["file"], "file", "Take the connections from a feed file, one [U:|T:]host:port[:source] a line."),
    value(ALL, "F", &["iomux-type"], "type", "How to wait on the feed file's sockets: s|select p|poll e|epoll r|recvfrom x|socketxtreme (default epoll)."),
    value(ALL, "", &["timeout"], "msec", "Time-out of select, poll and epoll; -1 is for ever and needs '=' (default 10)."),
    value(ALL, "a", &["activity"], "n", "Print a '.' every <n> messages."),
    value(ALL, "A", &["Activity"], "n", "Print a row with interval and rate every <n> messages."),
    flag(ALL, "", &["tcp-avoid-nodelay"], "Turn TCP_NODELAY over: it is on by default, in throughput off."),
    flag(ALL, "", &["tcp-skip-blocking-send"], "Never block in send; messages that would are skipped and counted."),
    value(ALL, "", &["tos"], "byte", "Set the IP type of service (IPv6: traffic class)."),
    value(ALL, "", &["mc-rx-if", "mc-rx-ip"], "addr", "Receive multicast on the interface with this address (IPv6: index or name)."),
    value(ALL, "", &["mc-tx-if", "mc-tx-ip"], "addr", "Send multicast through the interface with this address (IPv6: index or name)."),
    flag(ALL, "", &["mc-loopback-enable"], "Let multicast reach sockets on the sending host too."),
    value(ALL, "", &["mc-ttl"], "hops", "Hops a multicast message may travel, 0 to 255 (default 2)."),
    value(ALL, "", &["mc-source-filter"], "host", "Accept multicast from this source only."),
    flag(ALL, "", &["uc-reuseaddr"], "Set SO_REUSEADDR on unicast sockets."),
    value(ALL, "", &["lls"], "usec", "Let the kernel busy-poll so long in receive calls (SO_BUSY_POLL)."),
    value(ALL, "", &["buffer-size"], "bytes", "Set both socket buffers and say what the system granted."),
    flag(ALL, "", &["nonblocked"], "Use non-blocking sockets."),
    value(ALL, "", &["recv_looping_num"], "n", "Read a ready socket up to <n> times, -1 until it is empty; needs --nonblocked (default 1)."),
    flag(ALL, "", &["dontwarmup"], "Send no warm-up messages."),
    value(ALL, "", &["pre-warmup-wait"], "sec", "Wait so long before the warm-up."),
    flag(ALL, "", &["zcopyread", "vmazcopyread"], "Read without copying, through the accelerator's extra API."),
    flag(ALL, "", &["daemonize"], "Run in the background."),
    flag(ALL, "", &["no-rdtsc"], "Take times from CLOCK_MONOTONIC instead of the processor's counter."),
    maybe(ALL, &["load-vma"], "path", "Load an accelerator without LD_PRELOAD (default libvma.so)."),
    maybe(ALL, &["load-xlio"], "path", "The same with libxlio.so as the default."),
    value(ALL, "", &["rate-limit"], "bytes/s", "Let the system pace each socket (SO_MAX_PACING_RATE)."),
    flag(ALL, "", &["set-sock-accl"], "Set the socket option that some accelerated systems want (SOL_SOCKET, 100)."),
    maybe(ALL, &["tls"], "cipher", "Put TCP connections inside TLS; the cipher's name (as OpenSSL writes it, default AES128-GCM-SHA256) decides the version. For measuring only: the server's certificate is made anew for each run, and nobody checks it."),
    flag(ALL, "d", &["debug"], "Show settings, cost of taking time, addresses bound."),

    value(CLIENTS, "", &["sender-affinity"], "cpus", "Pin the sending thread to processors like 0,2-4."),
    value(CLIENTS, "", &["receiver-affinity"], "cpus", "Pin the receiving thread (modes with two threads)."),
    value(CLIENTS, "", &["full-log"], "file", "Write the send and receive time of every measured message as CSV."),
    flag(CLIENTS, "", &["full-rtt"], "Show round trips instead of half of them."),
    flag(CLIENTS, "", &["giga-size"], "Show bandwidth in GBps."),
    flag(CLIENTS, "", &["increase_output_precision"], "Show bandwidth with nine decimals."),
    maybe(CLIENTS, &["dummy-send"], "rate|max", "Keep the send path warm between messages with the accelerator's dummy sends (default 10000 a second)."),
    value(CLIENTS, "", &["tcp_nb_connect_timeout_ms"], "msec", "Give up connecting after so long (default 5000; needs --tcp or -f)."),
    value(CLIENTS, "", &["srv-num"], "n", "Expect answers from <n> multicast responders, told apart by address."),

    value(UL | PP | TP, "t", &["time"], "sec", "Measure for so many seconds (default 1)."),
    value(PP, "n", &["number-of-packets"], "n", "Measure so many messages instead of a time."),
    value(UL | PP | TP, "b", &["burst"], "n", "Send <n> messages at a time (default 1)."),
    value(UL | PP | TP, "", &["mps", "pps"], "rate", "Messages per second, or max (default: under-load 10000, else max)."),
    value(UL | PB, "", &["reply-every"], "n", "Ask for an answer to every <n>th message (default 100)."),
    value(UL | PP | TP, "m", &["msg-size"], "bytes", "Size of a message, header included (default 14)."),
    value(UL | PP | TP, "r", &["range"], "n", "Vary the size by up to <n> bytes either way."),
    flag(PP, "", &["data-integrity"], "Compare each answer with what was sent; a difference ends the run."),
    value(CLIENTS, "", &["client_port"], "port", "Send from this port."),
    value(CLIENTS, "", &["client_ip", "client_addr"], "host", "Send from this address."),
    value(PB, "", &["data-file"], "file", "Times and sizes to play: 'seconds, bytes' a line."),
    value(UL | PP | PB, "", &["ci_sig_level"], "percent", "Show the later versions' statistics with a confidence interval of this level (1 to 99)."),
    value(UL | PP | PB, "", &["histogram"], "bin:low:high", "Draw a histogram, all three in microseconds."),

    value(SR, "", &["threads-num"], "n", "Divide the feed file's sockets among <n> threads."),
    value(SR, "", &["cpu-affinity"], "cpus", "Pin the server's threads, one processor each in turn."),
    flag(SR, "", &["rxfiltercb", "vmarxfiltercb"], "Answer inside the accelerator's receive callback (extra API)."),
    flag(SR, "", &["force-unicast-reply"], "Answer multicast to the sender instead of the group."),
    flag(SR, "", &["dont-reply"], "Receive only (not with --tcp)."),
    value(SR, "m", &["msg-size"], "bytes", "Accept messages up to this size (default 65507)."),
    flag(SR, "g", &["gap-detection"], "Report sequence gaps by client."),

    value(CLIENTS, "", &["repeat"], "n", "Run <n> times and give means with confidence intervals."),
    value(PP, "", &["reply-timeout"], "msec", "Count a message as lost when no answer came for so long (default 1000)."),
    flag(UL | PP, "", &["compat-timing"], "Measure <time> less 0.45 s, as versions 3.2 and later do."),
    flag(CLIENTS, "", &["no-peer-query"], "Do not ask the server what it received and what it cost."),
    value(CLIENTS, "", &["json"], "file", "Write the result as JSON ('-' is standard output)."),
    value(CLIENTS, "", &["csv"], "file", "Append the result as one CSV row."),
    value(CLIENTS, "", &["report"], "file.html", "Write one self-contained page: percentiles, histogram, time line."),
    value(CLIENTS, "", &["label"], "text", "Name of this run in reports."),
    value(CLIENTS, "", &["compare"], "a.json,b.json", "Show these earlier --json results beside this run in the report."),
    maybe(CLIENTS, &["progress"], "sec", "Print interim rates to standard error (default on a terminal, every second; 0 is off)."),
    value(ALL, "", &["color"], "when", "Colour: auto, always or never (default auto: on terminals)."),
];
