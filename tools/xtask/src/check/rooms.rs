//! The rooms of the socket layer: which of its top modules may use which. The table in ARCHITECTURE.md tells their
//! order, and the uses against it that remain; here the sources are read for what they use.
//!
//! A use is a path that begins with `crate` or `super` and leads into another room, and a call of a method that
//! another room adds to a type, where only one method has that name. Tests may use everything.

use std::collections::BTreeMap;
use std::path::Path;

use rig::{Context, Result};

use super::{Finding, tidy};

const CRATE: &str = "crates/sockets/src";

/// What the table says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    /// Rooms, the highest first.
    order: Vec<String>,
    /// Uses against the order: who, and whom.
    exceptions: Vec<(String, String)>,
}

/// A file, without comments, strings and tests.
struct Source {
    path: String,
    /// Of its module, the room first.
    module: Vec<String>,
    text: String,
}

/// Something of another room that a file names.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    from: String,
    to: String,
    name: String,
    place: String,
}

pub(super) fn findings(root: &Path) -> Result<Vec<Finding>> {
    let folder = root.join(CRATE);
    let mut sources = Vec::new();
    for path in tidy::files_in(root, &[CRATE], &["rs"])? {
        let inside = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
        if inside != "lib.rs" && !inside.ends_with("tests.rs") {
            sources.push(Source::of(&inside, &std::fs::read_to_string(&path).context(path.display())?));
        }
    }
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    Ok(compared(&table(&text), &rooms_of(&sources), &uses(&sources)))
}

/// Rows of the form: | storey | `room`, `room` | what |, and of exceptions: | `room` → `room` | why |
fn table(text: &str) -> Table {
    let mut table = Table::default();
    let mut is_here = false;
    for line in text.lines() {
        is_here = if line.starts_with("## ") { line == "## Rooms of the socket layer" } else { is_here };
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names = |cell: &str| {
            let quoted = cell.split('`').skip(1).step_by(2);
            quoted.map(str::to_owned).collect::<Vec<_>>()
        };
        match cells[..] {
            [storey, rooms, _] if is_here && storey.parse::<u32>().is_ok() => {
                table.order.extend(names(rooms))
            }
            [uses, _] if is_here && uses.contains('→') => {
                if let [from, to] = &names(uses)[..] {
                    table.exceptions.push((from.clone(), to.clone()));
                }
            }
            _ => {}
        }
    }
    table
}

fn rooms_of(sources: &[Source]) -> Vec<String> {
    let mut rooms: Vec<String> = sources.iter().map(|source| source.module[0].clone()).collect();
    rooms.sort();
    rooms.dedup();
    rooms
}

fn compared(table: &Table, rooms: &[String], uses: &[Use]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |place: String, what: String| findings.push(Finding { place, what, fatal: true });
    let at = |room: &str| table.order.iter().position(|known| known == room);
    let of_room = |room: &str| format!("room {room}");
    for room in rooms.iter().filter(|room| at(room).is_none()) {
        add(of_room(room), "is not in the table of rooms (ARCHITECTURE.md)".to_owned());
    }
    for (index, room) in table.order.iter().enumerate() {
        if !rooms.contains(room) {
            add(of_room(room), "is in the table of rooms (ARCHITECTURE.md), and does not exist".to_owned());
        }
        if table.order[..index].contains(room) {
            add(of_room(room), "is in the table of rooms (ARCHITECTURE.md) twice".to_owned());
        }
    }
    let is_against = |one: &Use| at(&one.from) > at(&one.to);
    let is_excepted =
        |one: &Use| table.exceptions.iter().any(|(from, to)| (from, to) == (&one.from, &one.to));
    for one in uses.iter().filter(|one| is_against(one) && !is_excepted(one)) {
        let Use { from, to, name, place } = one;
        add(place.clone(), format!("room {from} uses {name} of {to}, which is above it (ARCHITECTURE.md)"));
    }
    for (from, to) in &table.exceptions {
        if !uses.iter().any(|one| (&one.from, &one.to) == (from, to) && is_against(one)) {
            add(of_room(from), format!("does not use {to} against the order, as ARCHITECTURE.md says"));
        }
    }
    findings
}

impl Source {
    fn of(path: &str, text: &str) -> Source {
        let mut module: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        module.retain(|part| part != "mod");
        Source { path: format!("{CRATE}/{path}"), module, text: without_tests(&without_words(text)) }
    }

    /// What a path in this file leads to: the room, and the rest. `None`: into no room, or its own.
    fn resolve(&self, path: &str) -> Option<(String, String)> {
        let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut full: Vec<&str> = Vec::new();
        match parts[0] {
            "crate" => drop(parts.remove(0)),
            "super" => {
                full.extend(self.module.iter().map(String::as_str));
                while parts.first() == Some(&"super") {
                    parts.remove(0);
                    full.pop();
                }
            }
            _ => return None,
        }
        full.extend(parts);
        let (room, rest) = full.split_first()?;
        (*room != self.module[0]).then(|| ((*room).to_owned(), rest.join("::")))
    }

    fn line(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.text[..at].matches('\n').count() + 1)
    }
}

fn uses(sources: &[Source]) -> Vec<Use> {
    let rooms = rooms_of(sources);
    let mut found = Vec::new();
    let added = methods_added(sources);
    for source in sources {
        let from = &source.module[0];
        let mut add = |to: String, name: String, at: usize| {
            if rooms.contains(&to) && to != *from {
                let name = if name.is_empty() { "the room".to_owned() } else { name };
                found.push(Use { from: from.clone(), to, name, place: source.line(at) });
            }
        };
        for (at, path) in paths(&source.text) {
            for path in branches(&path) {
                if let Some((room, name)) = source.resolve(&path) {
                    add(room, name, at);
                }
            }
        }
        for (at, _) in source.text.match_indices('(') {
            let before = source.text[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            let name = &source.text[before.len()..at];
            if (before.ends_with('.') || before.ends_with("::"))
                && let Some(room) = added.get(name)
            {
                add(room.clone(), format!("the method {name}"), at);
            }
        }
    }
    found
}

/// Methods that a room adds to a type of another one, by name, with the room. Of names that only one function has.
fn methods_added(sources: &[Source]) -> BTreeMap<String, String> {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut functions: BTreeMap<&str, u32> = BTreeMap::new();
    for source in sources {
        for word in ["struct ", "enum "] {
            for name in names_after(&source.text, word) {
                types.entry(name).or_default().push(&source.module[0]);
            }
        }
        names_after(&source.text, "fn ")
            .into_iter()
            .for_each(|name| *functions.entry(name).or_default() += 1);
    }
    let mut added = BTreeMap::new();
    for source in sources {
        for (at, _) in source.text.match_indices("\nimpl") {
            let Some(begins) = source.text[at..].find('{').map(|open| at + open) else { continue };
            let head = &source.text[at + 5..begins];
            let of = head.trim_start_matches(|c| c != ' ').trim().split('<').next().unwrap_or_default();
            let is_foreign = types.get(of).is_some_and(|rooms| !rooms.contains(&source.module[0].as_str()));
            if head.contains(" for ") || !is_foreign {
                continue;
            }
            let ends = source.text[begins..].find("\n}").map_or(source.text.len(), |end| begins + end);
            for name in names_after(&source.text[begins..ends], "fn ") {
                // Types of other crates, which are not read here, have methods of some of these names.
                if functions.get(name) == Some(&1)
                    && !["control", "forget", "remove", "position"].contains(&name)
                {
                    added.insert(name.to_owned(), source.module[0].clone());
                }
            }
        }
    }
    added
}

fn names_after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let name = |(at, _): (usize, &str)| {
        let rest = &text[at + word.len()..];
        let is_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        (is_word && end > 0).then(|| &rest[..end])
    };
    text.match_indices(word).filter_map(name).collect()
}

/// Where paths from `crate` or `super` begin, each with what follows it, braces included.
fn paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = ["crate::", "super::"].iter().filter_map(|word| text[from..].find(word)).min() {
        let at = from + at;
        let mut depth = 0;
        let is_end = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0 || depth == 0 && !(c.is_alphanumeric() || "_:}".contains(c))
        };
        let length = text[at..].find(is_end).unwrap_or(text.len() - at);
        if !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) {
            found.push((at, text[at..at + length].to_owned()));
        }
        from = at + length.max(1);
    }
    found
}

/// The paths of a tree of uses.
fn branches(tree: &str) -> Vec<String> {
    let Some((stem, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().trim_end_matches("::self").to_owned()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let mut depth = 0;
    let is_between = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && c == ','
    };
    let parts = inside.split(is_between).map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| branches(&format!("{}{part}", stem.trim()))).collect()
}

/// Without comments, and without what stands in strings.
fn without_words(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => {
                let mut is_escaped = false;
                let is_end = |c: char| {
                    let ends = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    ends
                };
                rest[1..].find(is_end).map_or(rest.len(), |end| end + 2)
            }
            '\'' if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") => 3,
            c => {
                kept.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        kept.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    kept
}

/// Without what is compiled for tests only.
fn without_tests(text: &str) -> String {
    let mut kept = text.to_owned();
    while let Some(at) = kept.find("#[cfg(test)]") {
        let mut depth = 0;
        let is_end = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && (c == '}' || c == ';')
        };
        let end = kept[at..].find(is_end).map_or(kept.len(), |end| at + end + 1);
        let lines = kept[at..end].matches('\n').count();
        kept.replace_range(at..end, &"\n".repeat(lines));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
## Rooms of the socket layer

| Storey | Rooms | What |
|---|---|---|
| 1 | `high` | above |
| 0 | `middle`, `low` | below |

| Use | Why |
|---|---|
| `low` → `high` | it has to |

## Words
";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::of(path, text)).collect();
        let findings = compared(&table(TABLE), &rooms_of(&sources), &uses(&sources));
        findings.iter().map(ToString::to_string).collect()
    }

    const EXCEPTED: (&str, &str) = ("low.rs", "fn f() { crate::high::g(); }");

    #[test]
    fn uses_run_downwards_and_to_the_right() {
        assert_eq!(
            found(&[
                ("high/mod.rs", "use crate::{low, middle::{a, b as c}};"),
                ("middle.rs", "use crate::low::x;"),
                EXCEPTED
            ]),
            [""; 0]
        );
        let found = found(&[
            ("high.rs", ""),
            ("middle/part.rs", "\nuse super::super::high::{self, x::y};"),
            EXCEPTED,
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("middle/part.rs:2: room middle uses x::y of high"), "{found:?}");
    }

    #[test]
    fn an_exception_that_is_none_is_a_lie() {
        let found = found(&[("high.rs", ""), ("middle.rs", ""), ("low.rs", "")]);
        assert!(found[0].contains("low: does not use high against the order"), "{found:?}");
    }

    #[test]
    fn rooms_and_rows_go_together() {
        let found = found(&[("high.rs", ""), ("other.rs", ""), EXCEPTED]);
        assert!(found[0].contains("room other: is not in the table"), "{found:?}");
        assert!(
            found[1].contains("room middle: is in the table of rooms (ARCHITECTURE.md), and does not exist")
        );
    }

    #[test]
    fn comments_strings_and_tests_use_nothing() {
        let text = "// crate::high\nfn f() { \"crate::high\\\"\"; '\"'; }\n#[cfg(test)]\nmod tests {\n use crate::high;\n}\n";
        assert_eq!(found(&[("high.rs", ""), ("middle.rs", text), EXCEPTED]), [""; 0]);
    }

    #[test]
    fn a_method_that_a_higher_room_adds_is_a_use_of_that_room() {
        let high = "use crate::low::T;\nimpl T {\n    fn only_here(&self) {}\n}\n";
        let low = "pub struct T;\nfn f(t: T) { t.only_here(); crate::high::g(); }";
        let middle = "fn f(t: T) { t.only_here(); }";
        let found = found(&[("high.rs", high), ("middle.rs", middle), ("low.rs", low)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("room middle uses the method only_here of high"), "{found:?}");
    }
}
