//! `libvma.conf`: which programs and addresses are accelerated.
//!
//! ```text
//! application-id <program pattern> <id>      opens the group for programs of that name and VMA_APPLICATION_ID
//! use <transport> <role> <addr>:<ports>[:<addr>:<ports>]
//! log ...                                    accepted, no effect: VMA_TRACELEVEL and VMA_LOG_FILE rule the log
//! ```
//!
//! The first group that fits the process decides alone; in it, for each role, the first rule that fits. Without a
//! rule the socket is accelerated. A line that is not understood is told and skipped; all others count.

mod parse;
#[cfg(test)]
mod tests;

use crate::glob;
use crate::notice::{Notice, quoted};
use crate::parameters::Parameters;
use core::net::{Ipv4Addr, SocketAddrV4};
use parse::Statement;

/// What a rule says about a socket, and the answer of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The kernel's stack.
    Os,
    /// Acceleration.
    Vma,
    /// Same-host transport; decides only after [`ProcessRules::with_sdp`], and is passed over otherwise, as in VMA.
    Sdp,
    /// Accepted and always passed over, as in VMA.
    Sa,
    /// `*`: accelerated where only "os" is asked about (servers, senders, receivers), left to the kernel at connect.
    Any,
}

/// What a socket is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// listen: the local address decides.
    TcpServer,
    /// connect of TCP: the remote address decides, and the local one if the rule names it.
    TcpClient,
    /// First datagram to a destination: that decides.
    UdpSender,
    /// A bound or joined address: that decides.
    UdpReceiver,
    /// connect of UDP: as for TCP.
    UdpConnect,
}

impl Role {
    /// All, with their names in a file.
    pub const ALL: [(Role, &'static str); 5] = [
        (Role::TcpServer, "tcp_server"),
        (Role::TcpClient, "tcp_client"),
        (Role::UdpSender, "udp_sender"),
        (Role::UdpReceiver, "udp_receiver"),
        (Role::UdpConnect, "udp_connect"),
    ];

    /// Whether the rule's first address is the remote one.
    fn remote_first(self) -> bool {
        matches!(self, Role::TcpClient | Role::UdpSender | Role::UdpConnect)
    }

    /// Whether a second address in the rule is looked at.
    fn has_second(self) -> bool {
        matches!(self, Role::TcpClient | Role::UdpConnect)
    }
}

/// Addresses and ports that one half of a rule covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Half {
    /// Network and mask; `None` is `*`.
    network: Option<(u32, u32)>,
    /// First and last port; `None` is `*`.
    ports: Option<(u16, u16)>,
}

impl Half {
    /// An address that is not known, or of another family, fits `*` only.
    fn covers(&self, address: Option<SocketAddrV4>) -> bool {
        let ip = address.map(|address| Ipv4Addr::to_bits(*address.ip()));
        let port = address.map(|address| address.port());
        self.network.is_none_or(|(network, mask)| ip.is_some_and(|ip| ip & mask == network))
            && self.ports.is_none_or(|(low, high)| port.is_some_and(|port| (low..=high).contains(&port)))
    }

    fn covers_all(&self) -> bool {
        let every_address = self.network.is_none_or(|(_, mask)| mask == 0);
        every_address && self.ports.is_none_or(|ports| ports == (0, u16::MAX))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    transport: Transport,
    role: Role,
    first: Half,
    second: Option<Half>,
    /// Where it stands in its file; 0: in none.
    line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    program: String,
    id: String,
    rules: Vec<Rule>,
}

impl Group {
    fn fits(&self, program: &str, application_id: &str) -> bool {
        let id_fits = application_id == "*" || self.id == "*" || self.id == application_id;
        id_fits && glob::matches(&self.program, program)
    }
}

/// All groups of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    groups: Vec<Group>,
    /// The group that `use` lines go to.
    open: Option<usize>,
}

impl Rules {
    /// Reads a whole file; `path` is for the messages only.
    pub fn parse(path: &str, text: &str) -> (Rules, Vec<Notice>) {
        let mut rules = Rules::default();
        let mut notices = Vec::new();
        // What editors of other systems put before a text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in text.lines().enumerate() {
            let mut warn = |words| notices.push(Notice::warning(format!("{path}:{}: {words}", number + 1)));
            match rules.add(line, number + 1) {
                Ok(None) => {}
                Ok(Some(note)) => warn(note),
                Err(trouble) => warn(format!("{trouble}; line ignored")),
            }
        }
        (rules, notices)
    }

    /// What is to be told of a line that counts.
    fn add(&mut self, line: &str, number: usize) -> Result<Option<String>, String> {
        match parse::line(line)? {
            Statement::Nothing => {}
            Statement::Application { program, id } => self.open = Some(self.group(program, id)),
            Statement::Use(rule, note) => {
                let open = self.open.unwrap_or_else(|| self.group("*", "*"));
                self.open = Some(open);
                self.groups[open].rules.push(Rule { line: number, ..rule });
                return Ok(note);
            }
        }
        Ok(None)
    }

    /// The group of this name, made if there is none; groups stay in the order of their first appearance.
    fn group(&mut self, program: &str, id: &str) -> usize {
        if let Some(known) = self.groups.iter().position(|group| group.program == program && group.id == id) {
            return known;
        }
        self.groups.push(Group { program: program.to_owned(), id: id.to_owned(), rules: Vec::new() });
        self.groups.len() - 1
    }

    /// Says so if VMA_APPLICATION_ID was set, and no group has it.
    pub fn unknown_id(&self, parameters: &Parameters) -> Option<Notice> {
        let id = &parameters.application_id;
        let is_known = |id: &str| self.groups.iter().any(|group| group.id == id);
        if *id == Parameters::default().application_id || id == "*" || is_known(id) {
            return None;
        }
        Some(Notice::warning(format!(
            "VMA_APPLICATION_ID={}: {} has no group of this id; {}",
            quoted(id),
            parameters.config_file,
            if is_known("*") { "those of id * decide" } else { "every socket is a candidate" }
        )))
    }

    /// The rules for one process: `program` is the last part of argv[0].
    pub fn compile(&self, program: &str, application_id: &str) -> ProcessRules {
        let group = self.groups.iter().find(|group| group.fits(program, application_id));
        ProcessRules { rules: group.map(|group| group.rules.clone()).unwrap_or_default(), sdp: false }
    }

    /// One decision, and what made it: for people who ask why.
    pub fn explain(
        &self,
        role: Role,
        program: &str,
        application_id: &str,
        local: Option<SocketAddrV4>,
        remote: Option<SocketAddrV4>,
    ) -> Explained {
        let group = self.groups.iter().find(|group| group.fits(program, application_id));
        let rules = group.map_or(&[][..], |group| &group.rules);
        let rule = find(rules, false, role, local, remote);
        let process = ProcessRules { rules: rules.to_vec(), sdp: false };
        Explained {
            accelerates: process.accelerates(role, local, remote),
            line: rule.map(|rule| rule.line),
            group: group.map(|group| (group.program.clone(), group.id.clone())),
        }
    }

    /// One decision without compiling: see [`ProcessRules::decide`].
    pub fn decide(
        &self,
        role: Role,
        program: &str,
        application_id: &str,
        local: Option<SocketAddrV4>,
        remote: Option<SocketAddrV4>,
    ) -> Transport {
        self.groups
            .iter()
            .find(|group| group.fits(program, application_id))
            .map_or(Transport::Vma, |group| decide(&group.rules, false, role, local, remote))
    }
}

/// See [`Rules::explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Whether the rules let the socket be accelerated.
    pub accelerates: bool,
    /// The line of the rule that says so; none if no rule fits.
    pub line: Option<usize>,
    /// The group of the process, by its pattern of programs and its id; none if no group fits.
    pub group: Option<(String, String)>,
}

/// The rules that hold in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessRules {
    rules: Vec<Rule>,
    sdp: bool,
}

impl ProcessRules {
    /// Lets `use sdp` rules decide.
    pub fn with_sdp(self) -> ProcessRules {
        ProcessRules { sdp: true, ..self }
    }

    /// Who carries the socket: `Vma` unless a rule says otherwise. Allocates nothing.
    pub fn decide(&self, role: Role, local: Option<SocketAddrV4>, remote: Option<SocketAddrV4>) -> Transport {
        decide(&self.rules, self.sdp, role, local, remote)
    }

    /// Whether the socket is to be accelerated, with VMA's reading of `*`.
    pub fn accelerates(&self, role: Role, local: Option<SocketAddrV4>, remote: Option<SocketAddrV4>) -> bool {
        match self.decide(role, local, remote) {
            Transport::Os | Transport::Sdp | Transport::Sa => false,
            Transport::Vma => true,
            Transport::Any => !role.has_second(),
        }
    }

    /// Whether a rule names the socket as one that is to be accelerated (`use vma`): then it is at once, and does not
    /// have to show first that it gains.
    pub fn demands(&self, role: Role, local: Option<SocketAddrV4>, remote: Option<SocketAddrV4>) -> bool {
        find(&self.rules, self.sdp, role, local, remote).is_some_and(|rule| rule.transport == Transport::Vma)
    }

    /// Whether there is a socket of this role, whatever its addresses, that [`ProcessRules::demands`] names.
    pub fn may_demand(&self, role: Role) -> bool {
        self.rules.iter().any(|rule| rule.role == role && rule.transport == Transport::Vma)
    }

    /// Whether no TCP socket can be accelerated whatever its addresses, so that none need be looked at.
    pub fn leaves_all_tcp(&self) -> bool {
        self.leaves_all(Role::TcpServer) && self.leaves_all(Role::TcpClient)
    }

    /// The same for UDP.
    pub fn leaves_all_udp(&self) -> bool {
        self.leaves_all(Role::UdpReceiver) && self.leaves_all(Role::UdpSender)
    }

    /// Adds a `use` line before all others, as the extra API's `add_conf_rule` does. A message if it is none.
    pub fn add_first(&mut self, line: &str) -> Result<(), String> {
        match parse::line(line)? {
            Statement::Use(rule, _) => {
                self.rules.insert(0, rule);
                Ok(())
            }
            Statement::Nothing => Err("there is no rule in it".to_owned()),
            Statement::Application { .. } => {
                Err("an application-id decides when a program starts; give a use line".to_owned())
            }
        }
    }

    /// True if an all-covering `os` rule comes before anything that could accelerate.
    fn leaves_all(&self, role: Role) -> bool {
        self.rules
            .iter()
            .filter(|rule| rule.role == role && decides(rule, self.sdp))
            .take_while(|rule| rule.transport == Transport::Os)
            .any(|rule| {
                let second = rule.second.filter(|_| role.has_second());
                rule.first.covers_all() && second.is_none_or(|half| half.covers_all())
            })
    }
}

fn decides(rule: &Rule, sdp: bool) -> bool {
    match rule.transport {
        Transport::Sdp => sdp,
        Transport::Sa => false,
        Transport::Os | Transport::Vma | Transport::Any => true,
    }
}

fn decide(
    rules: &[Rule],
    sdp: bool,
    role: Role,
    local: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
) -> Transport {
    find(rules, sdp, role, local, remote).map_or(Transport::Vma, |rule| rule.transport)
}

/// The first rule that fits.
fn find(
    rules: &[Rule],
    sdp: bool,
    role: Role,
    local: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
) -> Option<&Rule> {
    let (first, second) = if role.remote_first() { (remote, local) } else { (local, remote) };
    let fits = |rule: &&Rule| {
        rule.role == role
            && decides(rule, sdp)
            && rule.first.covers(first)
            && rule.second.filter(|_| role.has_second()).is_none_or(|half| half.covers(second))
    };
    rules.iter().find(fits)
}
