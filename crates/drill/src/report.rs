//! All scripts of a folder, what became of each, and the page that lists them.

use crate::engine::Engine;
use crate::kernel::{self, Kernel};
use crate::play::{Difference, play};
use crate::script::{Script, Side};
use std::fmt::Write;
use std::path::Path;
use std::sync::RwLock;

/// A script and where it was.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// `area/file`, without the ending.
    pub name: String,
    /// What is in it.
    pub script: Script,
}

/// Reads `folder/<area>/<behaviour>.drill`, sorted by name.
pub fn read(folder: &Path) -> Result<Vec<Behaviour>, String> {
    let mut behaviours = Vec::new();
    let entries = |path: &Path| {
        let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(entries.flatten().map(|entry| entry.path()))
    };
    for area in entries(folder)?.filter(|path| path.is_dir()) {
        for file in entries(&area)?.filter(|path| path.extension().is_some_and(|ending| ending == "drill")) {
            let text =
                std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let script = Script::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            let part = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            behaviours.push(Behaviour { name: format!("{}/{}", part(&area), part(&file)), script });
        }
    }
    behaviours.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(behaviours)
}

/// Plays on the engine.
pub fn on_engine(script: &Script) -> Result<(), Difference> {
    play_on_engine(script, Side::Engine)
}

/// Whether what the script says of Linux only is true of the engine too: then the declared difference is none.
pub fn difference_is_stale(script: &Script) -> bool {
    script.differs.is_some() && play_on_engine(script, Side::Linux).is_ok()
}

fn play_on_engine(script: &Script, side: Side) -> Result<(), Difference> {
    let mut engine = Engine::new(&script.settings).map_err(broken)?;
    play(script, side, &mut engine)
}

/// How patient each try is on the kernel, and whether no other script plays meanwhile.
const TRIES: [(u32, bool); 9] =
    [(0, false), (0, false), (1, false), (1, false), (1, false), (2, false), (2, true), (2, true), (2, true)];

/// Held for writing by who plays alone.
static PLAYING: RwLock<()> = RwLock::new(());

/// Plays on the kernel. On a busy machine the player comes late to a packet, or the kernel to a timer, which nobody can
/// see: then again, with more patience. What Linux does otherwise it does each time.
pub fn on_kernel(script: &Script) -> Result<(), Difference> {
    let mut outcome = Ok(());
    for (patience, alone) in TRIES {
        let _others = (!alone).then(|| PLAYING.read());
        let _alone = alone.then(|| PLAYING.write());
        outcome = kernel::inside(|| {
            let mut world =
                Kernel::new(&script.settings, patience).map_err(|error| broken(error.to_string()))?;
            play(script, Side::Linux, &mut world)
        })
        .unwrap_or_else(|error| Err(broken(format!("a network namespace: {error}"))));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn broken(what: String) -> Difference {
    Difference { what, trace: String::new() }
}

/// The page `docs/conformance.md`.
pub fn page(behaviours: &[Behaviour]) -> String {
    let differing = behaviours.iter().filter(|behaviour| behaviour.script.differs.is_some()).count();
    let mut page = String::from(HEAD);
    let same = behaviours.len() - differing;
    let _ = writeln!(
        page,
        "{} scripts: {same} the same on both sides, {differing} with a difference.\n",
        behaviours.len()
    );
    page.push_str("## Differences\n\n");
    for behaviour in behaviours {
        if let Some(reason) = &behaviour.script.differs {
            let _ = writeln!(page, "- **{}** ({}): {reason}", behaviour.script.title, behaviour.name);
        }
    }
    page.push_str("\n## All scripts\n\n| Script | Behaviour | Engine |\n|---|---|---|\n");
    for behaviour in behaviours {
        let verdict = if behaviour.script.differs.is_some() { "differs" } else { "as Linux" };
        let title = behaviour.script.title.replace('|', "\\|");
        let _ = writeln!(page, "| {} | {title} | {verdict} |", behaviour.name);
    }
    page
}

const HEAD: &str = "# Conformance with Linux's TCP

Generated from `tests/drill` by `cargo test -p drill`; do not edit.

Each script is a list of packets and system calls with what must follow. The test plays it on Linux, with real sockets
in a network namespace, and on the engine. It fails where one of them does otherwise than written and the script does
not say that, and why, and where a difference that a script declares is none any more. The language is described in
`crates/drill/src/script.rs`.

";
