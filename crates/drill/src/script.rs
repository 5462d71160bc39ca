//! The language of scripts: one line, one step.
//!
//! ```text
//! # Title: the first comment line says the behaviour.
//! # differs: why the engine means to behave otherwise (then there are lines that begin with linux: or engine:)
//! set fin_timeout 2                    a sysctl, by the names in `world`
//! established C <mss 1000,sackok>      the handshake of an accepted connection C, written out below
//! +0.1 < P. 1:101 ack 1 win 1000       after 0.1 s the peer sends this
//! > . seq 1 ack 101                    this must follow, at once
//! > P. 1:101 ack 101 in 0.18..0.3      this must follow, so many seconds after the line before
//! silent 0.2                           nothing may come for so long
//! call send C 100 more = 100           a system call and its answer: a number, an errno or a list of words
//! linux: > R. seq 1 ack 101            of Linux only; `engine:` of the engine only
//! ```
//!
//! Numbers are relative to each side's initial sequence number. A packet: `[@port] FLAGS [seq A | A:B] [ack N] [win N]
//! [urg N] [<options>]`, flags of `S F R P . U E W`. In what must follow, what is not said is not compared, except:
//! without options none but timestamps may be there, and what is not pushed here may be pushed. `win` takes `N`, `>N`,
//! `!>N` there.

use crate::packet::Pattern;
use std::time::Duration;

/// Whose lines these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel.
    Linux,
    /// Our engine.
    Engine,
}

/// A parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    /// What the first comment says.
    pub title: String,
    /// Why the engine behaves otherwise, if it means to.
    pub differs: Option<String>,
    /// `set` lines, in order.
    pub settings: Vec<(String, String)>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number in the file.
    pub line: usize,
    /// As written.
    pub text: String,
    /// Of one side only.
    pub side: Option<Side>,
    /// Time that passes before.
    pub wait: Duration,
    /// What happens.
    pub action: Action,
}

/// What a line does.
#[derive(Clone, Debug)]
pub enum Action {
    /// The peer sends a segment.
    Inject(Pattern),
    /// A router or the peer sends an ICMP error about a segment with this relative number.
    Icmp {
        /// Type of the message.
        kind: u8,
        /// Its code.
        code: u8,
        /// Next hop's MTU, if it tells one.
        mtu: u16,
        /// Sequence number that it quotes, relative to the host's.
        seq: u32,
    },
    /// A segment must come: at once, or in this range of time after the step before.
    Expect(Pattern, Option<(Duration, Duration)>),
    /// No segment may come for so long.
    Silent(Duration),
    /// A system call: words, and the answer.
    Call(Vec<String>, Option<String>),
}

impl Script {
    /// Parses a file's text.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script =
            Script { title: String::new(), differs: None, settings: Vec::new(), steps: Vec::new() };
        let mut reason_goes_on = false;
        for (index, raw) in text.lines().enumerate() {
            let line = raw.trim();
            if let Some(comment) = line.strip_prefix('#') {
                let comment = comment.trim();
                if script.title.is_empty() {
                    script.title = comment.trim_end_matches('.').to_owned();
                } else if let Some(reason) = comment.strip_prefix("differs:") {
                    script.differs = Some(reason.trim().to_owned());
                    reason_goes_on = true;
                } else if let (true, Some(reason)) = (reason_goes_on, script.differs.as_mut()) {
                    *reason = format!("{reason} {comment}");
                }
                continue;
            }
            reason_goes_on = false;
            for line in expand(line) {
                script.line(index + 1, &line).map_err(|why| format!("line {}: {line}: {why}", index + 1))?;
            }
        }
        if script.title.is_empty() {
            return Err("the first line must be a comment that says the behaviour".into());
        }
        script.check_differs()?;
        Ok(script)
    }

    fn check_differs(&self) -> Result<(), String> {
        let sided = self.steps.iter().any(|step| step.side.is_some());
        match (&self.differs, sided) {
            (None, true) => Err("lines of one side need a comment `differs:` that says why".into()),
            (Some(_), false) => Err("`differs:` without lines of one side".into()),
            _ => Ok(()),
        }
    }

    fn line(&mut self, line: usize, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix("set ") {
            let (name, value) = rest.trim().split_once(' ').ok_or("set NAME VALUE")?;
            self.settings.push((name.to_owned(), value.trim().to_owned()));
            return Ok(());
        }
        let (side, rest) = match text.split_once(':') {
            Some(("linux", rest)) => (Some(Side::Linux), rest.trim()),
            Some(("engine", rest)) => (Some(Side::Engine), rest.trim()),
            _ => (None, text),
        };
        let (wait, rest) = match rest.strip_prefix('+') {
            Some(timed) => {
                let (span, rest) = timed.split_once(' ').unwrap_or((timed, ""));
                (seconds(span)?, rest.trim())
            }
            None => (Duration::ZERO, rest),
        };
        let action = action(rest)?;
        self.steps.push(Step { line, text: text.to_owned(), side, wait, action });
        Ok(())
    }
}

fn action(text: &str) -> Result<Action, String> {
    if let Some(rest) = text.strip_prefix("< icmp ") {
        return icmp(rest);
    }
    if let Some(rest) = text.strip_prefix("< ") {
        let pattern = Pattern::parse(rest)?;
        if pattern.seq.is_none() {
            return Err("what the peer sends needs a sequence number".into());
        }
        return Ok(Action::Inject(pattern));
    }
    if let Some(rest) = text.strip_prefix("> ") {
        let Some((packet, range)) = rest.split_once(" in ") else {
            return Ok(Action::Expect(Pattern::parse(rest)?, None));
        };
        let (from, to) = range.split_once("..").ok_or("in FROM..TO, in seconds")?;
        return Ok(Action::Expect(Pattern::parse(packet)?, Some((seconds(from)?, seconds(to)?))));
    }
    if let Some(rest) = text.strip_prefix("silent ") {
        return Ok(Action::Silent(seconds(rest)?));
    }
    if let Some(rest) = text.strip_prefix("call ") {
        let (words, answer) = match rest.split_once(" = ") {
            Some((words, answer)) => (words, Some(answer.trim().to_owned())),
            None => (rest, None),
        };
        return Ok(Action::Call(words.split_whitespace().map(str::to_owned).collect(), answer));
    }
    Err("neither <, >, silent, call, set nor established".into())
}

fn icmp(text: &str) -> Result<Action, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| {
        words.get(at).and_then(|word| word.parse::<u32>().ok()).ok_or("< icmp KIND [MTU or CODE] seq N")
    };
    let (kind, code) = match words.first().copied() {
        Some("net") => (3, 0),
        Some("host") => (3, 1),
        Some("proto") => (3, 2),
        Some("port") => (3, 3),
        Some("fragneeded") => {
            let (mtu, seq) = (number(1)? as u16, number(3)?);
            return Ok(Action::Icmp { kind: 3, code: 4, mtu, seq });
        }
        Some("admin") => (3, 13),
        Some("ttl") => (11, 0),
        Some("reassembly") => (11, 1),
        Some("parameter") => (12, 0),
        Some("unreachable") => {
            let (code, seq) = (number(1)? as u8, number(3)?);
            return Ok(Action::Icmp { kind: 3, code, mtu: 0, seq });
        }
        _ => {
            let known =
                "net, host, proto, port, fragneeded MTU, admin, ttl, reassembly, parameter, unreachable CODE";
            return Err(format!("ICMP: {known}"));
        }
    };
    Ok(Action::Icmp { kind, code, mtu: 0, seq: number(2)? })
}

/// `established C [connect] [win N] [<options>]`: the handshake, over 20 ms, with the peer's options and window.
fn expand(line: &str) -> Vec<String> {
    let Some(rest) = line.strip_prefix("established ") else { return vec![line.to_owned()] };
    let (rest, options) = match rest.split_once('<') {
        Some((rest, options)) => (rest, format!("<{options}")),
        None => (rest, String::new()),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let name = words.first().copied().unwrap_or("C");
    let after = |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1));
    let window = after("win").copied().unwrap_or("65535");
    let ack_options = if options.contains("ts ") { options_of_data(&options) } else { String::new() };
    if words.contains(&"connect") {
        return vec![
            format!("call connect {name} = EINPROGRESS"),
            "> S seq 0 <*>".into(),
            format!("+0.02 < S. seq 0 ack 1 win {window} {options}"),
            "> . seq 1 ack 1".into(),
        ];
    }
    vec![
        "call listen L 5 = 0".into(),
        format!("< S seq 0 win {window} {options}"),
        "> S. seq 0 ack 1 <*>".into(),
        format!("+0.02 < . seq 1 ack 1 win {window} {ack_options}"),
        format!("call accept L {name} = 0"),
    ]
}

/// The timestamp among a SYN's options.
fn options_of_data(options: &str) -> String {
    let inner = options.trim_matches(['<', '>']);
    let stamp = inner.split(',').find(|option| option.trim().starts_with("ts "));
    stamp.map(|stamp| format!("<{}>", stamp.trim())).unwrap_or_default()
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.trim().parse().map_err(|_| format!("{text}: not a number of seconds"))?;
    Duration::try_from_secs_f64(value).map_err(|_| format!("{text}: not a span of time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_side_need_a_reason() {
        assert!(Script::parse("# A title\nlinux: > R seq 1").is_err());
        assert!(Script::parse("# A title\n# differs: so it is\nlinux: > R seq 1").is_ok());
        assert!(Script::parse("# A title\n# differs: so it is\n> R seq 1").is_err());
    }

    #[test]
    fn a_handshake_is_written_out() {
        let script = Script::parse("# A title\nestablished C <mss 1000,ts 5>").unwrap();
        let lines: Vec<&str> = script.steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(lines[1], "< S seq 0 win 65535 <mss 1000,ts 5>");
        assert_eq!(lines[3], "+0.02 < . seq 1 ack 1 win 65535 <ts 5>");
    }

    #[test]
    fn what_is_no_step_is_an_error_with_its_line() {
        let error = Script::parse("# A title\n\nsend C 5").unwrap_err();
        assert!(error.starts_with("line 3: send C 5"), "{error}");
    }
}
