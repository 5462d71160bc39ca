//! The daemon as a process, and clients of it as programs have them: threads of this test that gave up their
//! capabilities. As root; each test has a socket of its own.

#[path = "serving/handover.rs"]
mod handover;

use keeper::client::{Client, Error};
use keeper::place::{Place, address};
use keeper::protocol::{Kind, LEN, Packet};
use rig::{Chance, PATIENCE, eventually};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::Fd;
use sys::socket::{option, set_option};

/// A keeper, ended and tidied up behind it.
struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// `None`: not as root, so nothing can be tested.
    fn start(name: &str, options: &[&str]) -> Option<Daemon> {
        if !rig::is_root() {
            rig::skip::skipped_here("needs root");
            return None;
        }
        let socket = std::env::temp_dir().join(format!("keeper-test-{}-{name}", std::process::id()));
        let mut daemon = Daemon { child: spawn(&socket, options), socket };
        daemon.wait_until_it_listens();
        Some(daemon)
    }

    fn wait_until_it_listens(&mut self) {
        eventually("the keeper listens", || raw(&self.socket).is_ok());
    }

    fn client(&self) -> Client {
        Client::new(Place::Path(self.socket.to_string_lossy().into_owned()))
    }

    fn signal(&self, signal: i32) {
        sys::process::signal(self.child.id() as i32, signal);
    }

    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut states =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
        states.all(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
    }

    /// What it has with one client, once those that looked whether it listens are gone.
    fn has_one_client(&self) -> (usize, usize) {
        eventually("one client is left", || self.has().1 == 2);
        self.has()
    }

    /// Descriptors and threads that it has.
    fn has(&self) -> (usize, usize) {
        let count =
            |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", self.child.id())).unwrap().count();
        (count("fd"), count("task"))
    }

    /// The most memory that it ever had, KiB.
    fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim_end_matches("kB").trim().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(format!("{}.lock", self.socket.display()));
    }
}

fn spawn(socket: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidestepd"));
    command.arg("--socket").arg(socket).args(options).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// A connection on which nothing was said.
fn raw(path: &Path) -> sys::Result<Fd> {
    let socket = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
    // Also of a connect that waits for room in the queue of a keeper that was stopped.
    let limit = libc::timeval { tv_sec: PATIENCE.as_secs() as _, tv_usec: 0 };
    set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, &limit)?;
    set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit)?;
    sys::socket::connect(socket.raw(), &address(&path.to_string_lossy())?)?;
    Ok(socket)
}

/// Runs without any capability.
fn confined<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            sys::process::confine(0).unwrap();
            body()
        };
        scope.spawn(run).join().unwrap()
    })
}

fn tcp() -> Fd {
    sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap()
}

fn mode(socket: &Fd) -> i32 {
    option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_REPAIR, -7).unwrap()
}

#[test]
fn who_has_no_capability_switches_repair_mode_by_the_keeper_and_does_the_rest_itself() {
    let Some(daemon) = Daemon::start("repair", &[]) else { return };
    confined(|| {
        let socket = tcp();
        let own = set_option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_REPAIR, &1i32);
        assert_eq!(own, Err(libc::EPERM), "this thread has no capability");
        let mut client = daemon.client();
        assert_eq!(client.repair(socket.raw(), 1), Ok(()));
        assert_eq!(mode(&socket), 1);
        for (queue, number) in [(2, 1000u32), (1, 2000)] {
            set_option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &queue).unwrap();
            set_option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &number).unwrap();
            assert_eq!(option(socket.raw(), libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, 0u32), Ok(number));
        }
        assert_eq!(client.repair(socket.raw(), -1), Ok(()));
        assert_eq!(mode(&socket), 0);
        assert_eq!(client.deafen(socket.raw()), Ok(()));
        assert_eq!(client.deafen(socket.raw()), Err(Error::Errno(libc::EBUSY)), "a filter is there");
        set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32).unwrap();
        assert_eq!(client.repair(socket.raw(), 5), Err(Error::Errno(libc::EINVAL)));
        assert_eq!(client.repair(-1, 1), Err(Error::Errno(libc::EBADF)));
        assert_eq!(client.repair(socket.raw(), 0), Ok(()), "mistakes are forgiven");
    });
}

#[test]
fn who_has_no_capability_binds_a_low_port_by_the_keeper_where_it_listens_and_nowhere_else() {
    const THERE: &str = "127.83.68.9:988";
    let Some(daemon) = Daemon::start("bind", &[]) else { return };
    let server = std::net::TcpListener::bind(THERE).unwrap();
    let listener = std::os::fd::AsRawFd::as_raw_fd(&server);
    confined(|| {
        let socket = tcp();
        let mut client = daemon.client();
        let there = THERE.parse().unwrap();
        let refused = Err(Error::Errno(libc::EACCES));
        assert_eq!(client.bind(socket.raw(), listener, there), refused, "not in repair mode");
        assert_eq!(client.repair(socket.raw(), 1), Ok(()));
        assert_eq!(client.bind(socket.raw(), listener, "127.83.68.9:987".parse().unwrap()), refused);
        assert_eq!(client.bind(socket.raw(), tcp().raw(), there), refused, "that does not listen");
        assert_eq!(client.bind(socket.raw(), listener, there), Ok(()));
        assert_eq!(sys::socket::own_end(socket.raw()), sys::socket::own_end(listener));
    });
}

#[test]
fn a_connection_joined_by_that_of_a_parent_has_its_rights_and_its_own_answers() {
    let Some(daemon) = Daemon::start("join", &[]) else { return };
    let parents = raw(&daemon.socket).unwrap();
    let say = |to: &Fd, kind, number, passed: &[i32]| {
        let question = Packet::question(kind, number, 1);
        sys::socket::send_descriptors(to.raw(), &question.bytes(), passed).unwrap();
    };
    let hear = |from: &Fd| {
        let mut bytes = [0; LEN];
        let length = sys::socket::receive(from.raw(), &mut bytes, 0).unwrap();
        Packet::read(&bytes[..length])
    };
    say(&parents, Kind::Hello, 1, &[]);
    assert_eq!(hear(&parents).unwrap().number, 1);
    let (ours, theirs) = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
    say(&parents, Kind::Join, 2, &[theirs.raw()]);
    drop(theirs);
    let limit = libc::timeval { tv_sec: PATIENCE.as_secs() as _, tv_usec: 0 };
    set_option(ours.raw(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit).unwrap();
    say(&ours, Kind::Hello, 1, &[]);
    assert_eq!(hear(&ours).unwrap().value, 0);
    drop(parents);
    let socket = tcp();
    say(&ours, Kind::Repair, 2, &[socket.raw()]);
    assert_eq!(hear(&ours).map(|answer| (answer.kind, answer.value)), Some((Kind::Repair, 0)));
    assert_eq!(mode(&socket), 1);
    drop(ours);
    eventually("who left leaves no socket in repair mode", || mode(&socket) == 0);
}

#[test]
fn a_keeper_that_does_not_answer_is_given_up_and_takes_back_what_it_does_later() {
    let Some(daemon) = Daemon::start("silent", &[]) else { return };
    let socket = tcp();
    let mut client = daemon.client();
    assert_eq!(client.repair(socket.raw(), 1), Ok(()));
    assert_eq!(client.repair(socket.raw(), -1), Ok(()));
    daemon.signal(libc::SIGSTOP);
    eventually("all its threads have stopped", || daemon.is_stopped());
    assert_eq!(client.repair(socket.raw(), 1), Err(Error::Silent));
    assert_eq!(client.repair(socket.raw(), 1), Err(Error::Silent), "and not asked again");
    let (descriptors, _) = daemon.has();
    daemon.signal(libc::SIGCONT);
    eventually("the client is gone", || daemon.has().0 < descriptors);
    assert_eq!(mode(&socket), 0);
}

#[test]
fn a_keeper_that_is_gone_is_absent_and_its_successor_is_found() {
    let Some(mut daemon) = Daemon::start("restart", &[]) else { return };
    let (socket, mut client) = (tcp(), daemon.client());
    assert_eq!(client.repair(socket.raw(), 1), Ok(()));
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert_eq!(client.repair(socket.raw(), -1), Err(Error::Absent));
    daemon.child = spawn(&daemon.socket, &[]);
    daemon.wait_until_it_listens();
    eventually("it is found again", || client.repair(socket.raw(), -1).is_ok());
    assert_eq!(mode(&socket), 0);
}

#[test]
fn one_keeper_has_the_name_and_one_that_lingers_ends_behind_its_last_client() {
    let Some(mut daemon) = Daemon::start("linger", &["--linger", "0"]) else { return };
    let mut client = daemon.client();
    // The look of the start may have been the last client.
    eventually("a keeper has us", || {
        if daemon.child.try_wait().unwrap().is_some() {
            daemon.child = spawn(&daemon.socket, &["--linger", "1"]);
        }
        client.repair(tcp().raw(), -1).is_ok()
    });
    let second = spawn(&daemon.socket, &[]).wait().unwrap();
    assert_eq!(second.code(), Some(2), "the name is taken");
    std::thread::sleep(Duration::from_millis(1200));
    assert!(daemon.child.try_wait().unwrap().is_none(), "it has a client");
    drop(client);
    assert!(daemon.child.wait().unwrap().success());
    assert!(!daemon.socket.exists());
}

#[test]
fn a_name_that_somebody_else_has_is_not_taken_nor_removed() {
    if !rig::is_root() {
        return rig::skip::skipped_here("needs root");
    }
    let folder = std::env::temp_dir().join(format!("keeper-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    let listener = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0).unwrap();
    sys::socket::bind(listener.raw(), &address(path("systemds").to_str().unwrap()).unwrap()).unwrap();
    sys::socket::listen(listener.raw(), 8).unwrap();
    std::os::unix::fs::symlink("systemds", path("link")).unwrap();
    std::fs::write(path("file"), "mine").unwrap();
    for name in ["systemds", "link", "file"] {
        let ended = spawn(&path(name), &["--linger", "0"]).wait().unwrap();
        assert_eq!(ended.code(), Some(2), "{name} is taken");
    }
    assert!(raw(&path("link")).is_ok() && path("link").is_symlink());
    assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "mine");
    // A name that leads nowhere is nobody's; and what took the place of ours is not removed at the end.
    std::os::unix::fs::symlink("nowhere", path("loose")).unwrap();
    let mut keeper = spawn(&path("loose"), &["--linger", "1"]);
    eventually("it listens", || raw(&path("loose")).is_ok());
    std::fs::remove_file(path("loose")).unwrap();
    std::fs::write(path("loose"), "mine").unwrap();
    assert!(keeper.wait().unwrap().success());
    assert!(path("loose").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A pipe whose reader has gone, and one whose reader does not read.
#[test]
fn a_log_that_nobody_takes_ends_and_stops_nothing() {
    if !rig::is_root() {
        return rig::skip::skipped_here("needs root");
    }
    for is_read in [false, true] {
        let socket = std::env::temp_dir().join(format!("keeper-log-{}-{is_read}", std::process::id()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidestepd"));
        command.arg("--socket").arg(&socket).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = Daemon { child: command.spawn().unwrap(), socket };
        let reader = daemon.child.stderr.take().unwrap();
        if is_read {
            let reader = std::os::fd::AsRawFd::as_raw_fd(&reader);
            sys::fd::fcntl(reader, libc::F_SETPIPE_SZ, 4096).unwrap();
        }
        let mut reader = Some(reader).filter(|_| is_read);
        daemon.wait_until_it_listens();
        for user in 5000..5100 {
            let told = as_user(user, user, || daemon.client().repair(tcp().raw(), -1));
            assert_eq!(told, Err(Error::Denied), "{user}");
        }
        assert!(daemon.child.try_wait().unwrap().is_none());
        drop(reader.take());
    }
}

#[test]
fn nonsense_ends_the_connection_that_it_came_by_and_leaves_nothing() {
    let Some(daemon) = Daemon::start("nonsense", &[]) else { return };
    let mut client = daemon.client();
    assert_eq!(client.repair(tcp().raw(), -1), Ok(()));
    let before = daemon.has_one_client();
    let hello = Packet::question(Kind::Hello, 1, 0);
    let repair = Packet::question(Kind::Repair, 1, 1).bytes();
    let long = [hello.bytes().as_slice(), &[0]].concat();
    let event = sys::fd::eventfd().unwrap();
    let both = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
    let sixteen = [event.raw(); 16];
    let restore = [Packet::question(Kind::Restore, 1, 1).bytes().as_slice(), &[0; 300]].concat();
    let cases: [(&[u8], &[i32]); 9] = [
        (&[0; LEN], &[]),
        (&long, &[]),
        (&long[..LEN - 1], &[]),
        (&repair, &[event.raw()]),
        (&hello.answered(0).bytes(), &[]),
        (&hello.bytes(), &[event.raw()]),
        (&Packet::question(Kind::Join, 1, 0).bytes(), &[both.0.raw()]),
        (&repair, &sixteen),
        (&restore, &sixteen),
    ];
    for (at, (bytes, passed)) in cases.into_iter().enumerate() {
        let connection = raw(&daemon.socket).unwrap();
        sys::socket::send_descriptors(connection.raw(), bytes, passed).unwrap();
        let end = sys::socket::receive(connection.raw(), &mut [0; LEN], 0);
        assert!(matches!(end, Ok(0) | Err(libc::ECONNRESET)), "case {at}: {end:?}");
    }
    let old = raw(&daemon.socket).unwrap();
    sys::socket::send(old.raw(), &Packet { version: 0, ..hello }.bytes(), 0).unwrap();
    let mut bytes = [0; LEN];
    assert_eq!(sys::socket::receive(old.raw(), &mut bytes, 0), Ok(LEN), "it is told the version");
    assert_eq!(sys::socket::receive(old.raw(), &mut bytes, 0), Ok(0));
    // Who never reads its answers.
    let deaf = raw(&daemon.socket).unwrap();
    let flags = libc::MSG_NOSIGNAL;
    eventually("it is hung up on", || sys::socket::send(deaf.raw(), &hello.bytes(), flags).is_err());
    drop((old, deaf));
    eventually("nothing is left of them", || daemon.has() == before);
    assert_eq!(client.repair(tcp().raw(), -1), Ok(()), "the others never noticed");
}

#[test]
fn who_is_neither_root_nor_named_nor_a_member_is_told_so() {
    let Some(daemon) = Daemon::start("policy", &["--user", "4711", "--group", "4712"]) else { return };
    let asks = |user: u32, group: u32| {
        as_user(user, group, || {
            let (socket, mut client) = (tcp(), daemon.client());
            [client.repair(socket.raw(), 0), client.repair(socket.raw(), 0)]
        })
    };
    assert_eq!(asks(65_534, 65_534), [Err(Error::Denied); 2]);
    assert_eq!(asks(4711, 65_534), [Ok(()); 2]);
    assert_eq!(asks(4713, 4712), [Ok(()); 2]);
}

/// In a thread that is this user, of this group alone.
fn as_user<T: Send>(user: u32, group: u32, body: impl FnOnce() -> T + Send) -> T {
    let body = || {
        // SAFETY: no pointers; of this thread only, as libc's functions are not.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
            assert_eq!(libc::syscall(libc::SYS_setresgid, group, group, group), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, user, user, user), 0);
        }
        body()
    };
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

fn status(daemon: &Daemon) -> Result<serde_json::Value, Error> {
    let file = daemon.client().status()?;
    let text = std::fs::read_to_string(format!("/proc/self/fd/{}", file.raw())).unwrap();
    Ok(serde_json::from_str(&text).unwrap())
}

#[test]
fn everybody_is_told_the_status_and_who_was_refused_is_in_it() {
    let Some(daemon) = Daemon::start("status", &["--user", "4711"]) else { return };
    let client = &mut daemon.client();
    as_user(4711, 4711, || assert_eq!(client.repair(tcp().raw(), -1), Ok(())));
    as_user(4712, 4712, || assert_eq!(daemon.client().repair(tcp().raw(), -1), Err(Error::Denied)));
    for user in [0, 4711, 4712] {
        let told = as_user(user, user, || status(&daemon)).unwrap();
        assert_eq!(told["keeper"]["pid"], daemon.child.id());
        let ours = |list: &serde_json::Value, user: u32| {
            let mut all = list.as_array().unwrap().iter();
            all.any(|one| one["uid"] == user && one["pid"] == std::process::id())
        };
        assert!(ours(&told["clients"], 4711), "{told}");
        assert!(ours(&told["refused"], 4712), "{told}");
        assert!(!ours(&told["clients"], 4712) && !ours(&told["refused"], 4711), "{told}");
    }
}

#[test]
fn what_no_keeper_handed_out_is_not_taken_over() {
    let Some(daemon) = Daemon::start("restore", &["--interfaces", "lo"]) else { return };
    let mut client = daemon.client();
    let memory = sys::memory::sealed_memfd(c"test", 1 << 20).unwrap();
    let many: Vec<i32> = (0..12).map(|_| memory.raw()).collect();
    let errno = |outcome| match outcome {
        Err(Error::Errno(errno)) => errno,
        other => panic!("{other:?}"),
    };
    assert_eq!(errno(client.restore(u32::MAX, &[], &[])), libc::ENODEV);
    assert_eq!(errno(client.restore(1, &[], &many)), libc::EPROTO);
    assert_eq!(errno(client.restore(1, &[0; 64], &many)), libc::EPROTO);
    // As a keeper describes an interface of one queue: version, index, MTU, queues, their most, frames, rings.
    let words = [3u32, 1, 1500, 1, 1, 256, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0];
    let description: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    assert_eq!(errno(client.restore(1, &description, &many[..11])), libc::EPROTO);
    assert_eq!(
        errno(client.restore(1, &description, &many)),
        libc::EPERM,
        "those are no maps of our program"
    );
    assert_eq!(client.repair(tcp().raw(), -1), Ok(()), "mistakes are forgiven");
}

#[test]
fn strangers_who_ask_nothing_keep_nobody_from_asking() {
    let Some(daemon) = Daemon::start("strangers", &["--user", "4711"]) else { return };
    let idle: Vec<Fd> = as_user(4712, 4712, || (0..64).map(|_| raw(&daemon.socket).unwrap()).collect());
    eventually("they are hung up on", || as_user(4713, 4713, || status(&daemon)).is_ok());
    assert!(as_user(4711, 4711, || status(&daemon)).is_ok());
    drop(idle);
}

/// A question with nothing wrong but its meaning, or one with wrong bytes, or noise of any length.
fn message(chance: &mut Chance) -> Vec<u8> {
    const KINDS: [Kind; 8] = [
        Kind::Hello,
        Kind::Repair,
        Kind::Join,
        Kind::Deafen,
        Kind::Attach,
        Kind::Resolve,
        Kind::Status,
        Kind::Restore,
    ];
    let kind = KINDS[chance.below(8) as usize];
    let value = [0, 1, -1, i32::MAX, i32::MIN, chance.below(1 << 32) as i32][chance.below(6) as usize];
    let number = chance.below(1 << 32) as u32;
    let mut bytes = Packet::question(kind, number, value).bytes().to_vec();
    match chance.below(4) {
        0 => {
            let at = chance.below(LEN as u64) as usize;
            bytes[at] ^= 1 << chance.below(8);
        }
        1 => bytes.truncate(1 + chance.below(LEN as u64) as usize),
        2 => bytes.extend((0..chance.below(300)).map(|byte| byte as u8)),
        _ => {}
    }
    bytes
}

/// A hostile client, as many messages as fit into a test; `SIDESTEP_HOSTILE` asks for more.
#[test]
fn whatever_a_client_says_and_passes_it_harms_nobody_else_and_leaves_nothing() {
    let Some(daemon) = Daemon::start("hostile", &["--interfaces", "!*"]) else { return };
    let mut client = daemon.client();
    let mine = tcp();
    assert_eq!(client.repair(mine.raw(), -1), Ok(()));
    let before = daemon.has_one_client();
    let most = std::env::var("SIDESTEP_HOSTILE").ok().and_then(|most| most.parse().ok()).unwrap_or(20_000);
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let pairs = sys::socket::pair(libc::SOCK_SEQPACKET).unwrap();
    let streams = sys::socket::pair(libc::SOCK_STREAM).unwrap();
    let listener = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0).unwrap();
    let (event, socket) = (sys::fd::eventfd().unwrap(), tcp());
    let passed = [&pairs.0, &pairs.1, &streams.0, &listener, &event, &socket].map(Fd::raw);
    let mut open: Vec<Fd> = Vec::new();
    let (mut before_said, mut peaks) = (vec![Vec::new(); 64], Vec::new());
    for said in 0..most {
        if open.len() < 32 {
            open.push(raw(&daemon.socket).unwrap());
            // Half of them begin as they should.
            if chance.below(2) == 0 {
                let hello = Packet::question(Kind::Hello, 1, 0).bytes();
                let _ = sys::socket::send(open[open.len() - 1].raw(), &hello, libc::MSG_NOSIGNAL);
            }
        }
        let at = chance.below(open.len() as u64) as usize;
        let count = [0, 1, 1, 1, 2, 40][chance.below(6) as usize];
        let descriptors: Vec<i32> = (0..count).map(|_| passed[chance.below(6) as usize]).collect();
        // One in eight was said before, maybe by another one.
        let place = chance.below(64) as usize;
        if before_said[place].is_empty() || chance.below(8) != 0 {
            before_said[place] = message(&mut chance);
        }
        let sent = sys::socket::send_descriptors(open[at].raw(), &before_said[place], &descriptors);
        // Answers are hardly ever read.
        if sent.is_err() || chance.below(64) == 0 {
            open.swap_remove(at);
        }
        if said % 1000 == 0 {
            assert_eq!(client.repair(mine.raw(), -1), Ok(()), "after {said}");
        }
        if (said + 1) % (most / 10) == 0 {
            peaks.push(daemon.peak_kib());
        }
    }
    println!("{most} messages, the most memory after each tenth of them, KiB: {peaks:?}");
    // The heaps of 33 threads and an answer for each; what stayed of each message would be far beyond.
    assert!(peaks.iter().all(|peak| *peak < 32 << 10), "{peaks:?}");
    drop((open, pairs, streams, listener));
    eventually("nothing is left of them", || daemon.has() == before);
    assert_eq!(client.repair(mine.raw(), 1), Ok(()));
    assert_eq!((client.repair(mine.raw(), -1), mode(&mine), mode(&socket)), (Ok(()), 0, 0));
}
