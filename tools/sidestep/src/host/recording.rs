//! A machine as a file: what every question was answered. Lines of these shapes:
//!
//! ```text
//! # a comment
//! /proc/sys/net/core/busy_poll = 50            a file of one line
//! /sys/devices/system/cpu/cpu{0-15}/online = 1 sixteen such files
//! /proc/interrupts                             a file of several lines, which follow
//! | 24: ...
//! /sys/class/net/eth0/device -> ../../0000:3b:00.0
//! /proc/kcore ! denied                         or `missing`, or an errno
//! /sys/class/net/ : eth0 lo                    a directory; else its names are those that other lines begin with
//! ? rings eth0 = {"rx":512}                    an answer of the kernel
//! ```
//!
//! What is not in the recording was not there.

use super::{Answer, Cause, Host, Unread};
use crate::host::cpus::Cpus;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A recorded machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    files: BTreeMap<String, Result<String, Cause>>,
    links: BTreeMap<String, Result<String, Cause>>,
    lists: BTreeMap<String, Result<Vec<String>, Cause>>,
    answers: BTreeMap<(String, String), Result<Value, Cause>>,
}

impl Recording {
    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.links.is_empty() && self.lists.is_empty() && self.answers.is_empty()
    }

    /// Reads a recording. The error names the line.
    pub(crate) fn parse(text: &str) -> Result<Recording, String> {
        let mut recording = Recording::default();
        let mut open: Vec<String> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
            if let Some(more) = line.strip_prefix('|') {
                let more = more.strip_prefix(' ').unwrap_or(more);
                for path in &open {
                    let Some(Ok(text)) = recording.files.get_mut(path) else { continue };
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(more);
                }
                continue;
            }
            open.clear();
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(question) = line.strip_prefix("? ") {
                let (key, value) = match (question.split_once(" = "), question.split_once(" ! ")) {
                    (Some((key, value)), _) => {
                        (key, Ok(serde_json::from_str(value).map_err(|error| wrong(&error.to_string()))?))
                    }
                    (_, Some((key, cause))) => {
                        (key, Err(cause_of(cause).ok_or_else(|| wrong("no such cause"))?))
                    }
                    _ => return Err(wrong("a question without an answer")),
                };
                let (topic, about) = key.split_once(' ').unwrap_or((key, ""));
                for about in expand(about).ok_or_else(|| wrong("wrong braces"))? {
                    recording.answers.insert((topic.to_owned(), about), value.clone());
                }
                continue;
            }
            if !line.starts_with('/') {
                return Err(wrong("neither a path nor a question"));
            }
            let (path, kind, value) = split(line);
            for path in expand(path).ok_or_else(|| wrong("wrong braces"))? {
                match kind {
                    "=" => drop(recording.files.insert(path, Ok(value.to_owned()))),
                    "->" => drop(recording.links.insert(path, Ok(value.to_owned()))),
                    ":" => {
                        let names = value.split_whitespace().map(str::to_owned).collect();
                        recording.lists.insert(path.trim_end_matches('/').to_owned(), Ok(names));
                    }
                    "!" => {
                        let cause = cause_of(value).ok_or_else(|| wrong("no such cause"))?;
                        let of = path.trim_end_matches('/').to_owned();
                        if path.ends_with('/') {
                            recording.lists.insert(of, Err(cause));
                        } else {
                            recording.links.insert(of.clone(), Err(cause));
                            recording.files.insert(of, Err(cause));
                        }
                    }
                    _ => {
                        open.push(path.clone());
                        recording.files.insert(path, Ok(String::new()));
                    }
                }
            }
        }
        Ok(recording)
    }

    /// The recording with further lines; they replace what they name.
    #[cfg(test)]
    pub(crate) fn with(mut self, lines: &str) -> Recording {
        let more = Recording::parse(lines).expect("a test's own lines");
        self.files.extend(more.files);
        self.links.extend(more.links);
        self.lists.extend(more.lists);
        self.answers.extend(more.answers);
        self
    }

    /// Whether a question was asked when it was made.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.answers.keys().any(|(asked, _)| asked == topic)
    }

    /// The text that [`Recording::parse`] reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (path, content) in &self.files {
            match content {
                Ok(line) if line.contains('\n') || line.is_empty() => {
                    let _ = writeln!(text, "{path}");
                    for line in line.lines() {
                        let _ = writeln!(text, "| {line}");
                    }
                }
                Ok(line) => drop(writeln!(text, "{path} = {line}")),
                Err(cause) => drop(writeln!(text, "{path} ! {}", cause_name(*cause))),
            }
        }
        for (path, target) in &self.links {
            // A path that is neither file nor link was told above.
            if let Ok(target) = target {
                let _ = writeln!(text, "{path} -> {target}");
            }
        }
        for (path, names) in &self.lists {
            match names {
                Ok(names) => drop(writeln!(text, "{path}/ : {}", names.join(" "))),
                Err(cause) => drop(writeln!(text, "{path}/ ! {}", cause_name(*cause))),
            }
        }
        for ((topic, about), value) in &self.answers {
            match value {
                Ok(value) => drop(writeln!(text, "? {topic} {about} = {value}")),
                Err(cause) => drop(writeln!(text, "? {topic} {about} ! {}", cause_name(*cause))),
            }
        }
        text
    }

    /// Names right below a path that other lines have.
    fn below(&self, path: &str) -> BTreeSet<String> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let files = self.files.iter().filter(|(_, content)| content != &&Err(Cause::Missing));
        let paths = files.map(|(path, _)| path).chain(self.links.keys()).chain(self.lists.keys());
        let rests = paths.filter_map(|path| path.strip_prefix(&prefix));
        rests.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect()
    }
}

impl Host for Recording {
    fn read(&self, path: &str) -> Answer<String> {
        let content = self.files.get(path).cloned().unwrap_or(Err(Cause::Missing));
        content.map_err(|cause| Unread::new(path, cause))
    }

    fn list(&self, path: &str) -> Answer<Vec<String>> {
        if let Some(names) = self.lists.get(path.trim_end_matches('/')) {
            return names.clone().map_err(|cause| Unread::new(path, cause));
        }
        let names = self.below(path);
        if names.is_empty() {
            return Err(Unread::new(path, Cause::Missing));
        }
        Ok(names.into_iter().collect())
    }

    fn link(&self, path: &str) -> Answer<String> {
        let target = self.links.get(path).cloned().unwrap_or(Err(Cause::Missing));
        target.map_err(|cause| Unread::new(path, cause))
    }

    fn ask(&self, topic: &str, about: &str) -> Answer<Value> {
        let key = (topic.to_owned(), about.to_owned());
        let value = self.answers.get(&key).cloned().unwrap_or(Err(Cause::Missing));
        value.map_err(|cause| Unread::new(format!("{topic} {about}").trim_end(), cause))
    }
}

/// A host that is recorded while it answers.
pub(crate) struct Recorder<'h> {
    host: &'h dyn Host,
    heard: RefCell<Recording>,
}

impl<'h> Recorder<'h> {
    pub(crate) fn new(host: &'h dyn Host) -> Recorder<'h> {
        Recorder { host, heard: RefCell::default() }
    }

    /// What was heard so far.
    pub(crate) fn recording(&self) -> Recording {
        self.heard.borrow().clone()
    }
}

impl Host for Recorder<'_> {
    fn read(&self, path: &str) -> Answer<String> {
        let answer = self.host.read(path);
        let heard = answer.clone().map_err(|unread| unread.cause);
        self.heard.borrow_mut().files.insert(path.to_owned(), heard);
        answer
    }

    fn list(&self, path: &str) -> Answer<Vec<String>> {
        let answer = self.host.list(path);
        let heard = answer.clone().map_err(|unread| unread.cause);
        self.heard.borrow_mut().lists.insert(path.trim_end_matches('/').to_owned(), heard);
        answer
    }

    fn link(&self, path: &str) -> Answer<String> {
        let answer = self.host.link(path);
        let heard = answer.clone().map_err(|unread| unread.cause);
        self.heard.borrow_mut().links.insert(path.to_owned(), heard);
        answer
    }

    fn ask(&self, topic: &str, about: &str) -> Answer<Value> {
        let answer = self.host.ask(topic, about);
        let heard = answer.clone().map_err(|unread| unread.cause);
        self.heard.borrow_mut().answers.insert((topic.to_owned(), about.to_owned()), heard);
        answer
    }
}

/// Path, sign and value of a line.
fn split(line: &str) -> (&str, &str, &str) {
    for sign in ["=", "->", "!", ":"] {
        if let Some((path, value)) = line.split_once(&format!(" {sign} "))
            && !path.contains(' ')
        {
            return (path, sign, value);
        }
    }
    match line.strip_suffix(" =").or_else(|| line.strip_suffix(" :")) {
        Some(path) if line.ends_with(':') => (path, ":", ""),
        Some(path) => (path, "=", ""),
        None => (line, "", ""),
    }
}

/// `a{0-2}b` is `a0b`, `a1b`, `a2b`.
fn expand(text: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = text.split_once('{') else { return Some(vec![text.to_owned()]) };
    let (numbers, after) = rest.split_once('}')?;
    let after = expand(after)?;
    let numbers = Cpus::parse(numbers)?;
    Some(numbers.iter().flat_map(|n| after.iter().map(move |after| format!("{before}{n}{after}"))).collect())
}

fn cause_of(name: &str) -> Option<Cause> {
    match name.trim() {
        "missing" => Some(Cause::Missing),
        "denied" => Some(Cause::Denied),
        number => number.parse().ok().map(Cause::Failed),
    }
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Missing => "missing".to_owned(),
        Cause::Denied => "denied".to_owned(),
        Cause::Failed(errno) => errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a machine
/proc/two
| first
| second
/sys/cpu/cpu{0-1}/online = 1
/sys/net/eth0/device -> ../../x
/proc/secret ! denied
/sys/given/ : b a
? rings eth0 = {\"rx\":512}
? rings eth1 ! 22
";

    #[test]
    fn what_was_written_is_read() {
        let host = Recording::parse(TEXT).unwrap();
        assert_eq!(host.read("/proc/two").unwrap(), "first\nsecond");
        assert_eq!(host.list("/sys/cpu").unwrap(), ["cpu0", "cpu1"]);
        assert_eq!(host.list("/sys/given").unwrap(), ["b", "a"]);
        assert_eq!(host.link("/sys/net/eth0/device").unwrap(), "../../x");
        assert_eq!(host.read("/proc/secret").unwrap_err().cause, Cause::Denied);
        assert_eq!(host.read("/proc/none").unwrap_err().cause, Cause::Missing);
        assert_eq!(host.ask("rings", "eth0").unwrap()["rx"], 512);
        assert_eq!(host.ask("rings", "eth1").unwrap_err().cause, Cause::Failed(22));
    }

    #[test]
    fn a_recorder_writes_a_recording_of_the_same_answers() {
        let host = Recording::parse(TEXT).unwrap();
        let recorder = Recorder::new(&host);
        let _ = (recorder.read("/proc/two"), recorder.read("/proc/secret"), recorder.read("/proc/none"));
        let _ = (recorder.list("/sys/cpu"), recorder.link("/sys/net/eth0/device"));
        let _ = (recorder.ask("rings", "eth0"), recorder.ask("rings", "eth1"));
        let again = Recording::parse(&recorder.recording().text()).unwrap();
        for path in ["/proc/two", "/proc/secret", "/proc/none"] {
            assert_eq!(again.read(path), host.read(path));
        }
        assert_eq!(again.list("/sys/cpu"), host.list("/sys/cpu"));
        assert_eq!(again.link("/sys/net/eth0/device"), host.link("/sys/net/eth0/device"));
        for about in ["eth0", "eth1"] {
            assert_eq!(again.ask("rings", about), host.ask("rings", about));
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for wrong in ["nonsense", "? rings", "/a ! what", "/a{ = 1", "? r e = {"] {
            assert!(Recording::parse(wrong).unwrap_err().starts_with("line 1: "), "{wrong}");
        }
    }
}
