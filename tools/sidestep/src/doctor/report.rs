//! The report: findings in the order of what matters here, alike ones together, as a page or as JSON.

use super::checks::Check;
use super::finding::{Finding, Verdict};
use super::view::{Aim, View};
use serde_json::{Value, json};
use std::fmt::Write;

/// Columns of the page: what terminals and mails have.
const WIDTH: usize = 100;
/// Interfaces named in one line of the page; the JSON has them all.
const SUBJECTS_SHOWN: usize = 4;

/// What was found on a host.
pub(crate) struct Report {
    host: About,
    entries: Vec<Entry>,
}

/// The host, for the head of the page.
struct About {
    name: String,
    kind: &'static str,
    cpus: usize,
    release: String,
    interfaces: Vec<(String, String)>,
    aim: Aim,
}

/// One finding of one check.
struct Entry {
    check: &'static Check,
    finding: Finding,
}

/// Findings that say the same of several interfaces.
struct Group<'r> {
    check: &'r Check,
    first: &'r Finding,
    subjects: Vec<&'r str>,
}

impl Report {
    /// Makes the checks.
    pub(crate) fn new(view: &View<'_>, checks: &[&'static Check]) -> Report {
        let findings = |check: &&'static Check| -> Vec<Entry> {
            let check = *check;
            check.findings(view).into_iter().map(|finding| Entry { check, finding }).collect()
        };
        let mut entries: Vec<Entry> = checks.iter().flat_map(findings).collect();
        let aim = view.aim as usize;
        entries.sort_by_key(|entry| (entry.finding.verdict, u8::MAX - entry.check.weight[aim]));
        let interfaces = view.interfaces.iter().map(|one| (one.name.clone(), one.driver.clone()));
        let host = About {
            name: view.read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kind: match (view.is_container, view.is_virtual) {
                (true, true) => "container in a virtual machine",
                (true, false) => "container",
                (false, true) => "virtual machine",
                (false, false) => "bare metal",
            },
            cpus: view.online.len(),
            release: view.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            interfaces: interfaces.collect(),
            aim: view.aim,
        };
        Report { host, entries }
    }

    /// Whether nothing is bad.
    pub(crate) fn is_well(&self) -> bool {
        self.count(Verdict::Bad) == 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.entries.iter().filter(|entry| entry.finding.verdict == verdict).count()
    }

    /// Findings that `--fix` can mend.
    pub(crate) fn fixable(&self) -> impl Iterator<Item = (&'static Check, &Finding)> {
        let all = self.entries.iter().map(|entry| (entry.check, &entry.finding));
        all.filter(|(_, finding)| finding.mend.as_ref().is_some_and(|mend| !mend.actions.is_empty()))
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for Entry { check, finding } in &self.entries {
            let alike =
                |group: &&mut Group<'_>| group.check.id == check.id && says_the_same(group.first, finding);
            match groups.iter_mut().rev().take_while(|group| group.check.id == check.id).find(alike) {
                Some(group) => group.subjects.extend(finding.subject.as_deref()),
                None => groups.push(Group {
                    check,
                    first: finding,
                    subjects: finding.subject.as_deref().into_iter().collect(),
                }),
            }
        }
        groups
    }

    /// The page for people.
    pub(crate) fn page(&self, verbose: bool) -> String {
        let mut page = self.head();
        let groups = self.groups();
        let of = |verdict| groups.iter().filter(move |group| group.first.verdict == verdict);
        for group in of(Verdict::Bad).chain(of(Verdict::Advice)) {
            page += &group.paragraph();
        }
        for (verdict, title) in [
            (Verdict::CannotTell, "Cannot tell"),
            (Verdict::Good, "Good"),
            (Verdict::NotApplicable, "Does not apply"),
        ] {
            if of(verdict).next().is_none() {
                continue;
            }
            let _ = writeln!(page, "{title}");
            // What was measured is told even where it is good: it is what people compare.
            let measured = |group: &&Group<'_>| group.first.values.is_some();
            if verbose || verdict == Verdict::CannotTell {
                of(verdict).for_each(|group| page += &group.line());
            } else {
                of(verdict).filter(measured).for_each(|group| page += &group.line());
                let mut names: Vec<&str> =
                    of(verdict).filter(|group| !measured(group)).map(|group| group.check.id).collect();
                names.dedup();
                page += &wrapped("  ", &names.join(", "));
            }
            page.push('\n');
        }
        let _ = writeln!(
            page,
            "{} bad, {} advice, {} cannot tell, {} good, {} do not apply.",
            self.count(Verdict::Bad),
            self.count(Verdict::Advice),
            self.count(Verdict::CannotTell),
            self.count(Verdict::Good),
            self.count(Verdict::NotApplicable)
        );
        page
    }

    fn head(&self) -> String {
        let About { name, kind, cpus, release, interfaces, .. } = &self.host;
        let shown = interfaces.iter().take(SUBJECTS_SHOWN * 2).map(|(name, driver)| match driver.as_str() {
            "" => name.clone(),
            driver => format!("{name} ({driver})"),
        });
        let mut shown = shown.collect::<Vec<_>>().join(", ");
        match interfaces.len().checked_sub(SUBJECTS_SHOWN * 2) {
            Some(more) if more > 0 => shown += &format!(" and {more} more"),
            _ if interfaces.is_empty() => shown += "none",
            _ => {}
        }
        let aim = self.aim();
        let words =
            format!("{name}: {kind}, {cpus} processors, Linux {release}; interfaces: {shown}; for {aim}");
        wrapped("", &words) + "\n"
    }

    fn aim(&self) -> &'static str {
        match self.host.aim {
            Aim::Latency => "latency",
            Aim::Throughput => "throughput",
        }
    }

    /// The same for programs: docs/doctor.schema.json.
    pub(crate) fn json(&self) -> Value {
        let findings: Vec<Value> = self.entries.iter().map(Entry::json).collect();
        let interfaces =
            self.host.interfaces.iter().map(|(name, driver)| json!({"name": name, "driver": driver}));
        json!({
            "schema": "sidestep-doctor-1",
            "version": env!("CARGO_PKG_VERSION"),
            "aim": self.aim(),
            "host": {
                "name": self.host.name,
                "kind": self.host.kind,
                "processors": self.host.cpus,
                "kernel": self.host.release,
                "interfaces": interfaces.collect::<Vec<_>>(),
            },
            "findings": findings,
            "summary": {
                "bad": self.count(Verdict::Bad),
                "advice": self.count(Verdict::Advice),
                "cannot-tell": self.count(Verdict::CannotTell),
                "good": self.count(Verdict::Good),
                "not-applicable": self.count(Verdict::NotApplicable),
            },
        })
    }
}

impl Entry {
    fn json(&self) -> Value {
        let Entry { check, finding } = self;
        let mut value = json!({
            "check": check.id,
            "title": check.title,
            "verdict": finding.verdict,
            "found": finding.found,
            "why": check.why,
        });
        if let Some(subject) = &finding.subject {
            value["interface"] = json!(subject);
        }
        if let Some(values) = &finding.values {
            value["values"] = values.clone();
        }
        if let Some(mend) = &finding.mend {
            value["mend"] = json!({
                "command": mend.command,
                "survives-reboot": mend.keep.is_none(),
                "fixable": !mend.actions.is_empty(),
            });
            if let Some(keep) = &mend.keep {
                value["mend"]["to-keep"] = json!(keep);
            }
        }
        value
    }
}

impl Group<'_> {
    fn subjects(&self) -> String {
        let mut shown = self.subjects.iter().take(SUBJECTS_SHOWN).copied().collect::<Vec<_>>().join(", ");
        if let Some(more) = self.subjects.len().checked_sub(SUBJECTS_SHOWN).filter(|more| *more > 0) {
            shown += &format!(" and {more} more");
        }
        shown
    }

    fn what(&self) -> String {
        match self.subjects.is_empty() {
            true => self.first.found.clone(),
            false => format!("{}: {}", self.subjects(), self.first.found),
        }
    }

    /// Something to act on.
    fn paragraph(&self) -> String {
        let mark = if self.first.verdict == Verdict::Bad { "BAD" } else { "ADVICE" };
        let mut text = wrapped(&format!("{mark:7} {}: ", self.check.id), &self.what());
        text += &wrapped("        why   ", self.check.why);
        if let Some(mend) = &self.first.mend {
            // Commands are not broken: they are to be copied.
            let _ = writeln!(text, "        mend  {}", mend.command);
            if self.subjects.len() > 1 {
                text += "              and so for the others\n";
            }
            if let Some(keep) = &mend.keep {
                text += &wrapped("        keep  ", &format!("until reboot; to keep it: {keep}"));
            }
        }
        text.push('\n');
        text
    }

    fn line(&self) -> String {
        wrapped(&format!("  {:15} ", self.check.id), &self.what())
    }
}

/// Whether two findings differ in nothing but the interface.
fn says_the_same(one: &Finding, other: &Finding) -> bool {
    let neutral = |finding: &Finding| {
        let subject = finding.subject.as_deref().unwrap_or("\0");
        let hide = |text: &str| text.replace(subject, "IF");
        let command = finding.mend.as_ref().map(|mend| hide(&mend.command));
        (finding.verdict, hide(&finding.found), command)
    };
    neutral(one) == neutral(other)
}

/// `text` behind `head`, in lines of [`WIDTH`] that stand below each other.
fn wrapped(head: &str, text: &str) -> String {
    let indent = match head.find(": ") {
        // The name of a check has any length: what follows stands where the other lines do.
        Some(_) => 14,
        None => head.len(),
    };
    let mut lines = head.to_owned();
    let mut column = head.chars().count();
    let mut fresh = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !fresh && column + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
            fresh = true;
        }
        if !fresh {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
        fresh = false;
    }
    lines.push('\n');
    lines
}
