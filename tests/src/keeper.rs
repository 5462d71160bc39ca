//! A keeper for a host of a test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rig::{Finished, Host, Result, Running, eventually};
use serde_json::Value;

use crate::{DEADLINE, built};

/// An ordinary user, whom the keeper admits.
pub const NOBODY: u32 = 65_534;

/// It runs until it is [ended](Keeper::kill), or dropped.
#[derive(Debug)]
pub struct Keeper(Running);

impl Keeper {
    /// In the host's namespace. It admits nobody, and holds interfaces for a second; `more` are options.
    pub fn start(host: &Host, more: &str) -> Keeper {
        let program =
            host.program(built("sidestepd", "sidestepd")).words(&format!("--user {NOBODY} --hold 1 {more}"));
        let keeper = program.any_cpu().start().unwrap();
        eventually("the keeper listens", || keeper.stderr().contains("listens at"));
        Keeper(keeper)
    }

    /// By SIGKILL.
    pub fn kill(self) -> Result<Finished> {
        self.0.kill()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// What it has said.
    pub fn stderr(&self) -> String {
        self.0.stderr()
    }
}

/// What the host's keeper tells, as `sidestep status` has it for user nobody. `None`: there is none.
pub fn status(host: &Host) -> Option<Value> {
    let asked = host.program(sidestep()).words("status --json").any_cpu().user(NOBODY).run(DEADLINE);
    serde_json::from_str(&asked.and_then(Finished::success).ok()?.stdout).ok()
}

/// The interface that the host's keeper holds; null: it holds none.
pub fn interface(host: &Host) -> Value {
    status(host).map_or(Value::Null, |status| status["interfaces"][0].clone())
}

/// Waits until so many lanes are on the interface.
pub fn wait_for_lanes(host: &Host, count: usize) -> Value {
    let has = || interface(host)["lanes"].as_array().map_or(0, Vec::len) == count;
    eventually(&format!("there are {count} lanes"), has);
    interface(host)
}

/// Built once: it is asked again and again.
fn sidestep() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("sidestep", "sidestep"))
}
