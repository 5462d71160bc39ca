//! Which interfaces are ours: the value of `SIDESTEP_INTERFACES`.

use crate::glob;
use crate::notice::{Notice, quoted};

/// The answer for one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Named by the user.
    Yes,
    /// Excluded by the user, or not among those named.
    No,
    /// The user leaves it to us.
    Auto,
}

/// A list of patterns; exclusion wins whatever the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    chosen: Vec<String>,
    excluded: Vec<String>,
    auto: bool,
}

impl Default for Interfaces {
    fn default() -> Self {
        Interfaces { chosen: Vec::new(), excluded: Vec::new(), auto: true }
    }
}

impl Interfaces {
    /// Reads the list: `auto`, patterns as in the shell, and `!pattern` to exclude, separated by commas. Only
    /// exclusions (or nothing) leaves the others to `auto`.
    pub fn parse(text: &str) -> (Interfaces, Vec<Notice>) {
        let mut list = Interfaces { chosen: Vec::new(), excluded: Vec::new(), auto: false };
        let mut notices = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (pattern, target) = match part.strip_prefix('!') {
                Some(pattern) => (pattern.trim(), &mut list.excluded),
                None if part.eq_ignore_ascii_case("auto") => {
                    list.auto = true;
                    continue;
                }
                None => (part, &mut list.chosen),
            };
            if pattern.is_empty() || pattern.contains(|c: char| c.is_whitespace() || c == '/') {
                notices.push(Notice::warning(format!(
                    "SIDESTEP_INTERFACES: {} cannot be an interface; accepted: auto, names or patterns such as \
                     eth1,veth*, and !name to exclude, separated by commas",
                    quoted(part)
                )));
            } else {
                target.push(pattern.to_owned());
            }
        }
        list.auto |= list.chosen.is_empty();
        (list, notices)
    }

    /// The names and patterns that the user chose.
    pub fn chosen(&self) -> &[String] {
        &self.chosen
    }

    /// Whether the interface of this name is wanted.
    pub fn choice(&self, name: &str) -> Choice {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name));
        if any(&self.excluded) {
            Choice::No
        } else if any(&self.chosen) {
            Choice::Yes
        } else if self.auto {
            Choice::Auto
        } else {
            Choice::No
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Interfaces};

    fn choice(text: &str, name: &str) -> Choice {
        Interfaces::parse(text).0.choice(name)
    }

    #[test]
    fn exclusion_wins_whatever_the_order() {
        assert_eq!(choice("auto", "eth0"), Choice::Auto);
        assert_eq!(choice("", "eth0"), Choice::Auto);
        assert_eq!(choice("*", "eth0"), Choice::Yes);
        assert_eq!(choice("!eth0, *", "eth0"), Choice::No);
        assert_eq!(choice("*,!eth0", "eth1"), Choice::Yes);
        assert_eq!(choice("!eth0", "eth1"), Choice::Auto);
        assert_eq!(choice("eth1,veth*", "eth0"), Choice::No);
        assert_eq!(choice("eth1,veth*", "veth12"), Choice::Yes);
        assert_eq!(choice("auto,veth*", "eth0"), Choice::Auto);
    }

    #[test]
    fn nonsense_is_told_and_skipped() {
        let (list, notices) = Interfaces::parse("eth0,!,/dev/eth1");
        assert_eq!(notices.len(), 2);
        assert!(notices[0].text.contains("'!'"), "{}", notices[0].text);
        assert_eq!(list.choice("eth0"), Choice::Yes);
    }
}
