//! This machine. Nothing here runs another program, and nothing changes anything.

use super::facts::{
    Accelerated, Clock, Cpu, Fact, Index, KernelConfig, LatencyLimit, Library, Listeners, Privilege,
    Processes, XdpFeatures, XdpProgram,
};
use super::{Answer, Cause, Host, Unread, ethtool, netlink, pci, process, system};
use crate::measure;
use serde::Serialize;
use serde_json::Value;
use std::io::Read;

/// Files of procfs and sysfs are read up to here; what matters is at the beginning.
const READ_MAX: u64 = 4 << 20;

/// The machine that this process runs on.
pub(crate) struct Live;

impl Host for Live {
    fn read(&self, path: &str) -> Answer<String> {
        let unread = |error: std::io::Error| Unread::new(path, cause(&error));
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unread)?;
        file.take(READ_MAX).read_to_end(&mut bytes).map_err(unread)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end_matches(['\n', '\0']).to_owned())
    }

    fn list(&self, path: &str) -> Answer<Vec<String>> {
        let entries = std::fs::read_dir(path).map_err(|error| Unread::new(path, cause(&error)))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    fn link(&self, path: &str) -> Answer<String> {
        let target = std::fs::read_link(path).map_err(|error| Unread::new(path, cause(&error)))?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn ask(&self, topic: &str, about: &str) -> Answer<Value> {
        let answer = match topic {
            "driver" => value(ethtool::driver(about)),
            "rings" => value(ethtool::rings(about)),
            "coalesce" => value(ethtool::coalesce(about)),
            "channels" => value(ethtool::channels(about)),
            "features" => value(ethtool::features(about)),
            "pause" => value(ethtool::pause(about)),
            "fec" => value(ethtool::fec(about)),
            "timestamps" => value(ethtool::timestamps(about)),
            "losses" => value(ethtool::losses(about)),
            "steering" => value(ethtool::steering(about)),
            "pcie-requests" => value(pci::requests(about)),
            "xdp-features" => value(xdp_features(about)),
            "xdp-program" => value(xdp_program(about)),
            "privilege" => value(Ok(privilege())),
            "firewall" => value(netlink::firewall()),
            "audit" => value(netlink::audit()),
            "kernel-config" => value(kernel_config()),
            "loopback" => value(measured(measure::loopback::measure())),
            "jitter" => value(measured(measure::jitter::measure())),
            "wakeup" => value(measured(measure::wakeup::measure())),
            "af-xdp" => value(measured(measure::af_xdp::measure())),
            "ping-pong" => match library().found.first().cloned().or_else(|| library().beside) {
                Some(library) => value(measured(measure::ping_pong::measure(&library))),
                None => Err(libc::ENOENT),
            },
            "program" => value(process::program(about)),
            "threads" => value(process::threads(about)),
            "acceleration" => value(process::acceleration(about)),
            "memory" => value(process::memory(about)),
            "latency-limit" => value(latency_limit()),
            "listeners" => value(listeners()),
            "index" => value(Ok(Index { number: system::index(about) })),
            "cpu" => value(cpu()),
            "processes" => value(processes(about)),
            "banned" => value(process::banned(about)),
            "accelerated" => value(accelerated()),
            "library" => value(Ok(library())),
            "clock" => value(
                system::clock().map(|(synchronised, max_error_us)| Clock { synchronised, max_error_us }),
            ),
            _ => Err(libc::ENOSYS),
        };
        answer.map_err(|errno| Unread::new(format!("{topic} {about}").trim_end(), Cause::from_errno(errno)))
    }
}

fn measured<T>(outcome: std::io::Result<T>) -> Result<T, i32> {
    outcome.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn cause(error: &std::io::Error) -> Cause {
    Cause::from_errno(error.raw_os_error().unwrap_or(libc::EIO))
}

fn value<T: Serialize + Fact>(answer: Result<T, i32>) -> Result<Value, i32> {
    serde_json::to_value(answer?).map_err(|_| libc::EINVAL)
}

fn index(interface: &str) -> Result<u32, i32> {
    let path = format!("/sys/class/net/{interface}/ifindex");
    let text = std::fs::read_to_string(path).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    text.trim().parse().map_err(|_| libc::EINVAL)
}

fn xdp_features(interface: &str) -> Result<XdpFeatures, i32> {
    let bits = xdp::query::xdp_features(index(interface)?)?;
    let all = |wanted: u64| bits & wanted == wanted;
    const RX_SG: u64 = 32;
    Ok(XdpFeatures {
        basic: all(1),
        redirect: all(xdp::query::NATIVE),
        zero_copy: all(xdp::query::ZERO_COPY),
        rx_sg: all(RX_SG),
    })
}

fn xdp_program(interface: &str) -> Result<XdpProgram, i32> {
    Ok(XdpProgram { id: xdp::query::xdp_program(index(interface)?) })
}

fn privilege() -> Privilege {
    Privilege { refused: xdp::caps::privilege().err().map(|refusal| refusal.to_string()) }
}

/// What matters of the configuration: checks that cost time, preemption, the tick.
fn kernel_config() -> Result<KernelConfig, i32> {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open("/proc/config.gz") {
        flate2::read::GzDecoder::new(file).take(READ_MAX).read_to_string(&mut text).map_err(errno)?;
    } else {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(errno)?;
        text = std::fs::read_to_string(format!("/boot/config-{}", release.trim())).map_err(errno)?;
    }
    let set = text.lines().filter_map(|line| line.strip_suffix("=y"));
    let words = [
        "DEBUG",
        "KASAN",
        "KCSAN",
        "KMSAN",
        "PROVE_",
        "LOCK_STAT",
        "PREEMPT",
        "CONFIG_HZ_",
        "XDP_SOCKETS",
        "BPF_JIT",
    ];
    let asked = set.filter(|option| words.iter().any(|word| option.contains(word)));
    Ok(KernelConfig { on: asked.map(str::to_owned).collect() })
}

fn cpu() -> Result<Cpu, i32> {
    let mut text = String::new();
    let file =
        std::fs::File::open("/proc/cpuinfo").map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    file.take(1 << 14).read_to_string(&mut text).map_err(|_| libc::EIO)?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value.trim())
    };
    let flag = |name: &str| field("flags").split(' ').any(|flag| flag == name);
    Ok(Cpu {
        model: field("model name").to_owned(),
        hypervisor: flag("hypervisor"),
        steady_tsc: flag("constant_tsc") && flag("nonstop_tsc"),
        dca: flag("dca"),
    })
}

/// Numbers in the names of a folder's entries, behind a prefix.
fn numbers(folder: &str, prefix: &str) -> Result<Vec<u32>, i32> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: Vec<u32> = names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    all.sort_unstable();
    Ok(all)
}

/// Opening the device to read it asks for nothing.
fn latency_limit() -> Result<LatencyLimit, i32> {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/cpu_dma_latency")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(errno)?;
    Ok(LatencyLimit { us: i32::from_ne_bytes(bytes) })
}

/// Of TCP, over IPv4 and IPv6.
fn listeners() -> Result<Listeners, i32> {
    const LISTEN: &str = "0A";
    let mut ports = std::collections::BTreeSet::new();
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // A kernel without IPv6 has no such file.
        let Ok(text) = Live.read(path) else { continue };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().take(4).collect();
            let [_, own, _, LISTEN] = words[..] else { continue };
            let port = own.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
            ports.extend(port);
        }
    }
    Ok(Listeners { ports: ports.into_iter().collect() })
}

fn processes(name: &str) -> Result<Processes, i32> {
    let mut pids = numbers("/proc", "")?;
    pids.retain(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    });
    Ok(Processes { pids })
}

/// Where programs keep their statistics.
pub(crate) fn statistics_folder() -> String {
    std::env::var("VMA_STATS_SHMEM_DIR")
        .ok()
        .filter(|folder| !folder.is_empty())
        .unwrap_or_else(|| "/tmp".to_owned())
}

fn accelerated() -> Result<Accelerated, i32> {
    let mut pids = numbers(&statistics_folder(), stats::segment::FILE_PREFIX)?;
    pids.retain(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
    Ok(Accelerated { pids })
}

fn library() -> Library {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64", "/lib"];
    let paths = folders.iter().map(|folder| format!("{folder}/libvma.so"));
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("libvma.so"));
    let beside = beside.filter(|path| path.exists()).map(|path| path.to_string_lossy().into_owned());
    Library { found: paths.filter(|path| std::path::Path::new(path).exists()).collect(), beside }
}
