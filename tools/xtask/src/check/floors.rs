//! The floors: which crate may use which. Cargo forbids cycles; this forbids erosion.

use rig::{Context, Error, Result};
use serde_json::Value;

use super::Finding;
use crate::build;

/// What each crate may name of ours, and nothing else.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("preload", &["interpose"]),
    ("interpose", &["sockets", "config", "logger", "sys", "stats"]),
    ("sockets", &["stack", "xdp", "netlink", "wire", "sys", "config", "stats", "logger"]),
    ("xdp", &["sys", "logger"]),
    ("netlink", &["sys", "wire", "logger"]),
    ("stack", &["wire", "stats"]),
    ("logger", &["sys"]),
    ("config", &["wire"]),
    ("wire", &[]),
    ("stats", &[]),
    ("sys", &[]),
    ("sim", &["stack", "wire", "stats"]),
    ("drill", &["stack", "wire"]),
    ("rig", &[]),
    ("tests", &["rig", "stats"]),
    ("sockperf", &[]),
    ("middlebox", &[]),
    ("vma-stats", &["stats", "sys", "config"]),
    ("xtask", &["rig"]),
];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let output = build::cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        return Err(Error::new(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(packages.iter().flat_map(of_package).collect())
}

fn of_package(package: &Value) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let finding = |what: String| Finding { place: format!("crate {name}"), what, fatal: true };
    let Some((_, allowed)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
        return vec![finding(
            "has no row in the table of floors (tools/xtask/src/check/floors.rs)".to_owned(),
        )];
    };
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = dependencies.iter().filter(|dependency| dependency["path"].is_string());
    // Tests of a crate may use the rig and the simulator, which stand beside the floors, and itself with features.
    let used = ours.filter_map(|dependency| {
        let of = dependency["name"].as_str()?;
        let in_tests = dependency["kind"] == "dev" && (matches!(of, "rig" | "sim") || of == name);
        (!in_tests && !allowed.contains(&of)).then_some(of)
    });
    used.map(|of| finding(format!("uses {of}, which the floors do not allow"))).collect()
}
