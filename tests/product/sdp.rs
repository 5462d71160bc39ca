//! libsdp.so: rules of each dialect decide and are told, sockets of SDP's families work, and no program is harmed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rig::skip::{skipped, test_name, without_namespaces};
use tests::{Executable, compile, folder, library};

#[path = "sdp/by_itself.rs"]
mod by_itself;
#[path = "sdp/echo.rs"]
mod echo;

/// libsdp.so beside libvma.so, and the program; or `None` with the reason recorded.
fn parts() -> Option<(PathBuf, Executable)> {
    let found = library().and_then(|vma| vma.with_file_name("libsdp.so").canonicalize().ok());
    let Some(library) = found else {
        skipped(&test_name(), "no target/release/libsdp.so: cargo build --release -p libsdp");
        return None;
    };
    Some((library, compile("apps/sdp.c").unwrap()))
}

/// A file that is gone with this.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let file = std::env::temp_dir().join(format!("libsdp-{}-{name}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        File(file)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn preloaded(library: &Path, program: &Path, rules: &File) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library).env("LIBSDP_CONFIG_FILE", &rules.0).env("VMA_STATS_SHMEM_DIR", "");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was logged, without time and process; the path of the rules as `RULES`.
fn told(log: &str, rules: &File) -> Vec<String> {
    let path = rules.0.to_str().unwrap();
    let after = |line: &str| line.split_once(" libsdp ").map(|(_, text)| text.replace(path, "RULES"));
    log.lines().map(|line| after(line).unwrap_or_else(|| panic!("no line of libsdp: {line}"))).collect()
}

/// As [`preloaded`], where TCP carries everything, whatever is wanted: for who looks at decisions.
fn deciding(library: &Path, program: &Path, rules: &File) -> Command {
    let mut command = preloaded(library, program, rules);
    command.env("SIDESTEP_LOCAL", "off");
    command
}

/// A stream at a port under these rules (`PORT` in them is the port): the log.
fn run(rules: &str) -> Option<(Vec<String>, u16)> {
    let (library, program) = parts()?;
    let port = free_port();
    let rules = File::new(&test_name().replace(':', "-"), &rules.replace("PORT", &port.to_string()));
    let done = deciding(&library, program.path(), &rules).args(["2", &port.to_string()]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), format!("2 2 2 2 hello\n{port}\n"));
    Some((told(&text(&done.stderr), &rules), port))
}

/// Listener and client, as the log tells of them at level 7.
fn outcome(server: &str, client: &str, port: u16) -> Vec<String> {
    let of = |verb: &str, fd: u32, said: &str| format!("fd {fd}: {verb} 127.0.0.1:{port}: {said}");
    vec![of("listen at", 3, server), of("connect to", 4, client)]
}

const CARRIED: &str = "TCP carries it: nothing carries SDP to this peer";

#[test]
fn rules_of_topspins_dialect_decide() {
    let rules = "log min-level 7\nmatch listen *:1 program sdp*\nmatch shared 127.0.0.0/8:PORT\n";
    let Some((log, port)) = run(rules) else { return };
    let server = format!("both wanted (rule RULES:3); {CARRIED}");
    assert_eq!(log, outcome(&server, "tcp (no rule of RULES fits)", port));
}

#[test]
fn rules_of_ofeds_dialect_decide() {
    let rules = "log destination stderr min-level 7\nuse tcp server * *:PORT\nuse sdp client * 127.0.0.1:*\n";
    let Some((log, port)) = run(rules) else { return };
    let client = format!("sdp wanted (rule RULES:3); {CARRIED}");
    assert_eq!(log, outcome("tcp (rule RULES:2)", &client, port));
}

#[test]
fn rules_of_javas_dialect_decide() {
    let Some((log, port)) = run("log min-level 7\nbind * *\nconnect 192.0.2.0/24 1024-*\n") else { return };
    let server = format!("sdp wanted (rule RULES:2); {CARRIED}");
    assert_eq!(log, outcome(&server, "tcp (no rule of RULES fits)", port));
}

#[test]
fn which_rules_were_passed_over_is_told_at_level_3_and_calls_at_level_1() {
    let rules = "log min-level 3\nmatch destination 10.0.0.0/8\nmatch listen *:PORT\n";
    let Some((log, port)) = run(rules) else { return };
    let at = |line: &str| log.iter().filter(|known| *known == line).count();
    assert_eq!(at(&format!("fd 3: listen at 127.0.0.1:{port}: rule RULES:2 does not fit")), 1, "{log:?}");
    assert_eq!(at(&format!("fd 3: listen at 127.0.0.1:{port}: sdp by rule RULES:3")), 1, "{log:?}");
    assert_eq!(at(&format!("fd 4: connect to 127.0.0.1:{port}: tcp by no rule of RULES fits")), 1, "{log:?}");
    assert!(!log.iter().any(|line| line.starts_with("socket(")), "{log:?}");

    let Some((log, port)) = run("log min-level 1\nmatch listen *:PORT\n") else { return };
    for call in [
        "socket(2, 0x1, 0) = 3".to_owned(),
        format!("bind(3, 127.0.0.1:{port}) = 0"),
        "listen(3, ...) = 0".to_owned(),
        format!("connect(4, 127.0.0.1:{port}) = 0"),
        "accept(3, ...) = 5".to_owned(),
    ] {
        assert!(log.contains(&call), "{call} is not in {log:?}");
    }
}

#[test]
fn mistakes_are_told_and_the_rest_holds() {
    let rules = "log min-level 7\nmatch listen *:PORT\nuse sdp client * *:*\nmatch destination somewhere\n";
    let Some((log, port)) = run(rules) else { return };
    assert!(log[0].starts_with("RULES:3: a rule in OFED's dialect (use ...)"), "{log:?}");
    assert!(log[0].contains("there it is 'match destination *:*'"), "{log:?}");
    assert!(log[1].starts_with("RULES:4: 'somewhere' is no address"), "{log:?}");
    let server = format!("sdp wanted (rule RULES:2); {CARRIED}");
    assert_eq!(log[2..], outcome(&server, "tcp (no rule of RULES fits)", port));
}

#[test]
fn the_manuals_listings_run_as_printed() {
    let Some((library, program)) = parts() else { return };
    let stream = |rules: &File| {
        let done = preloaded(&library, program.path(), rules).arg("2").output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stderr)
    };
    // Step 3 of the measurement, and the listing for servers of both.
    for rules in ["match destination *.*\nmatch listen *.*\n", "match shared *:*\n"] {
        assert_eq!(stream(&File::new("listing", rules)), "", "{rules}");
    }
    let examples = "log min-level 7 destination stderr\nmatch listen *:5001 program ttcp\nmatch shared *:5002\n\
                    match destination 192.168.1.0/24\nmatch program sdp*\n";
    // The program's own pattern stands in the place of db2*.
    let rules = File::new("examples", &examples.replace("sdp*", "?*"));
    let log = told(&stream(&rules), &rules);
    let wanted = log.iter().filter(|line| line.contains("sdp wanted (rule RULES:5)"));
    assert_eq!(wanted.count(), 2, "{log:?}");
}

#[test]
fn a_log_file_is_the_users_alone_and_no_link_is_followed() {
    let Some((library, program)) = parts() else { return };
    let name = format!("libsdp-{}.log", std::process::id());
    let rules = File::new("file", &format!("log min-level 7 destination file {name}\nmatch shared *:*\n"));
    let stream = || {
        let done = preloaded(&library, program.path(), &rules).arg("2").output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        done
    };
    let log = File(Path::new("/tmp").join(&name));
    assert_eq!(text(&stream().stderr), "");
    assert_eq!(std::fs::metadata(&log.0).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(told(&std::fs::read_to_string(&log.0).unwrap(), &rules).len(), 2);
    // It is appended to.
    stream();
    assert_eq!(told(&std::fs::read_to_string(&log.0).unwrap(), &rules).len(), 4);

    // A link in its place leads nowhere: the log is in the user's folder.
    let victim = File::new("victim", "untouched");
    std::fs::remove_file(&log.0).unwrap();
    std::os::unix::fs::symlink(&victim.0, &log.0).unwrap();
    assert_eq!(text(&stream().stderr), "");
    assert_eq!(std::fs::read_to_string(&victim.0).unwrap(), "untouched");
    let folder = std::fs::read_dir("/tmp").unwrap().flatten().map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&format!("{name}.")))
    });
    let folder = folder.expect("a folder for the user's log");
    let kept = std::fs::read_to_string(folder.join("log")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(told(&kept, &rules).len(), 2);
}

#[test]
fn sockets_of_sdps_families_are_tcps_and_say_af_inet() {
    let Some((library, program)) = parts() else { return };
    let rules = File::new("families", "log min-level 7\nuse tcp server * *:*\nuse tcp client * *:*\n");
    for family in ["26", "27"] {
        let plain = Command::new(program.path()).arg(family).output().unwrap();
        if plain.status.success() || !text(&plain.stderr).contains("not supported by protocol") {
            skipped(&test_name(), &format!("the kernel has sockets of family {family}"));
            continue;
        }
        let done = preloaded(&library, program.path(), &rules).arg(family).output().unwrap();
        assert!(text(&done.stdout).starts_with("2 2 2 2 hello\n"), "{family}: {}", text(&done.stderr));
        let log = told(&text(&done.stderr), &rules);
        let asked = log.iter().filter(|line| line.contains("sdp wanted (AF_INET_SDP)"));
        assert_eq!(asked.count(), 2, "{log:?}");
    }
    // Other types of these families are not ours.
    let script = "import socket\ntry:\n    socket.socket(27, socket.SOCK_DGRAM)\nexcept OSError as e:\n    print(e.errno)";
    let done = preloaded(&library, Path::new("python3"), &rules).args(["-c", script]).output().unwrap();
    assert_eq!(text(&done.stdout), format!("{}\n", libc::EAFNOSUPPORT));
}

#[test]
fn simple_libsdp_wants_sdp_for_everything_and_no_file_wants_both() {
    let Some((library, program)) = parts() else { return };
    let rules = File::new("simple", "log min-level 7\nuse tcp server * *:*\n");
    let mut simple = preloaded(&library, program.path(), &rules);
    let done = simple.arg("2").env("SIMPLE_LIBSDP", "").output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", text(&done.stderr));
    let missing = File(rules.0.with_extension("missing"));
    let done = preloaded(&library, program.path(), &missing).arg("2").output().unwrap();
    let log = text(&done.stderr);
    assert!(
        done.status.success() && log.contains("cannot be read (No such file or directory): no rules"),
        "{log}"
    );
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn beside_libvma_it_does_nothing() {
    let Some((library, program)) = parts() else { return };
    let rules = File::new("beside", "log min-level 1\nmatch shared *:*\n");
    for order in ["libsdp.so libvma.so", "libvma.so libsdp.so"] {
        let both = order.split(' ').map(|name| library.with_file_name(name).display().to_string());
        let both = both.collect::<Vec<_>>().join(" ");
        let mut command = preloaded(&library, program.path(), &rules);
        let done =
            command.arg("2").env("LD_PRELOAD", both).env("SIDESTEP_INTERFACES", "!*").output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{order}: {}", text(&done.stderr));
    }
}

/// Segments of the client, at the end of its exchange with a server of this kind. `move_every`: see
/// SIDESTEP_MOVE_EVERY.
fn loops(server: &str, move_every: &str) -> Option<String> {
    let (library, _) = parts()?;
    let program = compile("apps/sdp_loops.c").unwrap();
    let rules = File::new(&test_name().replace(':', "-"), "use both server * *:*\nuse both client * *:*\n");
    let mut command = preloaded(&library, program.path(), &rules);
    command.env("SIDESTEP_MOVE_EVERY", move_every);
    command.args([server, &rig::PATIENCE.as_millis().to_string()]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    Some(text(&done.stdout))
}

#[test]
fn event_loops_of_two_processes_exchange_bytes_through_memory() {
    let Some(segments) = loops("alone", "0") else { return };
    assert_eq!(segments, "40\n");
}

#[test]
fn threads_that_share_a_set_exchange_bytes_through_memory() {
    let Some(segments) = loops("shared", "0") else { return };
    assert_eq!(segments, "40\n");
}

#[test]
fn a_thread_that_only_waits_hears_what_another_one_asks_for() {
    let Some(segments) = loops("handed", "0") else { return };
    assert_eq!(segments, "40\n");
}

#[test]
fn event_loops_lose_nothing_where_connections_part_and_meet_again() {
    for server in ["alone", "shared", "handed"] {
        for every in ["3", "7"] {
            let Some(_) = loops(server, every) else { return };
        }
    }
}

/// A client that may fork, and then uses a connection whose server has closed it: what its calls say.
const AFTER_THE_END: &str = "
import os, signal, socket, subprocess, sys, time
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
if len(sys.argv) > 2:
    client = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    signal.alarm(int(sys.argv[2]))
    for _ in range(20):
        client.sendall(b'question')
        client.recv(100)
    client.sendall(b'last')
    print(client.recv(100))
    client.send(b'draws a reset')
    time.sleep(0.1)
    try:
        print(client.getpeername())
    except OSError as error:
        print(error)
    if 'FORKS' in os.environ:
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    try:
        while True:
            client.send(b'in vain')
            time.sleep(0.01)
    except OSError as error:
        print(error)
    print(client.recv(100))
    try:
        print(client.getpeername())
    except OSError as error:
        print(error)
else:
    listener = socket.create_server(('127.0.0.1', 0))
    words = [sys.executable, '-c', os.environ['SCRIPT'], str(listener.getsockname()[1]), sys.argv[1]]
    client = subprocess.Popen(words)
    server, _ = listener.accept()
    while server.recv(100) != b'last':
        server.sendall(b'answer')
    server.close()
    sys.exit(client.wait())
";

#[test]
fn a_process_that_forks_leaves_the_dead_alone() {
    after_the_end(Some("FORKS"));
}

#[test]
fn what_is_left_of_a_connection_whose_peer_has_ended_is_as_on_the_kernel() {
    after_the_end(None);
}

fn after_the_end(forks: Option<&str>) {
    let Some((library, _)) = parts() else { return };
    let rules = File::new(&test_name().replace(':', "-"), "use both server * *:*\nuse both client * *:*\n");
    let run = |mut command: Command| {
        let done = command
            .env("SCRIPT", AFTER_THE_END)
            .envs(forks.map(|name| (name, "1")))
            .args(["-c", AFTER_THE_END, &rig::PATIENCE.as_secs().to_string()])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    };
    let by_kernel = run(Command::new("python3"));
    assert!(by_kernel.contains("not connected\n[Errno 32] Broken pipe\nb''\n"), "{by_kernel}");
    assert_eq!(run(preloaded(&library, Path::new("python3"), &rules)), by_kernel);
}

/// A server that takes in nobody but who speaks SDP, and looks for clients with select(2), then accepts one, on a
/// listener that waits.
const REFUSES: &str = "
import os, select, signal, socket, subprocess, sys
signal.alarm(int(sys.argv[1]))
listener = socket.create_server(('127.0.0.1', 0))
CLIENT = '''
import socket, sys
client = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for _ in range(5):
    client.sendall(b'x')
    assert client.recv(1) == b'x'
'''
def serve(**environment):
    words = [sys.executable, '-c', CLIENT, str(listener.getsockname()[1])]
    client = subprocess.Popen(words, env=dict(os.environ, **environment), stderr=subprocess.DEVNULL)
    ends = []
    while client.poll() is None:
        for one in select.select([listener, *ends], [], [], 0.1)[0]:
            if one is not listener:
                data = one.recv(1)
                one.sendall(data)
                if not data:
                    ends.remove(one)
                continue
            try:
                ends.append(listener.accept()[0])
            except ConnectionAbortedError:
                print('aborted')
    return client.returncode
print(serve(LD_PRELOAD=''), serve())
";

#[test]
fn a_server_that_polls_goes_on_when_it_has_refused_a_client() {
    let Some((library, _)) = parts() else { return };
    let rules = File::new("refuses", "use sdp server * *:*\nuse sdp client * *:*\n");
    let done = preloaded(&library, Path::new("python3"), &rules)
        .args(["-c", REFUSES, &rig::PATIENCE.as_secs().to_string()])
        .output()
        .unwrap();
    assert_eq!(text(&done.stdout), "aborted\n1 0\n", "{}", text(&done.stderr));
}

#[test]
fn a_server_that_polls_meets_a_client_that_speaks_late() {
    let Some((library, _)) = parts() else { return };
    let rules = File::new("polled", "use both server * *:*\nuse both client * *:*\n");
    let done = preloaded(&library, Path::new("python3"), &rules)
        .arg(folder().join("apps/sdp_polled.py"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Programs of Debian, as /etc/ld.so.preload reaches them; the last line makes a connection.
const PROGRAMS: [&str; 12] = [
    "ls /",
    "bash -c 'echo $((6*7)); exit 3'",
    "sh -c 'ls / | sort | head -3'",
    "ssh -V",
    "perl -e 'print 6*7'",
    "ldconfig -p | head -1",
    "env -i /bin/true",
    "setpriv --reuid 65534 --clear-groups id -u",
    "setpriv --reuid 65534 --clear-groups su --version",
    "setpriv --reuid 65534 --clear-groups --no-new-privs python3 -c 'import os, subprocess; print(subprocess.run([\"id\", \"-u\"], capture_output=True))'",
    "valgrind -q --tool=none perl -MIO::Socket::INET -e '
        my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\");
        my $client = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $server->sockport);
        print {$server->accept} \"hello\n\"; print $client->getline'",
    "python3 -c '
import socket, threading, select
server = socket.create_server((\"127.0.0.1\", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b\"hello\")).start()
client = socket.create_connection(server.getsockname())
select.select([client], [], [])
print(client.recv(5))
print(socket.socketpair()[0].family, socket.socket(socket.AF_INET, socket.SOCK_DGRAM).family)
'",
];

/// Runs a line of a shell in a mount namespace whose /etc is a copy; `prepare` makes its ld.so.preload.
fn in_copy_of_etc(prepare: &str, line: &str) -> Output {
    let script = format!(
        "set -e; d=$(mktemp -d); mount -t tmpfs tmpfs $d; cp -a /etc $d/etc; {prepare}; mount --bind $d/etc /etc; \
         umount -l $d; rmdir $d; set +e; {line}"
    );
    let words = ["--mount", "--propagation", "private", "sh", "-c"];
    Command::new("unshare").args(words).arg(script).output().unwrap()
}

#[test]
fn no_program_is_harmed_by_ld_so_preload() {
    let Some((library, _program)) = parts() else { return };
    if without_namespaces() {
        return;
    }
    // Where every user can read it, as an installed library is.
    let copy = File::new("preload.so", "");
    std::fs::copy(&library, &copy.0).unwrap();
    std::fs::set_permissions(&copy.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let preload = format!("echo {} > $d/etc/ld.so.preload", copy.0.display());
    let quiet = "printf 'log min-level 9\\nmatch program db2*\\n' > $d/etc/libsdp.conf";
    let wide = "printf 'use both server * *:*\\nuse sdp client * *:*\\n' > $d/etc/libsdp.conf";
    let shown = |done: Output| (done.status.code(), text(&done.stdout), text(&done.stderr));
    for line in PROGRAMS {
        let without = shown(in_copy_of_etc("true", line));
        for rules in [quiet, wide, "true"] {
            let with = shown(in_copy_of_etc(&format!("{rules}; {preload}"), line));
            assert_eq!(with, without, "{line}, with {rules}");
        }
    }
    // It is there.
    let maps = shown(in_copy_of_etc(&preload, "cat /proc/self/maps")).1;
    assert!(maps.contains(copy.0.to_str().unwrap()), "{maps}");
    // And without /proc.
    let last = PROGRAMS[PROGRAMS.len() - 1];
    let without = shown(in_copy_of_etc("true", last));
    let bare = shown(in_copy_of_etc(&format!("{wide}; {preload}"), &format!("umount -l /proc; {last}")));
    assert_eq!(bare, without, "without /proc");
}
