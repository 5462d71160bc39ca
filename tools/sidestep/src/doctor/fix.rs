//! `--fix` and `--undo`: the changes that findings propose, one by one, each written down before it is made.
//!
//! The journal has a line for each change: what was there, what it becomes, in which boot and network namespace. It is
//! on the disk before the change is made, and a second one with what came of it afterwards. So whatever happens to the
//! doctor, `--undo` finds for each line either what was there (nothing to do), or what the doctor made of it (put
//! back), or something else, which somebody else wants: that it leaves alone. Where the doctor died between the two
//! lines, nobody knows how a driver has rounded what was asked for: there, whatever it is, what was there before is put
//! back.

use super::action::Action;
use super::finding::Mend;
use super::report::Report;
use crate::host::Cause;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;

/// Where the journal is unless the user says otherwise.
pub(crate) const JOURNAL: &str = "/var/lib/sidestep/doctor.journal";

/// One change.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Change {
    check: String,
    /// The boot that it was made in: the next one has undone it.
    boot: String,
    /// The network namespace that it was made in.
    namespace: String,
    former: Action,
    to: Action,
    /// What came of it, as far as that was still seen: drivers round.
    #[serde(default)]
    became: Option<Action>,
}

/// The journal, locked: one doctor at a time.
struct Journal {
    file: File,
    path: String,
}

impl Journal {
    fn open(path: &str) -> Result<Journal, String> {
        let told = |error: std::io::Error| {
            format!("cannot keep the journal {path}: {error}; --journal FILE names another")
        };
        if let Some(folder) = Path::new(path).parent() {
            std::fs::create_dir_all(folder).map_err(told)?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(told)?;
        file.lock().map_err(told)?;
        // A line that was cut off is that of a change that was not made.
        let text = std::fs::read_to_string(path).map_err(told)?;
        file.set_len(text.rfind('\n').map_or(0, |end| end as u64 + 1)).map_err(told)?;
        Ok(Journal { file, path: path.to_owned() })
    }

    fn changes(&mut self) -> Result<Vec<Change>, String> {
        let mut text = String::new();
        self.file.read_to_string(&mut text).map_err(|error| format!("cannot read {}: {error}", self.path))?;
        let lines = text.lines().map(|line| {
            serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", self.path))
        });
        lines.collect()
    }

    /// Writes a change down; it is on the disk afterwards.
    fn add(&mut self, change: &Change) -> Result<(), String> {
        let told = |error: std::io::Error| format!("cannot write {}: {error}", self.path);
        let mut line = serde_json::to_string(change).map_err(|error| error.to_string())?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(told)?;
        self.file.sync_all().map_err(told)
    }

    /// Leaves only these; the journal is whole at every moment.
    fn keep(self, changes: &[Change]) -> Result<(), String> {
        let told = |error: std::io::Error| format!("cannot write {}: {error}", self.path);
        if changes.is_empty() {
            return std::fs::remove_file(&self.path).map_err(told);
        }
        let path = format!("{}.new", self.path);
        let _ = std::fs::remove_file(&path);
        let mut new = Journal::open(&path)?;
        changes.iter().try_for_each(|change| new.add(change))?;
        std::fs::rename(&path, &self.path).map_err(told)
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Makes the changes that findings propose. `dry`: only says which. True if all went well.
pub(crate) fn fix(report: &Report, journal: &str, dry: bool, yes: bool) -> Result<bool, String> {
    let all: Vec<(&str, &Mend)> =
        report.fixable().filter_map(|(check, finding)| Some((check.id, finding.mend.as_ref()?))).collect();
    if all.is_empty() {
        println!("Nothing that --fix could mend. What the page proposes beyond is for a person to do.");
        return Ok(true);
    }
    if dry {
        all.iter().for_each(|(check, mend)| println!("{check:15} {}", mend.command));
        return Ok(true);
    }
    if !yes && !std::io::stdin().is_terminal() {
        return Err(
            "--fix asks before each change, and standard input is no terminal: -y (--yes) makes all, \
                    --dry-run says which"
                .to_owned(),
        );
    }
    let mut journal = Journal::open(journal)?;
    let mut asks = !yes;
    let mut well = true;
    for (check, mend) in all {
        println!("{check:15} {}", mend.command);
        if asks {
            match ask("                make it? [y]es, [n]o, [a]ll, [q]uit: ") {
                'y' => {}
                'a' => asks = false,
                'q' => break,
                _ => continue,
            }
        }
        match apply(&mut journal, check, &mend.actions)? {
            None => println!("{:15} done", ""),
            Some(wrong) => {
                println!("{:15} not done: {wrong}", "");
                well = false;
            }
        }
    }
    println!("`sidestep doctor --undo` puts back what was there; a reboot does as well.");
    Ok(well)
}

/// Makes the changes of one finding; what went wrong, if something did.
fn apply(journal: &mut Journal, check: &str, actions: &[Action]) -> Result<Option<String>, String> {
    for action in actions {
        let former = match action.former() {
            Ok(former) if former == *action => continue,
            Ok(former) => former,
            Err(unread) => return Ok(Some(unread.to_string())),
        };
        let mut change = Change {
            check: check.to_owned(),
            boot: boot(),
            namespace: namespace(),
            former,
            to: action.clone(),
            became: None,
        };
        journal.add(&change)?;
        if let Err(unread) = action.apply() {
            let hint = if unread.cause == Cause::Denied {
                "; it needs root (and net.core belongs to the first network namespace)"
            } else {
                ""
            };
            return Ok(Some(format!("{unread}{hint}")));
        }
        // What came of it is what --undo will find.
        if let Ok(became) = action.former() {
            change.became = Some(became);
            journal.add(&change)?;
        }
    }
    Ok(None)
}

/// Puts back what was there. True if nothing was left to do.
pub(crate) fn undo(path: &str, dry: bool) -> Result<bool, String> {
    if !Path::new(path).exists() {
        println!("Nothing to undo: there is no journal {path}.");
        return Ok(true);
    }
    let mut journal = Journal::open(path)?;
    let mut left: Vec<Change> = Vec::new();
    for change in whole(journal.changes()?).into_iter().rev() {
        let check = &change.check;
        let say = |what: &str| println!("{check:15} {}: {what}", change.former.command());
        if change.boot != boot() {
            say("a reboot has undone it");
            continue;
        }
        let now = match change.to.former() {
            Ok(now) if change.namespace == namespace() => now,
            Ok(_) | Err(_) if change.namespace != namespace() => {
                say("made in another network namespace; run --undo there");
                left.push(change);
                continue;
            }
            Ok(now) => now,
            Err(unread) => {
                say(&format!("{unread}"));
                if !unread.is_missing() {
                    left.push(change);
                }
                continue;
            }
        };
        if now == change.former {
            continue;
        }
        if change.became.as_ref().is_some_and(|became| now != *became) {
            say(&format!("somebody else has changed it since ({}); left alone", now.command()));
            continue;
        }
        if dry {
            say("would be made");
            left.push(change);
            continue;
        }
        match change.former.apply() {
            Ok(()) => say("done"),
            Err(unread) => {
                say(&format!("not done: {unread}"));
                left.push(change);
            }
        }
    }
    left.reverse();
    let well = left.is_empty() || dry;
    if !dry {
        journal.keep(&left)?;
    }
    Ok(well)
}

/// Each change once: the line with what came of it stands for the one before it.
fn whole(lines: Vec<Change>) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for line in lines {
        if all
            .last()
            .is_some_and(|begun| begun.became.is_none() && begun.to == line.to && begun.former == line.former)
        {
            all.pop();
        }
        all.push(line);
    }
    all
}

fn ask(question: &str) -> char {
    print!("{question}");
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(read) if read > 0 => line.trim().chars().next().unwrap_or('n').to_ascii_lowercase(),
        _ => 'q',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of our own with a file that stands for a setting.
    fn setting(name: &str, value: &str) -> (String, String) {
        let folder = std::env::temp_dir().join(format!("sidestep-fix-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("setting");
        std::fs::write(&file, value).unwrap();
        (file.to_string_lossy().into_owned(), folder.join("journal").to_string_lossy().into_owned())
    }

    fn write(path: &str, value: &str) -> Action {
        Action::Write { path: path.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_change_is_undone() {
        let (path, journal) = setting("undone", "always [madvise] never\n");
        let mut open = Journal::open(&journal).unwrap();
        assert_eq!(apply(&mut open, "test", &[write(&path, "never")]).unwrap(), None);
        drop(open);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "never");
        assert!(undo(&journal, false).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "madvise");
        assert!(!Path::new(&journal).exists());
    }

    /// The doctor died after the journal was written and before the change was made; and in the middle of a line.
    #[test]
    fn a_crash_leaves_a_journal_that_undo_understands() {
        let (path, journal) = setting("crash", "1");
        let mut open = Journal::open(&journal).unwrap();
        let change = |to: &str| Change {
            check: "test".to_owned(),
            boot: boot(),
            namespace: namespace(),
            former: write(&path, "1"),
            to: write(&path, to),
            became: None,
        };
        open.add(&change("2")).unwrap();
        open.file.write_all(b"{\"check\":\"te").unwrap();
        drop(open);
        assert!(undo(&journal, false).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
        // And after it was made, also where the kernel made something else of it.
        for became in ["2", "3"] {
            let mut open = Journal::open(&journal).unwrap();
            open.add(&change("2")).unwrap();
            drop(open);
            std::fs::write(&path, became).unwrap();
            assert!(undo(&journal, false).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
        }
    }

    #[test]
    fn what_a_driver_rounded_is_undone_and_what_was_changed_after_that_is_not() {
        for (now, after) in [("4", "1"), ("5", "5")] {
            let (path, journal) = setting("rounded", "1");
            let mut open = Journal::open(&journal).unwrap();
            let change = |became: Option<&str>| Change {
                check: "test".to_owned(),
                boot: boot(),
                namespace: namespace(),
                former: write(&path, "1"),
                to: write(&path, "3"),
                became: became.map(|value| write(&path, value)),
            };
            open.add(&change(None)).unwrap();
            open.add(&change(Some("4"))).unwrap();
            drop(open);
            std::fs::write(&path, now).unwrap();
            assert!(undo(&journal, false).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }

    #[test]
    fn what_somebody_else_changed_since_is_left_alone() {
        let (path, journal) = setting("else", "1");
        let mut open = Journal::open(&journal).unwrap();
        apply(&mut open, "test", &[write(&path, "2")]).unwrap();
        drop(open);
        std::fs::write(&path, "3").unwrap();
        assert!(undo(&journal, false).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3");
    }

    #[test]
    fn what_another_boot_changed_is_gone() {
        let (path, journal) = setting("boot", "2");
        let mut open = Journal::open(&journal).unwrap();
        let change = Change {
            check: "test".to_owned(),
            boot: "another".to_owned(),
            namespace: namespace(),
            former: write(&path, "1"),
            to: write(&path, "2"),
            became: None,
        };
        open.add(&change).unwrap();
        drop(open);
        assert!(undo(&journal, false).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2");
    }
}
