//! `--json`: one object per look on a line of its own, every counter by the name it has in docs/counters.md.

use super::chosen;
use stats::report::{carrier, end, fd, has, protocol, reason, tcp_state, why};
use stats::{Column, Lane, Process, Snapshot, Socket, Verdict, Why, flag};

/// One look.
pub(crate) fn text(snapshot: &Snapshot, ranges: &[(i32, i32)]) -> String {
    let left: Vec<String> =
        snapshot.left.iter().map(|(why, count)| format!("{}:{count}", quoted(why.name()))).collect();
    let lanes: Vec<String> = snapshot.lanes.iter().map(|(number, lane)| self::lane(*number, lane)).collect();
    let sockets: Vec<String> =
        chosen(snapshot, ranges).into_iter().map(|one| socket(snapshot, one)).collect();
    format!(
        "{{\"pid\":{},\"program\":{},\"started_ns\":{},\"process\":{{{}}},\"left_to_kernel\":{{{}}},\"lanes\":[{}],\"sockets\":[{}]}}\n",
        snapshot.pid,
        quoted(&snapshot.program),
        snapshot.started_ns,
        cells(Process::COLUMNS, &snapshot.process.words()),
        left.join(","),
        lanes.join(","),
        sockets.join(","),
    )
}

fn lane(number: usize, lane: &Lane) -> String {
    format!("{{\"number\":{number},{}}}", cells(Lane::COLUMNS, &lane.words()))
}

/// What describes a socket in words, before its numbers.
fn socket(snapshot: &Snapshot, socket: &Socket) -> String {
    let verdict = Verdict::from_number(socket.verdict.value()).unwrap_or(Verdict::Undecided);
    let groups: Vec<String> =
        snapshot.groups(socket).iter().map(|group| quoted(&group.to_string())).collect();
    let state =
        if has(socket, flag::TCP) { quoted(tcp_state(socket.tcp_state.value())) } else { "null".to_owned() };
    // The words replace the cells that they explain.
    let explained = ["fd", "flags", "why", "carrier", "verdict", "local", "remote", "tcp_state", "groups"];
    let numbers: Vec<(Column, u64)> = Socket::COLUMNS.iter().copied().zip(socket.words()).collect();
    let numbers: Vec<String> = numbers
        .iter()
        .filter(|(column, _)| !explained.contains(&column.name))
        .map(|(column, value)| format!("{}:{value}", quoted(column.name)))
        .collect();
    format!(
        "{{\"fd\":{},\"protocol\":{},\"accelerated\":{},\"why\":{},\"carrier\":{},\"verdict\":{},\"reason\":{},\
         \"local\":{},\"remote\":{},\"tcp_state\":{state},\"blocking\":{},\"groups\":[{}],{}}}",
        fd(socket),
        quoted(protocol(socket)),
        has(socket, flag::ACCELERATED),
        name(why(socket).map(Why::name)),
        name(carrier(socket).name()),
        quoted(verdict.name()),
        quoted(&reason(socket)),
        address(socket.local.value()),
        address(socket.remote.value()),
        !has(socket, flag::NONBLOCKING),
        groups.join(","),
        numbers.join(","),
    )
}

fn name(known: Option<&str>) -> String {
    known.map_or("null".to_owned(), quoted)
}

fn address(word: u64) -> String {
    if word == 0 { "null".to_owned() } else { quoted(&end(word)) }
}

fn cells(columns: &[Column], words: &[u64]) -> String {
    let cells = columns.iter().zip(words).map(|(column, value)| format!("{}:{value}", quoted(column.name)));
    cells.collect::<Vec<_>>().join(",")
}

/// A string of RFC 8259.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out += &format!("\\u{:04x}", u32::from(control)),
            plain => out.push(plain),
        }
    }
    out + "\""
}
