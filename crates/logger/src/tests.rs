//! Lines as they arrive in a file, a closed pipe and a full pipe.

use crate::{Level, Line, Once, Settings, target};
use core::fmt::Write;
use std::ffi::CString;
use std::sync::Mutex;

/// The settings belong to the process: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn logged(level: i32, details: u32, body: impl FnOnce()) -> String {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = std::env::temp_dir().join(format!("logger-test-{}", std::process::id()));
    let name = CString::new(path.to_str().unwrap()).unwrap();
    crate::start(Settings { level, details, colors: true, file: Some(&name) }).unwrap();
    body();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    text
}

#[test]
fn lines_look_as_vma_writes_them() {
    let text = logged(3, 0, || {
        warning!("queue {} is busy", 3);
        info!("hello");
        debug!("not shown");
    });
    assert_eq!(text, " VMA WARNING: queue 3 is busy\n VMA INFO: hello\n");
}

#[test]
fn details_add_thread_process_and_time() {
    let (pid, tid) = (sys::process::pid(), sys::process::tid);
    assert_eq!(logged(5, 1, || debug!("x")), format!(" Tid: {:5} VMA DEBUG: x\n", tid()));
    assert_eq!(logged(5, 2, || debug!("x")), format!(" Pid: {pid:5} Tid: {:5} VMA DEBUG: x\n", tid()));
    let text = logged(5, 3, || debug!("x"));
    assert!(
        text.starts_with(" Time: ") && text.ends_with(&format!(" Tid: {:5} VMA DEBUG: x\n", tid())),
        "{text}"
    );
}

#[test]
fn nothing_is_written_at_level_none() {
    assert_eq!(logged(-1, 0, || panicked!("x")), "");
}

#[test]
fn a_long_line_is_cut_and_marked_within_its_bound() {
    let text = logged(3, 0, || info!("{}", "ä".repeat(600)));
    assert!(text.len() <= crate::LINE_MAX && text.ends_with("ä...\n"), "{}", text.len());
}

#[test]
fn text_from_outside_cannot_forge_a_line_or_drive_a_terminal() {
    let text = logged(3, 0, || info!("a\n VMA PANIC: b\x1b[2J"));
    assert_eq!(text, " VMA INFO: a? VMA PANIC: b?[2J\n");
}

#[test]
fn once_speaks_once() {
    let text = logged(3, 0, || (0..3).for_each(|round| once!(Warning, "round {round}")));
    assert_eq!(text, " VMA WARNING: round 0\n");
    let once = Once::new();
    assert!(once.first() && !once.first());
}

#[test]
fn the_banner_shows_changed_parameters_at_info_and_all_at_details() {
    let lines = || [(true, "changed"), (false, "default")].into_iter();
    let short = logged(3, 0, || crate::banner::print("1.0", "prog -x", &[], lines()));
    assert!(short.contains(" VMA INFO: VMA_VERSION: 1.0\n VMA INFO: Cmd Line: prog -x\n"), "{short}");
    assert!(short.contains("changed") && !short.contains("default"));
    assert!(
        logged(4, 0, || crate::banner::print("1.0", "prog -x", &[], lines()))
            .contains(" VMA DETAILS: default\n")
    );
}

#[test]
fn a_colored_line_is_reset_even_if_cut() {
    let mut line = Line::new("\x1b[31m");
    line.write_str(&"x".repeat(1000)).unwrap();
    let text = line.finish();
    assert_eq!(text.len(), crate::LINE_MAX);
    assert!(text.starts_with(b"\x1b[31mx") && text.ends_with(b"x...\x1b[0m\n"));
}

#[test]
fn a_pipe_without_reader_or_room_loses_the_line_and_nothing_else() {
    let (reader, writer) = std::io::pipe().unwrap();
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = CString::new(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer))).unwrap();
    crate::start(Settings { level: 3, details: 0, colors: false, file: Some(&path) }).unwrap();
    let before = target::lost();
    for _ in 0..1000 {
        info!("{}", "x".repeat(200));
    }
    assert!(target::lost() > before, "a full pipe blocks nobody");
    drop(reader);
    // Rust's test runner ignores SIGPIPE; `sys` tests that none is raised.
    let before = target::lost();
    info!("nobody listens");
    assert_eq!(target::lost(), before + 1);
}

#[test]
fn a_file_that_cannot_be_opened_is_told() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let settings = Settings { level: 3, details: 0, colors: false, file: Some(c"/nonexistent/log") };
    assert_eq!(crate::start(settings), Err(libc::ENOENT));
}

#[test]
fn levels_and_numbers_agree() {
    for number in 0..8 {
        assert_eq!(Level::from_number(number) as i32, number);
    }
    assert_eq!(Level::from_number(99), Level::Finer);
}

/// Descriptor 2 is the whole process's: this runs in a child, see below.
#[test]
#[ignore = "run by a_socket_that_took_number_two_gets_no_line in a child process"]
fn child_whose_stderr_became_a_socket() {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    crate::start(Settings { level: 3, details: 0, colors: false, file: None }).unwrap();
    info!("before");
    let (mut peer, socket) = std::os::unix::net::UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    // SAFETY: both numbers are open; standard error is given up on purpose.
    assert_eq!(unsafe { libc::dup2(socket.as_raw_fd(), 2) }, 2);
    // As the child of a fork would start again.
    crate::start(Settings { level: 3, details: 0, colors: false, file: None }).unwrap();
    let lost = target::lost();
    info!("into the connection");
    let arrived = peer.read(&mut [0; 64]).map_err(|error| error.kind());
    let told = (arrived, target::lost() - lost);
    println!("{}", told == (Err(std::io::ErrorKind::WouldBlock), 1));
}

#[test]
fn a_socket_that_took_number_two_gets_no_line() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "tests::child_whose_stderr_became_a_socket"]);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("true"), "{out}\n{err}");
    assert!(err.contains(" VMA INFO: before\n") && !err.contains("into the connection"), "{err}");
}
