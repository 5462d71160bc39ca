//! How one value is read from text, shown, and kept within bounds.

use crate::notice::quoted;

/// A type that a parameter may have.
pub(crate) trait Value: Sized {
    /// Reads a value; `None` if the text is not one.
    fn parse(text: &str) -> Option<Self>;
    /// As the banner and the manual show it.
    fn show(&self) -> String;
    /// What is accepted, for messages.
    fn accepted() -> String;
    /// The value as a number, if it is one that may have bounds.
    fn magnitude(&self) -> Option<i64> {
        None
    }
    /// The nearest value to a number, for clamping.
    fn from_number(_: i64) -> Option<Self> {
        None
    }
}

/// What is done with a number outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The default is used.
    Default,
    /// The nearest bound is used.
    Nearest,
}

/// Smallest and largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) outside: Outside,
}

/// Reads `text` into `field`. An error says what is wrong and what is used instead; `field` then holds that.
pub(crate) fn assign<T: Value>(
    field: &mut T,
    default: T,
    bounds: Option<Bounds>,
    text: &str,
) -> Result<(), String> {
    let Some(value) = T::parse(text) else {
        *field = default;
        return Err(format!(
            "{} is not understood; accepted: {}; using {}",
            quoted(text),
            accepted::<T>(bounds),
            show_for_message(field),
        ));
    };
    let Some((bounds, number)) = bounds.zip(value.magnitude()) else {
        *field = value;
        return Ok(());
    };
    if (bounds.low..=bounds.high).contains(&number) {
        *field = value;
        return Ok(());
    }
    let nearest = T::from_number(number.clamp(bounds.low, bounds.high));
    *field = match (bounds.outside, nearest) {
        (Outside::Nearest, Some(nearest)) => nearest,
        _ => default,
    };
    Err(format!(
        "{} is out of range {}..{}; using {}",
        // As it was written: the number itself may not have fitted.
        if text.trim().len() <= LONGEST_NUMBER { text.trim().to_owned() } else { number.to_string() },
        bounds.low,
        bounds.high,
        show_for_message(field)
    ))
}

/// Characters of a number that a message repeats as they were written.
const LONGEST_NUMBER: usize = 40;

/// What a parameter of this type and these bounds takes.
pub(crate) fn accepted<T: Value>(bounds: Option<Bounds>) -> String {
    match bounds {
        Some(bounds) if bounds.high == i64::from(i32::MAX) || bounds.high == i64::from(u32::MAX) => {
            format!("{} from {}", T::accepted(), bounds.low)
        }
        Some(bounds) => format!("{} from {} to {}", T::accepted(), bounds.low, bounds.high),
        None => T::accepted(),
    }
}

fn show_for_message<T: Value>(value: &T) -> String {
    let shown = value.show();
    if shown.is_empty() { "nothing".to_owned() } else { shown.trim_end().to_owned() }
}

/// Decimal digits with a sign; large magnitudes saturate, so that bounds can speak about them.
fn whole_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX);
    Some(if negative { -magnitude } else { magnitude })
}

macro_rules! numbers {
    ($($type:ty),+) => { $(
        impl Value for $type {
            fn parse(text: &str) -> Option<Self> {
                let number = whole_number(text)?;
                Some(<$type>::try_from(number).unwrap_or(if number < 0 { <$type>::MIN } else { <$type>::MAX }))
            }
            fn show(&self) -> String {
                self.to_string()
            }
            fn accepted() -> String {
                "a whole number".to_owned()
            }
            fn magnitude(&self) -> Option<i64> {
                i64::try_from(*self).ok()
            }
            fn from_number(number: i64) -> Option<Self> {
                <$type>::try_from(number).ok()
            }
        }
    )+ };
}

numbers!(i32, i64);

impl Value for u32 {
    fn parse(text: &str) -> Option<Self> {
        u32::try_from(whole_number(text)?.min(i64::from(u32::MAX))).ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn accepted() -> String {
        "a whole number".to_owned()
    }
    fn magnitude(&self) -> Option<i64> {
        Some(i64::from(*self))
    }
    fn from_number(number: i64) -> Option<Self> {
        u32::try_from(number).ok()
    }
}

impl Value for bool {
    /// VMA takes any number but 0 for yes; words are ours.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(number) = whole_number(text) {
            return Some(number != 0);
        }
        let is = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
        if is(["yes", "true", "on", "enabled"]) {
            return Some(true);
        }
        is(["no", "false", "off", "disabled"]).then_some(false)
    }
    fn show(&self) -> String {
        (if *self { "Enabled " } else { "Disabled" }).to_owned()
    }
    fn accepted() -> String {
        "0|no|off or 1|yes|on".to_owned()
    }
}

impl Value for String {
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
    fn show(&self) -> String {
        self.clone()
    }
    fn accepted() -> String {
        "text".to_owned()
    }
}

/// Cores that a thread may run on; empty means any. Written as `-1` (any), a mask `0x5`, or a list `0,2-4`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Affinity(Vec<u16>);

impl Affinity {
    /// The cores, in rising order; none means that the thread is not bound.
    pub fn cores(&self) -> &[u16] {
        &self.0
    }
}

/// The largest core number that the kernel's cpu_set_t of 1024 bits can say.
const CORE_MAX: u16 = 1023;

impl Value for Affinity {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut cores = Vec::new();
        if text == "-1" {
            return Some(Affinity(cores));
        }
        if let Some(mask) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            if mask.is_empty() || mask.len() > 256 {
                return None;
            }
            for (place, digit) in mask.chars().rev().enumerate() {
                let digit = digit.to_digit(16)?;
                let bits = (0..4u16).filter(|bit| digit & 1 << bit != 0);
                cores.extend(bits.map(|bit| u16::try_from(place).unwrap_or(0) * 4 + bit));
            }
        } else {
            for part in text.split(',') {
                let (low, high) = part.split_once('-').unwrap_or((part, part));
                let (low, high) = (low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?);
                if low > high || high > CORE_MAX {
                    return None;
                }
                cores.extend(low..=high);
            }
            cores.sort_unstable();
            cores.dedup();
        }
        (!cores.is_empty()).then_some(Affinity(cores))
    }
    fn show(&self) -> String {
        if self.0.is_empty() {
            return "-1".to_owned();
        }
        self.0.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
    }
    fn accepted() -> String {
        "-1 (any core), a mask such as 0x5, or a list such as 0,2-4".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Affinity, Bounds, Outside, Value, assign};

    #[test]
    fn numbers_saturate_so_that_bounds_can_speak() {
        assert_eq!(i32::parse("99999999999999999999"), Some(i32::MAX));
        assert_eq!(i32::parse(" -7 "), Some(-7));
        for junk in ["", "-", "7x", "0x10", "1.5"] {
            assert_eq!(i32::parse(junk), None, "{junk}");
        }
        assert_eq!(u32::parse("-1"), None);
    }

    #[test]
    fn cores_are_read_from_mask_and_list() {
        assert_eq!(Affinity::parse("0x5").unwrap().cores(), [0, 2]);
        assert_eq!(Affinity::parse("0x30").unwrap().cores(), [4, 5]);
        assert_eq!(Affinity::parse("4,0,2-4").unwrap().cores(), [0, 2, 3, 4]);
        assert_eq!(Affinity::parse("-1").unwrap().cores(), []);
        for junk in ["", "0x", "0x0", "4-2", "9999", "0xzz", "a"] {
            assert_eq!(Affinity::parse(junk), None, "{junk}");
        }
    }

    #[test]
    fn out_of_bounds_is_clamped_or_defaulted_and_told() {
        let mut field = 5;
        let bounds = |outside| Some(Bounds { low: 0, high: 10, outside });
        let told = assign(&mut field, 5, bounds(Outside::Nearest), "11").unwrap_err();
        assert_eq!((field, told.as_str()), (10, "11 is out of range 0..10; using 10"));
        assert!(assign(&mut field, 5, bounds(Outside::Default), "-1").is_err());
        assert_eq!(field, 5);
        let told = assign(&mut field, 5, bounds(Outside::Default), "many").unwrap_err();
        assert_eq!(told, "'many' is not understood; accepted: a whole number from 0 to 10; using 5");
    }
}
