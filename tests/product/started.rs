//! Programs that give their sockets to others: as standard input and output, by descriptors that stay open. Who gets
//! one has the living connection.

use std::path::Path;
use std::process::Command;

use rig::skip::{skipped, test_name};
use rig::{Finished, Options, Package, Protocol};
use tests::{DEADLINE, World, folder, world};

/// Which ends are accelerated: client, server.
const WAYS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

const PYTHON: &str = "/usr/bin/python3";

/// Whether a program is there, or could be installed; if not, the test is counted as skipped.
fn has(program: &'static str, package: &'static str) -> bool {
    let wanted = [Package { program, package }];
    match rig::install(&wanted) {
        Ok(()) => true,
        Err(missing) => {
            skipped(&test_name(), &missing.to_string());
            false
        }
    }
}

/// nuttcp duplicates its connection to standard input or output, and reads and writes it there by stdio.
#[test]
fn nuttcp_transfers_over_tcp_and_udp() {
    if !has("nuttcp", "nuttcp") {
        return;
    }
    let Some(World { hosts, library }) = world(&Options::default()) else { return };
    let address = hosts.right.address;
    for words in ["-T1", "-r -T1", "-u -R20m -T1"] {
        for (client, server) in WAYS {
            let program = hosts.right.program("nuttcp").words("-S --nofork -1");
            let mut server = program.preload(server.then_some(library.as_path())).start().unwrap();
            server.wait_for_port(Protocol::Tcp, 5000, DEADLINE).unwrap();
            let program = hosts.left.program("nuttcp").words(&format!("{words} {address}"));
            let said = program.preload(client.then_some(library.as_path())).run(DEADLINE);
            let said = said.and_then(Finished::success).unwrap();
            assert!(said.stdout.contains("Mbps"), "{words}: {} {}", said.stdout, said.stderr);
            server.finish(DEADLINE).and_then(Finished::success).unwrap();
        }
    }
}

/// Answers each line of a connection by a program whose standard input and output it is.
const BY_PYTHON: &str = "\
import socket,subprocess,sys
listener = socket.create_server((sys.argv[1], 9600))
print('ready', flush=True)
for _ in range(3):
    peer = listener.accept()[0]
    peer.sendall(b'hello\\n')
    subprocess.run(['sed', 's/^/answer to /'], stdin=peer, stdout=peer, check=True)
    peer.sendall(b'bye\\n')
    peer.close()
";

/// The same with a connection that becomes standard input of the shell's parent.
const BY_PERL: &str = "\
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => 9600, Listen => 5, ReuseAddr => 1) or die;
$| = 1;
print STDERR \"ready\\n\";
for (1..3) {
    my $peer = $listener->accept;
    $peer->syswrite(\"hello\\n\");
    open(STDIN, '<&', $peer) or die;
    open(STDOUT, '>&', $peer) or die;
    system('sed', 's/^/answer to /') == 0 or die;
    close(STDIN);
    close(STDOUT);
    $peer->syswrite(\"bye\\n\");
    close($peer);
}
";

const ASK: &str = "\
import socket,sys
for _ in range(3):
    peer = socket.create_connection((sys.argv[1], 9600), timeout=60)
    peer.settimeout(60)
    lines = peer.makefile('rb')
    assert lines.readline() == b'hello\\n'
    peer.sendall(b'one\\ntwo\\n')
    peer.shutdown(socket.SHUT_WR)
    said = lines.read()
    assert said == b'answer to one\\nanswer to two\\nbye\\n', said
";

#[test]
fn a_connection_is_the_standard_input_and_output_of_a_program() {
    let Some(World { hosts, library }) = world(&Options::default()) else { return };
    let address = hosts.right.address.to_string();
    for (name, words, script) in [(PYTHON, "-u -c", BY_PYTHON), ("perl", "-e", BY_PERL)] {
        for (client, server) in WAYS {
            let program = hosts.right.program(name).words(words).argument(script).argument(&address);
            let mut server = program.preload(server.then_some(library.as_path())).start().unwrap();
            server.wait_for_port(Protocol::Tcp, 9600, DEADLINE).unwrap();
            let program = hosts.left.program(PYTHON).words("-c").argument(ASK).argument(&address);
            let asked = program.preload(client.then_some(library.as_path())).run(DEADLINE);
            asked.and_then(Finished::success).unwrap_or_else(|error| panic!("{name}: {error}"));
            server.finish(DEADLINE).and_then(Finished::success).unwrap();
        }
    }
}

/// What systemd-socket-activate becomes when the first client is there.
const ACTIVATED: &str = "\
import socket
listener = socket.socket(fileno=3)
for _ in range(3):
    peer = listener.accept()[0]
    peer.sendall(b'answer to ' + peer.recv(100))
    peer.close()
";

const CALL: &str = "\
import socket,sys
for _ in range(3):
    peer = socket.create_connection((sys.argv[1], 9700), timeout=60)
    peer.sendall(b'one')
    assert peer.makefile('rb').read() == b'answer to one'
";

/// By a rule of the file that is shipped; without it the exec resets the first client.
#[test]
fn a_service_that_is_activated_by_its_socket_serves_its_first_client() {
    const LAUNCHER: &str = "/usr/bin/systemd-socket-activate";
    if !Path::new(LAUNCHER).exists() {
        return skipped(&test_name(), "no systemd-socket-activate");
    }
    let Some(World { hosts, library }) = world(&Options::default()) else { return };
    let address = hosts.right.address.to_string();
    for (client, server) in WAYS {
        let words = format!("-l {address}:9700 -E LD_PRELOAD -E VMA_CONFIG_FILE {PYTHON} -u -c");
        let program = hosts.right.program(LAUNCHER).words(&words).argument(ACTIVATED);
        let program = program.preload(server.then_some(library.as_path())).may_fall_back();
        let rules = folder().join("../conf/libvma.conf");
        let mut server = program.environment("VMA_CONFIG_FILE", rules).start().unwrap();
        server.wait_for_port(Protocol::Tcp, 9700, DEADLINE).unwrap();
        let program = hosts.left.program(PYTHON).words("-c").argument(CALL).argument(&address);
        let asked = program.preload(client.then_some(library.as_path())).run(DEADLINE);
        asked.and_then(Finished::success).unwrap();
        server.finish(DEADLINE).and_then(Finished::success).unwrap();
    }
}

/// A listener and a connection that libc made, in requests of liburing.
#[test]
fn what_liburing_is_given_is_the_kernels() {
    let source = tests::folder().join("apps/uring.c");
    let program = std::env::temp_dir().join(format!("rig-{}-uring", std::process::id()));
    let compiled = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).arg("-luring").output();
    if !compiled.is_ok_and(|compiled| compiled.status.success()) {
        return skipped(&test_name(), "no liburing to compile with: apt-get install liburing-dev");
    }
    let Some(World { hosts, library }) = world(&Options::default()) else { return };
    let words = |role| format!("{role} {} 9601", hosts.right.address);
    for (client, server) in WAYS {
        let run = hosts.right.program(&program).words(&words("server"));
        let mut server = run.preload(server.then_some(library.as_path())).start().unwrap();
        server.wait_for_port(Protocol::Tcp, 9601, DEADLINE).unwrap();
        let run = hosts.left.program(&program).words(&words("client"));
        let asked = run.preload(client.then_some(library.as_path())).run(DEADLINE);
        asked.and_then(Finished::success).unwrap();
        server.finish(DEADLINE).and_then(Finished::success).unwrap();
    }
    let _ = std::fs::remove_file(&program);
}

/// What inetd starts for a port, with the listener as its standard input ("wait"): serves until nobody comes.
const WAIT: &str = "\
import socket
own = socket.socket(fileno=0)
own.settimeout(5)
try:
    while True:
        if own.type == socket.SOCK_STREAM:
            peer = own.accept()[0]
            peer.sendall(peer.recv(100))
            peer.close()
        else:
            own.sendto(*own.recvfrom(100))
except TimeoutError:
    pass
";

/// Asks until it is answered (the first client came before the service was there), and then ten times more.
const ASK_SERVICES: &str = "\
import socket,sys
def ask(kind, port, patience):
    with socket.socket(socket.AF_INET, kind) as own:
        own.settimeout(patience)
        try:
            own.connect((sys.argv[1], port))
            own.sendall(b'question')
            return own.recv(100) == b'question'
        except OSError:
            return False
for kind, port in (socket.SOCK_STREAM, 9602), (socket.SOCK_DGRAM, 9603):
    assert any(ask(kind, port, 1) for _ in range(60)), port
    assert all(ask(kind, port, 60) for _ in range(10)), port
";

#[test]
fn services_that_inetd_starts_with_its_listener_are_served() {
    if !has("inetd", "openbsd-inetd") {
        return;
    }
    let Some(World { hosts, library }) = world(&Options::default()) else { return };
    let folder = std::env::temp_dir().join(format!("rig-{}-inetd", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (service, services) = (folder.join("service.py"), folder.join("services"));
    std::fs::write(&service, WAIT).unwrap();
    let run = format!("wait root {PYTHON} python3 {}", service.display());
    std::fs::write(&services, format!("9602 stream tcp {run}\n9603 dgram udp {run}\n")).unwrap();
    let mut inetd = hosts.right.program("inetd").words("-i").argument(&services);
    inetd = inetd.preload(Some(library.as_path()));
    let mut inetd = inetd.start().unwrap();
    inetd.wait_for_port(Protocol::Tcp, 9602, DEADLINE).unwrap();
    let asked = hosts.left.program(PYTHON).words("-c").argument(ASK_SERVICES);
    let asked = asked.argument(hosts.right.address.to_string()).run(DEADLINE);
    asked.and_then(Finished::success).unwrap();
    inetd.kill().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}
