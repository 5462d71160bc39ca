//! One line of `libvma.conf`. Blanks may stand between any two tokens, even inside an address and its ports.

use super::{Half, Role, Rule, Transport};
use crate::notice::quoted;

/// What a line says.
pub(super) enum Statement<'a> {
    /// Blank, comment, or a `log` line.
    Nothing,
    Application {
        program: &'a str,
        id: &'a str,
    },
    /// With a word on what is read in another way than it stands there.
    Use(Rule, Option<String>),
}

/// Reads one line; the error says what is wrong with it and what would be right.
pub(super) fn line(text: &str) -> Result<Statement<'_>, String> {
    let mut rest = Cursor { text, note: None };
    rest.blanks();
    if rest.at_end() {
        return Ok(Statement::Nothing);
    }
    match rest.word() {
        "application-id" => application(rest),
        "use" => rule(rest),
        "log" => log(rest).map(|()| Statement::Nothing),
        other => Err(format!("{} begins no statement; expected use, application-id or log", quoted(other))),
    }
}

/// Both words are any run without blanks: even `#` belongs to them.
fn application(mut rest: Cursor<'_>) -> Result<Statement<'_>, String> {
    let wrong = || "application-id needs two words: a pattern of program names, and an id or *".to_owned();
    let program = rest.word();
    let id = rest.word();
    if program.is_empty() || id.is_empty() {
        return Err(wrong());
    }
    rest.end().map_err(|_| wrong())?;
    Ok(Statement::Application { program, id })
}

fn rule(mut rest: Cursor<'_>) -> Result<Statement<'_>, String> {
    let word = rest.word();
    let transport = match word {
        "os" => Transport::Os,
        "vma" => Transport::Vma,
        "sdp" => Transport::Sdp,
        "sa" => Transport::Sa,
        "*" => Transport::Any,
        other => return Err(format!("{} is no transport; expected os, vma, sdp, sa or *", quoted(other))),
    };
    let word = rest.word();
    let Some((role, _)) = Role::ALL.into_iter().find(|(_, name)| *name == word) else {
        let names = Role::ALL.map(|(_, name)| name).join(", ");
        return Err(format!("{} is no role; expected {names}", quoted(word)));
    };
    let first = half(&mut rest)?;
    let second = if rest.take(b':') { Some(half(&mut rest)?) } else { None };
    rest.end()?;
    Ok(Statement::Use(Rule { transport, role, first, second, line: 0 }, rest.note))
}

/// `addr:ports`.
fn half(rest: &mut Cursor<'_>) -> Result<Half, String> {
    let network = network(rest)?;
    if !rest.take(b':') {
        return Err(format!("expected ':' and a port after the address, found {}", rest.shown()));
    }
    Ok(Half { network, ports: ports(rest)? })
}

/// `*`, or `A.B.C.D` with an optional `/N`; bits below the prefix are ignored, a prefix above 32 is 32, as VMA
/// has it, and told.
fn network(rest: &mut Cursor<'_>) -> Result<Option<(u32, u32)>, String> {
    if rest.take(b'*') {
        return Ok(None);
    }
    let mut address = 0u32;
    for place in 0..4 {
        if place > 0 && !rest.take(b'.') {
            return Err(format!("expected an IPv4 address such as 10.0.0.1, found {} in it", rest.shown()));
        }
        let octet = rest.number("an IPv4 address or *")?;
        let octet = u8::try_from(octet).map_err(|_| format!("{octet} in an IPv4 address is above 255"))?;
        address = address << 8 | u32::from(octet);
    }
    let mut prefix = if rest.take(b'/') { rest.number("the length of a prefix")? } else { 32 };
    if prefix > 32 {
        rest.note = Some(format!("a prefix of {prefix} bits is read as 32: an IPv4 address has no more"));
        prefix = 32;
    }
    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
    Ok(Some((address & mask, mask)))
}

/// `*`, `N`, or `N-N`.
fn ports(rest: &mut Cursor<'_>) -> Result<Option<(u16, u16)>, String> {
    if rest.take(b'*') {
        return Ok(None);
    }
    let low = port(rest)?;
    let high = if rest.take(b'-') { port(rest)? } else { low };
    if low > high {
        return Err(format!("the range of ports {low}-{high} is empty"));
    }
    Ok(Some((low, high)))
}

fn port(rest: &mut Cursor<'_>) -> Result<u16, String> {
    let number = rest.number("a port or *")?;
    u16::try_from(number).map_err(|_| format!("port {number} is above 65535"))
}

/// `log` with any number of `destination` and `min-level`; the spellings of VMA's parser are taken as well.
fn log(mut rest: Cursor<'_>) -> Result<(), String> {
    loop {
        rest.blanks();
        if rest.at_end() {
            return Ok(());
        }
        match rest.word() {
            "destination" => match rest.word() {
                "stderr" | "ystderr" | "syslog" => {}
                "file" | "yfile" if !rest.word().is_empty() => {}
                "file" | "yfile" => return Err("log destination file needs a name".to_owned()),
                other => {
                    return Err(format!(
                        "{} is no log destination; expected stderr, syslog or file",
                        quoted(other)
                    ));
                }
            },
            "min-level" => {
                rest.number("a level")?;
            }
            other => {
                return Err(format!("{} in a log line; expected destination or min-level", quoted(other)));
            }
        }
    }
}

/// What is left of the line.
struct Cursor<'a> {
    text: &'a str,
    note: Option<String>,
}

impl<'a> Cursor<'a> {
    fn blanks(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t', '\r']);
    }

    /// At the end of the line or at a comment.
    fn at_end(&self) -> bool {
        self.text.is_empty() || self.text.starts_with('#')
    }

    fn end(&mut self) -> Result<(), String> {
        self.blanks();
        if self.at_end() { Ok(()) } else { Err(format!("did not expect {} here", self.shown())) }
    }

    /// The run of characters up to the next blank; empty at the end.
    fn word(&mut self) -> &'a str {
        self.blanks();
        let length = self.text.find([' ', '\t', '\r']).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(length);
        self.text = rest;
        word
    }

    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        match self.text.strip_prefix(char::from(byte)) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    /// Decimal digits without a leading zero.
    fn number(&mut self, what: &str) -> Result<u32, String> {
        self.blanks();
        let length = self.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.text.len());
        let (digits, rest) = self.text.split_at(length);
        if digits.is_empty() {
            return Err(format!("expected {what}, found {}", self.shown()));
        }
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(format!("the number {} has a leading zero", quoted(digits)));
        }
        let number = digits.parse().map_err(|_| format!("the number {} is too large", quoted(digits)))?;
        self.text = rest;
        Ok(number)
    }

    /// The next few characters, for a message.
    fn shown(&self) -> String {
        if self.at_end() { "the end of the line".to_owned() } else { quoted(self.text.trim_end()) }
    }
}
