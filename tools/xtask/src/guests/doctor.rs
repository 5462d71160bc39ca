//! `sidestep doctor` in a guest: whether it says of each driver and kernel what is so.

use std::time::Duration;

use rig::{Context, Error, Result};
use serde_json::Value;

use super::cases::{Case, Wanted};
use super::machine::Machine;

/// Under emulation the whole of it takes half a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// Verdicts of checks on drivers, where they differ; `*` is all others.
const VERDICTS: [(&str, &[(&str, &str)]); 5] = [
    (
        "virtio_net",
        &[("rings", "good"), ("queues", "good"), ("zero-copy", "advice"), ("pcie", "cannot-tell")],
    ),
    ("e1000e", &[("rings", "advice"), ("coalescing", "good"), ("zero-copy", "advice"), ("pcie", "good")]),
    ("igb", &[("rings", "advice"), ("coalescing", "good"), ("pcie", "good")]),
    ("vmxnet3", &[("rings", "advice"), ("zero-copy", "advice"), ("pcie", "cannot-tell")]),
    ("*", &[("foreign-xdp", "good"), ("mtu", "good"), ("privilege", "good"), ("af-xdp", "good")]),
];

/// What the doctor says about the driver's own hook, in the words that its finding has.
fn hook(case: &Case) -> &'static str {
    let native = case.runs.iter().filter(|run| run.asked.may_disturb()).map(|run| run.wanted).next_back();
    match native {
        // Drivers announce what they can from 6.3 on.
        _ if case.release() < (6, 3) => "does not ask",
        Some(Wanted::ZeroCopy) => "announces zero-copy",
        Some(Wanted::Kernel) => "knows nothing of XDP",
        _ => "AF_XDP copies",
    }
}

/// Examines a guest before anything is accelerated there: a word for the table, and what is not as it should be.
pub(super) fn examine(guest: &mut Machine, case: &Case, program: &str) -> Result<(String, Vec<String>)> {
    let mut ask = |words: &str| {
        let (_, text) = guest.run(&format!("{program} doctor --json --interface eth0 {words}"), PATIENCE)?;
        serde_json::from_str::<Value>(&text).context(format_args!("the doctor printed {text:?}"))
    };
    let (look, tried) = (ask("--quick")?, ask("--only af-xdp")?);
    let all = |report: &Value| report["findings"].as_array().cloned().unwrap_or_default();
    let findings = [all(&look), all(&tried)].concat();
    let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);

    let (host, driver) = (&look["host"], case.plan.driver);
    let mut wrong = Vec::new();
    let mut must = |is: bool, what: String| {
        if !is {
            wrong.push(format!("the doctor: {what}"))
        }
    };
    must(host["kind"] == "virtual machine", format!("the host is {}", host["kind"]));
    must(host["processors"] == case.plan.processors, format!("{} processors", host["processors"]));
    must(host["interfaces"][0]["driver"] == driver, format!("its interfaces are {}", host["interfaces"]));
    for (check, verdict) in
        VERDICTS.iter().filter(|row| row.0 == driver || row.0 == "*").flat_map(|row| row.1)
    {
        let said = of(check).map_or("nothing", |finding| finding["verdict"].as_str().unwrap_or_default());
        must(
            said == *verdict,
            format!("{check} is {said}, not {verdict}: {:?}", of(check).map(|one| &one["found"])),
        );
    }
    let kernel = if case.release() < (6, 6) { "advice" } else { "good" };
    must(of("kernel").is_some_and(|finding| finding["verdict"] == kernel), format!("kernel is not {kernel}"));
    let said = of("zero-copy").and_then(|finding| finding["found"].as_str()).unwrap_or_default();
    must(said.contains(hook(case)), format!("zero-copy should say {:?}: {said:?}", hook(case)));
    Ok((summary(&look)?, wrong))
}

fn summary(report: &Value) -> Result<String> {
    let count = |verdict: &str| report["summary"][verdict].as_u64().ok_or_else(|| Error::new("no summary"));
    Ok(format!("{} bad, {} advice", count("bad")?, count("advice")?))
}
