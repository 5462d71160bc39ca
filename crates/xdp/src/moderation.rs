//! How often an interface interrupts for packets, while a program asks for it. The driver's coalescing where it takes
//! it (`ethtool -C`); else the kernel defers interrupts (`napi_defer_hard_irqs`, `gro_flush_timeout`), which works with
//! each driver that has NAPI.
//!
//! It is the interface's, so one program at a time has it, by a lock on a file of sysfs. What was set before is given
//! back when that program and what it forked are gone, by a kill, too.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CString;

use sys::afterwards::{Hold, Last, when_gone};
use sys::{Fd, Result};

use crate::interface::{SIOCETHTOOL, ethtool, in_sysfs, name_of, request_with};

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;

/// struct ethtool_coalesce, in words: the command, and 22 settings, of which these are ours.
type Coalescing = [u32; 23];
const RX_USECS: usize = 1;
const RX_FRAMES: usize = 2;
const ADAPTIVE_RX: usize = 10;

/// How long the process that gives back what a predecessor set may take: it begins when that one's descriptors are
/// closed.
const PATIENCE_NS: u64 = 1_000_000_000;
const PAUSE_NS: u64 = 1_000_000;

/// An interrupt comes when one of both is reached; both 0: with each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Microseconds that a packet may wait.
    pub period_usec: u32,
    /// Packets that may wait. Only coalescing drivers know of them.
    pub count: u32,
}

/// Why interrupts stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmoderated {
    /// /sys/class/net does not show the interface: it is not mounted, or that of another network namespace.
    NoSysfs,
    /// Another program moderates this interface.
    Taken,
    /// What the kernel says.
    System(i32),
}

impl fmt::Display for Unmoderated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmoderated::NoSysfs => f.write_str("/sys/class/net does not show the interface"),
            Unmoderated::Taken => f.write_str("another program moderates its interrupts"),
            Unmoderated::System(libc::EPERM | libc::EACCES) => {
                f.write_str("not permitted (CAP_NET_ADMIN, and a /sys that can be written to)")
            }
            Unmoderated::System(errno) => sys::Errno(*errno).fmt(f),
        }
    }
}

/// An interface whose interrupts are moderated; until it is dropped.
pub struct Moderation {
    way: Way,
    /// The pace that is set: microseconds above, packets below.
    now: AtomicU64,
    _hold: Hold,
}

enum Way {
    Driver { socket: Fd, index: u32, before: Box<Coalescing> },
    Kernel { flush: Fd, defer: Fd },
}

impl Moderation {
    /// Sets the pace of an interface.
    pub fn begin(index: u32, pace: Pace) -> core::result::Result<Moderation, Unmoderated> {
        let system = Unmoderated::System;
        let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(system)?;
        let name = name_of(&socket, index).map_err(system)?;
        let folder = in_sysfs("/sys/class/net", &name, index).ok_or(Unmoderated::NoSysfs)?;
        let file = |name: &str| CString::new(format!("{folder}/{name}")).map_err(|_| system(libc::EINVAL));
        let (flush, defer) = (file("gro_flush_timeout")?, file("napi_defer_hard_irqs")?);
        let open = |path| sys::file::open(path, libc::O_WRONLY, 0).map_err(system);
        let (flush_file, defer_file) = (open(&flush)?, open(&defer)?);
        lock(&flush_file)?;

        let mut before: Box<Coalescing> = Box::new([0; 23]);
        before[0] = ETHTOOL_GCOALESCE;
        if ethtool(&socket, &name, &mut before).is_ok() {
            before[0] = ETHTOOL_SCOALESCE;
            let mut again = request_with(&name, &mut before).map_err(system)?;
            let undo = [Last::Ioctl(&socket, SIOCETHTOOL, &raw mut again as usize)];
            if coalesce(&socket, &name, &before, pace).is_ok() {
                // SAFETY: a request, and the settings that it points to, are there.
                let hold = unsafe { when_gone(&undo, &[&flush_file]) };
                let hold = hold.map_err(|errno| {
                    let _ = ethtool(&socket, &name, &mut before.clone());
                    system(errno)
                })?;
                return Ok(Moderation::new(Way::Driver { socket, index, before }, pace, hold));
            }
        }
        let text = |path| sys::file::read_number(path).map(|number| number.to_string()).map_err(system);
        let (flush_before, defer_before) = (text(&flush)?, text(&defer)?);
        let undo = [
            Last::Write(&defer_file, defer_before.as_bytes()),
            Last::Write(&flush_file, flush_before.as_bytes()),
        ];
        // SAFETY: there is no ioctl.
        let hold = unsafe { when_gone(&undo, &[]) }.map_err(system)?;
        defer_interrupts(&flush_file, &defer_file, pace).map_err(system)?;
        Ok(Moderation::new(Way::Kernel { flush: flush_file, defer: defer_file }, pace, hold))
    }

    fn new(way: Way, pace: Pace, hold: Hold) -> Moderation {
        Moderation { way, now: AtomicU64::new(packed(pace)), _hold: hold }
    }

    /// Another pace, from now on.
    pub fn set(&self, pace: Pace) -> Result<()> {
        if self.now.swap(packed(pace), Ordering::Relaxed) == packed(pace) {
            return Ok(());
        }
        match &self.way {
            Way::Driver { socket, index, before } => {
                coalesce(socket, &name_of(socket, *index)?, before, pace)
            }
            Way::Kernel { flush, defer } => defer_interrupts(flush, defer, pace),
        }
    }

    /// Is it the driver that counts and waits?
    pub fn is_by_driver(&self) -> bool {
        matches!(self.way, Way::Driver { .. })
    }
}

fn packed(pace: Pace) -> u64 {
    u64::from(pace.period_usec) << 32 | u64::from(pace.count)
}

/// For us alone; the process that gives back what a predecessor set has it until then.
fn lock(file: &Fd) -> core::result::Result<(), Unmoderated> {
    let until = sys::clock::monotonic() + PATIENCE_NS;
    loop {
        match sys::file::lock(file) {
            Ok(()) => return Ok(()),
            Err(libc::EWOULDBLOCK) if sys::clock::monotonic() < until => sys::thread::sleep(PAUSE_NS),
            Err(libc::EWOULDBLOCK) => return Err(Unmoderated::Taken),
            Err(errno) => return Err(Unmoderated::System(errno)),
        }
    }
}

/// Many drivers know no count of packets, and are asked again without.
fn coalesce(socket: &Fd, name: &str, before: &Coalescing, pace: Pace) -> Result<()> {
    let mut settings = *before;
    settings[RX_USECS] = pace.period_usec;
    // Both 0 would mean no interrupt at all (linux/ethtool.h).
    settings[RX_FRAMES] = pace.count.max(1);
    settings[ADAPTIVE_RX] = 0;
    let mut without = settings;
    without[RX_FRAMES] = before[RX_FRAMES];
    ethtool(socket, name, &mut settings).or_else(|_| ethtool(socket, name, &mut without))
}

/// Deferred once: behind each look that found packets the next one is the timer's, and not before.
fn defer_interrupts(flush: &Fd, defer: &Fd, pace: Pace) -> Result<()> {
    let nanoseconds = u64::from(pace.period_usec) * 1000;
    sys::fd::write(flush.raw(), nanoseconds.to_string().as_bytes())?;
    sys::fd::write(defer.raw(), if nanoseconds == 0 { b"0" } else { b"1" }).map(|_| ())
}
