//! Addresses and names out of a text, each by a name of its own, so that what belongs together is still seen together.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Replaces; the same thing has the same name in all texts.
pub(super) struct Redaction {
    host: String,
    known: HashMap<String, String>,
}

/// What stands behind such a word and a `=` is nobody's business.
const SECRETS: [&str; 5] = ["pass", "secret", "token", "key", "credential"];

impl Redaction {
    pub(super) fn new(host: &str) -> Redaction {
        Redaction { host: host.to_owned(), known: HashMap::new() }
    }

    pub(super) fn of(&mut self, text: &str) -> String {
        let is_part =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '=' | '[' | ']');
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            result.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            match word.split_once('=').filter(|(name, _)| is_secret(name)) {
                Some((name, _)) => {
                    rest = &rest[name.len() + 1..];
                    // An empty one is told: that there is none may be what is wrong.
                    let secret = length_of_secret(rest);
                    result += name;
                    result += if secret == 0 { "=" } else { "=(secret)" };
                    rest = &rest[secret..];
                }
                None => {
                    result.push_str(&self.word(word));
                    rest = &rest[end..];
                }
            }
        }
        result + rest
    }

    fn word(&mut self, word: &str) -> String {
        if let Some((name, value)) = word.split_once('=') {
            return format!("{name}={}", self.word(value));
        }
        // A sentence's end belongs to no address.
        let bare = word.trim_end_matches(['.', ':', '-']);
        let end = &word[bare.len()..];
        format!("{}{end}", self.name(bare))
    }

    fn name(&mut self, word: &str) -> String {
        if word == self.host && word.len() > 1 {
            return "host".to_owned();
        }
        if is_hardware_address(word) {
            return self.known_as("mac", word);
        }
        let (address, port) = match (word.parse::<IpAddr>(), word.parse::<SocketAddr>()) {
            (Ok(address), _) => (address, String::new()),
            (_, Ok(whole)) => (whole.ip(), format!(":{}", whole.port())),
            _ => return word.to_owned(),
        };
        if says_nothing(address) {
            return word.to_owned();
        }
        let kind = if address.is_ipv4() { "ipv4" } else { "ipv6" };
        self.known_as(kind, &address.to_string()) + &port
    }

    fn known_as(&mut self, kind: &str, what: &str) -> String {
        let number = self.known.len() + 1;
        self.known.entry(what.to_owned()).or_insert_with(|| format!("{kind}-{number}")).clone()
    }
}

fn is_secret(name: &str) -> bool {
    let lower = name.to_lowercase();
    SECRETS.iter().any(|secret| lower.contains(secret))
}

/// A secret may have any characters: in quotes up to their end, else up to a blank or to the quote of what is around.
fn length_of_secret(text: &str) -> usize {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    match quote {
        Some(quote) => {
            let line = text.find('\n').unwrap_or(text.len());
            text[1..line].find(quote).map_or(line, |end| end + 2)
        }
        None => text
            .find(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\''))
            .unwrap_or(text.len()),
    }
}

fn is_hardware_address(word: &str) -> bool {
    word.len() == 17
        && word.split(':').count() == 6
        && word.split(':').all(|byte| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok())
        && word != "00:00:00:00:00:00"
}

/// Addresses that every host has, and masks.
fn says_nothing(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            address.is_loopback() || bits.leading_ones() + bits.trailing_zeros() >= 32 || bits == 0
        }
        IpAddr::V6(address) => address.is_loopback() || address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_go_and_what_belongs_together_stays_together() {
        let mut redaction = Redaction::new("build7");
        let text = redaction.of(
            "build7: 10.1.2.3:80 to fe80::1 (02:42:ac:11:00:02), then 10.1.2.3.\n127.0.0.1 255.255.255.0",
        );
        assert_eq!(text, "host: ipv4-1:80 to ipv6-2 (mac-3), then ipv4-1.\n127.0.0.1 255.255.255.0");
    }

    #[test]
    fn what_looks_like_a_secret_goes() {
        let mut redaction = Redaction::new("");
        assert_eq!(
            redaction.of("root=/dev/vda ipmi_password=hunter2 ip=10.0.0.9"),
            "root=/dev/vda ipmi_password=(secret) ip=ipv4-1"
        );
    }

    /// Whatever characters it has.
    #[test]
    fn nothing_is_left_of_a_secret() {
        let mut redaction = Redaction::new("");
        for (text, left) in [
            ("token=ab/cd+ef== x", "token=(secret) x"),
            ("{\"line\":\"key=a/b@c\"}", "{\"line\":\"key=(secret)\"}"),
            ("pass='two words' y", "pass=(secret) y"),
            ("pass=\"two words\"", "pass=(secret)"),
            ("pass='open", "pass=(secret)"),
            ("pass='open\nnext", "pass=(secret)\nnext"),
            ("key=a=b&c", "key=(secret)"),
            ("key= z", "key= z"),
        ] {
            assert_eq!(redaction.of(text), left);
        }
    }

    #[test]
    fn versions_times_and_paths_stay() {
        let mut redaction = Redaction::new("vm");
        for text in [
            "6.18.44-fc",
            "12:30:01",
            "/sys/class/net/eth0",
            "0000:3b:00.0",
            "1.5.3",
            "0-3,8",
            "{\"rx\":512}",
        ] {
            assert_eq!(redaction.of(text), text);
        }
    }
}
