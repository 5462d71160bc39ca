//! Two hosts with `middlebox` between them: a wire that delays, loses, reorders, limits.
//!
//! ```text
//!   left 10.77.1.1/24  net0 ── left  middlebox  right ── net0  10.77.1.2/24 right
//! ```

use std::path::Path;

use crate::two_hosts::{INTERFACE, Options, TwoHosts, host, join};
use crate::{Namespace, PATIENCE, Program, Result, Running};

/// Two hosts and the box between them, which bridges nothing until [`BadWire::begin`].
#[derive(Debug)]
pub struct BadWire {
    /// The ends, in one network.
    pub hosts: TwoHosts,
    middle: Namespace,
    running: Option<Running>,
}

impl BadWire {
    /// Builds it. Needs root; see [`crate::requirements`].
    pub fn new(options: &Options) -> Result<BadWire> {
        crate::on_signals();
        crate::remove_leftovers();
        let left = host("left", [10, 77, 1, 1].into(), 0)?;
        let right = host("right", [10, 77, 1, 2].into(), 1)?;
        let middle = Namespace::create("box")?;
        for (end, port) in [(&left, "left"), (&right, "right")] {
            join(options, (&end.namespace, INTERFACE), (&middle, port))?;
            // Without an address of its own: what the box's kernel would say is not on a wire.
            middle.ip(&format!("link set {port} up mtu {} addrgenmode none", options.mtu))?;
            end.configure(options)?;
        }
        Ok(BadWire { hosts: TwoHosts { left, right, router: None }, middle, running: None })
    }

    /// Bridges from now on, with the faults that `words` say (`middlebox --help`); ends what bridged before.
    pub fn begin(&mut self, middlebox: &Path, words: &str) -> Result<()> {
        self.end()?;
        let program = Program::new(&self.middle, middlebox).words("--left left --right right").words(words);
        let mut running = program.start()?;
        running.wait_until("word that it is ready", PATIENCE, |middlebox| {
            middlebox.stderr().contains("ready")
        })?;
        self.running = Some(running);
        Ok(())
    }

    /// Ends the bridging; what the box reports.
    pub fn end(&mut self) -> Result<String> {
        let Some(running) = self.running.take() else { return Ok(String::new()) };
        running.signal(libc::SIGTERM)?;
        Ok(running.finish(PATIENCE)?.stdout)
    }
}
