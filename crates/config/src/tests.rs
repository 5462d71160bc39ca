//! The environment as programs meet it: profile, explicit values, junk, slips; and what the table promises.

use crate::choice::*;
use crate::{Notice, Parameters, ROWS, Rules, banner, profile};
use proptest::prelude::*;

fn read(environment: &[(&str, &str)]) -> (Parameters, Vec<Notice>) {
    Parameters::from_env(environment.iter().copied())
}

fn warnings(environment: &[(&str, &str)]) -> Vec<String> {
    let loud = read(environment).1.into_iter().filter(|notice| notice.level == TraceLevel::Warning);
    loud.map(|notice| notice.text).collect()
}

#[test]
fn an_empty_environment_is_the_defaults_without_a_word() {
    let (parameters, notices) = read(&[("PATH", "/bin"), ("HOME", "/")]);
    assert_eq!((parameters, notices), (Parameters::default(), vec![]));
}

#[test]
fn values_are_read_by_number_and_by_name() {
    let (read, notices) = read(&[
        ("VMA_TRACELEVEL", "Func+"),
        ("VMA_LOG_DETAILS", "1"),
        ("VMA_RX_POLL", "-1"),
        ("VMA_TCP_TIMESTAMP_OPTION", "1"),
        ("VMA_TCP_CC_ALGO", "0"),
        ("VMA_TCP_NODELAY", "7"),
        ("VMA_STATS_SHMEM_DIR", ""),
        ("VMA_INTERNAL_THREAD_AFFINITY", "0x6"),
        ("SIDESTEP_STRICT", "yes"),
    ]);
    assert_eq!(notices, []);
    assert_eq!((read.tracelevel, read.log_details, read.rx_poll), (TraceLevel::Finer, 1, -1));
    assert_eq!((read.tcp_timestamp_option, read.tcp_cc_algo), (Timestamps::On, CongestionControl::NewReno));
    assert!(read.tcp_nodelay && read.strict && read.stats_shmem_dir.is_empty());
    assert_eq!(read.internal_thread_affinity.cores(), [1, 2]);
}

#[test]
fn digits_of_the_log_level_are_vmas_and_skip_details() {
    let level = |text: &str| TraceLevel::from_text(text).map(TraceLevel::number);
    assert_eq!(["0", "3", "4", "5", "6"].map(level), [0, 3, 5, 6, 7].map(Some));
    assert_eq!(["details", "func", "WARN", "8"].map(level), [Some(4), Some(6), Some(2), None]);
    assert_eq!(Spec::from_text("623"), Some(Spec::Mcd));
    assert_eq!(RingLogic::from_text("31"), Some(RingLogic::CoreAttach));
}

#[test]
fn explicit_values_override_the_profile() {
    let (read, notices) = read(&[("VMA_RX_POLL", "5"), ("VMA_SPEC", "Latency")]);
    assert_eq!(notices, []);
    assert_eq!((read.spec, read.rx_poll, read.select_poll), (Spec::Latency, 5, -1));
    assert!(read.tcp_nodelay && !read.cq_moderation_enable);
    assert_eq!((read.cq_aim_max_count, read.cq_aim_interval_msec), (128, 0), "as VMA derives them");
}

#[test]
fn profiles_say_what_vma_documents_and_give_a_reason_on_each_line() {
    for row in [Spec::UltraLatency, Spec::Latency, Spec::West29, Spec::WombatFh, Spec::Mcd, Spec::McdIrq]
        .into_iter()
        .chain([Spec::Rti, Spec::Sr7750, Spec::MultiRingLatency])
    {
        let text = profile::text(row);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, reason) = line.split_once('#').expect(line);
            assert!(!reason.trim().is_empty(), "{line}");
        }
        for (name, value) in profile::settings(row) {
            let notices = Parameters::default().set(name, value);
            assert!(notices.iter().all(|notice| notice.level == TraceLevel::Debug), "{row:?}: {notices:?}");
        }
        let (read, notices) = read(&[("VMA_SPEC", row.name())]);
        assert_eq!((read.spec, notices.iter().any(|n| n.level == TraceLevel::Warning)), (row, false));
    }
    assert_eq!(profile::settings(Spec::Latency).count(), 18);
    assert_eq!(profile::settings(Spec::UltraLatency).count(), 24);
    assert_eq!(profile::settings(Spec::Sr7750).count(), 12);
}

#[test]
fn junk_names_the_variable_the_value_and_what_is_accepted() {
    let told = warnings(&[("VMA_RX_POLL", "lots"), ("VMA_TRACELEVEL", "loud"), ("VMA_STATS_FD_NUM", "5000")]);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].starts_with("VMA_RX_POLL: 'lots' is not understood; accepted: a whole number from -1"),
        "{}",
        told[0]
    );
    assert!(
        told[1].contains("'loud'") && told[1].contains("DEBUG") && told[1].contains("using INFO"),
        "{}",
        told[1]
    );
    assert_eq!(told[2], "VMA_STATS_FD_NUM: 5000 is out of range 0..1024; using 1024");
    assert_eq!(
        read(&[("VMA_RX_POLL", "1000000000")]).0.rx_poll,
        100_000,
        "out of range is the default, as in VMA"
    );
}

#[test]
fn a_slip_is_told_and_a_strange_name_only_mentioned() {
    let told = warnings(&[("VMA_RXPOLL", "1")]);
    assert_eq!(told, ["'VMA_RXPOLL' is not a known variable; did you mean VMA_RX_POLL? Ignored"]);
    assert_eq!(warnings(&[("VMA_SOMETHING_ELSE_ALTOGETHER", "1")]), Vec::<String>::new());
    assert_eq!(read(&[("VMA_SOMETHING_ELSE_ALTOGETHER", "1")]).1.len(), 1);
    assert_eq!(read(&[("RX_POLL", "1"), ("vma_rx_poll", "2")]), (Parameters::default(), vec![]));
}

#[test]
fn every_name_of_vma_is_accepted_and_without_effect_means_quiet() {
    for name in ["VMA_HUGETBL", "VMA_BF", "VMA_IGMP", "VMA_RX_SW_CSUM", "VMA_TX_DROP_MODE", "VMA_IPOIB"] {
        assert_eq!(warnings(&[(name, "1")]), Vec::<String>::new());
        assert!(read(&[(name, "1")]).1[0].text.contains("no effect"), "{name}");
    }
    let (read, notices) = read(&[("VMA_RX_SKIP_OS", "7")]);
    assert_eq!(read.rx_udp_poll_os_ratio, 7);
    assert!(notices[0].text.contains("please use VMA_RX_UDP_POLL_OS_RATIO"));
}

#[test]
fn the_first_of_two_equal_names_wins_as_in_getenv() {
    assert_eq!(read(&[("VMA_RX_POLL", "1"), ("VMA_RX_POLL", "2")]).0.rx_poll, 1);
}

#[test]
fn a_fine_log_says_who_speaks() {
    assert_eq!(read(&[("VMA_TRACELEVEL", "debug")]).0.log_details, 2);
    assert_eq!(read(&[("VMA_TRACELEVEL", "debug"), ("VMA_LOG_DETAILS", "0")]).0.log_details, 0);
}

#[test]
fn the_first_percent_d_becomes_the_process_number() {
    let (mut read, _) = read(&[("VMA_LOG_FILE", "/tmp/%d/%d.log")]);
    read.expand_pid(12);
    assert_eq!(read.log_file, "/tmp/12/%d.log");
}

#[test]
fn the_banner_has_vmas_columns_and_knows_what_was_changed() {
    let (read, _) = read(&[("VMA_RX_POLL", "0"), ("VMA_TCP_NODELAY", "1")]);
    assert_eq!(
        banner::changed(&read),
        [("VMA_RX_POLL", "0".to_owned()), ("VMA_TCP_NODELAY", "Enabled ".to_owned())]
    );
    let lines = banner::lines(&read);
    let find = |name: &str| lines.iter().find(|line| line.text.ends_with(&format!("[{name}]"))).unwrap();
    assert_eq!(
        find("VMA_RX_POLL").text,
        "Rx Poll Loops                  0                          [VMA_RX_POLL]"
    );
    assert!(find("VMA_RX_POLL").changed && find("VMA_TRACELEVEL").changed && !find("VMA_MTU").changed);
    assert_eq!(lines.len(), ROWS.len());
}

#[test]
fn names_are_unique_and_fields_are_named_after_them() {
    let names: Vec<_> =
        ROWS.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied())).collect();
    for (place, name) in names.iter().enumerate() {
        assert!(!names[..place].contains(name), "{name}");
    }
    for row in ROWS {
        let default = Parameters::default();
        let shown = row.value(&default);
        assert!(row.doc.trim().ends_with('.'), "{}", row.name);
        assert!(!row.label.is_empty() && !row.accepted().is_empty(), "{} {shown}", row.name);
    }
}

#[test]
fn the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parameters.md");
    let (written, table) = (std::fs::read_to_string(path).unwrap_or_default(), crate::manual::markdown());
    if written != table {
        std::fs::write(path, &table).unwrap();
        panic!("docs/parameters.md was stale and is written anew: look at it and commit it");
    }
}

#[test]
fn the_manual_page_names_our_parameters_and_no_others() {
    let page = include_str!("../../../man/sidestep.7");
    let words = page.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let named: Vec<&str> =
        words.filter(|word| word.starts_with("SIDESTEP_") || word.starts_with("VMA_")).collect();
    let known: Vec<&str> = crate::parameters::ROWS.iter().map(|row| row.name).collect();
    for name in &named {
        assert!(known.contains(name), "man/sidestep.7 names {name}, which is no parameter");
    }
    for name in known.iter().filter(|name| name.starts_with("SIDESTEP_")) {
        assert!(named.contains(name), "man/sidestep.7 lacks {name}");
    }
}

/// Text that has a chance of being almost right.
fn nearly_rules() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("use ".to_owned()),
        Just("os ".to_owned()),
        Just("vma ".to_owned()),
        Just("tcp_server ".to_owned()),
        Just("udp_connect ".to_owned()),
        Just("application-id ".to_owned()),
        Just("*".to_owned()),
        Just(":".to_owned()),
        Just("10.0.0.1".to_owned()),
        Just("/".to_owned()),
        Just("-".to_owned()),
        Just("\n".to_owned()),
        Just("log destination ".to_owned()),
        Just("#".to_owned()),
        "[0-9]{1,12}",
        "\\PC{0,6}",
    ];
    proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn no_text_of_rules_panics(text in nearly_rules()) {
        let (rules, notices) = Rules::parse("f", &text);
        prop_assert!(notices.len() <= text.lines().count());
        rules.decide(crate::Role::UdpConnect, "a", "b", None, Some("1.2.3.4:5".parse().unwrap()));
    }

    #[test]
    fn no_environment_panics(row in 0..ROWS.len(), value in "\\PC{0,12}|-?[0-9]{0,25}|0x[0-9a-f]{0,300}") {
        let (parameters, notices) = Parameters::from_env([(ROWS[row].name, value.as_str())].into_iter());
        prop_assert!(notices.len() <= 3);
        prop_assert_eq!(banner::lines(&parameters).len(), ROWS.len());
    }

    #[test]
    fn no_pattern_panics(pattern in "[a\\[\\]!*?\\\\-]{0,12}|\\PC{0,8}", text in "[a\\[\\]!-]{0,12}|\\PC{0,8}") {
        crate::glob::matches(&pattern, &text);
    }

    #[test]
    fn no_list_of_interfaces_panics(text in "[a*!,\\[ ]{0,20}|\\PC{0,20}") {
        crate::Interfaces::parse(&text).0.choice("eth0");
    }
}

/// Rust source below a folder, in one text.
fn source(folder: &std::path::Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source(&path, into);
        } else {
            *into += &std::fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn every_parameter_is_read_somewhere_or_says_why_not() {
    let mut readers = String::new();
    for folder in ["sockets", "interpose"] {
        source(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src"),
            &mut readers,
        );
    }
    let is_read = |field: &str| {
        readers.match_indices(&format!("parameters.{field}")).any(|(at, found)| {
            !readers[at + found.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    };
    // A row begins with its field and ends with a semicolon.
    let mut rows = 0;
    for row in include_str!("parameters.rs").split_inclusive(";\n").filter(|row| row.contains(" env \"")) {
        let line =
            row.lines().find(|line| !line.trim_start().starts_with("///") && line.contains(": ")).unwrap();
        let field = line.trim().split(':').next().unwrap();
        rows += 1;
        // The profile is applied by this crate.
        if field != "spec" {
            assert_ne!(
                is_read(field),
                row.contains("unused \""),
                "{field}: read, or marked unused, not both"
            );
        }
    }
    assert_eq!(rows, ROWS.len());
}
