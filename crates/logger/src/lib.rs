//! Logging that is safe inside someone else's process: from any thread, in signal handlers, before main and after
//! fork. No lock, no allocation, one write(2) per line, no errno touched, no SIGPIPE raised, and never a byte into a
//! descriptor that the application has given another meaning (see [`target`]).
//!
//! The format is VMA's: ` VMA WARNING: text`, with thread, process and time before it by VMA_LOG_DETAILS; or that of
//! libsdp ([`libsdp`]). What is logged at which level: `docs/design/logging.md`.
#![cfg_attr(not(test), forbid(unsafe_code))]

#[macro_use]
mod macros;
pub mod banner;
pub mod libsdp;
mod line;
pub mod target;
#[cfg(test)]
mod tests;

pub use line::{LINE_MAX, Line};

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// How important a line is. The numbers are VMA's, and those of `config::TraceLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Level {
    /// Before the program is ended.
    Panic = 0,
    /// A failure that the program will notice.
    Error = 1,
    /// Something asked for is not had; the program works on.
    Warning = 2,
    /// The banner and the rare events worth knowing.
    Info = 3,
    /// The banner with all parameters.
    Details = 4,
    /// Every decision about a socket.
    Debug = 5,
    /// Every call.
    Fine = 6,
    /// Every turn.
    Finer = 7,
}

impl Level {
    /// The word in the prefix.
    pub fn name(self) -> &'static str {
        match self {
            Level::Panic => "PANIC",
            Level::Error => "ERROR",
            Level::Warning => "WARNING",
            Level::Info => "INFO",
            Level::Details => "DETAILS",
            Level::Debug => "DEBUG",
            Level::Fine => "FINE",
            Level::Finer => "FINER",
        }
    }

    /// The level of this number; what is beyond the ends is the end.
    pub fn from_number(number: i32) -> Level {
        match number {
            ..=0 => Level::Panic,
            1 => Level::Error,
            2 => Level::Warning,
            3 => Level::Info,
            4 => Level::Details,
            5 => Level::Debug,
            6 => Level::Fine,
            7.. => Level::Finer,
        }
    }
}

/// Lines up to this level are written; below 0 none.
static LEVEL: AtomicI32 = AtomicI32::new(Level::Info as i32);
/// What precedes each line, 0 to 3.
static DETAILS: AtomicU32 = AtomicU32::new(0);
/// Whether colours are wanted where there is a terminal.
static COLORS: AtomicBool = AtomicBool::new(true);
/// CLOCK_MONOTONIC when logging started; 0: not yet.
static STARTED_NS: AtomicU64 = AtomicU64::new(0);

/// How to log: the values of VMA_TRACELEVEL, VMA_LOG_DETAILS, VMA_LOG_COLORS and VMA_LOG_FILE.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// Level as a number, -1 for nothing.
    pub level: i32,
    /// What precedes each line, 0 to 3.
    pub details: u32,
    /// Colours on a terminal.
    pub colors: bool,
    /// Where to; `None` is standard error.
    pub file: Option<&'a core::ffi::CStr>,
}

/// Starts logging, or starts it anew with other settings (in the child of fork, say). If the file cannot be opened,
/// standard error is used and errno returned.
pub fn start(settings: Settings<'_>) -> Result<(), i32> {
    set_level(settings.level);
    set_details(settings.details);
    COLORS.store(settings.colors, Ordering::Relaxed);
    let now = sys::clock::monotonic();
    let _ = STARTED_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    target::open(settings.file)
}

/// Changes the level while running (by `vma_stats -l`); -1 for nothing.
pub fn set_level(level: i32) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// Changes what precedes each line, 0 to 3.
pub fn set_details(details: u32) {
    DETAILS.store(details.min(3), Ordering::Relaxed);
}

/// The level in force, as a number.
pub fn level() -> i32 {
    LEVEL.load(Ordering::Relaxed)
}

/// Whether lines of this level are written: one relaxed load.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as i32 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line, whatever the level in force: the macros have asked before.
#[cold]
#[inline(never)]
pub fn write(level: Level, text: fmt::Arguments<'_>) {
    let Some(target) = target::current() else { return };
    let colors = COLORS.load(Ordering::Relaxed) && target.is_terminal();
    let mut line = Line::new(if colors { color(level) } else { "" });
    match libsdp::program() {
        Some(program) => libsdp::prefix(&mut line, program, target::is_syslog()),
        None => prefix(&mut line, level),
    }
    let _ = fmt::Write::write_fmt(&mut line, text);
    target.write(line.finish());
}

fn prefix(line: &mut Line, level: Level) {
    use fmt::Write;
    let details = DETAILS.load(Ordering::Relaxed);
    let name = level.name();
    let tid = || sys::process::tid();
    let _ = match details {
        0 => write!(line, " VMA {name}: "),
        1 => write!(line, " Tid: {:5} VMA {name}: ", tid()),
        2 => write!(line, " Pid: {:5} Tid: {:5} VMA {name}: ", sys::process::pid(), tid()),
        _ => {
            let started = STARTED_NS.load(Ordering::Relaxed);
            // Microseconds in integers: no floating point in somebody's signal handler.
            let us = sys::clock::monotonic().saturating_sub(started) / 1000;
            let (ms, us) = (us / 1000, us % 1000);
            write!(line, " Time: {ms:5}.{us:03} Pid: {:5} Tid: {:5} VMA {name}: ", sys::process::pid(), tid())
        }
    };
}

fn color(level: Level) -> &'static str {
    match level {
        Level::Panic | Level::Error => "\x1b[31m",
        Level::Warning => "\x1b[2;35m",
        Level::Info | Level::Details | Level::Debug => "",
        Level::Fine | Level::Finer => "\x1b[90m",
    }
}

/// For what is worth saying the first time only.
#[derive(Debug)]
pub struct Once(AtomicBool);

impl Once {
    /// Not yet said.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Once {
        Once(AtomicBool::new(false))
    }

    /// True for the first caller only.
    pub fn first(&self) -> bool {
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed)
    }
}
