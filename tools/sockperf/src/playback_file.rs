//! The playback file: `seconds, size` a line, strictly later each time. `#` begins a comment line.

use crate::exit::{Code, Failure, Result};
use crate::message::HEADER;

/// Largest record the original accepts.
const LARGEST: usize = 64_000;

/// The records of file `path`: seconds from the start of the run, and message size.
pub fn read(path: &str) -> Result<Vec<(f64, usize)>> {
    let text = std::fs::read(path)
        .map_err(|e| Failure::new(Code::NotFound, format!("cannot open playback file {path}: {e}")))?;
    parse(&String::from_utf8_lossy(&text), path)
}

fn parse(text: &str, path: &str) -> Result<Vec<(f64, usize)>> {
    let mut records: Vec<(f64, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |code, why: &str| Failure::new(code, format!("{path}:{}: {why}", number + 1));
        let fields = line.split_once(',').and_then(|(time, size)| {
            Some((time.trim().parse::<f64>().ok()?, size.trim().parse::<usize>().ok()?))
        });
        let (time, size) = fields.ok_or_else(|| bad(Code::Argument, "not 'seconds, size'"))?;
        let before = records.last().map_or(0.0, |r| r.0);
        if !time.is_finite() || time <= before || time > 1e9 {
            return Err(bad(Code::Malformed, "times must be above 0 and strictly increase"));
        }
        if !(HEADER..=LARGEST).contains(&size) {
            return Err(bad(Code::Malformed, &format!("size {size} is not within {HEADER}..{LARGEST}")));
        }
        records.push((time, size));
    }
    if records.is_empty() {
        return Err(Failure::new(Code::Argument, format!("playback file {path} has no record")));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_times_and_sizes() {
        assert_eq!(parse("# c\n0.1, 64\n\n0.25,14", "f").unwrap(), [(0.1, 64), (0.25, 14)]);
    }

    #[test]
    fn disorder_bad_sizes_and_garbage_have_the_originals_codes() {
        for (text, code) in [
            ("0.2, 64\n0.1, 64", Code::Malformed),
            ("0, 64", Code::Malformed),
            ("inf, 64", Code::Malformed),
            ("0.1, 12", Code::Malformed),
            ("0.1, 64001", Code::Malformed),
            ("x, 64", Code::Argument),
            ("0.1 64", Code::Argument),
            ("", Code::Argument),
        ] {
            assert_eq!(parse(text, "f").unwrap_err().code, code, "{text}");
        }
    }
}
