//! libsdp's log: its levels, its lines, and the system's log as a place for them.
//!
//! A line is `2026-11-22T23:18:46Z netperf[123] libsdp text`; syslog has the time by itself.

use crate::line::Line;
use crate::{Level, target};
use std::fmt::Write;
use std::sync::OnceLock;

/// Where the system's log listens.
const SYSLOG: &[u8] = b"/dev/log";

/// LOG_USER and LOG_NOTICE, as libsdp has it.
const PRIORITY: i32 = libc::LOG_USER | libc::LOG_NOTICE;

/// The program's name, once lines are libsdp's.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Where lines go.
#[derive(Debug)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// The system's log.
    Syslog,
    /// An open file, for appending.
    File(sys::Fd),
}

/// From here on lines are libsdp's. `min_level` is its own: 9 errors, 8 warnings, 7 what became of connections and
/// listeners, 4 rules that fit, 3 rules that do not, 2 sockets, 1 calls. On failure lines go to standard error.
pub fn start(program: &str, min_level: u8, destination: Destination) -> Result<(), i32> {
    // The first one counts.
    let _ = PROGRAM.set(program.to_owned());
    set_min_level(min_level);
    match destination {
        Destination::Stderr => target::adopt(None, false),
        Destination::File(file) => target::adopt(Some(file), false),
        Destination::Syslog => {
            let opened = sys::socket::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
                .and_then(|socket| connect(socket.raw()).map(|()| socket));
            match opened {
                Ok(socket) => target::adopt(Some(socket), true),
                Err(errno) => target::adopt(None, false).and(Err(errno)),
            }
        }
    }
}

/// Changes the level alone.
pub fn set_min_level(min_level: u8) {
    crate::set_level(level(min_level) as i32);
}

/// Which of our levels is the least that libsdp's shows.
fn level(min_level: u8) -> Level {
    match min_level {
        9.. => Level::Error,
        8 => Level::Warning,
        5..=7 => Level::Info,
        4 => Level::Details,
        3 => Level::Debug,
        2 => Level::Fine,
        ..=1 => Level::Finer,
    }
}

/// The program's name, if lines are libsdp's.
pub(crate) fn program() -> Option<&'static str> {
    PROGRAM.get().map(String::as_str)
}

pub(crate) fn connect(socket: i32) -> Result<(), i32> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    for (place, byte) in address.sun_path.iter_mut().zip(SYSLOG) {
        *place = *byte as libc::c_char;
    }
    sys::socket::connect(socket, &address)
}

pub(crate) fn prefix(line: &mut Line, program: &str, is_syslog: bool) {
    let pid = sys::process::pid();
    let _ = match is_syslog {
        true => write!(line, "<{PRIORITY}>{program}[{pid}]: libsdp "),
        false => {
            let seconds = sys::clock::realtime() / 1_000_000_000;
            let (days, second) = (seconds / 86_400, seconds % 86_400);
            let (year, month, day) = date(days);
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            write!(
                line,
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z {program}[{pid}] libsdp "
            )
        }
    };
}

/// Year, month and day of a number of days since 1970 (Gregorian). Years are counted from March, so that a leap day is
/// the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    const TO_1970_FROM_MARCH_OF_0: u64 = 719_468;
    let days = days + TO_1970_FROM_MARCH_OF_0;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{Level, date, level};

    #[test]
    fn days_become_dates() {
        for (days, expected) in
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (11_017, (2000, 3, 1)), (20_779, (2026, 11, 22))]
        {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn each_level_shows_itself_and_those_above() {
        let shown: Vec<Level> = (1..=9).map(level).collect();
        assert!(shown.windows(2).all(|pair| pair[0] >= pair[1]), "{shown:?}");
        assert_eq!((shown[0], shown[8]), (Level::Finer, Level::Error));
    }
}
