//! docs/security.md names tests: every one of them must exist, and every attack must have a test or a reason.

use crate::build;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Rows of the tables: number, attack, what stands against it.
fn rows() -> Vec<[String; 3]> {
    let text = std::fs::read_to_string(build::root().join("docs/security.md")).expect("docs/security.md");
    let cells = |line: &str| {
        let cells: Vec<String> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        <[String; 3]>::try_from(cells).unwrap_or_else(|cells| panic!("not three cells: {cells:?}"))
    };
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| |");
    text.lines().filter(is_row).map(cells).collect()
}

/// Names of tests in a cell: in backquotes, and long enough to be sentences.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() >= 2)
}

/// Functions that directly follow `#[test]`.
fn tests_under(folder: &Path, found: &mut HashSet<String>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            tests_under(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            for after in text.split("#[test]").skip(1) {
                let name = after.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                found.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
    }
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let mut found = HashSet::new();
    for folder in ["crates", "fuzz", "tests", "tools"] {
        tests_under(&build::root().join(folder), &mut found);
    }
    let rows = rows();
    let missing: Vec<&str> =
        rows.iter().flat_map(|row| named(&row[2])).filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:#?}");
}

#[test]
fn every_attack_of_the_checklist_has_a_test_or_a_reason() {
    let rows = rows();
    let numbers: HashSet<&str> = rows.iter().flat_map(|row| row[0].split(", ")).collect();
    for number in 1..=51 {
        assert!(numbers.contains(number.to_string().as_str()), "number {number} is missing");
    }
    for [_, attack, answer] in &rows {
        assert!(named(answer).next().is_some() || answer.split(' ').count() >= 4, "{attack}: neither");
    }
}
