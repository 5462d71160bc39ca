//! `--fix` and `--undo` in a namespace: what is changed there is found again as it was. (Ring sizes and coalescing need
//! a card that has them; veth and dummy have none.)

use rig::{Namespace, Program, Result, eventually};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// The settings that the test is about.
fn settings(namespace: &Namespace) -> Result<String> {
    let files = ["tcp_timestamps", "tcp_rmem", "tcp_wmem", "tcp_sack", "ip_local_port_range"];
    let files = files.map(|name| format!("/proc/sys/net/ipv4/{name}")).join(" ");
    let offloads = namespace.tool("ethtool", "-k doctor0")?;
    let queues = [0, 1].map(|queue| format!("/sys/class/net/doctor0/queues/tx-{queue}/xps_cpus")).join(" ");
    Ok(namespace.tool("cat", &files)? + &offloads + &namespace.tool("cat", &queues)?)
}

fn doctor(namespace: &Namespace, words: &str) -> Result<rig::Finished> {
    let only = ["tcp-timestamps", "tcp-buffers", "tcp-values", "ports", "offloads", "xps"];
    let only = only.map(|check| format!("--only {check}")).join(" ");
    let journal = std::env::temp_dir().join(format!("sidestep-doctor-{}.journal", std::process::id()));
    let program =
        Program::new(namespace, env!("CARGO_BIN_EXE_sidestep")).words("doctor --yes --interface doctor0");
    program.words(&only).words(words).argument("--journal").argument(journal).run(PATIENCE)
}

#[test]
fn what_fix_changed_undo_restores() -> Result<()> {
    if rig::skip::without_namespaces() {
        return Ok(());
    }
    let namespace = Namespace::create("doctor")?;
    namespace.ip("link add doctor0 numtxqueues 2 numrxqueues 2 type veth peer name doctor1")?;
    namespace.tool("ethtool", "-K doctor0 tso off gro off")?;
    for setting in
        ["tcp_timestamps=0", "tcp_sack=0", "tcp_rmem=4096 87380 1000000", "ip_local_port_range=40000 41000"]
    {
        let (name, value) = setting.split_once('=').unwrap_or_default();
        let path = format!("/proc/sys/net/ipv4/{name}");
        namespace.inside(|| std::fs::write(path, value).expect("a setting of the namespace"))?;
    }
    let before = settings(&namespace)?;

    let dry = doctor(&namespace, "--fix --dry-run")?.success()?;
    assert!(dry.stdout.contains("sysctl -w net.ipv4.tcp_timestamps=1"), "{}", dry.stdout);
    assert_eq!(settings(&namespace)?, before);

    // The largest buffers that programs may ask for belong to the first namespace, which is not told to change: that
    // this is said is part of the test.
    let number = |name| namespace.tool("cat", name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let is_small = |name| number(name).is_some_and(|value| value < 16 << 20);
    let beyond = is_small("/proc/sys/net/core/rmem_max") || is_small("/proc/sys/net/core/wmem_max");
    let fixed = doctor(&namespace, "--fix")?;
    assert_eq!(fixed.stdout.contains("belongs to the first network namespace"), beyond, "{}", fixed.stdout);
    let mended = settings(&namespace)?;
    assert!(mended.starts_with("1\n4096\t87380\t16777216\n"), "{mended}");
    assert!(
        mended.contains("tcp-segmentation-offload: on") && mended.contains("generic-receive-offload: on")
    );
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(mended.ends_with("\n1\n2\n") || processors != 2, "{mended}");
    // What is mended is well: there is nothing to fix any more.
    let again = doctor(&namespace, "")?.success()?;
    let left = if beyond { "0 bad, 1 advice" } else { "0 bad, 0 advice" };
    assert!(again.stdout.contains(left), "{}", again.stdout);

    let undone = doctor(&namespace, "--undo")?.success()?;
    assert_eq!(settings(&namespace)?, before, "{}", undone.stdout);
    let nothing = doctor(&namespace, "--undo")?.success()?;
    assert!(nothing.stdout.starts_with("Nothing to undo"), "{}", nothing.stdout);
    Ok(())
}

/// Interfaces with two changes each: enough for a doctor to be killed among them.
const INTERFACES: u32 = 30;

/// Killed with SIGKILL after a few changes, and so at any place of the next one.
#[test]
fn what_a_killed_doctor_changed_is_undone() -> Result<()> {
    if rig::skip::without_namespaces() {
        return Ok(());
    }
    let namespace = Namespace::create("killed")?;
    let all = || (0..INTERFACES).map(|number| format!("killed{number}"));
    for name in all() {
        namespace.ip(&format!("link add {name} type veth peer name p{name}"))?;
        namespace.tool("ethtool", &format!("-K {name} gro off tso off"))?;
    }
    let settings =
        || all().map(|name| namespace.tool("ethtool", &format!("-k {name}"))).collect::<Result<String>>();
    let before = settings()?;
    let journal = std::env::temp_dir().join(format!("sidestep-killed-{}.journal", std::process::id()));
    let doctor = |words: &str| {
        let program = Program::new(&namespace, env!("CARGO_BIN_EXE_sidestep")).words("doctor").words(words);
        let program = all().fold(program, |program, name| program.argument("--interface").argument(name));
        program.words("--only offloads --yes --journal").argument(&journal)
    };
    let mut changed = 0;
    for changes in [1, 4, 11] {
        let running = doctor("--fix").start()?;
        eventually("some changes are made", || running.stdout().matches(" done\n").count() >= changes);
        running.kill()?;
        changed += usize::from(settings()? != before);
        doctor("--undo").run(PATIENCE)?.success()?;
        assert_eq!(settings()?, before, "after {changes} changes");
        assert!(!journal.exists());
    }
    assert_eq!(changed, 3);
    Ok(())
}
