//! Screens of every size, and what keys do to them.

use super::choice::{Choice, Key, Order, Row, Step};
use super::page::{Style, screen, short, whole};
use super::picture::{Picture, ProgramRow, Rates, SocketRow};
use stats::{Carrier, Why};

fn socket(pid: u32, fd: i64, carrier: Carrier, calls: f64, reason: &str) -> SocketRow {
    SocketRow {
        pid,
        program: if pid == 10 { "redis-server" } else { "nginx" }.to_owned(),
        fd,
        protocol: "tcp",
        local: "10.0.0.1:6379".to_owned(),
        remote: format!("10.0.0.2:{}", 40_000 + fd),
        state: "ESTABLISHED",
        carrier,
        since_s: 3.21 * fd as f64,
        moves: fd as u64,
        rates: Some(Rates { calls, bytes: calls * 100.0 }),
        reason: reason.to_owned(),
    }
}

/// Two programs; the second has many sockets.
fn picture() -> Picture {
    let program = |pid: u32, name: &str, calls: f64| ProgramRow {
        pid,
        name: name.to_owned(),
        wire: 1,
        memory: 3,
        kernel: 1,
        left: 12_345,
        rates: Some(Rates { calls, bytes: 2.5e6 }),
        reasons: vec![(Why::NoPrivilege, 12_000), (Why::LocalAddress, 345)],
        lanes: vec!["veth0: 3 queues".to_owned()],
        ..ProgramRow::default()
    };
    let mut sockets = vec![
        socket(10, 7, Carrier::Wire, 41_000.0, "little data a call: 62 bytes in each of 16 calls"),
        socket(
            10,
            8,
            Carrier::Kernel,
            5.0,
            "bulk, which the kernel carries for less where the device copies",
        ),
    ];
    sockets.extend((20..60).map(|fd| socket(11, fd, Carrier::Wire, 1.0, "on the wire from its beginning")));
    Picture { programs: vec![program(11, "nginx", 40.0), program(10, "redis-server", 41_005.0)], sockets }
}

fn choice() -> Choice {
    Choice::new(Order::Calls, String::new(), 1000)
}

/// The lines of a screen, and that each has exactly its width.
fn shown(picture: &Picture, choice: &Choice, width: usize, height: usize) -> Vec<String> {
    let lines = screen(picture, choice, width, height);
    assert_eq!(lines.len(), height);
    for (_, line) in &lines {
        assert_eq!(line.chars().count(), width, "{line:?}");
    }
    lines.into_iter().map(|(_, line)| line.trim_end().to_owned()).collect()
}

#[test]
fn a_screen_of_80_by_24_has_programs_sockets_what_carries_them_rates_and_why() {
    let lines = shown(&picture(), &choice(), 80, 24);
    assert_eq!(lines[0], " 2 programs, 42 sockets: 2 wire, 6 memory, 2 kernel; by calls");
    assert_eq!(lines[2], "      10 redis-server        1      3      1 12.3k     0   41.0k    2.5M  no pr>");
    assert!(lines[3].contains("nginx"), "{lines:?}");
    assert_eq!(lines[5], "      10     7 tcp 10.0.0.2:40007        wire   22.5s 41.0k  4.1M little data a>");
    assert!(lines[6].contains("kernel"), "{lines:?}");
    assert!(lines[23].starts_with(" ? keys  q leave"), "{lines:?}");
}

#[test]
fn every_size_is_filled_and_none_is_overrun() {
    let mut choice = choice();
    for chosen in [None, Some(Row::Program(10)), Some(Row::Socket(10, 7)), Some(Row::Socket(99, 1))] {
        choice.chosen = chosen;
        for (width, height) in
            [(80, 24), (200, 60), (41, 9), (40, 8), (40, 7), (40, 6), (39, 8), (1, 1), (80, 0), (120, 12)]
        {
            shown(&picture(), &choice, width, height);
            shown(&Picture::default(), &choice, width, height);
        }
    }
    let wide = shown(&picture(), &choice, 160, 24);
    assert!(wide[5].contains("10.0.0.1:6379") && wide[5].contains("in each of 16 calls"), "{}", wide[5]);
    assert!(shown(&Picture::default(), &choice, 80, 24)[2].contains("no program"));
}

#[test]
fn keys_sort_filter_choose_and_leave() {
    let picture = picture();
    let mut choice = choice();
    let mut press = |keys: &str| {
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '\x1b' => Key::Escape,
                other => Key::Letter(other),
            };
            assert_eq!(choice.key(key, &picture), Step::Stay);
        }
        choice.clone()
    };
    let first = |choice: &Choice| choice.sockets(&picture)[0].fd;
    assert_eq!((first(&press("r")), first(&press("r"))), (20, 7));
    assert_eq!(first(&press("ss")), 59, "by moves");
    assert_eq!(first(&press("s")), 7, "the youngest");
    let memories = press("cc");
    assert_eq!(memories.carrier, Some(Carrier::Memory));
    let kernels = press("c");
    assert_eq!(kernels.sockets(&picture).iter().map(|row| row.fd).collect::<Vec<_>>(), [8]);
    assert_eq!(press("c").sockets(&picture).len(), 42);
    assert_eq!(press("/REDIS\n").sockets(&picture).len(), 2);
    assert_eq!(press("").programs(&picture).len(), 1);
    assert_eq!(press("/q\x1b").sockets(&picture).len(), 42, "a letter of the filter is no key");
    assert_eq!(press("j").chosen, Some(Row::Program(11)), "by name");
    assert_eq!(press("\n").sockets(&picture).len(), 40, "of the chosen program alone");
    assert_eq!(press("\n").sockets(&picture).len(), 42);
    assert_eq!(press("jj").chosen, Some(Row::Socket(10, 7)));
    let lines = shown(&picture, &press(""), 80, 24);
    assert!(lines[22].contains("7 moves; little data a call: 62 bytes in each of 16 calls"), "{lines:?}");
    assert!(shown(&picture, &press("?"), 80, 24)[0].contains("sidestep top"));
    press(" ");
    for key in [Key::Letter('q'), Key::Escape, Key::Interrupt] {
        assert_eq!(choice.clone().key(key, &picture), Step::Leave);
    }
}

#[test]
fn the_chosen_row_is_always_on_the_screen() {
    let (picture, mut choice) = (picture(), choice());
    for _ in 0..50 {
        choice.key(Key::Down, &picture);
        let lines = screen(&picture, &choice, 80, 24);
        assert_eq!(lines.iter().filter(|(style, _)| *style == Style::Chosen).count(), 1);
    }
    assert_eq!(choice.chosen, Some(Row::Socket(11, 59)));
}

#[test]
fn scripts_get_every_row() {
    let text = whole(&picture(), &choice(), 160);
    assert_eq!(text.lines().count(), 5 + 2 + 42 - 1);
    assert!(
        text.contains("no privilege for AF_XDP")
            && text.contains("little data a call: 62 bytes in each of 16 calls")
    );
}

#[test]
fn numbers_are_short() {
    for (number, text) in [
        (0.0, "0"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (41_000.0, "41.0k"),
        (99_960.0, "100k"),
        (2.5e6, "2.5M"),
        (1e15, ">999T"),
    ] {
        assert_eq!(short(number), text);
        assert!(text.len() <= 5);
    }
}
