//! What libsdp.so knows in a process: the rules of `libsdp.conf`, and the sockets that the program made as SDP's. The
//! room `sdp` asks it.

use config::sdp::{By, Decision, ProcessRules, Role, Rules};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use logger::Level;

/// Sockets that were made as AF_INET_SDP and neither connect nor listen yet: the newest are remembered.
const ASKED_MAX: usize = 256;

/// What libsdp.so knows in this process.
pub(crate) struct Sdp {
    pub rules: ProcessRules,
    /// Inodes of sockets that were made as AF_INET_SDP; 0: free. Not numbers, as duplicates are the same socket and
    /// those are used again.
    asked: [AtomicU64; ASKED_MAX],
    next: AtomicU32,
}

impl Sdp {
    pub(crate) fn new(rules: &Rules, program: &str) -> Sdp {
        Sdp {
            rules: rules.compile(program),
            asked: [const { AtomicU64::new(0) }; ASKED_MAX],
            next: AtomicU32::new(0),
        }
    }

    /// Whether no socket of this process can be wanted as SDP, unless it asks, and nobody wants to read about it.
    pub(crate) fn rests(&self) -> bool {
        self.rules.leaves_all() && !logger::enabled(Level::Info)
    }

    /// The program made this socket as one of AF_INET_SDP.
    pub(crate) fn asks(&self, fd: i32) {
        if let Ok(known) = sys::identity::identity(fd) {
            let place = self.next.fetch_add(1, Ordering::Relaxed) as usize % ASKED_MAX;
            self.asked[place].store(known.inode, Ordering::Relaxed);
        }
    }

    fn asked(&self, fd: i32) -> bool {
        if self.next.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let inode = sys::identity::identity(fd).map_or(0, |known| known.inode);
        inode != 0 && self.asked.iter().any(|asked| asked.load(Ordering::Relaxed) == inode)
    }

    /// What a socket is to speak, told at the levels of the log.
    pub(crate) fn decide(&self, fd: i32, role: Role, address: SocketAddr) -> Decision {
        if self.asked(fd) {
            return Decision::ASKED;
        }
        let decision = self.rules.decide(role, address);
        let verb = verb(role);
        if logger::enabled(Level::Debug) {
            for line in self.rules.passed_over(decision) {
                let rule = By::Rule(line);
                logger::debug!("fd {fd}: {verb} {address}: {} does not fit", self.rules.reason(rule));
            }
        }
        let by = self.rules.reason(decision.by);
        logger::details!("fd {fd}: {verb} {address}: {} by {by}", decision.wanted.name());
        decision
    }
}

pub(crate) fn verb(role: Role) -> &'static str {
    match role {
        Role::Server => "listen at",
        Role::Client => "connect to",
    }
}
