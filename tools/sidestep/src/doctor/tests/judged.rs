//! Checks with more than one good and one bad case: where each begins to be wrong.

use super::*;

/// A processor's own limit counts, as the one of all does; of the states that it allows, the deepest.
#[test]
fn idle_states_that_no_processor_may_enter_are_no_harm() {
    let path = "/sys/devices/system/cpu/cpu{0-15}/power/pm_qos_resume_latency_us";
    let limited =
        |limit: &str| verdicts(&host("neglected").with(&format!("{path} = {limit}")), "idle-states");
    assert_eq!(limited("n/a"), [Verdict::Good]);
    assert_eq!(limited("100"), [Verdict::Good]);
    assert_eq!(limited("133"), [Verdict::Bad]);
    assert_eq!(limited("0"), [Verdict::Bad]);
    let but_one = path.replace("0-15", "0-14");
    let one_is_free = host("neglected").with(&format!("{but_one} = n/a"));
    assert_eq!(verdicts(&one_is_free, "idle-states"), [Verdict::Bad]);
}

#[test]
fn irqbalance_that_keeps_off_isolated_processors_is_left_to_run() {
    let host = host("tuned").with("? processes irqbalance = {\"pids\":[900]}");
    let told =
        |banned: &str| found(&host.clone().with(&format!("? banned 900 = {banned}")), "irqbalance").remove(0);
    for banned in ["{}", r#"{"list":"4-7"}"#, r#"{"mask":"f0"}"#, r#"{"list":"4-7","mask":"1"}"#] {
        assert_eq!(told(banned).0, Verdict::Good, "{banned}");
    }
    for (banned, left) in
        [(r#"{"list":"0,6-7"}"#, "use 4-5 of"), (r#"{"mask":"00000000,0000000f"}"#, "use 4-7 of")]
    {
        let (verdict, words) = told(banned);
        assert!(verdict == Verdict::Advice && words.contains(left), "{words}");
    }
    // Its environment is root's to read.
    let unseen = host.with("? banned 900 ! denied");
    assert_eq!(verdicts(&unseen, "irqbalance"), [Verdict::CannotTell]);
}

#[test]
fn error_correction_is_judged_by_what_the_link_needs() {
    let link = |lines: &str| verdicts(&host("tuned").with(lines), "fec");
    let rs = "? fec eth0 = {\"active\":[\"rs\"]}\n/sys/class/net/eth0/speed";
    assert_eq!(link(&format!("{rs} = 25000")), [Verdict::Advice]);
    assert_eq!(link(&format!("{rs} = 100000")), [Verdict::Good]);
    assert_eq!(link("? fec eth0 = {\"active\":[\"off\"]}"), [Verdict::Good]);
    assert_eq!(link("? fec eth0 = {\"active\":[\"none\"]}"), [Verdict::NotApplicable]);
    assert_eq!(link("? fec eth0 ! missing"), [Verdict::NotApplicable]);
}

/// Each half alone has no effect.
#[test]
fn rfs_is_told_of_where_it_acts() {
    let queues = "/sys/class/net/eth0/queues/rx-{0-3}/rps_flow_cnt = 4096";
    let flows = "/proc/sys/net/core/rps_sock_flow_entries = 32768";
    assert_eq!(verdicts(&host("tuned").with(queues), "steering"), [Verdict::Good]);
    assert_eq!(verdicts(&host("tuned").with(flows), "steering"), [Verdict::Good]);
    let (verdict, words) = found(&host("tuned").with(&format!("{queues}\n{flows}")), "steering").remove(0);
    assert_eq!(verdict, Verdict::Advice);
    assert!(words.contains("RFS on 4 of its queues"), "{words}");
}

#[test]
fn what_is_asked_for_of_transmit_queues_gives_each_processor_to_one() {
    use crate::doctor::action::Action;
    let host = host("neglected");
    let view = View::new(&host, Aim::Latency, &[]).unwrap();
    let check = checks::all().find(|check| check.id == "xps").unwrap();
    let mend = check.findings(&view).remove(0).mend.unwrap();
    let write = |queue: u32, mask: &str| Action::Write {
        path: format!("/sys/class/net/eth0/queues/tx-{queue}/xps_cpus"),
        value: mask.to_owned(),
    };
    assert_eq!(mend.actions, [write(0, "00005555"), write(1, "0000aaaa")]);
    let by_queue = host.with("/sys/class/net/eth0/queues/tx-{0-1}/xps_rxqs = 1");
    assert_eq!(verdicts(&by_queue, "xps"), [Verdict::Good]);
}

#[test]
fn swap_and_limits_are_judged_by_what_they_would_do() {
    let area = "/proc/swaps\n| Filename Type Size Used Priority\n| /dev/sda2 partition 8388604 0 -2";
    let with_area = host("tuned").with(area);
    assert_eq!(verdicts(&with_area, "swap"), [Verdict::Good]);
    assert_eq!(verdicts(&with_area.with("/proc/sys/vm/swappiness = 60"), "swap"), [Verdict::Advice]);
    let words = &found(&host("neglected"), "limits")[0].1;
    assert!(words.contains("rtprio 0 and no CAP_SYS_NICE"), "{words}");
    let may = host("neglected").with("/proc/self/status = CapEff:\t0000000000800000");
    assert!(!found(&may, "limits")[0].1.contains("rtprio"));
}
