//! Connections between processes: killed at random moments, and of different users. The other process is this program
//! again, told by its environment what to be.

use memory::{End, Meeting, Progress, Source, Wants};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use sys::memory::Mapping;

const ROLE: &str = "MEMORY_TEST_ROLE";
const ADDRESS: &str = "MEMORY_TEST_ADDRESS";
const COUNTER: &str = "MEMORY_TEST_COUNTER";

/// Longer than any machine is busy.
const LOST: Duration = Duration::from_secs(60);

fn byte(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

fn other_process(role: &str, address: &str, counter: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .envs([(ROLE, role), (ADDRESS, address), (COUNTER, counter)])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test in itself: what the other tests start.
#[test]
fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let address = std::env::var(ADDRESS).unwrap();
    match role.as_str() {
        "sends" => sends(&TcpStream::connect(address).unwrap(), &std::env::var(COUNTER).unwrap()),
        "is another user" => is_another_user(&address),
        "may not write files" => may_not_write_files(),
        _ => unreachable!(),
    }
}

/// A file of one page, whose first word both processes see.
fn counter(path: &str) -> (std::fs::File, Mapping) {
    let file =
        std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(4096).unwrap();
    let mapping = Mapping::shared(file.as_raw_fd(), 4096, 0, false).unwrap();
    (file, mapping)
}

fn word(mapping: &Mapping) -> &AtomicU64 {
    // SAFETY: the mapping is a page of a file, and lives as long as the reference.
    unsafe { mapping.start().cast().as_ref() }
}

fn wait_on(fd: i32) {
    let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let _ = sys::poll::poll(&mut fds, Some(10_000_000), None);
}

/// Sends for ever, and says how much was sent after each send.
fn sends(mut tcp: &TcpStream, path: &str) {
    let (_file, page) = counter(path);
    tcp.set_nonblocking(true).unwrap();
    let fd = tcp.as_raw_fd();
    let mut meeting = Meeting::offer(fd).unwrap();
    tcp.write_all(b"x").unwrap();
    let mut joined = loop {
        match meeting.go_on(fd) {
            Progress::Waiting(still) => meeting = still,
            Progress::Joined(joined) => break joined,
            Progress::Apart(why) => panic!("{why:?}"),
        }
        wait_on(meeting.descriptor());
    };
    let mut sent = 0;
    for size in [1, 200, 5000, 70_000].into_iter().cycle() {
        let data: Vec<u8> = (sent..sent + size).map(byte).collect();
        let mut done = 0;
        while done < size {
            done += joined.send(&data[done..]);
            if !joined.sends_by_segment() {
                return;
            }
            if done < size {
                joined.want(Wants::ROOM);
                if !joined.is_writable() {
                    wait_on(joined.descriptor());
                    joined.hear(fd);
                    joined.take_in();
                }
            }
        }
        sent += size;
        word(&page).store(sent as u64, Ordering::SeqCst);
    }
}

#[test]
fn what_a_killed_process_sent_arrives_and_then_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for round in 0..25u64 {
        let path = format!("{}/memory-{}-{round}", std::env::temp_dir().display(), std::process::id());
        let (_file, page) = counter(&path);
        let mut child = other_process("sends", &address, &path);
        let (mut tcp, _) = listener.accept().unwrap();
        let fd = tcp.as_raw_fd();
        let mut first = [0];
        tcp.read_exact(&mut first).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let mut meeting = Meeting::call(fd).unwrap();
        let begun = Instant::now();
        let mut joined = loop {
            match meeting.go_on(fd) {
                Progress::Waiting(still) => meeting = still,
                Progress::Joined(joined) => break joined,
                Progress::Apart(why) => panic!("{why:?}"),
            }
            assert!(begun.elapsed() < LOST);
            wait_on(meeting.descriptor());
        };
        let mut got = 0;
        let mut killed = false;
        let mut buffer = vec![0; 1 + (round as usize * 7919) % 30_000];
        // Some read on while the other one is killed, others find out later.
        let read_before = round * 40_000;
        let ended = loop {
            assert!(begun.elapsed() < LOST, "round {round}: hangs at {got}");
            if !killed && got as u64 >= read_before && word(&page).load(Ordering::SeqCst) > 0 {
                std::thread::sleep(Duration::from_micros(round * 137 % 3000));
                child.kill().unwrap();
                child.wait().unwrap();
                killed = true;
            }
            joined.hear(fd);
            joined.take_in();
            let count = match joined.source() {
                Source::Segment => joined.receive(&mut buffer),
                Source::Socket(most) => {
                    let most = buffer.len().min(most as usize);
                    match tcp.read(&mut buffer[..most]) {
                        Ok(count) => count,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                        Err(error) => panic!("round {round}: {error}"),
                    }
                }
            };
            joined.received_by_socket(if joined.source() == Source::Segment { 0 } else { count as u64 });
            assert!(buffer[..count].iter().enumerate().all(|(at, got_byte)| *got_byte == byte(got + at)));
            got += count;
            match joined.ended() {
                Some(end) if count == 0 => break end,
                _ if count == 0 && killed && !joined.is_readable() => wait_on(joined.descriptor()),
                _ => {}
            }
        };
        let _ = child.wait();
        assert!(killed && ended == End::Eof, "round {round}: {ended:?}");
        let sent = word(&page).load(Ordering::SeqCst);
        assert!(got as u64 >= sent, "round {round}: {got} of {sent} bytes arrived");
        let _ = std::fs::remove_file(&path);
    }
}

/// Accepts a connection, and calls its peer as nobody.
fn is_another_user(address: &str) {
    const NOBODY: u32 = 65_534;
    let tcp = TcpStream::connect(address).unwrap();
    // The connection's other end offers; this end plays the one that accepted, by names: see the test.
    let mut ready = [0];
    (&tcp).read_exact(&mut ready).unwrap();
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::setuid(NOBODY) }, 0);
    let refused = Meeting::call(tcp.as_raw_fd()).err();
    (&tcp).write_all(&[u8::from(refused == Some(libc::EPERM))]).unwrap();
    (&tcp).read_exact(&mut ready).unwrap();
}

#[test]
fn processes_of_different_users_do_not_meet() {
    if sys::process::user() != 0 {
        println!("only root can become another user");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut child = other_process("is another user", &address, "");
    let (mut tcp, _) = listener.accept().unwrap();
    // Which of the two made the connection matters for the count of bytes only, which they never come to.
    let meeting = Meeting::offer(tcp.as_raw_fd()).unwrap();
    tcp.write_all(b"!").unwrap();
    let mut refused = [0];
    tcp.read_exact(&mut refused).unwrap();
    assert_eq!(refused, [1], "it was called by root's meeting place, and did not mind");
    let Progress::Waiting(meeting) = meeting.go_on(tcp.as_raw_fd()) else { panic!("met somebody") };
    assert!(meeting.give_up(tcp.as_raw_fd()).is_none());
    tcp.write_all(b"!").unwrap();
    assert!(child.wait().unwrap().success());
}

/// RLIMIT_FSIZE below a segment (`ulimit -f`): the kernel ends a process with SIGXFSZ that makes a file larger.
fn may_not_write_files() {
    let limit = sys::process::Limit { soft: 100_000, hard: 100_000 };
    sys::process::set_limit(libc::RLIMIT_FSIZE as i32, limit).unwrap();
    assert_eq!(memory::Segment::make().err(), Some(libc::EFBIG));
    assert!(sys::memory::sealed_memfd(c"sidestep-test", 100_000).is_ok());
    let file = tempfile();
    assert_eq!(sys::file::reserve(file.as_raw_fd(), 100_001), Err(libc::EFBIG));
    assert_eq!(sys::file::reserve(file.as_raw_fd(), 100_000), Ok(()));
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("memory-limit-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_a_death() {
    let mut child = other_process("may not write files", "", "");
    assert!(child.wait().unwrap().success());
}
