//! What strangers control, fed with what a fuzzer makes up: packets, conversations, configuration, kernel messages.
//!
//! A target is a function from bytes to a verdict: it returns, or it panics because something did not hold. The bytes
//! are a program (`input`): operations of a peer, of the network and of the application, so that most inputs get far.
//! `victim` is the engine under attack with what must hold of it at any time. The same targets are driven by
//! libFuzzer (`cargo x fuzz`) and, by their corpora and fixed mutations of them, by `cargo test` here.
#![forbid(unsafe_code)]

mod config_text;
mod icmp;
mod input;
mod keeper_talk;
mod listener;
mod memory;
mod netlink_messages;
mod reassembly;
mod ring;
mod segment;
mod tcp;
mod udp;
mod victim;
mod wire_views;

/// Longest useful input, bytes: a program of some hundred operations.
pub const LEN_MAX: usize = 1024;

/// Something to attack.
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Runs one input; panics if something did not hold.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 10] = [
    Target { name: "wire", run: wire_views::run },
    Target { name: "tcp", run: tcp::run },
    Target { name: "listener", run: listener::run },
    Target { name: "reassembly", run: reassembly::run },
    Target { name: "icmp", run: icmp::run },
    Target { name: "udp", run: udp::run },
    Target { name: "config", run: config_text::run },
    Target { name: "netlink", run: netlink_messages::run },
    Target { name: "ring", run: ring::run },
    Target { name: "keeper", run: keeper_talk::run },
];
