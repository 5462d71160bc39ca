//! What is in a bug report. Of processes only those under the library are looked at, and of their environment only the
//! variables that are ours.

use crate::doctor;
use crate::host::Host;
use crate::host::facts::Accelerated;
use crate::host::live::{Live, statistics_folder};
use crate::host::recording::Recorder;
use std::fmt::Write;

/// One file of the archive.
pub(super) struct Document {
    pub(super) name: String,
    pub(super) about: &'static str,
    pub(super) text: String,
}

/// Files that are taken as they are: name in the archive, what it is, where it is.
const FILES: [(&str, &str, &str); 12] = [
    ("libvma.conf", "rules of the library", "/etc/libvma.conf"),
    ("interrupts", "interrupts for each processor", "/proc/interrupts"),
    ("softnet_stat", "packets for each processor", "/proc/net/softnet_stat"),
    ("addresses", "addresses and routes of this host", "/proc/net/fib_trie"),
    ("neighbours", "neighbours of this host", "/proc/net/arp"),
    ("snmp", "the kernel's counters of IP, TCP, UDP", "/proc/net/snmp"),
    ("netstat", "more of them", "/proc/net/netstat"),
    ("sockstat", "sockets of the kernel", "/proc/net/sockstat"),
    ("dev", "packets of each interface", "/proc/net/dev"),
    ("meminfo", "memory", "/proc/meminfo"),
    ("version", "the kernel", "/proc/version"),
    ("os-release", "the distribution", "/etc/os-release"),
];

/// The firmware and the board, as dmidecode names them.
const MACHINE: [&str; 7] = [
    "sys_vendor",
    "product_name",
    "product_version",
    "board_name",
    "bios_vendor",
    "bios_version",
    "bios_date",
];

pub(super) fn collect() -> Result<Vec<Document>, String> {
    let mut all = Vec::new();
    let mut add = |name: &str, about, text: String| {
        if !text.is_empty() {
            all.push(Document { name: name.to_owned(), about, text });
        }
    };
    let recorder = Recorder::new(&Live);
    let (page, json) = doctor::examine(&recorder)?;
    add("doctor.txt", "the doctor's page", page);
    add("doctor.json", "the same for programs", json);
    add("host.txt", "what it has read: sidestep doctor --recorded host.txt", recorder.recording().text());
    for (name, about, path) in FILES {
        add(name, about, Live.read(path).unwrap_or_default());
    }
    add("machine", "board and firmware", machine());
    let pids =
        Live.ask("accelerated", "").ok().and_then(|value| serde_json::from_value::<Accelerated>(value).ok());
    for pid in pids.unwrap_or_default().pids {
        add(&format!("program-{pid}.txt"), "a program under the library", program(pid));
    }
    Ok(all)
}

/// The name of this host.
pub(super) fn host_name() -> String {
    Live.read("/proc/sys/kernel/hostname").unwrap_or_default()
}

fn machine() -> String {
    let mut text = String::new();
    for name in MACHINE {
        if let Ok(value) = Live.read(&format!("/sys/class/dmi/id/{name}")) {
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    if let Ok(cpu) = Live.ask("cpu", "") {
        let _ = writeln!(text, "processor: {}", cpu["model"]);
    }
    text
}

/// A program: what it is, our variables, its limits, and its counters.
fn program(pid: u32) -> String {
    let mut text = String::new();
    let executable = Live.link(&format!("/proc/{pid}/exe")).unwrap_or_default();
    let _ = writeln!(text, "{executable}");
    let environment = Live.read(&format!("/proc/{pid}/environ")).unwrap_or_default();
    for variable in environment.split('\0') {
        if ["VMA_", "SIDESTEP_", "LD_PRELOAD="].iter().any(|ours| variable.starts_with(ours)) {
            let _ = writeln!(text, "{variable}");
        }
    }
    for name in ["limits", "status"] {
        let _ = writeln!(text, "\n{}", Live.read(&format!("/proc/{pid}/{name}")).unwrap_or_default());
    }
    let path = format!("{}/{}", statistics_folder(), stats::segment::file_name(pid));
    match std::fs::read(path).map_err(|error| error.to_string()).map(|bytes| stats::Snapshot::parse(&bytes)) {
        Ok(Ok(snapshot)) => {
            for (why, count) in &snapshot.left {
                let _ = writeln!(text, "left to the kernel: {count} {why:?}");
            }
            let _ = writeln!(text, "{:#?}\n{:#?}", snapshot.process, snapshot.lanes);
        }
        Ok(Err(why)) => drop(writeln!(text, "statistics: {why}")),
        Err(why) => drop(writeln!(text, "statistics: {why}")),
    }
    text
}
