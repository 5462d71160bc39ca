//! Which ports are bound, and by processes that live.

use crate::Protocol;

/// `/proc/<pid>/net/{tcp,udp}` show the namespace of the process: `sl local_address rem_address st ... inode`. A server
/// that was killed may be there for a while beside its successor: what counts is open in some process.
pub(crate) fn has_port(pid: u32, protocol: Protocol, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let files = match protocol {
        Protocol::Tcp => ["tcp", "tcp6"],
        Protocol::Udp => ["udp", "udp6"],
    };
    files.iter().any(|file| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let local = columns.get(1).and_then(|address| address.rsplit_once(':'));
            let matches = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
            let is_bound = matches && (protocol == Protocol::Udp || columns.get(3) == Some(&LISTEN));
            is_bound && columns.get(9).is_some_and(|inode| is_open(inode))
        })
    })
}

/// Whether a process has the socket with this inode among its descriptors.
fn is_open(inode: &str) -> bool {
    let wanted = format!("socket:[{inode}]");
    let entries = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    let processes = entries("/proc").filter_map(|entry| entry.file_name().into_string().ok());
    processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).any(|pid| {
        entries(&format!("/proc/{pid}/fd")).any(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|file| file.as_os_str() == wanted.as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    /// Listens; the listener is in no process, but under way in a message, until a line comes.
    const SENT: &str = "\
import socket,sys
listener = socket.create_server(('127.0.0.1', 0))
a, b = socket.socketpair()
socket.send_fds(a, [b'x'], [listener.fileno()])
port = listener.getsockname()[1]
listener.close()
print(port, flush=True)
sys.stdin.readline()
held = socket.recv_fds(b, 1, 1)
sys.stdin.readline()
";

    #[test]
    fn a_port_counts_while_a_process_has_the_socket_that_listens() {
        let (piped, words) = (Stdio::piped, ["-c", SENT]);
        let mut program =
            Command::new("/usr/bin/python3").args(words).stdin(piped()).stdout(piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let (pid, port) = (program.id(), said.trim().parse().unwrap());
        assert!(!has_port(pid, Protocol::Tcp, port));
        program.stdin.as_mut().unwrap().write_all(b"take it\n").unwrap();
        eventually("the port is there", || has_port(pid, Protocol::Tcp, port));
        program.kill().unwrap();
        program.wait().unwrap();
    }
}
