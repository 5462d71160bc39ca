//! What the runtime is made of: environment, configuration file, and the host's sysctls.

mod libsdp;
mod means;

use crate::os::Product;
use crate::sdp_rules::Sdp;
use config::{Interfaces, Parameters, ProcessRules, Rules};
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use core::time::Duration;
use stack::tcp::{Congestion, Ecn, MtuProbes, MtuProbing, Options, Settings};
use std::ffi::CString;

/// What VMA's banner says of the host at DEBUG.
fn host() -> [(&'static str, String); 5] {
    let read = |path: &CStr| {
        let text = sys::file::read_whole(path, 256).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let release = read(c"/proc/sys/kernel/osrelease");
    [
        ("Current Time", utc(sys::clock::realtime() / 1_000_000_000)),
        ("Pid", sys::process::pid().to_string()),
        ("System", format!("{} {release}", read(c"/proc/sys/kernel/ostype"))),
        ("Architecture", std::env::consts::ARCH.to_owned()),
        ("Node", read(c"/proc/sys/kernel/hostname")),
    ]
}

/// Seconds of the epoch as a date and time of the Gregorian calendar, UTC.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that a leap day is the last of its year; eras have 400 of them.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A variable of ours is set.
static ASKED: AtomicBool = AtomicBool::new(false);
/// VMA_TRACELEVEL is.
static LEVEL_ASKED: AtomicBool = AtomicBool::new(false);

/// Whether somebody wants to hear that acceleration as such is not to be had: who asked for something, or reads the
/// log. A program that merely runs under the library is to print what it prints without.
pub(crate) fn is_wanted() -> bool {
    ASKED.load(Ordering::Relaxed) || logger::target::is_for_people()
}

/// The first socket is accelerated: the banner, in VMA's format, for those who read it (see docs/design/logging.md).
pub(crate) fn print_banner(parameters: &Parameters) {
    let has_readers = LEVEL_ASKED.load(Ordering::Relaxed) || logger::target::is_for_people();
    if !logger::enabled(logger::Level::Info) || !has_readers {
        return;
    }
    let lines = config::banner::lines(parameters);
    let version = concat!("sidestep ", env!("CARGO_PKG_VERSION"));
    logger::banner::print(
        version,
        &command_line(),
        &host(),
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

unsafe extern "C" {
    static environ: *const *const libc::c_char;
    static program_invocation_short_name: *const libc::c_char;
}

/// What was read.
pub(crate) struct Read {
    pub parameters: Parameters,
    /// For this program.
    pub rules: ProcessRules,
    pub interfaces: Interfaces,
    /// Of libsdp.so.
    pub sdp: Option<Sdp>,
    /// The process may open so few files that an interface would take what it needs itself.
    pub has_few_descriptors: bool,
    /// There are rules that cannot be read, and the user wants no surprise.
    pub refuses_all: bool,
}

/// Reads everything; trouble is logged, never fatal.
pub(crate) fn read(product: Product) -> Read {
    let environment = environment();
    match product {
        Product::Vma => of_vma(&environment),
        Product::Sdp => of_sdp(&environment),
    }
}

/// libsdp.so: no interface is ours. What concerns statistics, and how long calls poll, is as with libvma.so.
fn of_sdp(environment: &[(String, String)]) -> Read {
    let pairs = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let (mut parameters, _) = Parameters::from_env(pairs.filter(|(name, _)| {
        let others = ["VMA_RX_POLL", "VMA_SELECT_POLL", "SIDESTEP_MOVE_EVERY", "SIDESTEP_LOCAL"];
        name.starts_with("VMA_STATS_") || others.contains(name)
    }));
    parameters.expand_pid(sys::process::pid() as u32);
    // There is no wire to move to.
    parameters.carrier = config::Carrier::Kernel;
    let sdp = libsdp::read(environment);
    let (interfaces, _) = Interfaces::parse("!*");
    let rules = Rules::default().compile("", "");
    Read { parameters, rules, interfaces, sdp: Some(sdp), has_few_descriptors: false, refuses_all: false }
}

fn of_vma(environment: &[(String, String)]) -> Read {
    let is_ours = |name: &str| name.starts_with("VMA_") || name.starts_with("SIDESTEP_");
    ASKED.store(environment.iter().any(|(name, _)| is_ours(name)), Ordering::Relaxed);
    LEVEL_ASKED.store(environment.iter().any(|(name, _)| name == "VMA_TRACELEVEL"), Ordering::Relaxed);
    let pairs = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let (mut parameters, mut notices) = Parameters::from_env(pairs);
    parameters.expand_pid(sys::process::pid() as u32);
    start_log(&parameters);
    let (interfaces, more) = Interfaces::parse(&parameters.interfaces);
    notices.extend(more);
    let (text, is_whole) = rules(&parameters);
    let (rules, more) = Rules::parse(&parameters.config_file, &text);
    notices.extend(more);
    notices.extend(rules.unknown_id(&parameters));
    let rules = rules.compile(&program_name(), &parameters.application_id);
    if parameters.thread_mode >= config::ThreadMode::Mutex {
        sys::never_spin();
    }
    for notice in notices {
        if notice.level as i32 <= logger::level() {
            logger::write(logger::Level::from_number(notice.level as i32), format_args!("{}", notice.text));
        }
    }
    parameters.frames = means::frames(parameters.frames);
    keeper::client::configure(keeper::place::Place::of(&parameters.keeper));
    let has_few_descriptors = means::has_few_descriptors();
    let refuses_all = parameters.strict && !is_whole;
    Read { parameters, rules, interfaces, sdp: None, has_few_descriptors, refuses_all }
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
            "VMA_LOG_FILE={}: cannot be opened ({why}); logging to standard error",
            parameters.log_file,
            why = sys::Errno(errno)
        );
    }
}

/// What names of variables that mean something to us begin with.
const OURS: [&[u8]; 5] = [b"VMA_", b"SIDESTEP_", b"LIBSDP_", b"SIMPLE_LIBSDP", b"ALWAYS_USE_SDP"];

/// The environment as text, as far as it may be ours; what is not UTF-8 is not.
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
        let is_ours = OURS.iter().any(|name| text.to_bytes().starts_with(name));
        if is_ours && let Some((name, value)) = text.to_str().ok().and_then(|text| text.split_once('=')) {
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

/// What the file of rules says, and whether that is all of it: a file that is not there says nothing.
fn rules(parameters: &Parameters) -> (String, bool) {
    let path = &parameters.config_file;
    let is_named = *path != Parameters::default().config_file;
    let read = CString::new(path.as_str()).map_err(|_| libc::EINVAL);
    match read.and_then(|path| sys::file::read_whole(&path, config::FILE_MAX)) {
        Ok(bytes) => (String::from_utf8_lossy(&bytes).into_owned(), true),
        Err(libc::ENOENT) if !is_named => {
            logger::debug!("{path} is not there: no rules, every socket is a candidate");
            (String::new(), true)
        }
        Err(errno) => {
            let name = if is_named { "VMA_CONFIG_FILE=" } else { "" };
            let why = sys::Errno(errno);
            logger::warning!("{name}{path}: cannot be read ({why}): no rules, every socket is a candidate");
            (String::new(), false)
        }
    }
}

/// What the engine goes by.
pub(crate) struct Engine {
    pub tcp: Settings,
    pub udp: stack::udp::Settings,
}

/// The engine's settings, which are read when something asks for the first: a program that ends before its sockets
/// move never needs them, and two dozen sysctls are a good part of what its start costs.
pub(crate) struct EngineOnDemand(AtomicPtr<Engine>);

impl EngineOnDemand {
    pub(crate) const fn new() -> EngineOnDemand {
        EngineOnDemand(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// `runs_engines`: where none runs, the host need not be asked. No lock: a process may fork while another thread
    /// reads. Two that read at once read the same.
    #[inline]
    pub(crate) fn get(&self, parameters: &Parameters, runs_engines: bool) -> &'static Engine {
        // SAFETY: null, or what `read` leaked.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
            .unwrap_or_else(|| self.read(parameters, runs_engines))
    }

    #[cold]
    fn read(&self, parameters: &Parameters, runs_engines: bool) -> &'static Engine {
        let from = if runs_engines { Sysctls::Host } else { Sysctls::Usual };
        let tcp = tcp_settings(parameters, from);
        let udp = udp_settings(parameters, from);
        let read = Box::into_raw(Box::new(Engine { tcp, udp }));
        let first = self.0.compare_exchange(core::ptr::null_mut(), read, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: leaked here or by who was first.
        unsafe { &*first.map_or_else(|other| other, |_| read) }
    }
}

/// Where the engine's settings are from.
#[derive(Clone, Copy)]
enum Sysctls {
    /// The host's.
    Host,
    /// What they usually are: no engine runs, and /proc is left alone.
    Usual,
}

impl Sysctls {
    /// The first number of a sysctl, or what it usually is.
    fn number<T: TryFrom<i64>>(self, path: &CStr, otherwise: T) -> T {
        match self {
            Sysctls::Host => {
                sys::file::read_number(path).ok().and_then(|n| T::try_from(n).ok()).unwrap_or(otherwise)
            }
            Sysctls::Usual => otherwise,
        }
    }

    /// Three numbers of a sysctl.
    fn triple(self, path: &CStr, otherwise: [u32; 3]) -> [u32; 3] {
        let Sysctls::Host = self else { return otherwise };
        let Ok(bytes) = sys::file::read_whole(path, 256) else { return otherwise };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let numbers: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers.try_into().unwrap_or(otherwise)
    }
}

fn udp_settings(parameters: &Parameters, from: Sysctls) -> stack::udp::Settings {
    let usual = from.number(c"/proc/sys/net/core/rmem_default", 212_992);
    stack::udp::Settings { receive_buffer: usual.max(parameters.rx_bytes_min) }
}

fn tcp_settings(parameters: &Parameters, from: Sysctls) -> Settings {
    use config::{CongestionControl, Timestamps};
    let seconds = |path, otherwise: u64| Duration::from_secs(from.number(path, otherwise));
    let options = Options {
        nodelay: parameters.tcp_nodelay,
        quickack: parameters.tcp_quickack,
        keepalive_idle: seconds(c"/proc/sys/net/ipv4/tcp_keepalive_time", 7200),
        keepalive_interval: seconds(c"/proc/sys/net/ipv4/tcp_keepalive_intvl", 75),
        keepalive_count: from.number(c"/proc/sys/net/ipv4/tcp_keepalive_probes", 9),
        mss_max: u16::try_from(parameters.mss).unwrap_or(0),
        congestion: match parameters.tcp_cc_algo {
            CongestionControl::Cubic => Congestion::Cubic,
            CongestionControl::NewReno => Congestion::NewReno,
            CongestionControl::None => Congestion::None,
        },
        not_sent_low_water: match from.number(c"/proc/sys/net/ipv4/tcp_notsent_lowat", u32::MAX) {
            0 => u32::MAX,
            bytes => bytes,
        },
        ttl: from.number(c"/proc/sys/net/ipv4/ip_default_ttl", 64),
        ..Options::default()
    };
    Settings {
        rmem: from.triple(c"/proc/sys/net/ipv4/tcp_rmem", [4096, 131_072, 6_291_456]),
        wmem: from.triple(c"/proc/sys/net/ipv4/tcp_wmem", [4096, 16_384, 4_194_304]),
        options,
        syn_retries: from.number(c"/proc/sys/net/ipv4/tcp_syn_retries", 6),
        synack_retries: from.number(c"/proc/sys/net/ipv4/tcp_synack_retries", 5),
        retries2: from.number(c"/proc/sys/net/ipv4/tcp_retries2", 15),
        fin_timeout: seconds(c"/proc/sys/net/ipv4/tcp_fin_timeout", 60),
        time_wait: Duration::from_secs(60),
        sack: from.number(c"/proc/sys/net/ipv4/tcp_sack", 1) != 0,
        timestamps: match parameters.tcp_timestamp_option {
            Timestamps::Off => false,
            Timestamps::On => true,
            Timestamps::Os => from.number(c"/proc/sys/net/ipv4/tcp_timestamps", 1) != 0,
        },
        window_scaling: match parameters.window_scaling {
            -2 => from.number(c"/proc/sys/net/ipv4/tcp_window_scaling", 1) != 0,
            scale => scale >= 0,
        },
        window_scale: u8::try_from(parameters.window_scaling).ok(),
        ecn: match from.number(c"/proc/sys/net/ipv4/tcp_ecn", 2) {
            0 => Ecn::Off,
            // 3 and 4 ask as well, 3 for AccECN, which we do not speak.
            1 | 3 | 4 => Ecn::Ask,
            _ => Ecn::Passive,
        },
        time_wait_max: from.number(c"/proc/sys/net/ipv4/tcp_max_tw_buckets", 65_536),
        orphans_max: from.number(c"/proc/sys/net/ipv4/tcp_max_orphans", 8192),
        orphan_retries: from.number(c"/proc/sys/net/ipv4/tcp_orphan_retries", 0),
        syn_rate_max: parameters.tcp_max_syn_rate,
        mtu_probing: mtu_probing(from),
    }
}

/// How is read only where it is done at all: each file costs a program's start some microseconds.
fn mtu_probing(from: Sysctls) -> MtuProbing {
    let when = match from.number(c"/proc/sys/net/ipv4/tcp_mtu_probing", 0) {
        0 => MtuProbes::Never,
        1 => MtuProbes::AfterBlackHole,
        _ => MtuProbes::Always,
    };
    let from = if when == MtuProbes::Never { Sysctls::Usual } else { from };
    MtuProbing {
        when,
        base_mss: from.number(c"/proc/sys/net/ipv4/tcp_base_mss", 1024),
        floor: from.number(c"/proc/sys/net/ipv4/tcp_mtu_probe_floor", 48),
        threshold: from.number(c"/proc/sys/net/ipv4/tcp_probe_threshold", 8),
        interval: Duration::from_secs(from.number(c"/proc/sys/net/ipv4/tcp_probe_interval", 600)),
    }
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59 UTC");
    }
}
