//! Segments as patterns in a script, as values, and as bytes.

use crate::world::{HOST, HOST_PORT, PEER, PEER_PORT};
use std::fmt;
use wire::checksum::Sum;
use wire::tcp::{Fields, Flags, Header, Opt, OptionsWriter};
use wire::{icmpv4, ipv4};

/// A segment as a script writes it; numbers are relative.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The peer's port.
    pub port: u16,
    /// Control bits.
    pub flags: Flags,
    /// First number, and payload bytes (`None`: not said, so none).
    pub seq: Option<(u32, u32)>,
    /// Acknowledgment.
    pub ack: Option<u32>,
    /// Window, unscaled.
    pub window: Option<(Compare, u16)>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Options; `None`: none but timestamps.
    pub options: Option<Vec<Choice>>,
}

/// How a window is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// As written.
    Equal,
    /// More.
    More,
    /// Not more.
    NotMore,
}

/// An option as a script writes it; `None` is whatever value.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Whatever options.
    Any,
    /// mss N
    Mss(Option<u16>),
    /// ws N
    Scale(Option<u8>),
    /// sackok
    SackPermitted,
    /// ts VALUE ECHO
    Stamps(Option<u32>, Option<u32>),
    /// sack A-B C-D
    Sack(Vec<(u32, u32)>),
}

/// Numbers that relative ones are relative to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base {
    /// Initial number of the host, once it sent a SYN.
    pub host: u32,
    /// Initial number of the peer.
    pub peer: u32,
    /// The host's last timestamp.
    pub stamp: u32,
}

/// A segment that the host sent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The peer's port.
    pub port: u16,
    /// Raw numbers.
    pub seq: u32,
    /// See `seq`.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Unscaled window.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// In order of the header.
    pub options: Vec<Choice>,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Pattern {
    /// Parses what follows `<` or `>`.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let (head, options) = match text.split_once('<') {
            Some((head, rest)) => (head, Some(Choice::parse_list(rest.trim().trim_end_matches('>'))?)),
            None => (text, None),
        };
        let mut pattern = Pattern {
            port: PEER_PORT,
            flags: Flags(0),
            seq: None,
            ack: None,
            window: None,
            urgent: None,
            options,
        };
        let mut words = head.split_whitespace().peekable();
        if let Some(port) = words.next_if(|word| word.starts_with('@')) {
            pattern.port = port[1..].parse().map_err(|_| format!("{port}: no port"))?;
        }
        pattern.flags = flags(words.next().ok_or("flags are missing")?)?;
        while let Some(word) = words.next() {
            if let Some((from, to)) = word.split_once(':') {
                let (from, to): (u32, u32) = (number(from)?, number(to)?);
                pattern.seq = Some((from, to.checked_sub(from).ok_or("the range ends before it begins")?));
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word}: a value is missing"))?;
            match word {
                "seq" => pattern.seq = Some((number(value)?, 0)),
                "ack" => pattern.ack = Some(number(value)?),
                "urg" => pattern.urgent = Some(number(value)?),
                "win" => pattern.window = Some(window(value)?),
                _ => return Err(format!("{word}: unknown")),
            }
        }
        Ok(pattern)
    }

    /// The IP packet that the peer sends.
    pub fn packet(&self, base: &Base) -> Vec<u8> {
        let (seq, len) = self.seq.unwrap_or_default();
        let mut options = OptionsWriter::new();
        for option in self.options.iter().flatten() {
            match option {
                Choice::Any => {}
                Choice::Mss(mss) => options.mss(mss.unwrap_or(1460)),
                Choice::Scale(shift) => options.window_scale(shift.unwrap_or(0)),
                Choice::SackPermitted => options.sack_permitted(),
                Choice::Stamps(value, echo) => {
                    options.timestamps(value.unwrap_or(0), echo.unwrap_or(base.stamp));
                }
                Choice::Sack(blocks) => {
                    let raw = |n: u32| n.wrapping_add(base.host);
                    let raw: Vec<_> = blocks.iter().map(|(a, b)| (raw(*a), raw(*b))).collect();
                    options.sack(&raw);
                }
            }
        }
        let fields = Fields {
            src: self.port,
            dst: HOST_PORT,
            seq: seq.wrapping_add(base.peer),
            ack: self.ack.map_or(0, |ack| ack.wrapping_add(base.host)),
            flags: self.flags,
            window: self.window.map_or(65_535, |(_, window)| window),
            urgent: self.urgent.unwrap_or(0),
            options_len: options.bytes().len(),
        };
        let mut segment = [&fields.emit()[..], options.bytes()].concat();
        segment.extend((0..len).map(|i| content(seq + i)));
        let sum = Sum::pseudo(PEER, HOST, ipv4::TCP, segment.len()).bytes(&segment).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        ip(ipv4::TCP, &segment)
    }

    /// Why `seen` is not what this pattern wants.
    pub fn mismatch(&self, seen: &Seen, base: &Base) -> Option<String> {
        let seq = seen.seq.wrapping_sub(base.host);
        let len = seen.payload.len() as u32;
        if seen.port != self.port {
            return Some(format!("goes to port {}", seen.port));
        }
        // Linux pushes at the end of each burst that it hands to segmentation, wherever that is.
        let pushed = if len > 0 { Flags::PSH } else { Flags(0) };
        if seen.flags != self.flags && seen.flags != self.flags.with(pushed) {
            return Some("other flags".into());
        }
        if self.seq.is_some_and(|wanted| wanted != (seq, len)) || (self.seq.is_none() && len > 0) {
            return Some("other sequence numbers".into());
        }
        if self.ack.is_some_and(|ack| ack != seen.ack.wrapping_sub(base.peer)) {
            return Some("another acknowledgment".into());
        }
        if self.urgent.is_some_and(|urgent| urgent != seen.urgent) {
            return Some("another urgent pointer".into());
        }
        if let Some((compare, window)) = self.window {
            let holds = match compare {
                Compare::Equal => seen.window == window,
                Compare::More => seen.window > window,
                Compare::NotMore => seen.window <= window,
            };
            if !holds {
                return Some("another window".into());
            }
        }
        if seen.payload.iter().zip(0..).any(|(byte, i)| *byte != content(seq.wrapping_add(i))) {
            return Some("its payload is not what was sent".into());
        }
        self.options_mismatch(seen)
    }

    fn options_mismatch(&self, seen: &Seen) -> Option<String> {
        let Some(wanted) = &self.options else {
            let only_stamps = seen.options.iter().all(|option| matches!(option, Choice::Stamps(..)));
            return (!only_stamps).then(|| "options".into());
        };
        if wanted.contains(&Choice::Any) {
            return None;
        }
        let fits = wanted.len() == seen.options.len()
            && wanted.iter().all(|wanted| seen.options.iter().any(|seen| wanted.allows(seen)));
        (!fits).then(|| "other options".into())
    }
}

impl Choice {
    fn parse_list(text: &str) -> Result<Vec<Choice>, String> {
        let options = text.split(',').map(str::trim).filter(|option| !option.is_empty());
        options.map(Choice::parse).collect()
    }

    fn parse(text: &str) -> Result<Choice, String> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut value = || words.next().filter(|word| *word != "*").map(number::<u32>).transpose();
        Ok(match kind {
            "*" => Choice::Any,
            "mss" => Choice::Mss(value()?.map(|n| n as u16)),
            "ws" => Choice::Scale(value()?.map(|n| n as u8)),
            "sackok" => Choice::SackPermitted,
            "ts" => Choice::Stamps(value()?, value()?),
            "sack" => Choice::Sack(
                words
                    .map(|block| {
                        let (a, b) = block.split_once('-').ok_or("sack A-B C-D")?;
                        Ok((number(a)?, number(b)?))
                    })
                    .collect::<Result<_, String>>()?,
            ),
            _ => return Err(format!("{text}: no option; mss, ws, sackok, ts, sack")),
        })
    }

    fn allows(&self, seen: &Choice) -> bool {
        fn fits<T: PartialEq>(wanted: &Option<T>, seen: &Option<T>) -> bool {
            wanted.is_none() || wanted == seen
        }
        match (self, seen) {
            (Choice::Mss(a), Choice::Mss(b)) => fits(a, b),
            (Choice::Scale(a), Choice::Scale(b)) => fits(a, b),
            (Choice::Stamps(a, x), Choice::Stamps(b, y)) => fits(a, b) && fits(x, y),
            (a, b) => a == b,
        }
    }
}

impl Seen {
    /// Reads an IP packet of the host. `None`: no segment. `Err`: a segment that is not well-formed.
    pub fn read(packet: &[u8], base: impl Fn(u16) -> Base) -> Option<Result<Seen, String>> {
        let header = ipv4::Header::parse(packet)?;
        if header.protocol() != ipv4::TCP {
            return None;
        }
        let segment = &packet[header.len()..header.total_len()];
        let sum = Sum::pseudo(header.src(), header.dst(), ipv4::TCP, segment.len()).bytes(segment);
        let Some(tcp) = Header::parse(segment) else { return Some(Err("a header that is none".into())) };
        if !sum.is_valid() || !header.checksum_is_valid() {
            return Some(Err("a wrong checksum".into()));
        }
        if (header.src(), header.dst(), tcp.src()) != (HOST, PEER, HOST_PORT) {
            return Some(Err("addresses of somebody else".into()));
        }
        let peer_base = base(tcp.dst()).peer;
        let options = tcp.options().filter_map(|option| match option {
            Opt::Mss(mss) => Some(Choice::Mss(Some(mss))),
            Opt::WindowScale(shift) => Some(Choice::Scale(Some(shift))),
            Opt::SackPermitted => Some(Choice::SackPermitted),
            Opt::Timestamps(value, echo) => Some(Choice::Stamps(Some(value), Some(echo))),
            Opt::Sack(blocks) => {
                let relative = |n: u32| n.wrapping_sub(peer_base);
                Some(Choice::Sack(blocks.iter().map(|(a, b)| (relative(a), relative(b))).collect()))
            }
            Opt::Other(_) => None,
        });
        Some(Ok(Seen {
            port: tcp.dst(),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            urgent: tcp.urgent(),
            options: options.collect(),
            payload: segment[tcp.len()..].to_vec(),
        }))
    }

    /// As a script would write it.
    pub fn show(&self, base: &Base) -> String {
        let (seq, len) = (self.seq.wrapping_sub(base.host), self.payload.len() as u32);
        let port = if self.port == PEER_PORT { String::new() } else { format!("@{} ", self.port) };
        let range = if len > 0 { format!("{seq}:{}", seq.wrapping_add(len)) } else { format!("seq {seq}") };
        let ack = if self.flags.has(Flags::ACK) {
            format!(" ack {}", self.ack.wrapping_sub(base.peer))
        } else {
            String::new()
        };
        let urgent = if self.flags.has(Flags::URG) { format!(" urg {}", self.urgent) } else { String::new() };
        let options: Vec<String> = self.options.iter().map(Choice::to_string).collect();
        let options = if options.is_empty() { String::new() } else { format!(" <{}>", options.join(",")) };
        format!("{port}{} {range}{ack} win {}{urgent}{options}", letters(self.flags), self.window)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Any => f.write_str("*"),
            Choice::Mss(mss) => write!(f, "mss {}", mss.unwrap_or(0)),
            Choice::Scale(shift) => write!(f, "ws {}", shift.unwrap_or(0)),
            Choice::SackPermitted => f.write_str("sackok"),
            Choice::Stamps(value, echo) => write!(f, "ts {} {}", value.unwrap_or(0), echo.unwrap_or(0)),
            Choice::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(a, b)| write!(f, " {a}-{b}"))
            }
        }
    }
}

/// An ICMP error about a segment of the host with this raw number.
pub fn icmp(kind: u8, code: u8, mtu: u16, seq: u32) -> Vec<u8> {
    let quoted = ipv4::Fields {
        src: HOST,
        dst: PEER,
        protocol: ipv4::TCP,
        tos: 0,
        ttl: 60,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: 1480,
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message[6..8].copy_from_slice(&mtu.to_be_bytes());
    message.extend(quoted.emit());
    message.extend(HOST_PORT.to_be_bytes());
    message.extend(PEER_PORT.to_be_bytes());
    message.extend(seq.to_be_bytes());
    debug_assert!(message.len() >= icmpv4::HEADER_LEN);
    let sum = Sum::ZERO.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(ipv4::ICMP, &message)
}

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let fields = ipv4::Fields {
        src: PEER,
        dst: HOST,
        protocol,
        tos: 0,
        ttl: 64,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: payload.len(),
    };
    [&fields.emit()[..], payload].concat()
}

/// The byte of either stream at this relative number.
pub fn content(at: u32) -> u8 {
    (at % 251) as u8
}

fn flags(text: &str) -> Result<Flags, String> {
    text.chars().try_fold(Flags(0), |flags, letter| {
        let found = LETTERS.iter().find(|(known, _)| *known == letter);
        let (_, flag) = found.ok_or_else(|| format!("{letter}: no flag; S F R P . U E W"))?;
        Ok(flags.with(*flag))
    })
}

fn letters(flags: Flags) -> String {
    LETTERS.iter().filter(|(_, flag)| flags.has(*flag)).map(|(letter, _)| letter).collect()
}

fn window(text: &str) -> Result<(Compare, u16), String> {
    if let Some(rest) = text.strip_prefix('>') {
        return Ok((Compare::More, number(rest)?));
    }
    if let Some(rest) = text.strip_prefix("!>") {
        return Ok((Compare::NotMore, number(rest)?));
    }
    Ok((Compare::Equal, number(text)?))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text}: not a number that fits"))
}

const LETTERS: [(char, Flags); 8] = [
    ('S', Flags::SYN),
    ('F', Flags::FIN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('U', Flags::URG),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
    ('.', Flags::ACK),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_reads_all_its_parts() {
        let pattern =
            Pattern::parse("@7000 FP. 1:11 ack 5 win >10 urg 3 <mss 1460,ws *,sack 1-2 3-4>").unwrap();
        assert_eq!((pattern.port, pattern.seq, pattern.ack), (7000, Some((1, 10)), Some(5)));
        assert_eq!(pattern.window, Some((Compare::More, 10)));
        assert_eq!(pattern.options.unwrap()[2], Choice::Sack(vec![(1, 2), (3, 4)]));
        assert!(Pattern::parse("X seq 1").is_err());
        assert!(Pattern::parse("S seq").is_err());
        assert!(Pattern::parse("S 5:1").is_err());
    }
}
