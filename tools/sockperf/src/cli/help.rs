//! Help texts: the list of subcommands, and for each its options by the table and examples to start from.

use std::fmt::Write;

use crate::cli::options::{Argument, OPTIONS, OptionSpec, bit};
use crate::settings::Mode;

/// A subcommand: its names, a line about it, examples.
pub struct Subcommand {
    /// Full name.
    pub name: &'static str,
    /// Two letters.
    pub alias: &'static str,
    /// The mode it starts.
    pub mode: Mode,
    /// One line.
    pub about: &'static str,
    /// Command lines and what they show.
    pub examples: &'static [(&'static str, &'static str)],
}

/// All subcommands, in the order of the overview.
pub static SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "under-load",
        alias: "ul",
        mode: Mode::UnderLoad,
        about: "Measure latency while sending at a rate, without waiting for answers.",
        examples: &[
            (
                "sockperf ul -i 10.0.0.2 --mps 50000 -t 10",
                "latency at 50000 messages a second, every 100th answered",
            ),
            (
                "sockperf ul -i 10.0.0.2 --tcp --mps max --reply-every 1",
                "every message answered, as fast as it goes",
            ),
        ],
    },
    Subcommand {
        name: "ping-pong",
        alias: "pp",
        mode: Mode::PingPong,
        about: "Measure latency: send a message, wait for its answer, send the next.",
        examples: &[
            ("sockperf pp -i 10.0.0.2 -t 10", "ten seconds of 14-byte UDP messages to port 11111"),
            (
                "sockperf pp -i 10.0.0.2 --tcp -m 64 --repeat 5",
                "five runs over TCP with confidence intervals",
            ),
            (
                "sockperf pp -i 10.0.0.2 --mps 1000 --report run.html",
                "paced: percentiles by schedule show stalls that the plain ones hide",
            ),
            (
                "VMA_SPEC=latency LD_PRELOAD=libvma.so sockperf pp -i 10.0.0.2",
                "the same through an accelerator; nothing else changes",
            ),
        ],
    },
    Subcommand {
        name: "playback",
        alias: "pb",
        mode: Mode::Playback,
        about: "Measure latency while sending by a file of times and sizes.",
        examples: &[(
            "printf '0.1, 64\\n0.2, 512\\n' > t.csv; sockperf pb -i 10.0.0.2 --data-file t.csv --reply-every 1",
            "two messages, a tenth of a second apart",
        )],
    },
    Subcommand {
        name: "throughput",
        alias: "tp",
        mode: Mode::Throughput,
        about: "Measure the rate of sending, and what of it arrived.",
        examples: &[
            ("sockperf tp -i 10.0.0.2 -m 1472 -t 5", "UDP messages that fill an Ethernet frame"),
            ("sockperf tp -i 10.0.0.2 --tcp -m 4096", "a TCP stream of 4096-byte messages"),
            (
                "sockperf tp -i 10.0.0.2 --tcp --tls=TLS_AES_128_GCM_SHA256 -m 16384",
                "the same inside TLS 1.3; the server needs the same --tls",
            ),
        ],
    },
    Subcommand {
        name: "server",
        alias: "sr",
        mode: Mode::Server,
        about: "Answer the other subcommands. Stop it with Ctrl-C.",
        examples: &[
            ("sockperf sr", "UDP on every address, port 11111"),
            ("sockperf sr --tcp -i 10.0.0.2 -p 5001", "TCP on one address"),
            ("sockperf sr --tcp --tls=TLS_AES_128_GCM_SHA256", "TCP inside TLS 1.3"),
            ("sockperf sr -f feed.txt -F e", "many sockets with epoll"),
        ],
    },
];

/// Text of `--version`.
pub fn version() -> String {
    format!(
        "sockperf, version {}\nOn the wire as sockperf 2.7 and later; options of 3.7 to the newest.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The list of subcommands.
pub fn overview() -> String {
    let mut text = String::from(
        "sockperf measures network latency and throughput over sockets.\n\n\
         Usage: sockperf <subcommand> [options]\n\n\
         Subcommands:\n   help (h, ?)          This list.\n",
    );
    for s in SUBCOMMANDS {
        let _ = writeln!(text, "   {:<20} {}", format!("{} ({})", s.name, s.alias), s.about);
    }
    text.push_str(
        "\nA first test, on two machines:\n   sockperf server                   on 10.0.0.2\n   \
         sockperf ping-pong -i 10.0.0.2    on the other\n\n\
         'sockperf <subcommand> --help' lists its options, 'sockperf --version' says which one this is.\n",
    );
    text
}

/// Help of one subcommand.
pub fn of(mode: Mode) -> String {
    let Some(subcommand) = SUBCOMMANDS.iter().find(|s| s.mode == mode) else { return overview() };
    let mut text = format!(
        "{} ({}): {}\n\nUsage: sockperf {} [options]\n\nExamples:\n",
        subcommand.name, subcommand.alias, subcommand.about, subcommand.name
    );
    for (line, about) in subcommand.examples {
        let _ = writeln!(text, "   {line}\n        {about}");
    }
    text.push_str("\nOptions:\n");
    for option in OPTIONS.iter().filter(|o| o.modes & bit(mode) != 0) {
        describe(&mut text, option);
    }
    text.push_str("\nExit codes: 0 only when the test was valid; sockperf(1) has the list.\n");
    text
}

fn describe(text: &mut String, option: &OptionSpec) {
    let short: Vec<String> = option.short.chars().map(|c| format!("-{c}")).collect();
    let long: Vec<String> = option.long.iter().map(|l| format!("--{l}")).collect();
    let value = match option.argument {
        Argument::None => String::new(),
        Argument::Required(what) => format!(" <{what}>"),
        Argument::Optional(what) => format!("[=<{what}>]"),
    };
    let _ = writeln!(text, " {:<6} {}{}", short.join(","), long.join(", "), value);
    let mut column = 0;
    for word in option.help.split(' ') {
        if column == 0 || column + word.len() > 90 {
            text.push_str(if column == 0 { "            " } else { "\n            " });
            column = 12;
        } else {
            text.push(' ');
        }
        text.push_str(word);
        column += word.len() + 1;
    }
    text.push('\n');
}

/// The command that shows the help of `mode`.
pub fn hint(mode: Mode) -> &'static str {
    match mode {
        Mode::UnderLoad => "sockperf under-load --help",
        Mode::PingPong => "sockperf ping-pong --help",
        Mode::Throughput => "sockperf throughput --help",
        Mode::Playback => "sockperf playback --help",
        Mode::Server => "sockperf server --help",
    }
}
