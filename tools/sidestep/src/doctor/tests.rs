//! Recorded machines, examined. `tests/hosts` has them, and beside each the page that it gets: a change of the page is
//! seen in review. `SIDESTEP_BLESS=1 cargo test -p sidestep` writes the pages anew.

mod judged;

use super::*;
use crate::doctor::finding::Verdict;
use crate::host::recording::Recording;
use serde_json::Value;
use std::path::PathBuf;

/// Recorded, or put together where no such machine was at hand; each file says which.
const HOSTS: [&str; 5] = ["tuned", "neglected", "vm", "container", "large"];

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(name)
}

fn host(name: &str) -> Recording {
    recording(&file(&format!("{name}.txt")).to_string_lossy()).unwrap()
}

fn with_report<T>(host: &Recording, aim: Aim, body: impl FnOnce(&Report) -> T) -> T {
    let mut view = View::new(host, aim, &[]).unwrap();
    view.program = Some(4711);
    body(&Report::new(&view, &kinds(host.has("loopback"), host.has("program"))))
}

/// The verdicts of one check on a host.
fn verdicts(host: &Recording, id: &str) -> Vec<Verdict> {
    let mut view = View::new(host, Aim::Latency, &[]).unwrap();
    view.program = Some(4711);
    let check = checks::all().find(|check| check.id == id).unwrap();
    check.findings(&view).into_iter().map(|finding| finding.verdict).collect()
}

#[test]
fn each_host_gets_its_page() {
    for name in HOSTS {
        let page = with_report(&host(name), Aim::Latency, |report| report.page(false));
        let path = file(&format!("{name}.page"));
        if std::env::var_os("SIDESTEP_BLESS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let blessed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(page == blessed, "{name}: the page is not {}:\n{page}", path.display());
    }
}

/// What the two hosts of bare metal cannot show: it is about hypervisors, or only tells and has nothing bad.
const OTHERS: [&str; 3] = ["steal", "write-combining", "dca"];

#[test]
fn a_tuned_host_hears_nothing_and_a_neglected_one_everything() {
    let (tuned, neglected) = (host("tuned"), host("neglected"));
    for check in checks::all().filter(|check| !OTHERS.contains(&check.id)) {
        let (good, wrong) = (verdicts(&tuned, check.id), verdicts(&neglected, check.id));
        assert!(good.iter().all(|verdict| *verdict == Verdict::Good), "{}: {good:?}", check.id);
        let is_wrong = |verdict: &Verdict| matches!(verdict, Verdict::Bad | Verdict::Advice);
        assert!(wrong.iter().any(is_wrong), "{}: {wrong:?}", check.id);
    }
}

#[test]
fn a_kernel_between_the_floor_and_the_wish_is_advised() {
    let older = host("tuned").with("/proc/sys/kernel/osrelease = 6.1.0-35-amd64");
    assert_eq!(verdicts(&older, "kernel"), [Verdict::Advice]);
    assert_eq!(verdicts(&host("neglected"), "kernel"), [Verdict::Bad]);
}

/// Slower on a host whose processors others want says nothing about the host; so do turns that disagree.
#[test]
fn a_busy_host_is_not_told_that_acceleration_is_slow() {
    let seen = |faster: u32, others: f64| {
        let line = format!(
            "? ping-pong  = {{\"kernel_us\":30.0,\"accelerated_us\":40.0,\"turns\":3,\"faster\":{faster},\"others_used\":{others}}}"
        );
        verdicts(&host("tuned").with("/sys/devices/system/cpu/online = 0-3").with(&line), "ping-pong")
    };
    assert_eq!(seen(0, 0.5), [Verdict::Advice]);
    assert_eq!(seen(0, 3.0), [Verdict::CannotTell]);
    assert_eq!(seen(2, 0.5), [Verdict::CannotTell]);
    assert_eq!(seen(3, 3.0), [Verdict::Good]);
}

/// Before Linux 6.3 no driver is asked what it can, which says nothing against the driver.
#[test]
fn a_driver_that_nobody_asked_is_not_called_unable() {
    let older = host("neglected");
    let view = View::new(&older, Aim::Latency, &[]).unwrap();
    let check = checks::all().find(|check| check.id == "zero-copy").unwrap();
    let found = &check.findings(&view)[0].found;
    assert!(found.contains("before 6.3") && !found.contains("knows nothing"), "{found}");
}

/// What a check found on a host, in its words.
fn found(host: &Recording, id: &str) -> Vec<(Verdict, String)> {
    let view = View::new(host, Aim::Latency, &[]).unwrap();
    let check = checks::all().find(|check| check.id == id).unwrap();
    check.findings(&view).into_iter().map(|finding| (finding.verdict, finding.found)).collect()
}

#[test]
fn idle_states_are_no_harm_while_somebody_holds_them() {
    let held = |us: i32| {
        verdicts(&host("neglected").with(&format!("? latency-limit  = {{\"us\":{us}}}")), "idle-states")
    };
    assert_eq!(held(0), [Verdict::Good]);
    assert_eq!(held(2_000_000_000), [Verdict::Bad]);
}

/// A cpuset's partition isolates as well as the command line.
#[test]
fn processors_isolated_by_a_cpuset_are_seen() {
    let line = "/sys/fs/cgroup/cpuset.cpus.isolated = 8-11";
    let (verdict, words) = found(&host("neglected").with(line), "isolation").remove(0);
    assert_eq!(verdict, Verdict::Advice);
    assert!(words.contains("8-11 are isolated, but 8-11 still take the scheduler's tick"), "{words}");
    let both = format!("{line}\n/sys/devices/system/cpu/nohz_full = 8-11");
    assert_eq!(verdicts(&host("neglected").with(&both), "isolation"), [Verdict::Good]);
}

#[test]
fn the_preemption_in_force_is_that_of_debugfs_before_that_of_the_build() {
    let built =
        host("vm").with("? kernel-config  = {\"on\":[\"CONFIG_PREEMPT_DYNAMIC\",\"CONFIG_PREEMPT_NONE\"]}");
    assert_eq!(verdicts(&built, "preemption"), [Verdict::Advice]);
    let now = built.with("/sys/kernel/debug/sched/preempt = none voluntary (full) lazy");
    assert_eq!(found(&now, "preemption"), [(Verdict::Good, "full".to_owned())]);
}

#[test]
fn a_lesser_check_of_the_kernel_is_advice() {
    let kernel = host("tuned").with("? kernel-config  = {\"on\":[\"CONFIG_DEBUG_PREEMPT\"]}");
    assert_eq!(verdicts(&kernel, "debug-kernel"), [Verdict::Advice]);
}

/// The one of version 2 is in the neglected host's own group, the one of version 1 in its program's.
#[test]
fn a_quota_above_the_own_group_counts() {
    let lines = "/proc/self/cgroup\n| 3:cpu,cpuacct:/a/b\n| 0::/a\n/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us = 20000\n\
        /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us = 100000";
    let (verdict, words) = found(&host("tuned").with(lines), "quota").remove(0);
    assert_eq!(verdict, Verdict::Bad);
    assert!(words.starts_with("/a has 20000 100000 us"), "{words}");
    let none = lines.replace("= 20000", "= -1");
    assert_eq!(verdicts(&host("tuned").with(&none), "quota"), [Verdict::Good]);
    // Where /sys has none, they are the first process's.
    let elsewhere = format!("/sys/fs/cgroup/ :\n{}", lines.replace("/sys/fs", "/proc/1/root/sys/fs"));
    assert_eq!(verdicts(&host("tuned").with(&elsewhere), "quota"), [Verdict::Bad]);
}

/// After setns or unshare, sysfs still shows the namespace that it was mounted in.
#[test]
fn interfaces_of_another_network_namespace_are_not_judged() {
    for line in ["? index eth0 = {\"number\":0}", "? index eth0 = {\"number\":7}"] {
        let host = host("tuned").with(line);
        let (verdict, words) = found(&host, "mtu").remove(0);
        assert_eq!(verdict, Verdict::CannotTell);
        assert!(words.contains("another network namespace"), "{words}");
        assert!(View::new(&host, Aim::Latency, &["eth0".to_owned()]).is_err());
    }
}

#[test]
fn nothing_is_told_twice() {
    for name in HOSTS {
        let page = with_report(&host(name), Aim::Latency, |report| report.page(false));
        let heads: Vec<&str> =
            page.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).collect();
        let mut once = heads.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), heads.len(), "{name}: {page}");
    }
}

#[test]
fn stolen_time_is_found() {
    let good = host("vm").with("/proc/stat\n| cpu  1000 0 1000 100000 0 0 0 1 0 0");
    assert_eq!(verdicts(&good, "steal"), [Verdict::Good]);
    let bad = host("vm").with("/proc/stat\n| cpu  1000 0 1000 100000 0 0 0 9000 0 0");
    assert_eq!(verdicts(&bad, "steal"), [Verdict::Bad]);
}

#[test]
fn what_only_tells_has_two_answers() {
    let list =
        "/sys/kernel/debug/x86/pat_memtype_list\n| PAT memtype list:\n| write-combining: [mem 0x9000-0x9fff]";
    let of = |range: &str| format!("/sys/class/net/eth0/device/resource = {range} 0x0\n{list}");
    for (range, uses) in [("0x8000 0xffff", true), ("0x1000 0x1fff", false)] {
        let host = host("tuned").with(&of(range));
        let view = View::new(&host, Aim::Latency, &[]).unwrap();
        let check = checks::all().find(|check| check.id == "write-combining").unwrap();
        let found = &check.findings(&view)[0].found;
        assert_eq!(found.starts_with("its driver uses it"), uses, "{found}");
    }
    assert_eq!(verdicts(&host("tuned"), "write-combining"), [Verdict::CannotTell]);
    assert_eq!(verdicts(&host("tuned"), "dca"), [Verdict::Good]);
    assert_eq!(verdicts(&host("vm"), "dca"), [Verdict::CannotTell]);
}

#[test]
fn what_is_bad_comes_first_and_what_matters_more_before_what_matters_less() {
    let json = with_report(&host("neglected"), Aim::Latency, Report::json);
    let findings = json["findings"].as_array().unwrap();
    let rank = |finding: &Value| match finding["verdict"].as_str().unwrap() {
        "bad" => 0,
        "advice" => 1,
        "cannot-tell" => 2,
        "good" => 3,
        _ => 4,
    };
    let weight = |finding: &Value| {
        let check = checks::all().find(|check| finding["check"] == check.id).unwrap();
        u8::MAX - check.weight[0]
    };
    let order: Vec<_> = findings.iter().map(|finding| (rank(finding), weight(finding))).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(findings[0]["check"], "kernel");
}

/// Nobody is asked to do something without being told what, and each command says whether it lasts.
#[test]
fn whatever_is_wrong_has_a_remedy() {
    for name in HOSTS {
        let json = with_report(&host(name), Aim::Throughput, Report::json);
        for finding in json["findings"].as_array().unwrap() {
            if matches!(finding["verdict"].as_str(), Some("bad" | "advice")) {
                let mend = &finding["mend"];
                assert!(mend["command"].as_str().is_some_and(|command| !command.is_empty()), "{finding}");
                assert_eq!(mend["survives-reboot"] == false, mend["to-keep"].is_string(), "{finding}");
            }
        }
    }
}

/// A page for 1000 processors and 200 interfaces is still a page.
#[test]
fn a_large_host_is_readable() {
    let page = with_report(&host("large"), Aim::Latency, |report| report.page(false));
    assert!(page.lines().count() < 150, "{} lines", page.lines().count());
    let long = page.lines().filter(|line| !line.trim_start().starts_with("mend")).map(str::len).max();
    assert!(long <= Some(110), "{long:?}");
}

#[test]
fn names_of_checks_are_theirs_alone() {
    let mut names: Vec<&str> = checks::all().map(|check| check.id).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks::all().count());
}

#[test]
fn the_json_is_as_its_schema_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for name in HOSTS {
        let json = with_report(&host(name), Aim::Latency, Report::json);
        conforms(&json, &schema, &schema, name);
    }
}

#[test]
#[should_panic(expected = "is none of")]
fn what_the_schema_does_not_allow_is_noticed() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut json = with_report(&host("tuned"), Aim::Latency, Report::json);
    json["findings"][0]["verdict"] = "splendid".into();
    conforms(&json, &schema, &schema, "tuned");
}

/// Checks a value against the part of JSON Schema that ours uses; another keyword is an error.
fn conforms(value: &Value, schema: &Value, root: &Value, place: &str) {
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "$id" | "title" | "description" | "$defs" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().trim_start_matches('#');
                conforms(value, root.pointer(name).unwrap(), root, place);
            }
            "type" => {
                let is = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "boolean" => value.is_boolean(),
                    other => panic!("the schema has the type {other}"),
                };
                assert!(is, "{place}: {value} is no {rule}");
            }
            "const" => assert_eq!(value, rule, "{place}"),
            "enum" => assert!(rule.as_array().unwrap().contains(value), "{place}: {value} is none of {rule}"),
            "items" => {
                for (at, item) in value.as_array().unwrap().iter().enumerate() {
                    conforms(item, rule, root, &format!("{place}/{at}"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{place}: no {name}");
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        conforms(value, rule, root, &format!("{place}/{name}"));
                    }
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                let unknown = value.as_object().unwrap().keys().find(|name| !known.contains_key(*name));
                assert_eq!((rule, unknown), (&Value::Bool(false), None), "{place}");
            }
            other => panic!("the schema has the keyword {other}"),
        }
    }
}
