//! Figures out of what load generators print.

use super::Figures;
use crate::{Context, Error, Result};

/// The number that follows the first `label`.
pub(super) fn number(text: &str, label: &str) -> Result<f64> {
    let at = text.find(label).ok_or_else(|| Error::new(format!("no {label:?} in:\n{text}")))?;
    let rest = text[at + label.len()..].trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().context(format_args!("the number after {label:?}"))
}

/// `12.5us`, `1.2ms`, `3.00s` in microseconds.
fn duration_us(word: &str) -> Option<f64> {
    let end = word.find(|c: char| c.is_ascii_alphabetic())?;
    let value: f64 = word[..end].parse().ok()?;
    let scale = match &word[end..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(value * scale)
}

/// `wrk --latency`; an error if a request failed.
pub(super) fn wrk(text: &str) -> Result<Figures> {
    if text.contains("Socket errors") || text.contains("Non-2xx") {
        return Err(Error::new(format!("wrk: requests failed:\n{text}")));
    }
    let rate = number(text, "Requests/sec:")?;
    if rate == 0.0 {
        return Err(Error::new(format!("wrk: no request was answered:\n{text}")));
    }
    let percentile = |label: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
        duration_us(line.trim())
    };
    Ok(Figures { rate, p50_us: percentile("50%"), p99_us: percentile("99%") })
}

/// `redis-benchmark --csv`: name, requests per second, then average, least, p50, p95, p99, maximum in milliseconds. The
/// row of `command`.
pub(super) fn redis(text: &str, command: &str) -> Result<Figures> {
    let wrong = || Error::new(format!("redis-benchmark: no row for {command} in:\n{text}"));
    let row = text.lines().find(|line| line.starts_with(&format!("\"{command}"))).ok_or_else(wrong)?;
    let columns: Vec<f64> =
        row.split("\",\"").skip(1).filter_map(|word| word.trim_matches('"').parse().ok()).collect();
    let [rate, _, _, p50, _, p99, ..] = columns[..] else { return Err(wrong()) };
    Ok(Figures { rate, p50_us: Some(p50 * 1e3), p99_us: Some(p99 * 1e3) })
}

/// `iperf3 -f m`: megabits a second as the receiver counted them, of all streams together.
pub(super) fn iperf3(text: &str) -> Result<Figures> {
    let lines: Vec<&str> = text.lines().filter(|line| line.trim_end().ends_with("receiver")).collect();
    let line = lines.iter().find(|line| line.starts_with("[SUM]")).or(lines.first());
    let line = line.ok_or_else(|| Error::new(format!("iperf3: no receiver's line in:\n{text}")))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Mbits/sec");
    let rate = unit.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0.0);
    if rate > 0.0 {
        return Ok(Figures { rate, ..Figures::default() });
    }
    Err(Error::new(format!("iperf3: nothing was received:\n{text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_durations_have_units() {
        let text = "  Latency Distribution\n     50%   95.00us\n     99%    1.20ms\nRequests/sec:  51234.5\n";
        let figures = wrk(text).unwrap();
        assert_eq!((figures.rate, figures.p50_us, figures.p99_us), (51234.5, Some(95.0), Some(1200.0)));
    }

    #[test]
    fn failed_requests_are_an_error() {
        assert!(wrk("Requests/sec: 5.0\n  Socket errors: connect 0, read 1, write 0, timeout 0\n").is_err());
        assert!(wrk("Requests/sec: 5.0\n  Non-2xx or 3xx responses: 4\n").is_err());
        assert!(wrk("Requests/sec:      0.00\n").is_err());
    }

    #[test]
    fn redis_rows_are_found_by_command() {
        let text = "\"test\",\"rps\",\"avg\"\n\"SET\",\"1000.50\",\"0.1\",\"0.01\",\"0.063\",\"0.1\",\"0.5\",\"9\"\n";
        let figures = redis(text, "SET").unwrap();
        assert_eq!((figures.rate, figures.p50_us, figures.p99_us), (1000.5, Some(63.0), Some(500.0)));
        assert!(redis(text, "GET").is_err());
    }

    #[test]
    fn iperf3_counts_what_was_received() {
        let text = "[  5]   0.00-1.00   sec   112 MBytes   940 Mbits/sec   12   sender\n\
                    [  5]   0.00-1.00   sec   111 MBytes   931 Mbits/sec        receiver\n\
                    [SUM]   0.00-1.00   sec   222 MBytes   1862 Mbits/sec       receiver\n";
        assert_eq!(iperf3(text).unwrap().rate, 1862.0);
        assert!(iperf3("iperf3: error - unable to connect").is_err());
    }
}
