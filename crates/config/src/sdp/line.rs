//! One line of a file, in whatever dialect its first word is.

use super::log::{self, Change};
use super::place::{Place, Ports};
use super::{Dialect, Role, Rule, Wanted};
use crate::notice::quoted;

/// What a line says, with what its writer should know about it.
pub(super) enum Statement {
    /// Blank or comment.
    Nothing,
    Log(Change, Option<String>),
    /// The rule's own line number is not known here.
    Rule(Dialect, Rule, Option<String>),
}

/// What is wrong with a line; in which dialect it is, as far as that shows.
type Trouble = (Option<Dialect>, String);

/// Reads one line.
pub(super) fn read(text: &str) -> Result<Statement, Trouble> {
    let mut words = Words { rest: text };
    let Some(first) = words.next() else { return Ok(Statement::Nothing) };
    let (dialect, rule) = match first {
        "log" => {
            let (change, warning) = log::read(words).map_err(|trouble| (None, trouble))?;
            return Ok(Statement::Log(change, warning));
        }
        "match" => (Dialect::Match, match_rule(words)),
        "use" => (Dialect::Use, use_rule(words)?),
        "bind" => (Dialect::Java, java_rule(words, first, Role::Server)),
        "connect" => (Dialect::Java, java_rule(words, first, Role::Client)),
        "application-id" => return Err((None, of_vma("application-id"))),
        other => {
            let other = quoted(other);
            return Err((
                None,
                format!("{other} begins no line; expected log, and match, use, or bind and connect"),
            ));
        }
    };
    let (rule, warning) = rule.map_err(|trouble| (Some(dialect), trouble))?;
    Ok(Statement::Rule(dialect, rule, warning))
}

type ReadRule = Result<(Rule, Option<String>), String>;

/// `match` and expressions, all of which must hold.
fn match_rule(mut words: Words<'_>) -> ReadRule {
    let mut rule =
        Rule { line: 0, wanted: Wanted::Sdp, role: None, programs: Vec::new(), places: Vec::new() };
    let mut said: Option<&str> = None;
    let mut warning = None;
    while let Some(word) = words.next() {
        if word == "program" {
            let program = words.next_raw().ok_or("program needs a name or a pattern")?;
            rule.programs.push(program.to_owned());
            continue;
        }
        let (role, wanted) = match word {
            "destination" => (Role::Client, Wanted::Sdp),
            "listen" => (Role::Server, Wanted::Sdp),
            "shared" => (Role::Server, Wanted::Both),
            other => {
                let other = quoted(other);
                return Err(format!(
                    "{other} is no expression; expected destination, listen, shared or program"
                ));
            }
        };
        if let Some(earlier) = said.filter(|earlier| *earlier != word) {
            return Err(format!("{earlier} and {word} never hold for one socket; write two lines"));
        }
        said = Some(word);
        let place = words.next().ok_or_else(|| format!("{word} needs an address, such as *:5001"))?;
        let (place, told) = Place::parse(place, Ports::Optional)?;
        (rule.role, rule.wanted) = (Some(role), wanted);
        rule.places.push(place);
        warning = warning.or(told);
    }
    if rule.places.is_empty() && rule.programs.is_empty() {
        return Err("match needs an expression: destination, listen, shared or program".to_owned());
    }
    Ok((rule, warning))
}

/// `use WANTED ROLE PROGRAM ADDRESS:PORTS`.
fn use_rule(mut words: Words<'_>) -> Result<ReadRule, Trouble> {
    const ROLES_OF_VMA: [&str; 5] = ["tcp_server", "tcp_client", "udp_sender", "udp_receiver", "udp_connect"];
    let (wanted, role) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if matches!(wanted, "os" | "vma" | "sa") || ROLES_OF_VMA.contains(&role) {
        return Err((None, of_vma(&format!("use {wanted} {role}"))));
    }
    Ok(use_rule_of(wanted, role, words))
}

fn use_rule_of(wanted: &str, role: &str, mut words: Words<'_>) -> ReadRule {
    let wanted = match wanted {
        "sdp" => Wanted::Sdp,
        "tcp" => Wanted::Tcp,
        "both" => Wanted::Both,
        other => return Err(format!("{} after use; expected sdp, tcp or both", quoted(other))),
    };
    let role = match role {
        "server" | "listen" => Role::Server,
        "client" | "connect" => Role::Client,
        other => return Err(format!("{} is no role; expected server or client", quoted(other))),
    };
    let program = words.next_raw().unwrap_or("");
    // Blanks may stand anywhere between the parts of an address.
    let place: String = words.collect();
    if place.is_empty() {
        let is_place = Place::parse(program, Ports::Needed).is_ok();
        let missing =
            if is_place { "the program, or *, before the address" } else { "program and ADDRESS:PORTS" };
        return Err(format!("missing: {missing}; as in: use both server * *:5001"));
    }
    let (place, warning) = Place::parse(&place, Ports::Needed)?;
    let programs = if program == "*" { Vec::new() } else { vec![program.to_owned()] };
    Ok((Rule { line: 0, wanted, role: Some(role), programs, places: vec![place] }, warning))
}

/// `bind ADDRESS PORTS` and `connect ADDRESS PORTS`.
fn java_rule(mut words: Words<'_>, word: &str, role: Role) -> ReadRule {
    let (Some(address), Some(ports), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!(
            "{word} needs two words, an address and ports; as in: {word} 192.0.2.0/24 1024-*"
        ));
    };
    let (place, warning) = Place::parse_two(address, ports)?;
    let rule =
        Rule { line: 0, wanted: Wanted::Sdp, role: Some(role), programs: Vec::new(), places: vec![place] };
    Ok((rule, warning))
}

/// What a line says that belongs into another file.
fn of_vma(words: &str) -> String {
    format!("{} is for libvma.conf (VMA_CONFIG_FILE), not for libsdp", quoted(words.trim_end()))
}

/// The line that says the same in another dialect, if there is one.
pub(super) fn in_dialect(rule: &Rule, dialect: Dialect) -> Option<String> {
    let program = match &rule.programs[..] {
        [] => None,
        [one] => Some(one.as_str()),
        _ => return None,
    };
    let place = match &rule.places[..] {
        [] => None,
        [one] => Some(one.shown()),
        _ => return None,
    };
    let (address, ports) = place.clone().unwrap_or_else(|| ("*".to_owned(), "*".to_owned()));
    match (dialect, rule.wanted, rule.role) {
        (Dialect::Match, Wanted::Sdp | Wanted::Both, Some(role)) => {
            let word = match (role, rule.wanted) {
                (Role::Client, Wanted::Sdp) => "destination",
                (Role::Client, _) => return None,
                (Role::Server, Wanted::Both) => "shared",
                (Role::Server, _) => "listen",
            };
            let program = program.map(|program| format!(" program {program}")).unwrap_or_default();
            Some(format!("match {word} {address}:{ports}{program}"))
        }
        (Dialect::Match, Wanted::Sdp, None) => program.map(|program| format!("match program {program}")),
        (Dialect::Use, wanted, Some(role)) => {
            let role = if role == Role::Server { "server" } else { "client" };
            Some(format!("use {} {role} {} {address}:{ports}", wanted.name(), program.unwrap_or("*")))
        }
        (Dialect::Use, _, None) => {
            let program = program.unwrap_or("*");
            Some(format!("use sdp server {program} *:*, and use sdp client {program} *:*"))
        }
        (Dialect::Java, Wanted::Sdp, Some(role)) if program.is_none() => {
            let word = if role == Role::Server { "bind" } else { "connect" };
            Some(format!("{word} {address} {ports}"))
        }
        _ => None,
    }
}

/// The words of a line, up to a comment.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The next run without blanks, even if it has `#` in it: names of programs are any.
    fn next_raw(&mut self) -> Option<&'a str> {
        const BLANKS: [char; 3] = [' ', '\t', '\r'];
        let text = self.rest.trim_start_matches(BLANKS);
        if text.is_empty() || text.starts_with('#') {
            self.rest = "";
            return None;
        }
        let (word, rest) = text.split_at(text.find(BLANKS).unwrap_or(text.len()));
        self.rest = rest;
        Some(word)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    /// The next word; a comment may follow it without a blank.
    fn next(&mut self) -> Option<&'a str> {
        let word = self.next_raw()?;
        match word.split_once('#') {
            None => Some(word),
            Some((before, _)) => {
                self.rest = "";
                Some(before)
            }
        }
    }
}
