//! The programs that are captured: finds them, tells them what is wished for, and reads their rings. New ones are found
//! as they come: the folder of statistics says when something in it has changed.

use super::whose::{Ends, Sockets};
use capture::{Packet, Reader, Stage, Wish};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use vma_stats::Failure;
use vma_stats::programs::{self, Program};

/// The folder is read again without a reason this often: changes within one tick of the file system's clock have none.
const LOOK: Duration = Duration::from_millis(500);
/// Readers that are silent for ten seconds have left.
const PULSE: Duration = Duration::from_millis(500);

/// Which programs and interfaces are captured, and how.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) folder: PathBuf,
    /// None: all.
    pub(super) pids: Vec<u32>,
    /// None: all.
    pub(super) interfaces: Vec<String>,
    pub(super) snap: u32,
    pub(super) size_log2: u8,
}

/// All programs.
pub(super) struct Programs {
    choice: Choice,
    tapped: BTreeMap<u32, Tapped>,
    /// What was said about programs that cannot be captured.
    told: BTreeMap<u32, String>,
    /// Of those that are gone.
    pub(super) ended: Vec<Told>,
    looked: Option<(Instant, SystemTime)>,
    beaten: Instant,
}

/// What became of one program.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) interfaces: Vec<String>,
    pub(super) packets: u64,
    pub(super) dropped: u64,
}

/// A packet with its place.
pub(super) struct Seen {
    pub(super) packet: Packet,
    pub(super) pid: u32,
    /// Index and name.
    pub(super) interface: (u32, String),
}

struct Tapped {
    program: Program,
    /// The folder of its files, open: by its process's root directory it is reached while that lives alone.
    folder: File,
    /// When the folder of its files had changed last.
    changed: Option<SystemTime>,
    told: Told,
    started_ns: u64,
    wish: Wish,
    /// By the names of their files.
    rings: BTreeMap<String, Ring>,
    sockets: Sockets,
    /// Its process is gone; a ring that it made may not be open yet.
    has_ended: bool,
}

struct Ring {
    reader: Reader,
    is_chosen: bool,
    is_live: bool,
    dropped: u64,
}

impl Programs {
    pub(super) fn new(choice: Choice) -> Programs {
        let (tapped, told, ended) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Programs { choice, tapped, told, ended, looked: None, beaten: Instant::now() }
    }

    /// Looks for programs and rings, if there may be new ones, and says that somebody reads. An error: the folder
    /// cannot be read.
    pub(super) fn attend(&mut self) -> Result<(), String> {
        let changed = changed(&self.choice.folder)
            .map_err(|error| format!("{}: {error}", self.choice.folder.display()))?;
        if self.looked.is_none_or(|(at, then)| then != changed || at.elapsed() > LOOK) {
            self.looked = Some((Instant::now(), changed));
            self.look()?;
        }
        for tapped in self.tapped.values_mut() {
            tapped.look_for_rings(&self.choice.interfaces);
        }
        if self.beaten.elapsed() > PULSE {
            self.beaten = Instant::now();
            for ring in self.tapped.values_mut().flat_map(|tapped| tapped.rings.values_mut()) {
                // One that cannot be written cannot be read either, which `collect` tells.
                let _ = ring.reader.beat();
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        for pid in programs::of(&self.choice.folder, true).map_err(text)? {
            if self.choice.pids.is_empty() || self.choice.pids.contains(&pid) {
                self.tap(pid);
            }
        }
        for (name, pid) in rings(&self.choice.folder) {
            let is_somebodys = self.tapped.values().any(|tapped| tapped.program.place.number == pid);
            if !programs::lives(pid) && !is_somebodys {
                programs::remove_left(&self.choice.folder.join(name));
            }
        }
        Ok(())
    }

    /// Wishes for a program's frames, if that has not been done.
    fn tap(&mut self, pid: u32) {
        if let Some(tapped) = self.tapped.get(&pid) {
            let is_same = |now: stats::Snapshot| now.started_ns == tapped.started_ns;
            if !Program::open(&self.choice.folder, pid)
                .and_then(|program| program.look())
                .is_ok_and(|now| !is_same(now))
            {
                return;
            }
            // exec: another program has the number.
            if let Some(tapped) = self.tapped.remove(&pid) {
                self.ended.push(tapped.told);
            }
        }
        match Tapped::begin(&self.choice, pid) {
            Ok(Some(tapped)) => {
                self.told.remove(&pid);
                self.tapped.insert(pid, tapped);
            }
            // Being made, or ended.
            Ok(None) => {}
            Err(why) => {
                let before = self.told.insert(pid, why.clone());
                if before.as_ref() != Some(&why) {
                    eprintln!("sidestep capture: {}: {why}", shown(pid));
                }
            }
        }
    }

    /// Everything that the rings have. Programs that have ended are taken out.
    pub(super) fn collect(&mut self, mut seen: impl FnMut(Seen)) {
        let mut gone = Vec::new();
        for (pid, tapped) in &mut self.tapped {
            // Asked first: what it wrote before it ended is there.
            let has_ended = !programs::lives(*pid);
            tapped.collect(&mut seen);
            if tapped.has_ended {
                gone.push(*pid);
            } else if has_ended {
                tapped.has_ended = true;
                self.looked = None;
            }
        }
        self.ended.extend(gone.iter().filter_map(|pid| Some(self.tapped.remove(pid)?.told)));
    }

    /// Whose a packet is: the process, and the socket as far as it is known.
    pub(super) fn whose(&mut self, pid: u32, ends: Option<Ends>) -> String {
        let socket = self.tapped.get_mut(&pid).zip(ends);
        let socket = socket.and_then(|(tapped, ends)| tapped.sockets.socket(&tapped.program, ends));
        format!("{}[{pid}]{}", self.name(pid), socket.map_or(String::new(), |socket| format!(" {socket}")))
    }

    /// What a process is called.
    fn name(&self, pid: u32) -> &str {
        let ended = || self.ended.iter().rev().find(|told| told.pid == pid);
        let told = self.tapped.get(&pid).map(|tapped| &tapped.told).or_else(ended);
        told.map_or("?", |told| &told.name)
    }

    /// Nobody is captured, and those who were asked for have been.
    pub(super) fn are_over(&self) -> bool {
        !self.choice.pids.is_empty()
            && self.choice.pids.iter().all(|pid| !self.tapped.contains_key(pid) && !programs::lives(*pid))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tapped.is_empty()
    }

    /// No more frames, and what became of all.
    pub(super) fn end(mut self) -> Vec<Told> {
        for tapped in self.tapped.into_values() {
            // A program that another reader has been given is left to that one.
            if tapped.program.look().is_ok_and(|now| now.capture == tapped.wish.word()) {
                let _ = tapped.program.wish(stats::Wish::Capture(0));
            }
            self.ended.push(tapped.told);
        }
        self.ended
    }
}

impl Told {
    fn shown(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }
}

impl Tapped {
    /// `None`: there is nothing to tap yet, or any more.
    fn begin(choice: &Choice, pid: u32) -> Result<Option<Tapped>, String> {
        let Ok(program) = Program::open(&choice.folder, pid) else { return Ok(None) };
        let now = match program.look() {
            Ok(now) => now,
            Err(_) if program.is_being_made() => return Ok(None),
            Err(failure) => return Err(text(failure)),
        };
        if now.capture_errno != 0 {
            let error = std::io::Error::from_raw_os_error(now.capture_errno as i32);
            return Err(format!("it could make no file for its frames: {error}"));
        }
        if now.capture != 0 {
            return Err("somebody captures it already, or did until a moment ago".to_owned());
        }
        let Ok(folder) = File::open(&program.place.folder) else { return Ok(None) };
        let token = RandomState::new().build_hasher().finish() as u32 | 1;
        let wish = Wish { size_log2: choice.size_log2, snap: choice.snap, token };
        program.wish(stats::Wish::Capture(wish.word())).map_err(text)?;
        let name = now.program.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
        Ok(Some(Tapped {
            program,
            folder,
            changed: None,
            told: Told { pid, name, interfaces: Vec::new(), packets: 0, dropped: 0 },
            started_ns: now.started_ns,
            wish,
            rings: BTreeMap::new(),
            sockets: Sockets::default(),
            has_ended: false,
        }))
    }

    /// Looks at the folder again, where something in it has changed.
    fn look_for_rings(&mut self, interfaces: &[String]) {
        let folder = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        let changed = changed(&folder).ok();
        // A change within one tick of the file system's clock is none; so what is young is looked at again.
        let is_young = |at: SystemTime| at.elapsed().is_ok_and(|age| age < LOOK);
        if changed == self.changed && !changed.is_some_and(is_young) && !self.has_ended {
            return;
        }
        self.changed = changed;
        let number = self.program.place.number;
        for (name, _) in rings(&folder).into_iter().filter(|(_, pid)| *pid == number) {
            self.open(&folder, &name, interfaces);
        }
    }

    /// A ring that the program has made. Its name goes at once, so that nothing is left of it, however we end.
    fn open(&mut self, folder: &Path, name: &str, interfaces: &[String]) {
        if let Err(why) = self.try_open(folder, name, interfaces) {
            let path = self.program.place.folder.join(name);
            eprintln!("sidestep capture: {}: {}: {why}", self.told.shown(), path.display());
        }
    }

    fn try_open(&mut self, folder: &Path, name: &str, interfaces: &[String]) -> Result<(), String> {
        if self.rings.contains_key(name) {
            return Ok(());
        }
        let path = folder.join(name);
        let Some(mut reader) = Reader::open(&path, self.wish).map_err(|why| why.to_string())? else {
            return Ok(());
        };
        let owner = self.program.owner().map_err(|error| error.to_string())?;
        if reader.owner().map_err(|error| error.to_string())? != owner {
            return Err("not the program's own file".to_owned());
        }
        reader.beat().map_err(|why| why.to_string())?;
        let _ = std::fs::remove_file(path);
        let is_chosen = interfaces.is_empty() || interfaces.contains(&reader.name);
        if is_chosen && !self.told.interfaces.contains(&reader.name) {
            self.told.interfaces.push(reader.name.clone());
        }
        self.rings.insert(name.to_owned(), Ring { reader, is_chosen, is_live: false, dropped: 0 });
        Ok(())
    }

    fn collect(&mut self, seen: &mut impl FnMut(Seen)) {
        let (told, mut closed) = (&mut self.told, Vec::new());
        for (name, ring) in &mut self.rings {
            let stage = ring.reader.stage();
            if !ring.is_live && matches!(stage, Ok(Stage::Live)) {
                ring.is_live = true;
                if ring.is_chosen {
                    eprintln!("sidestep capture: {} on {}", told.shown(), ring.reader.name);
                }
            }
            if !ring.is_chosen {
                continue;
            }
            let interface = (ring.reader.interface, ring.reader.name.clone());
            let outcome = ring.reader.take(|packet| {
                told.packets += 1;
                seen(Seen { packet, pid: told.pid, interface: interface.clone() });
            });
            let dropped = ring.reader.dropped().unwrap_or(ring.dropped);
            told.dropped += dropped.saturating_sub(ring.dropped);
            ring.dropped = dropped;
            if let Err(why) = outcome.and(stage.map(|_| ())) {
                eprintln!("sidestep capture: {}: its frames cannot be read: {why}", told.shown());
                closed.push(name.clone());
            } else if matches!(ring.reader.stage(), Ok(Stage::Closed)) {
                closed.push(name.clone());
            }
        }
        closed.iter().for_each(|name| drop(self.rings.remove(name)));
    }
}

fn changed(folder: &Path) -> std::io::Result<SystemTime> {
    std::fs::metadata(folder)?.modified()
}

/// Names of rings in a folder, with the numbers of their processes.
fn rings(folder: &Path) -> Vec<(String, u32)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let known = names.filter_map(|name| {
        let pid = name.strip_prefix(capture::FILE_PREFIX)?.split('.').next()?.parse().ok()?;
        Some((name, pid))
    });
    known.collect()
}

fn shown(pid: u32) -> String {
    format!("{} ({pid})", programs::name(pid).unwrap_or_else(|| "?".to_owned()))
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Told(text) => text,
        Failure::Output(error) => error.to_string(),
    }
}
