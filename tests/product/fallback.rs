//! Where acceleration is impossible the program works all the same, through the kernel, and the log says why.
//! `SIDESTEP_STRICT=1` makes it an error instead.

use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Finished, Host, Options, Program, Protocol, attach_foreign_program, run_tool};
use tests::{DEADLINE, World, assert_opened_nothing, compile, world};

const PORT: u16 = 9100;
/// User and group `nobody`.
const NOBODY: u32 = 65534;

/// One MiB from left to right; returns what the two ends did.
fn transfer(client: Program, server: Program, address: &str) -> rig::Result<(Finished, Finished)> {
    let mut server = server.words(&format!("receive listen {address} {PORT} 1")).start()?;
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE)?;
    let client = client.words(&format!("send connect {address} {PORT} 1")).run(DEADLINE)?.success()?;
    Ok((client, server.finish(DEADLINE)?.success()?))
}

/// The program under the preload on `host`, as users run it.
fn preloaded(world: &World, host: &Host, program: &Path) -> Program {
    host.program(program).preload(Some(&world.library)).may_fall_back()
}

/// A copy of library and program that every user may read, wherever the build folder is.
fn readable_by_all(world: &World, program: &Path) -> (PathBuf, PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("rig-{}-readable", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copied = ["libvma.so", "transfer"].map(|name| folder.join(name));
    for (from, to) in [world.library.as_path(), program].iter().zip(&copied) {
        // By another process: a fork of another test would hold the copy open for writing ("text file busy").
        run_tool(Command::new("cp").arg(from).arg(to)).unwrap();
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let [library, program] = copied;
    (folder, library, program)
}

/// As [`preloaded`], and tells every socket that is left to the kernel.
fn telling(world: &World, host: &Host, program: &Path) -> Program {
    preloaded(world, host, program).environment("VMA_TRACELEVEL", "debug")
}

/// The log says that a socket was left to the kernel, and why.
fn assert_left(finished: &Finished, why: &str) {
    let is_it = |line: &str| line.contains("left to the kernel") && line.contains(why);
    assert!(finished.stderr.lines().any(is_it), "nothing about {why:?}: {}", finished.stderr);
}

fn warnings(finished: &Finished) -> usize {
    finished.stderr.lines().filter(|line| line.contains("WARNING")).count()
}

/// The log has exactly so many warnings.
fn assert_warnings(finished: &Finished, count: usize) {
    assert_eq!(warnings(finished), count, "{}", finished.stderr);
}

#[test]
fn without_privilege_the_kernel_carries_the_socket_and_one_warning_says_why() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let (folder, library, program) = readable_by_all(&world, compiled.path());
    let start = |host: &Host| host.program(&program).preload(Some(&library)).may_fall_back().user(NOBODY);
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    let result = transfer(start(left), start(right), &right.address.to_string());
    std::fs::remove_dir_all(folder).unwrap();
    let (client, server) = result.unwrap();
    assert_warnings(&client, 1);
    assert_warnings(&server, 1);
}

/// Runs the program as nobody with these capabilities, and with Debian's limit of locked memory.
fn with_capabilities(host: &Host, library: &Path, program: &Path, capabilities: &[&str]) -> Program {
    let set = capabilities.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(",");
    let limited =
        host.program("sh").words("-c").argument("ulimit -l 8192; exec setpriv \"$@\"").argument("sh");
    let words =
        format!("--reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps {set} --ambient-caps {set} env");
    let preload = format!("LD_PRELOAD={}", library.display());
    limited.words(&words).words("SIDESTEP_STRICT=1").argument(preload).argument(program)
}

#[test]
fn an_ordinary_user_with_the_five_capabilities_is_accelerated_and_the_one_that_is_missing_is_named() {
    const NEEDED: [&str; 5] = ["net_admin", "net_raw", "bpf", "perfmon", "ipc_lock"];
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let (folder, library, program) = readable_by_all(&world, compiled.path());
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    let before = left.counters().unwrap();
    let client = with_capabilities(left, &library, &program, &NEEDED);
    transfer(client, right.program(&program), &right.address.to_string()).unwrap();
    assert_opened_nothing(left, &before);
    for missing in NEEDED {
        let others: Vec<&str> = NEEDED.into_iter().filter(|one| *one != missing).collect();
        let client = with_capabilities(left, &library, &program, &others);
        let words = format!("send connect {} {PORT} 1", right.address);
        let said = client.words(&words).run(DEADLINE).unwrap().stderr;
        let named = format!("CAP_{}", missing.to_uppercase());
        assert!(said.contains(&named), "without {named}: {said}");
        // The error behind it advises what helps in all cases.
        let said: String = said.lines().filter(|line| line.contains("WARNING")).collect();
        let others = others.iter().map(|other| format!("CAP_{}", other.to_uppercase()));
        assert!(!others.into_iter().any(|other| said.contains(&other)), "only {named} is missing: {said}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// How many sockets a program gets that sends by each of them, until there is no descriptor left.
const SOCKETS: &str = "\
import socket,sys
sockets = []
try:
    while True:
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for _ in range(300):
            sockets[-1].sendto(b'x', (sys.argv[1], 9))
except OSError as error:
    print(len(sockets), error.errno)
";

#[test]
fn who_may_open_few_files_keeps_them_all_and_one_warning_says_what_that_costs() {
    let Some(world) = world(&Options::default()) else { return };
    let left = &world.hosts.left;
    for carrier in ["auto", "wire"] {
        let run = |library: Option<&Path>| {
            let limited = left.program("sh").words("-c").argument("ulimit -n 20; exec \"$@\"").argument("sh");
            let preload = format!("LD_PRELOAD={}", library.unwrap_or(Path::new("")).display());
            let limited = limited.argument("env").argument(preload).words("python3 -c").argument(SOCKETS);
            let limited = limited.argument(world.hosts.right.address.to_string());
            limited.environment("SIDESTEP_CARRIER", carrier).run(DEADLINE).unwrap().success().unwrap()
        };
        let (kernel, ours) = (run(None), run(Some(&world.library)));
        assert_eq!(ours.stdout, kernel.stdout, "{}", ours.stderr);
        assert_warnings(&ours, 1);
        assert!(ours.stderr.contains("raise it to 128 at least (ulimit -n)"), "{}", ours.stderr);
    }
}

#[test]
fn strict_mode_refuses_instead_of_falling_back() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let (folder, library, program) = readable_by_all(&world, compiled.path());
    let words = format!("send connect {} {PORT} 1", world.hosts.right.address);
    let client = world.hosts.left.program(&program).preload(Some(&library)).user(NOBODY).words(&words);
    let finished = client.run(DEADLINE).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(!finished.status.success(), "a strict run fell back: {}", finished.stderr);
    // Refused by us, not by the peer that does not listen.
    assert!(!finished.stderr.contains("Connection refused"), "{}", finished.stderr);
}

#[test]
fn what_strict_mode_refuses_has_its_reason_in_the_log_at_its_usual_level() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let strict = world.hosts.left.program(compiled.path()).preload(Some(&world.library));
    let finished = strict.words(&format!("send connect 127.0.0.1 {PORT} 1")).run(DEADLINE).unwrap();
    assert!(!finished.status.success());
    let is_it = |line: &str| line.contains("ERROR") && line.contains("loopback or an address of this host");
    assert!(finished.stderr.lines().any(is_it), "{}", finished.stderr);
}

#[test]
fn rules_that_are_there_and_cannot_be_read_are_told_and_strict_mode_refuses_then() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let folder = std::env::temp_dir().join(format!("rig-{}-unread-rules", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let words = format!("send connect {} {PORT} 1", world.hosts.right.address);
    let (left, rules) = (&world.hosts.left, folder.to_string_lossy());
    let program = |is_strict: bool| {
        let program = left.program(compiled.path()).preload(Some(&world.library));
        let program = if is_strict { program } else { program.may_fall_back() };
        // A folder in its place: nobody can read that, not even root.
        program.environment("VMA_CONFIG_FILE", &*rules).words(&words).run(DEADLINE).unwrap()
    };
    for is_strict in [false, true] {
        let finished = program(is_strict);
        assert!(finished.stderr.contains("cannot be read (Is a directory)"), "{}", finished.stderr);
        let is_refused = |line: &str| line.contains("ERROR") && line.contains("configuration file");
        assert_eq!(finished.stderr.lines().any(is_refused), is_strict, "{}", finished.stderr);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn loopback_stays_with_the_kernel_without_a_warning() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let program = compiled.path();
    let host = &world.hosts.left;
    let start = || telling(&world, host, program);
    let (client, server) = transfer(start(), start(), "127.0.0.1").unwrap();
    for end in [client, server] {
        assert_left(&end, "loopback or an address of this host");
        assert_warnings(&end, 0);
    }
}

#[test]
fn the_hosts_own_address_stays_with_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let program = compiled.path();
    let host = &world.hosts.left;
    let start = || telling(&world, host, program);
    let (client, _) = transfer(start(), start(), &host.address.to_string()).unwrap();
    assert_left(&client, "loopback or an address of this host");
}

#[test]
fn ipv6_stays_with_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let server = world.hosts.right.program("/usr/bin/python3").preload(Some(&world.library));
    let address = world.hosts.right.address6;
    let mut server = server.words(&format!("-u -m http.server 8000 --bind {address}")).start().unwrap();
    server.wait_for_port(Protocol::Tcp, 8000, DEADLINE).unwrap();
    let curl = world.hosts.left.program("curl").preload(Some(&world.library));
    let words = format!("-sS -g --max-time 30 http://[{address}]:8000/");
    let client = curl.words(&words).run(DEADLINE).and_then(Finished::success).unwrap();
    assert!(client.stdout.contains("Directory listing"), "{}", client.stdout);
}

#[test]
fn a_foreign_xdp_program_is_left_in_place_and_named() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let program = compiled.path();
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    let foreign = attach_foreign_program(left).unwrap();
    let (client, _) =
        transfer(preloaded(&world, left, program), right.program(program), &right.address.to_string())
            .unwrap();
    assert!(left.has_xdp_program().unwrap(), "the foreign program is gone");
    drop(foreign);
    assert_warnings(&client, 1);
}

#[test]
fn a_second_process_on_a_busy_queue_goes_through_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let compiled = compile("apps/transfer.c").unwrap();
    let program = compiled.path();
    let (left, right) = (&world.hosts.left, &world.hosts.right);
    let address = right.address.to_string();
    let first = preloaded(&world, right, program).words(&format!("receive listen {address} 9200 1"));
    let mut first = first.start().unwrap();
    first.wait_for_port(Protocol::Tcp, 9200, DEADLINE).unwrap();
    let (_, second) = transfer(left.program(program), preloaded(&world, right, program), &address).unwrap();
    assert_left(&second, "has it: one process, with its children");
    // The first one still works.
    let client = left.program(program).words(&format!("send connect {address} 9200 1"));
    client.run(DEADLINE).and_then(Finished::success).unwrap();
    first.finish(DEADLINE).and_then(Finished::success).unwrap();
}

/// Serves a port that others may serve too (SO_REUSEPORT): a line with its process id for each client.
const SHARING: &str = "\
import os,socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), reuse_port=True, backlog=64)
print('listening', flush=True)
while True:
    peer = listener.accept()[0]
    peer.sendall(b'%d\\n' % os.getpid())
    assert peer.recv(1) == b''
    peer.close()
";

const ASK_SHARED: &str = "\
import socket,sys
for _ in range(40):
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as peer:
        print(int(peer.makefile('rb').readline()))
";

#[test]
fn two_unrelated_processes_on_one_port_share_its_clients_as_on_the_kernel() {
    let Some(world) = world(&Options::default()) else { return };
    let address = world.hosts.right.address.to_string();
    let python = |host: &Host, text: &str| {
        let program = host.program("/usr/bin/python3").words("-u -c").argument(text);
        program.argument(&address).argument("9300")
    };
    let serve = || {
        let server = python(&world.hosts.right, SHARING).preload(Some(&world.library)).may_fall_back();
        let mut server = server.start().unwrap();
        server.wait_for_output("listening", DEADLINE).unwrap();
        server
    };
    let ask = || {
        let said = python(&world.hosts.left, ASK_SHARED).run(DEADLINE).and_then(Finished::success).unwrap();
        let mut answers: Vec<u32> = said.stdout.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(answers.len(), 40);
        answers.sort_unstable();
        answers.dedup();
        answers
    };
    let (first, second) = (serve(), serve());
    assert_eq!(ask(), [first.pid().min(second.pid()), first.pid().max(second.pid())]);
    let first = first.kill().unwrap();
    assert_eq!(ask(), [second.pid()]);
    // Whoever comes second to the interface says so, once: the first client of either may be the earlier one.
    let second = second.kill().unwrap();
    assert_eq!(warnings(&first) + warnings(&second), 1, "{}{}", first.stderr, second.stderr);
}
