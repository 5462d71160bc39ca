//! The published schema of `--json` is that of the tables, and what is printed is as it says.

use serde_json::{Value, json};
use stats::segment::{About, address, file_name, flag};
use stats::{Carrier, Column, Lane, Process, Segment, Socket, Verdict, Why};
use std::ffi::CString;
use std::process::Command;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vma_stats.schema.json");

/// Words take the place of these columns of a socket.
const EXPLAINED: [&str; 9] =
    ["fd", "flags", "why", "carrier", "verdict", "local", "remote", "tcp_state", "groups"];

fn numbers<'a>(columns: impl Iterator<Item = &'a Column>, more: Value) -> Value {
    let mut properties = more.as_object().cloned().unwrap_or_default();
    for column in columns {
        let doc = column.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        properties
            .insert(column.name.to_owned(), json!({"type": "integer", "minimum": 0, "description": doc}));
    }
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

fn schema() -> Value {
    let text = json!({"type": ["string", "null"]});
    let reasons: Vec<&str> = Why::ALL.iter().map(|why| why.name()).collect();
    let mut why: Vec<Value> = reasons.iter().map(|name| json!(name)).collect();
    why.push(Value::Null);
    let carriers: Vec<Option<&str>> = Carrier::ALL.iter().map(|carrier| carrier.name()).collect();
    let verdicts: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    let left: serde_json::Map<String, Value> = Why::ALL
        .iter()
        .map(|why| {
            (why.name().to_owned(), json!({"type": "integer", "minimum": 0, "description": why.text()}))
        })
        .collect();
    let socket = json!({
        "fd": {"type": "integer"}, "protocol": {"enum": ["tcp", "udp"]}, "accelerated": {"type": "boolean"},
        "why": {"enum": why, "description": "Why it is left to the kernel for good"},
        "carrier": {"enum": carriers, "description": "What carries it now"},
        "verdict": {"enum": verdicts, "description": "The judge's reason, where `why` is null"},
        "reason": {"type": "string", "description": "`why` or `verdict` in words, with what the judge saw"},
        "local": text, "remote": text, "tcp_state": text, "blocking": {"type": "boolean"},
        "groups": {"type": "array", "items": {"type": "string"}},
    });
    let plain = Socket::COLUMNS.iter().filter(|column| !EXPLAINED.contains(&column.name));
    let lane = json!({"number": {"type": "integer", "minimum": 0}});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "vma-stats-1",
        "title": "What `vma_stats --json` prints: one such object on a line for each look",
        "type": "object",
        "required": ["pid", "program", "started_ns", "process", "left_to_kernel", "lanes", "sockets"],
        "additionalProperties": false,
        "properties": {
            "pid": {"type": "integer", "minimum": 0},
            "program": {"type": "string"},
            "started_ns": {"type": "integer", "minimum": 0},
            "process": numbers(Process::COLUMNS.iter(), json!({})),
            "left_to_kernel": {"type": "object", "required": reasons, "additionalProperties": false, "properties": left},
            "lanes": {"type": "array", "items": numbers(Lane::COLUMNS.iter(), lane)},
            "sockets": {"type": "array", "items": numbers(plain, socket)},
        },
    })
}

#[test]
fn the_published_schema_is_fresh() {
    let fresh = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::fs::read_to_string(PATH).unwrap_or_default() != fresh {
        std::fs::write(PATH, &fresh).unwrap();
        panic!("docs/vma_stats.schema.json was stale and is written anew: look at it and commit it");
    }
}

/// What of a value is not as the part of JSON Schema says that ours uses; another keyword is an error.
fn wrong(value: &Value, schema: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the schema has the type {other}"),
    };
    for (keyword, rule) in schema.as_object().unwrap() {
        let fits = match keyword.as_str() {
            "$schema" | "$id" | "title" | "description" => true,
            "type" => match rule.as_array() {
                Some(any) => any.iter().any(|name| is(name.as_str().unwrap())),
                None => is(rule.as_str().unwrap()),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "required" => {
                rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|all| all.keys().all(|name| known.contains_key(name)))
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    let inner = value.get(name).map(|value| wrong(value, rule, &format!("{place}/{name}")));
                    found.extend(inner.into_iter().flatten());
                }
                true
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                found.extend(items.flat_map(|item| wrong(item, rule, &format!("{place}/*"))));
                true
            }
            other => panic!("the schema has the keyword {other}"),
        };
        if !fits {
            found.push(format!("{place}: {keyword}"));
        }
    }
    found
}

#[test]
fn what_is_printed_is_as_the_schema_says() {
    let pid = std::process::id();
    let directory = std::env::temp_dir().join(format!("vma-stats-schema-{pid}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join(file_name(pid));
    let length = Segment::size(1, 4);
    std::fs::File::create(&path).unwrap().set_len(length as u64).unwrap();
    let file = sys::file::open(&CString::new(path.to_str().unwrap()).unwrap(), libc::O_RDWR, 0).unwrap();
    let mapping = sys::memory::Mapping::shared(file.raw(), length, 0, false).unwrap();
    let about = About { pid, program: b"a \"quoted\\ name", started_ns: 1 };
    // SAFETY: a new file, zeroed; the mapping is leaked below.
    let segment = unsafe { Segment::create(mapping.start(), length, 1, 4, about) }.unwrap();
    std::mem::forget(mapping);
    segment.lane(0).interface.set(1);
    let (udp, left) = (segment.claim_socket(3), segment.claim_socket(4));
    segment.member(udp, "239.1.1.1".parse().unwrap(), true);
    udp.local.set(address("10.0.0.1:80".parse().unwrap()));
    left.flags.set(flag::TCP | flag::LEFT);
    left.why.set(Why::NoRoute as u64);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vma_stats"));
    let output = command.arg("-k").arg(&directory).arg("--json").output().unwrap();
    let _ = std::fs::remove_dir_all(&directory);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["sockets"].as_array().map(Vec::len), Some(2), "{printed}");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(PATH).unwrap()).unwrap();
    assert_eq!(wrong(&printed, &schema, ""), Vec::<String>::new());
    let mut strange = printed.clone();
    strange["sockets"][0]["why"] = json!("Whim");
    strange["lanes"][0]["speed"] = json!(3);
    assert_eq!(wrong(&strange, &schema, "").len(), 2, "the test itself notices");
}
