//! The floors: which crate may use which. Cargo forbids cycles; this forbids erosion. The product's are told by the
//! table in ARCHITECTURE.md, which says exactly what the manifests say: what a crate may use and does not is a lie,
//! too.

use std::path::Path;

use rig::{Context, Error, Result};
use serde_json::Value;

use super::Finding;
use crate::build;

/// What the crates beside the floors may name of ours.
const BESIDE: [(&str, &[&str]); 11] = [
    ("sim", &["stack", "wire"]),
    ("drill", &["stack", "wire"]),
    ("rig", &[]),
    ("tests", &["rig", "stats", "config"]),
    ("tokio-echo", &[]),
    ("sockperf", &[]),
    ("middlebox", &[]),
    ("vma-stats", &["keeper", "stats", "config", "sys"]),
    ("sidestep", &["capture", "keeper", "xdp", "stats", "config", "sys", "vma-stats"]),
    ("sidestepd", &["keeper", "xdp", "netlink", "wire", "config", "sys"]),
    ("xtask", &["rig", "config"]),
];

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    floor: u32,
    name: String,
    uses: Vec<String>,
}

/// A crate as its manifest has it.
struct Package {
    name: String,
    uses: Vec<String>,
    /// Tests of a crate may use what stands beside the floors, and the crate itself with features.
    uses_in_tests: Vec<String>,
}

pub(super) fn findings(root: &Path) -> Result<Vec<Finding>> {
    let output = build::cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        return Err(Error::new(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let packages: Vec<Package> = packages.iter().map(package).collect();
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    Ok(compared(&rows(&text), &packages))
}

fn package(package: &Value) -> Package {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = |in_tests: bool| {
        let wanted =
            dependencies.iter().filter(|one| one["path"].is_string() && (one["kind"] == "dev") == in_tests);
        wanted.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    let name = package["name"].as_str().unwrap_or_default().to_owned();
    Package { name, uses: ours(false), uses_in_tests: ours(true) }
}

/// Rows of the form: | floor | `crates/name` | what it is | uses, uses |
fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, name, _, uses] = cells[..] else { return None };
        let name = name.strip_prefix("`crates/")?.strip_suffix('`')?.to_owned();
        let uses = uses.split(", ").filter(|word| *word != "nothing").map(str::to_owned).collect();
        Some(Row { floor: floor.parse().ok()?, name, uses })
    };
    text.lines().filter_map(row).collect()
}

fn compared(rows: &[Row], packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |name: &str, what: String| {
        findings.push(Finding { place: format!("crate {name}"), what, fatal: true });
    };
    let floor_of = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.floor);
    for Package { name, uses, uses_in_tests } in packages {
        let beside = BESIDE.iter().find(|(of, _)| of == name);
        for of in uses_in_tests {
            let is_beside = ["rig", "sim"].contains(&of.as_str()) || of == name;
            if !is_beside && !uses.contains(of) && !beside.is_some_and(|(_, may)| may.contains(&of.as_str()))
            {
                add(name, format!("uses {of} in its tests, which the floors do not allow"));
            }
        }
        if let Some((_, may)) = beside {
            for of in uses.iter().filter(|of| !may.contains(&of.as_str())) {
                add(name, format!("uses {of}, which tools/xtask/src/check/floors.rs does not allow"));
            }
            continue;
        }
        let Some(row) = rows.iter().find(|row| row.name == *name) else {
            add(name, "has no row in the table of floors (ARCHITECTURE.md)".to_owned());
            continue;
        };
        for of in uses.iter().filter(|of| !row.uses.contains(of)) {
            add(name, format!("uses {of}, which the table of floors (ARCHITECTURE.md) does not allow"));
        }
        for of in row.uses.iter().filter(|of| !uses.contains(of)) {
            add(name, format!("does not use {of}, which the table of floors (ARCHITECTURE.md) says it may"));
        }
        for of in uses.iter().filter(|of| floor_of(of) > Some(row.floor)) {
            add(name, format!("uses {of}, which is on a higher floor"));
        }
    }
    for row in rows.iter().filter(|row| !packages.iter().any(|package| package.name == row.name)) {
        add(&row.name, "has a row in the table of floors (ARCHITECTURE.md), and does not exist".to_owned());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| Floor | Crate | What | May use |
|---|---|---|---|
| 1 | `crates/upper` | above | lower |
| 0 | `crates/lower` | below | nothing |
";

    fn found(upper: &[&str], lower: &[&str]) -> Vec<String> {
        let package = |name: &str, uses: &[&str]| Package {
            name: name.to_owned(),
            uses: uses.iter().map(|&of| of.to_owned()).collect(),
            uses_in_tests: vec!["rig".to_owned()],
        };
        let packages = [package("upper", upper), package("lower", lower)];
        compared(&rows(TABLE), &packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_manifests_say_is_what_the_table_says() {
        assert_eq!(found(&["lower"], &[]), [""; 0]);
        assert!(found(&[], &[])[0].contains("upper: does not use lower"));
        assert!(found(&["lower", "other"], &[])[0].contains("upper: uses other"));
    }

    #[test]
    fn uses_run_downwards_only() {
        let found = found(&["lower"], &["upper"]);
        assert!(
            found.iter().any(|what| what.contains("lower: uses upper, which is on a higher floor")),
            "{found:?}"
        );
    }
}
