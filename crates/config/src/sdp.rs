//! libsdp's configuration: which stream sockets speak SDP, TCP, or both, and what is logged where.
//!
//! Three dialects say so; a file is written in one of them, that of its first rule. `log` lines are the same in all.
//!
//! ```text
//! match listen *:5001 program ttcp              Topspin's and Cisco's; what no line matches is TCP
//! use both server netserver 192.168.0.0/24:*    OFED's; the first that fits, else both
//! connect 192.0.2.0/24 1024-*                   Java's (com.sun.sdp.conf); what no line matches is TCP
//! log min-level 3 destination file libsdp.log
//! ```
//!
//! A line that is not understood, or that is in another dialect than the file, is told and skipped; all others count.
//! `line` reads one line in each dialect, `place` addresses and ports, `log` what is logged where.

mod line;
mod log;
mod place;
#[cfg(test)]
mod tests;

use crate::glob;
use crate::notice::quoted;
use core::fmt;
use core::net::SocketAddr;
use line::Statement;
pub use log::{Destination, Log, LogPath};
use place::Place;

/// Trouble that is told line by line; what is beyond is counted.
const TROUBLE_MAX: usize = 20;

/// In which words rules are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `match`, of Topspin and Cisco.
    Match,
    /// `use`, of OFED.
    Use,
    /// `bind` and `connect`, of Java and Solaris.
    Java,
}

impl Dialect {
    /// Whose it is, and by which words it is known.
    fn name(self) -> &'static str {
        match self {
            Dialect::Match => "Topspin's dialect (match ...)",
            Dialect::Use => "OFED's dialect (use ...)",
            Dialect::Java => "Java's dialect (bind ..., connect ...)",
        }
    }
}

/// What a socket is to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// TCP alone.
    Tcp,
    /// SDP alone: a peer that does not speak it is refused.
    Sdp,
    /// SDP with those who speak it, TCP with the others.
    Both,
}

impl Wanted {
    /// As OFED's dialect has it.
    pub fn name(self) -> &'static str {
        match self {
            Wanted::Tcp => "tcp",
            Wanted::Sdp => "sdp",
            Wanted::Both => "both",
        }
    }
}

/// What a socket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It listens: the local address decides.
    Server,
    /// It connects: the remote address decides.
    Client,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The rule in this line.
    Rule(u32),
    /// No rule of the file fits.
    NoRule,
    /// There are no rules: no file, or one that holds none.
    NoRules,
    /// SIMPLE_LIBSDP or ALWAYS_USE_SDP.
    Simple,
    /// The program made the socket as one of AF_INET_SDP.
    Asked,
}

/// The answer for one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it is to speak.
    pub wanted: Wanted,
    /// Who says so.
    pub by: By,
}

impl Decision {
    /// The program asked for SDP by the family of its socket.
    pub const ASKED: Decision = Decision { wanted: Wanted::Sdp, by: By::Asked };
}

/// One rule: all of it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    line: u32,
    wanted: Wanted,
    /// `None`: both roles.
    role: Option<Role>,
    /// Patterns of the program's name.
    programs: Vec<String>,
    places: Vec<Place>,
}

impl Rule {
    fn fits(&self, role: Role, address: SocketAddr) -> bool {
        self.role.is_none_or(|own| own == role) && self.places.iter().all(|place| place.covers(address))
    }
}

/// What is to be done or told, in the order of the file: `log` lines take effect at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// From here on this is how to log.
    Log(Log),
    /// A line is skipped, or does not mean what it seems to.
    Trouble(Trouble),
}

/// Something about the file that its writer should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The line is skipped (libsdp's level 9); otherwise it counts, and this is a warning (8).
    pub is_error: bool,
    /// Where, what, and what then holds.
    pub text: String,
}

/// All rules of a file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rules {
    path: String,
    /// That of the first rule, and its line.
    dialect: Option<(Dialect, u32)>,
    is_simple: bool,
    rules: Vec<Rule>,
}

impl Rules {
    /// Everything is SDP, as SIMPLE_LIBSDP demands.
    pub fn simple() -> Rules {
        Rules { is_simple: true, ..Rules::default() }
    }

    /// Reads a whole file; `path` is for messages and explanations.
    pub fn parse(path: &str, text: &str) -> (Rules, Vec<Event>) {
        let mut reader = Reader::new(path);
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            reader.line(u32::try_from(index + 1).unwrap_or(u32::MAX), line);
        }
        reader.end()
    }

    /// In which dialect the file is written; `None`: it has no rule.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect.map(|(dialect, _)| dialect)
    }

    /// The rules for one process: `program` is the last part of its name.
    pub fn compile(&self, program: &str) -> ProcessRules {
        let is_for = |rule: &&Rule| rule.programs.iter().all(|pattern| glob::matches(pattern, program));
        ProcessRules {
            path: self.path.clone(),
            otherwise: self.otherwise(),
            rules: self.rules.iter().filter(is_for).cloned().collect(),
        }
    }

    /// What holds where no rule fits.
    fn otherwise(&self) -> Decision {
        if self.is_simple {
            return Decision { wanted: Wanted::Sdp, by: By::Simple };
        }
        match self.dialect() {
            Some(Dialect::Match | Dialect::Java) => Decision { wanted: Wanted::Tcp, by: By::NoRule },
            Some(Dialect::Use) => Decision { wanted: Wanted::Both, by: By::NoRule },
            None => Decision { wanted: Wanted::Both, by: By::NoRules },
        }
    }
}

/// The rules that hold in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRules {
    path: String,
    otherwise: Decision,
    rules: Vec<Rule>,
}

impl ProcessRules {
    /// What a socket is to speak: the first rule that fits. Allocates nothing.
    pub fn decide(&self, role: Role, address: SocketAddr) -> Decision {
        let found = self.rules.iter().find(|rule| rule.fits(role, address));
        found.map_or(self.otherwise, |rule| Decision { wanted: rule.wanted, by: By::Rule(rule.line) })
    }

    /// The lines of rules for this process that were looked at before `decision` and did not fit.
    pub fn passed_over(&self, decision: Decision) -> impl Iterator<Item = u32> + '_ {
        let lines = self.rules.iter().map(|rule| rule.line);
        lines.take_while(move |line| decision.by != By::Rule(*line))
    }

    /// Whether every socket is TCP's whatever its address, so that none need be looked at.
    pub fn leaves_all(&self) -> bool {
        self.otherwise.wanted == Wanted::Tcp && self.rules.iter().all(|rule| rule.wanted == Wanted::Tcp)
    }

    /// Who decided, in words.
    pub fn reason(&self, by: By) -> Reason<'_> {
        Reason(by, &self.path)
    }
}

/// Who decided: "rule /etc/libsdp.conf:12".
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a>(By, &'a str);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason(by, path) = *self;
        match by {
            By::Rule(line) => write!(text, "rule {path}:{line}"),
            By::NoRule => write!(text, "no rule of {path} fits"),
            By::NoRules => text.write_str("there are no rules"),
            By::Simple => text.write_str("SIMPLE_LIBSDP"),
            By::Asked => text.write_str("AF_INET_SDP"),
        }
    }
}

/// A file on its way to rules.
struct Reader {
    rules: Rules,
    log: Log,
    events: Vec<Event>,
    told: usize,
}

impl Reader {
    fn new(path: &str) -> Reader {
        let rules = Rules { path: path.to_owned(), ..Rules::default() };
        Reader { rules, log: Log::default(), events: Vec::new(), told: 0 }
    }

    fn line(&mut self, number: u32, text: &str) {
        match line::read(text) {
            Ok(Statement::Nothing) => {}
            Ok(Statement::Log(change, warning)) => {
                self.log.change(change);
                self.events.push(Event::Log(self.log.clone()));
                self.warn(number, warning);
            }
            Ok(Statement::Rule(dialect, rule, warning)) => {
                let (own, first) = *self.rules.dialect.get_or_insert((dialect, number));
                if own == dialect {
                    self.rules.rules.push(Rule { line: number, ..rule });
                    self.warn(number, warning);
                } else {
                    self.mixed(number, dialect, (own, first), &rule);
                }
            }
            Err((dialect, trouble)) => {
                // A file whose only rule is mistaken still has the dialect's answer for what no rule matches.
                if let Some(dialect) = dialect {
                    self.rules.dialect.get_or_insert((dialect, number));
                }
                self.tell(true, number, &format!("{trouble}; line ignored, the other lines hold"));
            }
        }
    }

    /// A rule in another dialect than the file's.
    fn mixed(&mut self, number: u32, dialect: Dialect, (own, first): (Dialect, u32), rule: &Rule) {
        let advice = line::in_dialect(rule, own)
            .map_or("no line of that dialect says the same".to_owned(), |line| {
                format!("there it is {}", quoted(&line))
            });
        let (theirs, ours) = (dialect.name(), own.name());
        let text = format!(
            "a rule in {theirs}, but the rules of this file are in {ours} since line {first}; {advice}; \
             line ignored, the other lines hold"
        );
        self.tell(true, number, &text);
    }

    fn warn(&mut self, number: u32, warning: Option<String>) {
        if let Some(warning) = warning {
            self.tell(false, number, &warning);
        }
    }

    fn tell(&mut self, is_error: bool, number: u32, text: &str) {
        self.told += 1;
        if self.told <= TROUBLE_MAX {
            let text = format!("{}:{number}: {text}", self.rules.path);
            self.events.push(Event::Trouble(Trouble { is_error, text }));
        }
    }

    fn end(mut self) -> (Rules, Vec<Event>) {
        if let Some(more @ 1..) = self.told.checked_sub(TROUBLE_MAX) {
            let text = format!("{}: {more} more lines with trouble", self.rules.path);
            self.events.push(Event::Trouble(Trouble { is_error: true, text }));
        }
        (self.rules, self.events)
    }
}
