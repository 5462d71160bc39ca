//! The result as JSON, one object for each run. Times are microseconds, as shown on the screen (half of a round trip
//! unless `--full-rtt`), except where the name says otherwise. A small reader takes the files back for `--compare`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::client::{Distribution, Outcome};
use crate::clock::Rate;
use crate::exit::{Code, Failure, Result};
use crate::histogram::Histogram;
use crate::report::text;
use crate::runs::key_figures;
use crate::settings::{Mode, Pace, Settings, Span};

/// Version of the format: it changes when a name changes its meaning.
const FORMAT: u32 = 1;
/// Percentiles written, dense enough to draw a curve towards the tail.
const CURVE: [f64; 26] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0,
    99.5, 99.75, 99.9, 99.95, 99.99, 99.995, 99.999, 100.0,
];
/// Bars of the histogram, spread over the logarithm of the latency.
const BARS_PER_DOUBLING: f64 = 8.0;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// null
    Null,
    /// true, false
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Value>),
    /// An object, sorted by name.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// Member `name` of an object, `Null` when there is none.
    pub fn get(&self, name: &str) -> &Value {
        match self {
            Value::Object(members) => members.get(name).unwrap_or(&Value::Null),
            _ => &Value::Null,
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        if number.is_finite() { Value::Number(number) } else { Value::Null }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<Vec<Value>> for Value {
    fn from(list: Vec<Value>) -> Value {
        Value::List(list)
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => write!(f, "{n:.0}"),
            Value::Number(n) => write!(f, "{:.6}", n),
            Value::Text(text) => quote(f, text),
            Value::List(list) => {
                f.write_char('[')?;
                for (i, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { "," } else { "" })?;
                }
                f.write_char(']')
            }
            Value::Object(members) => {
                f.write_char('{')?;
                for (i, (name, value)) in members.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    quote(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

/// Also safe inside a script element of a page: `<` never appears.
fn quote(f: &mut std::fmt::Formatter<'_>, text: &str) -> std::fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", c as u32)?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// One run as an object.
pub fn of(s: &Settings, o: &Outcome, number: usize) -> Value {
    let seconds = o.rate.sec(o.total_ticks);
    let figures =
        key_figures(s, o).into_iter().map(|(name, value)| (name.to_string(), value.into())).collect();
    object([
        ("format", u64::from(FORMAT).into()),
        ("program", format!("sockperf {}", env!("CARGO_PKG_VERSION")).as_str().into()),
        ("label", label(s, number).as_str().into()),
        ("parameters", parameters(s)),
        ("figures", Value::Object(figures)),
        (
            "total",
            object([
                ("seconds", seconds.into()),
                ("sent", o.sent.into()),
                ("bytes", o.bytes.into()),
                ("received", o.received.into()),
                ("skipped", o.skipped.into()),
                ("late_answers", o.late_answers.into()),
                ("stray", o.stray.into()),
                ("late_sends", o.late_sends.into()),
                ("interrupted", o.interrupted.into()),
            ]),
        ),
        (
            "valid",
            object([
                ("seconds", o.rate.sec(o.valid_ticks).into()),
                ("sent", o.sent_valid.into()),
                ("received", o.received_valid.into()),
                ("warm_up_seconds", crate::client::recorder::WARM_UP_SEC.into()),
                ("cool_down_seconds", crate::client::recorder::COOL_DOWN_SEC.into()),
            ]),
        ),
        ("servers", servers(s, o)),
        ("timeline", timeline(s, o)),
        (
            "clock",
            object([("ticks_per_second", o.rate.per_sec.into()), ("pacing_error_ppm", o.drift_ppm.into())]),
        ),
        ("cpu", cpu(o)),
        ("peer", peer(o, seconds)),
    ])
}

/// The run's name, numbered when there are several.
fn label(s: &Settings, number: usize) -> String {
    let name = s.label.clone().unwrap_or_else(|| {
        let transport = if s.endpoints.iter().all(|e| e.tcp) { "TCP" } else { "UDP" };
        format!("{:?} {transport} {} bytes", s.mode, s.msg_size)
    });
    if s.repeat > 1 { format!("{name} #{number}") } else { name }
}

fn parameters(s: &Settings) -> Value {
    let addresses =
        s.endpoints.iter().take(64).map(|e| e.address.to_string().as_str().into()).collect::<Vec<Value>>();
    object([
        ("mode", format!("{:?}", s.mode).as_str().into()),
        ("addresses", addresses.into()),
        ("sockets", (s.endpoints.len() as u64).into()),
        ("tcp", s.endpoints.iter().all(|e| e.tcp).into()),
        ("tls", s.tls.as_ref().map_or(Value::Null, |tls| tls.cipher.into())),
        ("message_bytes", (s.msg_size as u64).into()),
        ("range_bytes", (s.range as u64).into()),
        ("burst", u64::from(s.burst).into()),
        ("reply_every", s.reply_every.into()),
        ("full_rtt", s.full_rtt.into()),
        (
            "messages_per_second",
            match s.pace {
                Pace::Max => Value::Null,
                Pace::PerSecond(rate) => u64::from(rate).into(),
            },
        ),
        (
            "seconds",
            match s.span {
                Span::Seconds(seconds) => u64::from(seconds).into(),
                Span::Messages(_) => Value::Null,
            },
        ),
    ])
}

fn servers(s: &Settings, o: &Outcome) -> Value {
    if s.mode == Mode::Throughput {
        return Value::List(Vec::new());
    }
    let one = |d: &Distribution| {
        object([
            ("received", d.received.into()),
            ("dropped", d.dropped.into()),
            ("duplicated", d.duplicates.into()),
            ("out_of_order", d.out_of_order.into()),
            ("latency", distribution(&d.plain, o.rate, text::factor(s))),
            (
                "by_schedule",
                d.schedule.as_ref().map_or(Value::Null, |h| distribution(h, o.rate, text::factor(s))),
            ),
        ])
    };
    o.servers.iter().map(one).collect::<Vec<Value>>().into()
}

fn distribution(h: &Histogram, rate: Rate, factor: f64) -> Value {
    let us = |ticks: u64| rate.us(ticks) * factor;
    let curve = CURVE.iter().filter_map(|p| {
        let value = match *p {
            0.0 => h.min(),
            p => h.percentile(p)?,
        };
        Some(Value::List(vec![(*p).into(), us(value).into()]))
    });
    let mut bars: BTreeMap<i64, u64> = BTreeMap::new();
    for bucket in h.buckets() {
        let value = us(bucket.low.midpoint(bucket.high)).max(1e-3);
        *bars.entry((value.log2() * BARS_PER_DOUBLING).floor() as i64).or_default() += bucket.count;
    }
    let edge = |i: i64| Value::from((i as f64 / BARS_PER_DOUBLING).exp2());
    let bars = bars.iter().map(|(i, count)| Value::List(vec![edge(*i), edge(i + 1), (*count).into()]));
    object([
        ("count", h.len().into()),
        ("mean", (rate.us(1) * h.mean() * factor).into()),
        ("deviation", (rate.us(1) * h.deviation() * factor).into()),
        ("min", us(h.min()).into()),
        ("max", us(h.max()).into()),
        ("percentiles", curve.collect::<Vec<Value>>().into()),
        ("histogram", bars.collect::<Vec<Value>>().into()),
    ])
}

/// Rows of end in seconds, messages per second, mean and longest latency.
fn timeline(s: &Settings, o: &Outcome) -> Value {
    let mut before = 0;
    let mut rows = Vec::new();
    for sample in &o.timeline {
        let width = o.rate.sec(sample.at.saturating_sub(before)).max(1e-9);
        before = sample.at;
        let us = |ticks: u64| Value::from(o.rate.us(ticks) * text::factor(s));
        rows.push(Value::List(vec![
            o.rate.sec(sample.at).into(),
            (sample.count as f64 / width).into(),
            us(sample.mean),
            us(sample.max),
        ]));
    }
    rows.into()
}

fn cpu(o: &Outcome) -> Value {
    object([
        ("user_us", o.cpu.user_us.into()),
        ("system_us", o.cpu.system_us.into()),
        ("us_per_message", (o.cpu.total_us() as f64 / o.sent.max(1) as f64).into()),
        ("voluntary_switches", o.cpu.voluntary.into()),
        ("involuntary_switches", o.cpu.involuntary.into()),
    ])
}

fn peer(o: &Outcome, seconds: f64) -> Value {
    let Some(peer) = &o.peer else { return Value::Null };
    object([
        ("messages", peer.messages.into()),
        ("bytes", peer.bytes.into()),
        ("messages_per_second", (peer.messages as f64 / seconds.max(1e-9)).into()),
        ("whole_server", peer.whole_server.into()),
        ("user_us", peer.cpu.user_us.into()),
        ("system_us", peer.cpu.system_us.into()),
        ("us_per_message", (peer.cpu.total_us() as f64 / peer.messages.max(1) as f64).into()),
    ])
}

/// The runs in a file that `--json` wrote.
pub fn read(path: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Code::NotFound, format!("cannot read {path}: {e}")))?;
    let bad = |why: String| Failure::new(Code::Malformed, format!("{path} is not a result of --json: {why}"));
    let value = parse(&text).map_err(bad)?;
    let runs = if let Value::List(runs) = value.get("runs") { runs.clone() } else { Vec::new() };
    if runs.iter().all(|run| run.get("format") == &Value::Number(f64::from(FORMAT))) && !runs.is_empty() {
        return Ok(runs);
    }
    Err(bad(format!("no runs of format {FORMAT}")))
}

/// The whole document of several runs.
pub fn document(runs: &[Value]) -> Value {
    object([("runs", runs.to_vec().into())])
}

/// Reads JSON; at most 32 levels deep, so that a hostile file cannot exhaust the stack.
pub fn parse(text: &str) -> std::result::Result<Value, String> {
    let mut reader = Reader { rest: text };
    let value = reader.value(32)?;
    if reader.rest.trim().is_empty() { Ok(value) } else { Err(String::from("text behind the value")) }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self, depth: u32) -> std::result::Result<Value, String> {
        if depth == 0 {
            return Err(String::from("nested too deeply"));
        }
        self.rest = self.rest.trim_start();
        for (word, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        match self.rest.chars().next() {
            Some('"') => self.text().map(Value::Text),
            Some('[') => {
                let mut list = Vec::new();
                self.members(']', |reader| {
                    list.push(reader.value(depth - 1)?);
                    Ok(())
                })?;
                Ok(Value::List(list))
            }
            Some('{') => {
                let mut members = BTreeMap::new();
                self.members('}', |reader| {
                    let name = reader.text()?;
                    reader.expect(':')?;
                    members.insert(name, reader.value(depth - 1)?);
                    Ok(())
                })?;
                Ok(Value::Object(members))
            }
            _ => {
                let end = self.rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                number.parse().map(Value::Number).map_err(|_| format!("'{number}' is no value"))
            }
        }
    }

    fn expect(&mut self, wanted: char) -> std::result::Result<(), String> {
        self.rest = self.rest.trim_start();
        self.rest = self.rest.strip_prefix(wanted).ok_or_else(|| format!("'{wanted}' is missing"))?;
        Ok(())
    }

    fn members(
        &mut self,
        end: char,
        mut one: impl FnMut(&mut Self) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        self.rest = self.rest.get(1..).unwrap_or("").trim_start();
        if let Some(rest) = self.rest.strip_prefix(end) {
            self.rest = rest;
            return Ok(());
        }
        loop {
            self.rest = self.rest.trim_start();
            one(self)?;
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(end) {
                self.rest = rest;
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn text(&mut self) -> std::result::Result<String, String> {
        self.expect('"')?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('u') => {
                        let hex: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&hex, 16).map_err(|_| format!("\\u{hex}"))?;
                        text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                    }
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(c) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(String::from("a string does not end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let value = object([
            ("a", Value::List(vec![1.5.into(), Value::Null, true.into(), 7u64.into()])),
            ("quote \" < \n\\", "</script>\u{2028}é".into()),
            ("empty", object([])),
        ]);
        let text = value.to_string();
        assert!(!text.contains('<'), "{text}");
        assert_eq!(parse(&text), Ok(value));
    }

    #[test]
    fn damaged_documents_are_errors() {
        for text in
            ["", "{", "[1,", "{\"a\"}", "\"x", "[1 2]", "nul", "{\"a\":1}x", "\"\\u12", &"[".repeat(100_000)]
        {
            assert!(parse(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }
}
