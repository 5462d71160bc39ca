//! What the runtime is made of: environment, configuration file, and the host's sysctls.

use crate::os::Os;
use crate::runtime::Runtime;
use config::{Interfaces, Notice, Parameters, Rules};
use core::ffi::CStr;
use core::time::Duration;
use stack::tcp::{Congestion, Ecn, MtuProbes, MtuProbing, Options, Settings};
use std::ffi::CString;

/// The first socket is accelerated: the banner, in VMA's format (see docs/design/logging.md).
pub(crate) fn print_banner(parameters: &Parameters) {
    if !logger::enabled(logger::Level::Info) {
        return;
    }
    let lines = config::banner::lines(parameters);
    let version = concat!("sidestep ", env!("CARGO_PKG_VERSION"));
    logger::banner::print(
        version,
        &command_line(),
        lines.iter().map(|line| (line.changed, line.text.as_str())),
    );
}

/// The program's arguments, as far as they fit a line.
fn command_line() -> String {
    let mut buffer = [0; 256];
    let length = sys::file::read_to(c"/proc/self/cmdline", &mut buffer).unwrap_or(0);
    let text = buffer[..length].strip_suffix(&[0]).unwrap_or(&buffer[..length]);
    String::from_utf8_lossy(text).replace('\0', " ")
}

/// Configuration files larger than this are not rules.
const CONFIG_FILE_MAX: usize = 1 << 20;

unsafe extern "C" {
    static environ: *const *const libc::c_char;
    static program_invocation_short_name: *const libc::c_char;
}

/// Reads everything; trouble is logged, never fatal.
pub(crate) fn read(os: Os) -> Runtime {
    let environment = environment();
    let pairs = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let (mut parameters, mut notices) = Parameters::from_env(pairs);
    parameters.expand_pid(sys::process::pid() as u32);
    start_log(&parameters);
    let (interfaces, more) = Interfaces::parse(&parameters.interfaces);
    notices.extend(more);
    let (rules, more) = rules(&parameters);
    notices.extend(more);
    let rules = rules.compile(&program_name(), &parameters.application_id);
    for notice in notices {
        if notice.level as i32 <= logger::level() {
            logger::write(logger::Level::from_number(notice.level as i32), format_args!("{}", notice.text));
        }
    }
    let tcp = tcp_settings(&parameters);
    let udp = stack::udp::Settings { receive_buffer: sysctl(c"/proc/sys/net/core/rmem_default", 212_992) };
    Runtime::new(os, parameters, rules, interfaces, tcp, udp)
}

fn start_log(parameters: &Parameters) {
    let file = CString::new(parameters.log_file.as_str()).ok().filter(|file| !file.is_empty());
    let settings = logger::Settings {
        level: parameters.tracelevel as i32,
        details: parameters.log_details.max(0) as u32,
        colors: parameters.log_colors,
        file: file.as_deref(),
    };
    if let Err(errno) = logger::start(settings) {
        logger::warning!(
            "VMA_LOG_FILE={}: cannot be opened (errno {errno}); logging to standard error",
            parameters.log_file
        );
    }
}

/// The environment as text; what is not UTF-8 is not ours.
fn environment() -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    // SAFETY: libc's environment, a null-terminated array of strings; other threads that change it while the first
    // socket is made race with every getenv as well.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return pairs;
    }
    loop {
        // SAFETY: not past the terminating null.
        let text = unsafe { *entry };
        if text.is_null() {
            return pairs;
        }
        // SAFETY: a C string.
        let text = unsafe { CStr::from_ptr(text) };
        if let Some((name, value)) = text.to_str().ok().and_then(|text| text.split_once('=')) {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        // SAFETY: as above.
        entry = unsafe { entry.add(1) };
    }
}

pub(crate) fn program_name() -> String {
    // SAFETY: libc's, set before main; null only in odd static programs.
    let name = unsafe { program_invocation_short_name };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: a C string.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

fn rules(parameters: &Parameters) -> (Rules, Vec<Notice>) {
    let path = &parameters.config_file;
    let text =
        CString::new(path.as_str()).ok().and_then(|c| match sys::file::read_whole(&c, CONFIG_FILE_MAX) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(errno) if *path != Parameters::default().config_file => {
                logger::warning!(
                    "VMA_CONFIG_FILE={path}: cannot be read (errno {errno}): no rules, every socket is a candidate"
                );
                None
            }
            Err(errno) => {
                logger::debug!("{path}: no rules read (errno {errno}): every socket is a candidate");
                None
            }
        });
    Rules::parse(path, text.as_deref().unwrap_or(""))
}

/// The first number of a sysctl, or what it usually is.
fn sysctl<T: TryFrom<i64>>(path: &CStr, otherwise: T) -> T {
    sys::file::read_number(path).ok().and_then(|n| T::try_from(n).ok()).unwrap_or(otherwise)
}

/// Three numbers of a sysctl.
fn triple(path: &CStr, otherwise: [u32; 3]) -> [u32; 3] {
    let Ok(bytes) = sys::file::read_whole(path, 256) else { return otherwise };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let numbers: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or(otherwise)
}

fn tcp_settings(parameters: &Parameters) -> Settings {
    use config::{CongestionControl, Timestamps};
    let seconds = |path, otherwise: u64| Duration::from_secs(sysctl(path, otherwise));
    let options = Options {
        nodelay: parameters.tcp_nodelay,
        cork: false,
        quickack: parameters.tcp_quickack,
        keepalive: false,
        keepalive_idle: seconds(c"/proc/sys/net/ipv4/tcp_keepalive_time", 7200),
        keepalive_interval: seconds(c"/proc/sys/net/ipv4/tcp_keepalive_intvl", 75),
        keepalive_count: sysctl(c"/proc/sys/net/ipv4/tcp_keepalive_probes", 9),
        user_timeout: Duration::ZERO,
        mss_max: u16::try_from(parameters.mss).unwrap_or(0),
        receive_buffer: None,
        send_buffer: None,
        receive_low_water: 1,
        not_sent_low_water: u32::MAX,
        congestion: match parameters.tcp_cc_algo {
            CongestionControl::Cubic => Congestion::Cubic,
            CongestionControl::NewReno => Congestion::NewReno,
            CongestionControl::None => Congestion::None,
        },
        urgent_inline: false,
        tos: 0,
        ttl: sysctl(c"/proc/sys/net/ipv4/ip_default_ttl", 64),
        discover_mtu: true,
    };
    Settings {
        rmem: triple(c"/proc/sys/net/ipv4/tcp_rmem", [4096, 131_072, 6_291_456]),
        wmem: triple(c"/proc/sys/net/ipv4/tcp_wmem", [4096, 16_384, 4_194_304]),
        options,
        syn_retries: sysctl(c"/proc/sys/net/ipv4/tcp_syn_retries", 6),
        synack_retries: sysctl(c"/proc/sys/net/ipv4/tcp_synack_retries", 5),
        retries2: sysctl(c"/proc/sys/net/ipv4/tcp_retries2", 15),
        fin_timeout: seconds(c"/proc/sys/net/ipv4/tcp_fin_timeout", 60),
        time_wait: Duration::from_secs(60),
        sack: sysctl(c"/proc/sys/net/ipv4/tcp_sack", 1) != 0,
        timestamps: match parameters.tcp_timestamp_option {
            Timestamps::Off => false,
            Timestamps::On => true,
            Timestamps::Os => sysctl(c"/proc/sys/net/ipv4/tcp_timestamps", 1) != 0,
        },
        window_scaling: sysctl(c"/proc/sys/net/ipv4/tcp_window_scaling", 1) != 0,
        ecn: match sysctl(c"/proc/sys/net/ipv4/tcp_ecn", 2) {
            0 => Ecn::Off,
            // 3 and 4 ask as well, 3 for AccECN, which we do not speak.
            1 | 3 | 4 => Ecn::Ask,
            _ => Ecn::Passive,
        },
        time_wait_max: sysctl(c"/proc/sys/net/ipv4/tcp_max_tw_buckets", 65_536),
        orphans_max: sysctl(c"/proc/sys/net/ipv4/tcp_max_orphans", 8192),
        orphan_retries: sysctl(c"/proc/sys/net/ipv4/tcp_orphan_retries", 0),
        syn_rate_max: parameters.tcp_max_syn_rate,
        mtu_probing: MtuProbing {
            when: match sysctl(c"/proc/sys/net/ipv4/tcp_mtu_probing", 0) {
                0 => MtuProbes::Never,
                1 => MtuProbes::AfterBlackHole,
                _ => MtuProbes::Always,
            },
            base_mss: sysctl(c"/proc/sys/net/ipv4/tcp_base_mss", 1024),
            floor: sysctl(c"/proc/sys/net/ipv4/tcp_mtu_probe_floor", 48),
            threshold: sysctl(c"/proc/sys/net/ipv4/tcp_probe_threshold", 8),
            interval: seconds(c"/proc/sys/net/ipv4/tcp_probe_interval", 600),
        },
    }
}
