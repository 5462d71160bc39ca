//! The environment as programs meet it: profile, explicit values, junk, slips; and what the table promises.

use crate::choice::*;
use crate::{Notice, Parameters, ROWS, Role, Rules, banner, profile};
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
    assert!(read.tcp_nodelay);
}

#[test]
fn interrupts_are_moderated_where_that_is_asked_for_and_somebody_sleeps() {
    let moderation = |pairs: &[(&str, &str)]| {
        let read = read(pairs).0;
        (read.cq_moderation_enable, read.cq_aim_interval_msec)
    };
    assert_eq!(moderation(&[]), (Moderation::Driver, 250));
    assert_eq!(moderation(&[("VMA_SPEC", "latency")]).0, Moderation::Driver);
    assert_eq!(moderation(&[("VMA_CQ_MODERATION_ENABLE", "1")]), (Moderation::On, 250));
    assert_eq!(moderation(&[("VMA_CQ_AIM_MAX_COUNT", "9")]).0, Moderation::On);
    assert_eq!(
        moderation(&[("VMA_CQ_MODERATION_ENABLE", "0"), ("VMA_CQ_MODERATION_COUNT", "9")]),
        (Moderation::Off, 0)
    );
    let polls = [("VMA_CQ_MODERATION_COUNT", "9"), ("VMA_SELECT_POLL", "-1")];
    assert_eq!(moderation(&polls), (Moderation::Off, 0), "as VMA derives it");
    assert_eq!(moderation(&[("VMA_SPEC", "mcd-irq")]).0, Moderation::Off);
}

/// All profiles, VMA's first.
fn specs() -> impl Iterator<Item = Spec> {
    Spec::ALL.iter().copied().filter(|spec| *spec != Spec::None)
}

#[test]
fn each_setting_of_a_profile_acts_or_is_left_out_with_the_reason() {
    for spec in specs() {
        let text = profile::text(spec);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, reason) = line.split_once('#').expect(line);
            assert!(!reason.trim().is_empty(), "{line}");
        }
        let defaults = Parameters::default();
        for (name, value) in profile::settings(spec) {
            let row = Parameters::row(name).unwrap();
            assert!(row.unused.is_none(), "{spec:?}: {name} has no effect");
            let mut set = Parameters::default();
            assert_eq!(set.set(name, value), [], "{spec:?}");
            assert_ne!(row.value(&set), row.value(&defaults), "{spec:?}: {name}={value} is the default");
        }
        for (setting, reason) in profile::left_out(spec) {
            let (name, value) = setting.split_once('=').expect(setting);
            let notices = Parameters::default().set(name, value);
            assert!(notices.iter().all(|notice| notice.level == TraceLevel::Debug), "{spec:?}: {notices:?}");
            assert!(!reason.is_empty(), "{setting}");
            let is_idle = Parameters::row(name).unwrap().unused.is_some();
            assert!(is_idle || !reason.contains("of no effect"), "{spec:?}: {name} has an effect");
        }
        assert!(profile::settings(spec).next().is_some(), "{spec:?}");
        let (read, told) = read(&[("VMA_SPEC", spec.name())]);
        assert_eq!((read.spec, told), (spec, vec![]));
        let wants_wire = !spec.is_ours() || spec == Spec::Throughput;
        assert_eq!(read.is_on_wire_at_once(), wants_wire, "{spec:?}");
    }
}

#[test]
fn profiles_know_all_that_vma_documents() {
    let all = |spec| {
        let names = profile::settings(spec).map(|(name, _)| name);
        let of_vma = names.chain(profile::left_out(spec).map(|(setting, _)| setting));
        // What stands in for rings is ours.
        of_vma
            .filter(|name| name.starts_with("VMA_") && (spec != Spec::Mcd || !name.contains("YIELD")))
            .count()
    };
    let counts: Vec<usize> = specs().filter(|spec| !spec.is_ours()).map(all).collect();
    assert_eq!(counts, [24, 18, 7, 6, 2, 5, 1, 12, 9]);
}

/// A number drawn from a seed: SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn below(state: &mut u64, end: usize) -> usize {
    (draw(state) % end as u64) as usize
}

/// A value that may be one, or nearly.
fn some_value(state: &mut u64, row: &crate::Row) -> String {
    let accepted = row.accepted();
    match below(state, 8) {
        0 => draw(state).to_string(),
        1 => (draw(state) as i64 >> below(state, 64)).to_string(),
        2 => below(state, 40).to_string(),
        3 => accepted.split([',', '|', ' ']).nth(below(state, 9)).unwrap_or("").to_owned(),
        4 => String::new(),
        5 => format!("0x{:x}", draw(state)),
        6 => (0..below(state, 300))
            .map(|_| char::from_u32(below(state, 0x500) as u32).unwrap_or('?'))
            .collect(),
        _ => row.value(&Parameters::default()),
    }
}

/// What a value is when its own parameter reads it again.
fn reread(row: &crate::Row, parameters: &Parameters) -> Result<(), String> {
    let shown = row.value(parameters);
    // The name behind a number is for people.
    let text = match shown.split_once('(') {
        Some((number, _)) if number.trim().parse::<i32>().is_ok() => number.trim(),
        _ => shown.trim(),
    };
    (row.set)(&mut Parameters::default(), text)
}

#[test]
fn ten_thousand_random_environments_leave_values_that_can_be_used() {
    let mut state = 2026;
    for round in 0..10_000 {
        let environment: Vec<(String, String)> = (0..below(&mut state, 12))
            .map(|_| {
                let row = &ROWS[below(&mut state, ROWS.len())];
                let mut name = row.name.to_owned();
                if below(&mut state, 20) == 0 {
                    name.insert(below(&mut state, name.len()), '_');
                }
                (name, some_value(&mut state, row))
            })
            .collect();
        let (read, notices) = Parameters::from_env(environment.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        // Those that nobody set follow from the others at the most: now and then is enough.
        let is_set = |row: &&crate::Row| environment.iter().any(|(name, _)| row.is_named(name));
        for row in ROWS.iter().filter(|row| round % 50 == 0 || is_set(row)) {
            assert_eq!(reread(row, &read), Ok(()), "round {round}: {} by {environment:?}", row.name);
        }
        assert!(notices.iter().all(|notice| !notice.text.contains(char::is_control)), "{notices:?}");
        crate::Interfaces::parse(&read.interfaces).0.choice("eth0");
        assert_eq!(banner::lines(&read).len(), ROWS.len());
    }
}

#[test]
fn ten_thousand_mutated_rule_files_are_read_and_each_bad_line_is_told() {
    const FILE: &str = include_str!("../../../conf/libvma.conf");
    let mut state = 7;
    for round in 0..10_000 {
        let mut bytes = FILE.as_bytes().to_vec();
        for _ in 0..=below(&mut state, 30) {
            let at = below(&mut state, bytes.len());
            match below(&mut state, 4) {
                0 => bytes[at] = draw(&mut state) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b" :*/-.#\n0"[below(&mut state, 9)]),
                _ => {
                    let end = (at + below(&mut state, 40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = below(&mut state, bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let (rules, notices) = Rules::parse("/etc/libvma.conf", &text);
        let lines = text.lines().count();
        for notice in &notices {
            let number =
                notice.text.strip_prefix("/etc/libvma.conf:").and_then(|rest| rest.split(':').next());
            let number: usize = number.and_then(|number| number.parse().ok()).expect(&notice.text);
            assert!((1..=lines).contains(&number), "round {round}: {}", notice.text);
        }
        let process = rules.compile("program", "VMA_DEFAULT_APPLICATION_ID");
        for role in [Role::TcpServer, Role::TcpClient, Role::UdpReceiver, Role::UdpSender, Role::UdpConnect] {
            let local = Some("10.0.0.1:80".parse().unwrap());
            let decided = process.decide(role, local, local);
            let same = rules.decide(role, "program", "VMA_DEFAULT_APPLICATION_ID", local, local);
            assert_eq!(decided, same, "round {round}");
        }
    }
}

#[test]
fn a_number_that_is_out_of_range_is_told_as_it_was_written() {
    let told = warnings(&[("SIDESTEP_FRAMES", "1099511627776")]);
    assert_eq!(told, ["SIDESTEP_FRAMES: 1099511627776 is out of range 0..1048576; using 0"]);
    let told = warnings(&[("VMA_RX_WRE_BATCHING", &"9".repeat(1000))]);
    assert!(told[0].len() < 200, "{told:?}");
}

#[test]
fn every_parameter_is_parsed_bounded_and_reported() {
    for row in ROWS {
        let default = row.value(&Parameters::default());
        let accepted = row.accepted();
        let tells = |value: &str, part: &str| {
            let told = warnings(&[(row.name, value)]);
            let told = told.iter().find(|text| text.starts_with(&format!("{}: ", row.name)));
            let told = told.unwrap_or_else(|| panic!("{}={value} is not told", row.name));
            assert!(told.contains(part) && told.contains("using "), "{told}");
            assert_eq!(told.contains("of no effect here"), row.unused.is_some(), "{told}");
        };
        if accepted != "text" {
            tells("rubbish!", "'rubbish!' is not understood; accepted: ");
            let read = read(&[(row.name, "rubbish!")]).0;
            assert_eq!(row.value(&read), default, "{}", row.name);
        }
        let bounds =
            accepted.split_once(" from ").map(|(_, bounds)| bounds.split(" to ").collect::<Vec<_>>());
        let bounds: Vec<i64> = bounds.unwrap_or_default().iter().filter_map(|end| end.parse().ok()).collect();
        if let [low, high] = bounds[..] {
            tells(&(high + 1).to_string(), &format!("out of range {low}..{high}"));
            if low < 0 || accepted.contains("from -") {
                tells(&(low - 1).to_string(), &format!("out of range {low}..{high}"));
            }
        }
        // Another value is shown, as of no effect where it is.
        let others =
            ["0", "1", "2", "3", "77", "100", "512", "/x"].into_iter().chain(accepted.split([',', '|', ' ']));
        let other = others.into_iter().find(|value| {
            let mut set = Parameters::default();
            (row.set)(&mut set, value).is_ok() && row.value(&set) != default
        });
        let mut set = Parameters::default();
        (row.set)(&mut set, other.unwrap_or_else(|| panic!("no other value of {}", row.name))).unwrap();
        let line =
            banner::lines(&set).into_iter().find(|line| line.text.contains(&format!("[{}]", row.name)));
        let line = line.unwrap();
        assert!(line.changed && line.text.contains(row.value(&set).trim()), "{}", line.text);
        assert_eq!(line.text.ends_with("no effect"), row.unused.is_some(), "{}", line.text);
    }
}

#[test]
fn buffers_and_rings_in_vmas_words_size_ours() {
    let sizes = |environment: &[(&str, &str)]| {
        let read = read(environment).0;
        (read.frames, read.rx_ring, read.tx_ring)
    };
    assert_eq!(sizes(&[]), (0, 2048, 2048));
    assert_eq!(sizes(&[("VMA_RX_BUFS", "1024")]), (2048 + 1024, 2048, 2048));
    assert_eq!(sizes(&[("VMA_RX_BUFS", "1024"), ("VMA_TX_BUFS", "512")]), (1536, 2048, 2048));
    assert_eq!(sizes(&[("VMA_RX_BUFS", "1"), ("VMA_TX_BUFS", "1")]).0, 256);
    assert_eq!(sizes(&[("VMA_RX_BUFS", "4294967295")]).0, 1_048_576);
    assert_eq!(sizes(&[("VMA_RX_BUFS", "1024"), ("SIDESTEP_FRAMES", "4096")]).0, 4096);
    assert_eq!(sizes(&[("VMA_RX_WRE", "256"), ("VMA_TX_WRE", "512")]), (0, 256, 512));
    assert_eq!(sizes(&[("VMA_RX_WRE", "256"), ("SIDESTEP_RX_RING", "1024")]).1, 1024);
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

/// The rows of a table in a page: three cells each, without those of headings.
fn rows_of(page: &str) -> Vec<[&str; 3]> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter_map(|row| row.split(" | ").collect::<Vec<_>>().try_into().ok())
        .filter(|cells: &[&str; 3]| ["acts", "partly", "no"].contains(&cells[1]))
        .collect()
}

#[test]
fn the_page_on_compatibility_counts_and_names_rightly() {
    let page = include_str!("../../../docs/vma-compatibility.md");
    let rows = rows_of(page);
    let count = |state: &str| rows.iter().filter(|row| row[1] == state).count();
    let by_hand = rows.iter().filter(|row| row[1] == "acts" && row[2].starts_with("hand: ")).count();
    let head = format!(
        "{} rows: {} act, {} act partly, {} are not here. Of those that act, {by_hand} were seen by hand",
        rows.len(),
        count("acts"),
        count("partly"),
        count("no")
    );
    assert!(page.contains(&head), "docs/vma-compatibility.md is to say: {head}");

    // Each variable of VMA has one row, which says what the table says.
    let of_vma = || ROWS.iter().filter(|row| row.name.starts_with("VMA_"));
    let (all, idle) = (of_vma().count(), of_vma().filter(|row| row.unused.is_some()).count());
    let counts = format!(
        "{all} variables of VMA are known, with their old names: {} act, {idle} are accepted",
        all - idle
    );
    assert!(page.contains(&counts), "docs/vma-compatibility.md is to say: {counts}");
    for row in of_vma() {
        let found: Vec<_> = rows.iter().filter(|cells| cells[0] == row.name).collect();
        let [cells] = found[..] else { panic!("{} rows of {}", found.len(), row.name) };
        match row.unused {
            Some(why) => assert_eq!((cells[1], cells[2]), ("no", why), "{}", row.name),
            None => assert_ne!(cells[1], "no", "{}", row.name),
        }
    }

    // Every test that is named is there.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = String::new();
    for folder in ["crates", "tools", "tests"] {
        source(&root.join(folder), &mut text);
    }
    for named in page.split('`').skip(1).step_by(2) {
        let is_test = named.contains('_')
            && named.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_there =
            text.contains(&format!("fn {named}(")) || root.join(format!("tests/api/{named}.c")).exists();
        assert!(!is_test || is_there || ["vma_stats"].contains(&named), "no test is called {named}");
        assert!(!named.ends_with(".rs") || root.join(named).exists(), "{named} is not there");
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
        } else if path.extension().is_some_and(|end| end == "rs") {
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
        // This crate applies the profile, and sizes our buffers and rings by VMA's.
        if !["spec", "rx_bufs", "tx_bufs", "rx_wre", "tx_wre"].contains(&field) {
            assert_ne!(
                is_read(field),
                row.contains("unused \""),
                "{field}: read, or marked unused, not both"
            );
        }
    }
    assert_eq!(rows, ROWS.len());
}

/// What the manual says of numbers out of range is so.
#[test]
fn a_number_out_of_range_becomes_what_the_manual_says() {
    for row in ROWS {
        let accepted = row.accepted();
        let Some((_, high)) = accepted.rsplit_once(" to ") else { continue };
        let Ok(high) = high.parse::<i64>() else { continue };
        let beyond = (high + 1).to_string();
        let (parameters, notices) = Parameters::from_env([(row.name, beyond.as_str())].into_iter());
        let (mut nearest, mut defaults) = (Parameters::default(), Parameters::default());
        (row.set)(&mut nearest, &high.to_string()).unwrap();
        (row.set)(&mut defaults, &row.value(&Parameters::default())).unwrap();
        let expected = if row.takes().ends_with("the nearest") { &nearest } else { &defaults };
        assert_eq!(row.value(&parameters), row.value(expected), "{}={beyond}", row.name);
        assert!(row.unused.is_some() || !notices.is_empty(), "{}={beyond} is told", row.name);
    }
    let (parameters, _) = Parameters::from_env([("SIDESTEP_FRAMES", "99999999999")].into_iter());
    assert_eq!(parameters.frames, Parameters::default().frames, "not 4 GiB");
}
