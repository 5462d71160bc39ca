//! The program as people run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn sidestep(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidestep")).args(words).output().expect("sidestep runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder of this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sidestep-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn wrong_words_are_named() {
    let output = sidestep(&["doctor", "--interface", "nosuch0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no interface nosuch0"), "{}", text(&output.stderr));
    let output = sidestep(&["doctor", "--only", "nosuch"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_keeper_that_cannot_be_asked_is_named_with_the_reason() {
    for (place, told) in [
        ("/nonexist", "/nonexist: No such file or directory"),
        ("/etc/passwd", "/etc/passwd: Connection refused"),
    ] {
        let output = sidestep(&["status", "--socket", place]);
        assert_eq!(
            (output.status.code(), text(&output.stderr).contains(told)),
            (Some(2), true),
            "{output:?}"
        );
        let mut named = Command::new(env!("CARGO_BIN_EXE_sidestep"));
        let output = named.arg("status").env("SIDESTEP_KEEPER", place).output().unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stderr).contains(told)),
            (Some(2), true),
            "{output:?}"
        );
    }
    let mut nobody = Command::new(env!("CARGO_BIN_EXE_sidestep"));
    let output = nobody.arg("status").env("SIDESTEP_KEEPER", "none").output().unwrap();
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.contains("SIDESTEP_KEEPER=none")), (Some(2), true), "{told}");
}

#[test]
fn what_the_doctor_cannot_do_as_it_is_asked_is_refused() {
    let folder = folder("doctor-words");
    let empty = folder.join("empty").to_string_lossy().into_owned();
    std::fs::write(&empty, "# nothing\n").expect("a file");
    for words in ["--json --list", "--json --fix", "--json --undo", "--json --dry-run"] {
        let words: Vec<&str> = std::iter::once("doctor").chain(words.split(' ')).collect();
        assert_eq!(sidestep(&words).status.code(), Some(2), "{words:?}");
    }
    for (words, why) in [
        (&["doctor", "--only", "ping-pong", "--quick"][..], "--quick makes none"),
        (&["doctor", "--only", "program-library"], "--program PID"),
        (&["doctor", "--recorded", &empty], "no recording"),
    ] {
        let output = sidestep(words);
        assert_eq!((output.status.code(), text(&output.stderr).contains(why)), (Some(2), true), "{output:?}");
    }
    let archive = folder.join("report.tar.gz");
    let mut report = Command::new(env!("CARGO_BIN_EXE_sidestep"));
    let report = report.args(["bugreport", "--redact", "--output"]).arg(&archive);
    let report = report.stdin(std::process::Stdio::null()).output().expect("sidestep runs");
    assert_eq!((report.status.code(), archive.exists()), (Some(2), false), "{report:?}");
    assert!(text(&report.stderr).contains("--yes"), "{report:?}");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn this_host_is_examined_and_the_recording_of_it_gives_the_same_page() {
    let folder = folder("record");
    let file = folder.join("host.txt").to_string_lossy().into_owned();
    let live = sidestep(&["doctor", "--quick", "--record", &file]);
    assert!(matches!(live.status.code(), Some(0 | 1)), "{}", text(&live.stderr));
    let again = sidestep(&["doctor", "--recorded", &file]);
    assert_eq!(text(&live.stdout), text(&again.stdout));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_bug_report_lists_what_it_has_and_its_recording_can_be_examined() {
    let folder = folder("bugreport");
    let archive = folder.join("report.tar.gz").to_string_lossy().into_owned();
    let output = sidestep(&["bugreport", "--redact", "--yes", "--output", &archive]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("host.txt"));
    let tar = Command::new("tar").args(["-xzf", &archive, "-C"]).arg(&folder).status().expect("tar");
    assert!(tar.success());
    let inside = folder.join("sidestep-bugreport");
    let page = sidestep(&["doctor", "--recorded", &inside.join("host.txt").to_string_lossy()]);
    assert!(matches!(page.status.code(), Some(0 | 1)), "{}", text(&page.stderr));
    // The hardware addresses of this host are not in it.
    for interface in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let own = std::fs::read_to_string(interface.path().join("address")).unwrap_or_default();
        let own = own.trim();
        if own.len() != 17 || own == "00:00:00:00:00:00" {
            continue;
        }
        for file in std::fs::read_dir(&inside).expect("the report").flatten() {
            let content = std::fs::read_to_string(file.path()).unwrap_or_default();
            assert!(!content.contains(own), "{own} in {}", file.path().display());
        }
    }
    // It is never written over something.
    assert_eq!(sidestep(&["bugreport", "--yes", "--output", &archive]).status.code(), Some(2));
    let _ = std::fs::remove_dir_all(folder);
}

/// Whether a process has the device open that `hold` holds, and was started for this one.
fn is_held_for(pid: u32) -> bool {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_holder = |path: &PathBuf| {
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        text(&words).contains(&format!("--pid\0{pid}\0"))
    };
    let holds = |path: PathBuf| {
        let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|to| to == Path::new("/dev/cpu_dma_latency"))
    };
    all.filter(is_holder).any(holds)
}

#[test]
fn hold_lives_as_long_as_the_program_even_if_that_is_killed() {
    if std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_err() {
        rig::skip::skipped(&rig::skip::test_name(), "/dev/cpu_dma_latency cannot be opened here");
        return;
    }
    assert_eq!(sidestep(&["hold", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let run = ["run", "--hold", "--library", "/dev/null", "--interfaces", "nosuch0", "--"];
    assert_eq!(sidestep(&[&run[..], &["sh", "-c", "exit 7"]].concat()).status.code(), Some(7));
    for words in [&["hold", "--"][..], &run] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidestep"));
        let mut child = command.args(words).args(["sleep", "600"]).spawn().expect("sidestep runs");
        let pid = child.id();
        let wait_until = |wanted: bool| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while is_held_for(pid) != wanted {
                assert!(Instant::now() < deadline, "{words:?}: held is not {wanted}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_until(true);
        child.kill().expect("it lives");
        child.wait().expect("it was ours");
        wait_until(false);
    }
}

/// Idle states are no reason not to start, unless the user says so.
#[test]
fn what_cannot_be_held_is_started_without_unless_strict() {
    use std::os::unix::process::CommandExt;
    // Where an ordinary user can get at it: a build may be in a folder of root's.
    let folder = folder("unheld");
    let program = folder.join("sidestep");
    // Another process writes it: what another test forks meanwhile would hold a file of ours open for writing until
    // it executes, and such a file cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sidestep")).arg(&program).status().expect("cp");
    assert!(copied.success());
    let run = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).args(["--library", "/dev/null", "--hold", "--", "sh", "-c", "exit 7"]);
        // The device is root's.
        if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            command.uid(65534).gid(65534);
        }
        command.output().expect("sidestep runs")
    };
    let output = run(&["run"]);
    let told = text(&output.stderr);
    assert_eq!(
        (output.status.code(), told.contains("cannot open /dev/cpu_dma_latency")),
        (Some(7), true),
        "{told}"
    );
    assert_eq!(run(&["run", "--strict"]).status.code(), Some(2));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn rules_are_explained_by_the_line_that_decides() {
    let folder = folder("rules");
    let file = folder.join("rules.conf");
    std::fs::write(&file, "# ours\nuse os tcp_client 10.0.0.0/8:80\n").expect("a file");
    let file = file.to_string_lossy().into_owned();
    let explain = |peer: &str, more: &[&str]| {
        let words =
            ["rules", "explain", "--program", "curl", "--role", "tcp_client", "--file", &file, "--peer"];
        sidestep(&[&words[..], &[peer], more].concat())
    };
    let left = explain("10.1.2.3:80", &[]);
    assert_eq!(left.status.code(), Some(1), "{}", text(&left.stderr));
    assert!(text(&left.stdout).contains(&format!("{file}:2: use os tcp_client 10.0.0.0/8:80")));
    let json = explain("10.1.2.3:443", &["--json"]);
    assert_eq!(json.status.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&told["accelerates"], &told["line"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(told["problems"], serde_json::json!([]));
    assert_eq!(explain("nobody:80", &[]).status.code(), Some(2));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn rules_that_are_wrong_or_cannot_be_read_are_told_and_nothing_is_waited_for() {
    let folder = folder("wrong-rules");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::write(path("wrong"), "use nonsense\nuse os tcp_server *:*\n").expect("a file");
    std::fs::write(path("large"), "#".repeat((1 << 20) + 1)).expect("a file");
    let of_nginx = "\u{feff}application-id nginx *\nuse os tcp_server *:*\n";
    std::fs::write(path("named"), of_nginx).expect("a file");
    assert!(Command::new("mkfifo").arg(path("fifo")).status().expect("mkfifo").success());
    let explain = |file: &str| {
        let words = ["rules", "explain", "--program", "/usr/sbin/nginx", "--role", "tcp_server", "--json"];
        sidestep(&[&words[..], &["--file", file]].concat())
    };
    let wrong = explain(&path("wrong"));
    let told: serde_json::Value = serde_json::from_slice(&wrong.stdout).expect("JSON");
    assert_eq!((wrong.status.code(), &told["accelerates"]), (Some(2), &false.into()));
    let problem = format!(
        "{}:1: 'nonsense' is no transport; expected os, vma, sdp, sa or *; line ignored",
        path("wrong")
    );
    assert_eq!(told["problems"], serde_json::json!([problem]));
    assert!(text(&wrong.stderr).contains(&problem));
    for (file, why) in [
        (path("large"), "more than 1 MiB"),
        ("/dev/zero".to_owned(), "more than 1 MiB"),
        (path("."), "Is a directory"),
        (path("missing"), "No such file or directory"),
    ] {
        let output = explain(&file);
        assert_eq!((output.status.code(), text(&output.stderr).contains(why)), (Some(2), true), "{output:?}");
    }
    assert_eq!(explain(&path("fifo")).status.code(), Some(0), "it has nothing");
    assert_eq!(explain(&path("named")).status.code(), Some(1), "without its folder");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn parameters_are_found_by_parts_of_their_names_and_told_as_the_environment_has_them() {
    let with = |words: &[&str], value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidestep"));
        command.arg("params").args(words).env("VMA_RX_POLL", value).output().expect("sidestep runs")
    };
    let page = with(&["rx_poll"], "7");
    assert!(page.status.success() && text(&page.stdout).contains("here       7\n"), "{}", text(&page.stdout));
    let some = text(&with(&["moderation"], "7").stdout).to_owned();
    assert_eq!(some.lines().count(), some.matches("MODERATION").count(), "{some}");
    assert!(some.lines().count() >= 3 && some.contains("VMA_CQ_MODERATION_COUNT "), "{some}");
    assert_eq!(with(&["nothing_has_this"], "7").status.code(), Some(2));
    let bad = with(&["--changed"], "lots");
    assert_eq!((bad.status.code(), text(&bad.stdout).contains("VMA_RX_POLL")), (Some(1), false));
    assert!(text(&bad.stderr).contains("VMA_RX_POLL: 'lots' is not understood"), "{}", text(&bad.stderr));
    let json: serde_json::Value =
        serde_json::from_slice(&with(&["--json", "--changed"], "7").stdout).expect("JSON");
    assert_eq!((&json[0]["name"], &json[0]["value"]), (&"VMA_RX_POLL".into(), &"7".into()));
    let all: serde_json::Value = serde_json::from_slice(&with(&["--json"], "7").stdout).expect("JSON");
    let idle = all.as_array().expect("a list").iter().find(|row| row["name"] == "VMA_BF").expect("a row");
    assert_eq!(idle["no_effect"], "Mellanox hardware only");
    assert_eq!(with(&["nosuch"], "7").status.code(), Some(2));
    assert!(text(&with(&["vma_spec"], "7").stdout).contains("left out: VMA_SELECT_SKIP_OS=1"));
}

#[test]
fn what_is_run_has_its_arguments_its_status_and_the_library() {
    let script = "echo \"$0 $1 $VMA_SPEC $SIDESTEP_INTERFACES $LD_PRELOAD\"; exit 7";
    let words = ["run", "--library", "/dev/null", "--profile", "latency", "--interfaces", "nosuch0", "--"];
    let output = sidestep(&[&words[..], &["sh", "-c", script, "zero", "--one"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "zero --one latency nosuch0 /dev/null\n");
    let told = text(&output.stderr);
    assert!(
        told.contains("no interface is called nosuch0") && told.contains("would be accelerated"),
        "{told}"
    );
    let strict = sidestep(&["run", "--interfaces", "nosuch0", "--strict", "true"]);
    assert_eq!(strict.status.code(), Some(2));
    assert!(text(&strict.stderr).contains("not started (--strict)"));
    assert_eq!(sidestep(&["run", "nosuch-program"]).status.code(), Some(2));
    assert_eq!(sidestep(&["run", "--profile", "nosuch", "true"]).status.code(), Some(2));
}

#[test]
fn what_stands_against_acceleration_is_told_without_starting_anything() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("check");
    let script = folder.join("script");
    std::fs::write(&script, "#!/usr/bin/env sh\necho started\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let words = ["run", "--interfaces", "nosuch0", "--check", "--json"];
    let output = sidestep(&[&words[..], &[&*script.to_string_lossy()]].concat());
    assert_eq!((output.status.code(), text(&output.stdout).contains("started")), (Some(1), false));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks: Vec<&str> =
        told["findings"].as_array().expect("a list").iter().filter_map(|f| f["check"].as_str()).collect();
    assert!(checks.contains(&"interfaces") && !checks.contains(&"program"), "{checks:?}");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_capture_of_what_is_not_there_says_so() {
    let folder = folder("capture");
    let file = folder.join("packets.pcapng");
    let (file, folder) = (file.to_string_lossy(), folder.to_string_lossy());
    let own = std::process::id().to_string();
    // No process has this number: pid_max is at most 2^22.
    for (words, why) in [
        (["-p", "4194305"], "there is no process 4194305"),
        (["-p", &own], "runs without libvma.so"),
        (["-i", "nosuch0"], "there is no interface nosuch0"),
    ] {
        let output = sidestep(&[&["capture", "--directory", &folder, "-w", &file], &words[..]].concat());
        assert_eq!((output.status.code(), text(&output.stderr).contains(why)), (Some(2), true), "{output:?}");
        assert!(!std::path::Path::new(&*file).exists());
    }
    let _ = std::fs::remove_dir_all(&*folder);
}

#[test]
fn a_filter_that_is_wrong_is_told_before_anything_is_captured() {
    let output = sidestep(&["capture", "-w", "/dev/null", "tcp", "prot", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("the filter \"tcp prot 1\":") || told.contains("a filter needs libpcap"), "{told}");
    let output = sidestep(&["capture", "--directory", "/nonexistent", "-w", "/dev/null"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nonexistent"), "{}", text(&output.stderr));
}
