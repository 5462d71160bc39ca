//! Values of options: numbers in the C library's three bases, processor lists, rates.

use crate::exit::{Code, Failure, Result};
use crate::settings::{Bins, Pace};

/// The number at the front of `text`, base 8, 10 or 16 by its prefix. Trailing letters are ignored, as scripts
/// have come to write `-t 10s`.
pub fn leading_number(text: &str) -> Option<i64> {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let (base, body) = match digits.as_bytes() {
        [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let end = body.find(|c: char| !c.is_digit(base)).unwrap_or(body.len());
    if end == 0 {
        return None;
    }
    // Beyond 64 bits the C library saturates; every range check then refuses the value.
    let value = i64::from_str_radix(&body[..end], base).unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// A number within `low..=high`.
pub fn number(option: &str, text: &str, low: i64, high: i64) -> Result<i64> {
    leading_number(text).filter(|v| (low..=high).contains(v)).ok_or_else(|| {
        Failure::new(Code::Argument, format!("'{option}' wants a number from {low} to {high}, not '{text}'"))
    })
}

/// Digits only, within `low..=high`: ports and ranges take nothing else.
pub fn digits(option: &str, text: &str, low: i64, high: i64) -> Result<i64> {
    let parsed = text.parse().ok().filter(|v| (low..=high).contains(v) && !text.starts_with('+'));
    parsed.ok_or_else(|| {
        Failure::new(Code::Argument, format!("'{option}' wants digits from {low} to {high}, not '{text}'"))
    })
}

/// A rate: a number or `max`.
pub fn pace(option: &str, text: &str) -> Result<Pace> {
    if text.eq_ignore_ascii_case("max") {
        return Ok(Pace::Max);
    }
    Ok(Pace::PerSecond(number(option, text, 1, 1 << 30)? as u32))
}

/// A processor list such as `0,2-4`.
pub fn cpus(option: &str, text: &str) -> Result<Vec<usize>> {
    let wrong = || {
        Failure::new(Code::Argument, format!("'{option}' wants a processor list like 0,2-4, not '{text}'"))
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let low: usize = low.trim().parse().map_err(|_| wrong())?;
        let high: usize = high.trim().parse().map_err(|_| wrong())?;
        if low > high || high >= 1024 {
            return Err(wrong());
        }
        list.extend(low..=high);
    }
    Ok(list)
}

/// `size:low:high` in microseconds.
pub fn bins(option: &str, text: &str) -> Result<Bins> {
    let wrong = || {
        let want = "bin:low:high in whole microseconds, bin above 0 and low below high";
        Failure::new(Code::Argument, format!("'{option}' wants {want}, not '{text}'"))
    };
    let parts: Vec<u32> =
        text.split(':').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
    match parts[..] {
        [size, low, high] if size > 0 && low < high => Ok(Bins { size, low, high }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_c_library_reads_them() {
        for (text, value) in
            [("14", 14), ("0x10", 16), ("010", 8), ("14x", 14), ("-1", -1), ("+7", 7), ("0", 0)]
        {
            assert_eq!(leading_number(text), Some(value), "{text}");
        }
        for text in ["", "x", "-", "max"] {
            assert_eq!(leading_number(text), None, "{text}");
        }
        assert!(number("-m", "99999999999999999999999", 0, 100).is_err());
    }

    #[test]
    fn processor_lists_expand_ranges() {
        assert_eq!(cpus("x", "0,2-4").unwrap(), [0, 2, 3, 4]);
        for bad in ["", "a", "4-2", "1,", "0-99999999"] {
            assert!(cpus("x", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bins_refuse_a_zero_width_and_an_empty_range() {
        assert_eq!(bins("x", "20:0:100").unwrap(), Bins { size: 20, low: 0, high: 100 });
        for bad in ["0:0:100", "5:10:10", "5:10", "5:a:10", "1:2:3:4"] {
            assert!(bins("x", bad).is_err(), "{bad}");
        }
    }
}
