//! Licences of everything that is built in, as `cargo metadata` has them; and the list of it that packages carry
//! (CycloneDX).

use rig::{Context, Error, Result};
use serde_json::{Value, json};

use super::Finding;
use crate::build;

/// What may stand in something that is MIT or Apache-2.0.
const ALLOWED: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// A crate of somebody else's.
struct Crate {
    name: String,
    version: String,
    licence: String,
}

pub(super) fn findings() -> Result<Vec<Finding>> {
    let finding = |one: Crate| Finding {
        place: format!("crate {} {}", one.name, one.version),
        what: format!(
            "has the licence {:?}, which tools/xtask/src/check/licences.rs does not allow",
            one.licence
        ),
        fatal: true,
    };
    Ok(crates()?.into_iter().filter(|one| !is_allowed(&one.licence)).map(finding).collect())
}

/// The list of parts of a package, in the format CycloneDX.
pub(crate) fn bill_of_materials(version: &str) -> Result<Value> {
    let component = |one: &Crate| {
        json!({
            "type": "library",
            "name": one.name,
            "version": one.version,
            "purl": format!("pkg:cargo/{}@{}", one.name, one.version),
            "licenses": [{ "expression": one.licence.replace('/', " OR ") }],
        })
    };
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "sidestep", "version": version } },
        "components": crates()?.iter().map(component).collect::<Vec<_>>(),
    }))
}

/// Everything from a registry that the lock file names for this platform, tools of tests among them.
fn crates() -> Result<Vec<Crate>> {
    let words = ["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"];
    let output = build::cargo().args(words).output().context("cargo metadata")?;
    if !output.status.success() {
        return Err(Error::new(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |package: &Value, name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let foreign = packages.iter().filter(|package| package["source"].is_string());
    let mut all: Vec<Crate> = foreign
        .map(|package| Crate {
            name: text(package, "name"),
            version: text(package, "version"),
            licence: text(package, "license"),
        })
        .collect();
    all.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(all)
}

/// Whether an expression leaves a choice that is allowed: each part joined by AND has an alternative, joined by OR,
/// that is.
fn is_allowed(expression: &str) -> bool {
    let bare = expression.replace(['(', ')'], " ").replace('/', " OR ");
    !bare.trim().is_empty()
        && bare.split(" AND ").all(|part| part.split(" OR ").any(|one| ALLOWED.contains(&one.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_enough_and_each_part_counts() {
        for good in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MITT"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
