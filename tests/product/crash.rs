//! A killed process leaves nothing behind: no program on the interface, and the kernel answers its peer.

use rig::{Finished, Host, Options, Program, Protocol};
use tests::{DEADLINE, World, wait_for_no_program, world};

const PORT: u16 = 9300;

/// Connects, sends bytes and reads echoes, and prints how that ended. It sends again when no echo comes: a peer that
/// is silent for ever would otherwise not be told from one that is gone.
const READER: &str = "\
import socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
peer.settimeout(0.2)
print('connected', flush=True)
try:
    while True:
        peer.sendall(b'x')
        try:
            if not peer.recv(1):
                print('end of stream', flush=True)
                break
        except TimeoutError:
            pass
except ConnectionError:
    print('reset', flush=True)
";

/// Echoes bytes of one connection for ever.
const ECHO: &str = "\
import socket,sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
peer, name = listener.accept()
while True:
    peer.sendall(peer.recv(1))
";

fn python(host: &Host, script: &str, address: &str) -> Program {
    let program = host.program("/usr/bin/python3").words("-u -c").argument(script);
    program.argument(address).argument(PORT.to_string())
}

#[test]
fn killing_the_server_leaves_no_program_and_the_kernel_resets_the_peer() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    let mut server = python(&hosts.right, ECHO, &address).preload(Some(library)).start().unwrap();
    server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
    let mut client = python(&hosts.left, READER, &address).start().unwrap();
    client.wait_for_output("connected", DEADLINE).unwrap();
    assert!(hosts.right.has_xdp_program().unwrap(), "the server is not accelerated");
    server.kill().unwrap();
    let said = client.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    // The kernel's own socket would have said goodbye with FIN; ours died with the process that held its state.
    assert!(said.contains("reset"), "{said}");
    wait_for_no_program(&hosts.right);
}

#[test]
fn after_a_kill_the_same_port_can_be_served_again() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let address = hosts.right.address.to_string();
    for _ in 0..3 {
        let mut server = python(&hosts.right, ECHO, &address).preload(Some(library)).start().unwrap();
        server.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();
        let mut client = python(&hosts.left, READER, &address).preload(Some(library)).start().unwrap();
        client.wait_for_output("connected", DEADLINE).unwrap();
        for host in [&hosts.left, &hosts.right] {
            assert!(host.has_xdp_program().unwrap(), "{} is not accelerated", host.address);
        }
        server.kill().unwrap();
        client.finish(DEADLINE).and_then(Finished::success).unwrap();
    }
}
