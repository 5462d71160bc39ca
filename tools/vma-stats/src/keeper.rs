//! What the keeper of a network namespace tells of itself: what it holds, for whom, and whom it refused. It answers
//! everybody.

use keeper::client::{Client, Error};
use keeper::place::Place;
use serde_json::Value;
use std::fmt::Write;

/// Its state, as JSON. `None`: there is none in this network namespace. An error: it could not be asked.
pub fn ask(place: Place) -> Result<Option<String>, String> {
    if place == Place::Nowhere {
        return Err("SIDESTEP_KEEPER=none: no keeper is asked".to_owned());
    }
    let mut client = Client::new(place);
    let file = match client.status() {
        Ok(file) => file,
        Err(Error::Absent) if client.is_not_there() => return Ok(None),
        Err(Error::Absent) => return Err(client.unreached()),
        Err(error) => return Err(error.to_string()),
    };
    // By a name, as the file's position is at its end.
    std::fs::read_to_string(format!("/proc/self/fd/{}", file.raw()))
        .map(Some)
        .map_err(|error| format!("the answer cannot be read: {error}"))
}

/// The same for people. What a keeper of another version does not tell is left empty.
pub fn page(text: &str) -> Result<String, String> {
    serde_json::from_str(text)
        .map(|status| shown(&status))
        .map_err(|error| format!("the answer is no JSON: {error}"))
}

fn shown(status: &Value) -> String {
    let mut page = String::new();
    let keeper = &status["keeper"];
    let _ = writeln!(
        page,
        "keeper {} (version {}), for {}, at {}",
        word(&keeper["pid"]),
        word(&keeper["version"]),
        span(&keeper["seconds"]),
        word(&keeper["socket"])
    );
    let interfaces = list(&status["interfaces"]);
    if interfaces.is_empty() {
        page.push_str("\nno interface is held: no program wants one\n");
    }
    for interface in interfaces {
        let frames = &interface["frames"];
        let _ = writeln!(
            page,
            "\n{}: {}, {}{}, {} queues; frames: {} of {} free, {} posted; {} flows",
            word(&interface["name"]),
            word(&interface["driver"]),
            word(&interface["mode"]),
            if interface["zero_copy"] == true { ", zero-copy" } else { "" },
            word(&interface["queues"]),
            word(&frames["free"]),
            word(&frames["all"]),
            word(&frames["posted"]),
            word(&interface["flows"]),
        );
        let of = |lane: &Value| {
            ["lane", "pid", "user", "program", "frames", "flows"].map(|name| word(&lane[name])).to_vec()
        };
        let lanes = list(&interface["lanes"]).iter().map(of).collect();
        page += &table(&["LANE", "PID", "USER", "PROGRAM", "FRAMES", "FLOWS"], lanes);
    }
    let lanes: Vec<&Value> = interfaces.iter().flat_map(|interface| list(&interface["lanes"])).collect();
    let has_lane = |client: &Value| lanes.iter().any(|lane| lane["pid"] == client["pid"]);
    let others: Vec<Vec<String>> = list(&status["clients"])
        .iter()
        .filter(|client| !has_lane(client) && client["pid"] != std::process::id())
        .map(|client| ["pid", "user", "program"].map(|name| word(&client[name])).to_vec())
        .collect();
    if !others.is_empty() {
        page.push_str("\nconnected, without a lane:\n");
        page += &table(&["PID", "USER", "PROGRAM"], others);
    }
    let refused: Vec<Vec<String>> = list(&status["refused"])
        .iter()
        .map(|one| {
            let words = ["pid", "user", "program", "count"].map(|name| word(&one[name]));
            [&words[..], &[span(&one["seconds_ago"]), word(&one["why"])]].concat()
        })
        .collect();
    if !refused.is_empty() {
        page.push_str("\nrefused:\n");
        page += &table(&["PID", "USER", "PROGRAM", "TIMES", "AGO", "WHY"], refused);
    }
    page
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Names of programs are anybody's: nothing in them is for the terminal.
fn word(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.is_empty() || value.is_null() { "-".to_owned() } else { text }
}

fn span(seconds: &Value) -> String {
    match seconds.as_u64().unwrap_or(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Columns as wide as what is in them; the last one as it is.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let heads = heads.iter().map(|&head| head.to_owned()).collect::<Vec<String>>();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().enumerate().map(|(at, cell)| format!("{cell:<width$}", width = width(at))).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_has_interfaces_with_their_programs_and_who_was_refused() {
        let program =
            |pid: u32, program: &str| json!({ "pid": pid, "uid": 7, "user": "sam", "program": program });
        let mut lane = program(12, "redis");
        lane["lane"] = 1.into();
        lane["frames"] = 64.into();
        lane["flows"] = 3.into();
        let frames = json!({ "all": 100, "free": 30, "posted": 6 });
        let status = json!({
            "keeper": { "pid": 5, "version": "1", "seconds": 7300, "socket": "/x" },
            "interfaces": [{
                "name": "veth0", "driver": "veth", "mode": "native", "zero_copy": false, "queues": 2,
                "frames": frames, "flows": 3, "lanes": [lane],
            }],
            "clients": [program(12, "redis"), program(13, "a\u{1b}b")],
            "refused": [{ "pid": 14, "uid": 8, "user": "eve", "program": "x", "why": "not she", "count": 2,
                          "seconds_ago": 119 }],
        });
        let page = shown(&status);
        let expected = [
            "keeper 5 (version 1), for 2 h, at /x",
            "",
            "veth0: veth, native, 2 queues; frames: 30 of 100 free, 6 posted; 3 flows",
            "  LANE  PID  USER  PROGRAM  FRAMES  FLOWS",
            "  1     12   sam   redis    64      3",
            "",
            "connected, without a lane:",
            "  PID  USER  PROGRAM",
            "  13   sam   a?b",
            "",
            "refused:",
            "  PID  USER  PROGRAM  TIMES  AGO    WHY",
            "  14   eve   x        2      119 s  not she",
        ];
        assert_eq!(page.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_told_is_left_empty() {
        assert!(shown(&json!({})).contains("no interface is held"));
        assert!(shown(&json!({ "interfaces": [{ "lanes": [{}] }] })).contains("  -     -"));
    }
}
