//! The feed file: one socket a line, `[U:|T:]host:port[:source]`, or `T:/path` for Unix sockets.
//!
//! Lines that begin with a blank or `#` are skipped. The order of the file is the order of sending.

use crate::address::resolve;
use crate::exit::{Code, Failure, Result};
use crate::settings::Endpoint;

/// Longest line accepted; nothing sensible is longer.
const LONGEST_LINE: usize = 1023;

/// The endpoints of file `path`. On a client, equal `T:` lines are as many connections.
pub fn read(path: &str, client: bool) -> Result<Vec<Endpoint>> {
    let metadata = std::fs::metadata(path)
        .map_err(|e| Failure::new(Code::NotFound, format!("cannot open feed file {path}: {e}")))?;
    if !metadata.is_file() {
        return Err(Failure::new(Code::NotFound, format!("feed file {path} is not a regular file")));
    }
    let text = std::fs::read(path)
        .map_err(|e| Failure::new(Code::NotFound, format!("cannot read feed file {path}: {e}")))?;
    parse(&String::from_utf8_lossy(&text), path, client)
}

fn parse(text: &str, path: &str, client: bool) -> Result<Vec<Endpoint>> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with([' ', '\t', '\r', '#']) {
            continue;
        }
        let bad = |why: &str| {
            Failure::new(
                Code::Malformed,
                format!("{path}:{}: {why}; a line is [U:|T:]host:port[:source]", number + 1),
            )
        };
        if line.len() > LONGEST_LINE {
            return Err(bad("line too long"));
        }
        let endpoint = one(line.trim_end(), &bad)?;
        let repeatable = (endpoint.tcp && client) || endpoint.source.is_some();
        let twin =
            |e: &Endpoint| e.tcp == endpoint.tcp && e.address.to_string() == endpoint.address.to_string();
        if repeatable || !endpoints.iter().any(twin) {
            endpoints.push(endpoint);
        }
    }
    if endpoints.is_empty() {
        return Err(Failure::new(Code::Argument, format!("feed file {path} names no socket")));
    }
    Ok(endpoints)
}

fn one(line: &str, bad: &dyn Fn(&str) -> Failure) -> Result<Endpoint> {
    let (tcp, rest) = match line.get(..2) {
        Some("T:" | "t:") => (true, &line[2..]),
        Some("U:" | "u:") => (false, &line[2..]),
        _ => (false, line),
    };
    if rest.starts_with('/') {
        return Ok(Endpoint { address: resolve(rest, 0)?, tcp, source: None });
    }
    let (host, tail) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (host, tail) = inner.split_once(']').ok_or_else(|| bad("'[' without ']'"))?;
            (host, tail.strip_prefix(':').ok_or_else(|| bad("no port"))?)
        }
        None => rest.split_once(':').ok_or_else(|| bad("no port"))?,
    };
    let (port, source) = match tail.split_once(':') {
        Some((port, source)) => (port, Some(source)),
        None => (tail, None),
    };
    let port: u16 = port.parse().ok().filter(|p| *p > 0).ok_or_else(|| bad("the port is not 1 to 65535"))?;
    if host.is_empty() {
        return Err(bad("no host"));
    }
    let address = resolve(host, port)?;
    let source = source.map(|s| resolve(s.trim_matches(['[', ']']), 0)).transpose()?;
    if tcp && address.is_multicast() {
        return Err(bad("TCP to a multicast group"));
    }
    Ok(Endpoint { address, tcp, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, client: bool) -> Vec<String> {
        let endpoints = parse(text, "f", client).unwrap_or_else(|e| panic!("{e}"));
        endpoints.iter().map(|e| format!("{}{}", if e.tcp { "T:" } else { "U:" }, e.address)).collect()
    }

    #[test]
    fn prefixes_comments_and_a_missing_last_newline_are_understood() {
        let text =
            "# c\n\n 10.0.0.9:1\nU:10.0.0.1:1\nt:10.0.0.2:2\n10.0.0.3:3\nT:[::1]:4\nT:/tmp/s\n10.0.0.4:5";
        let want = ["U:10.0.0.1:1", "T:10.0.0.2:2", "U:10.0.0.3:3", "T:[::1]:4", "T:/tmp/s", "U:10.0.0.4:5"];
        assert_eq!(shown(text, true), want);
    }

    #[test]
    fn twins_are_dropped_except_connections_of_a_client() {
        let text = "T:10.0.0.1:1\nT:10.0.0.1:1\nU:10.0.0.1:1\nU:10.0.0.1:1\n";
        assert_eq!(shown(text, true).len(), 3);
        assert_eq!(shown(text, false).len(), 2);
    }

    #[test]
    fn bad_lines_are_named_and_an_empty_file_is_an_error() {
        for line in
            ["10.0.0.1", "10.0.0.1:x", "10.0.0.1:70000", "10.0.0.1:0", ":5", "[::1:5", "T:224.0.0.1:5"]
        {
            let error = parse(line, "f", true).err().unwrap_or_else(|| panic!("{line} was accepted"));
            assert_eq!(error.code, Code::Malformed, "{line}");
            assert!(error.text.starts_with("f:1:"), "{}", error.text);
        }
        assert_eq!(parse("#\n", "f", true).err().unwrap().code, Code::Argument);
        assert_eq!(read("/nonexistent", true).err().unwrap().code, Code::NotFound);
    }
}
