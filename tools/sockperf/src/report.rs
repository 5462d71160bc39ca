//! What people and scripts read. `text` is the original's lines and ours after them; the rest are files.

pub mod csv;
pub mod full_log;
pub mod html;
pub mod json;
pub mod outputs;
pub mod progress;
pub mod text;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static COLOR: AtomicBool = AtomicBool::new(false);
static TO_STDERR: AtomicBool = AtomicBool::new(false);
/// Something of the text could not be written.
static IS_CUT: AtomicBool = AtomicBool::new(false);

/// Decides about colour and where the text goes. `text_aside` sends it to standard error, because standard
/// output carries JSON or CSV.
pub fn set_up(color: Option<bool>, text_aside: bool) {
    COLOR.store(color.unwrap_or_else(|| std::io::stdout().is_terminal()), Ordering::Relaxed);
    TO_STDERR.store(text_aside, Ordering::Relaxed);
}

/// Writes one line, at once; a closed output is not our failure.
pub fn say(line: &str) {
    let text = format!("{line}\n");
    if TO_STDERR.load(Ordering::Relaxed) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        say_part(&text);
    }
}

/// Writes without ending the line.
pub fn say_part(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
        IS_CUT.store(true, Ordering::Relaxed);
    }
}

/// Whether standard output has not all of it, and somebody reads it: a full disk.
pub fn is_cut() -> bool {
    IS_CUT.load(Ordering::Relaxed)
}

/// `text` in the original's highlight, on terminals.
pub fn bright(text: &str) -> String {
    paint("\x1b[2;35m", text)
}

/// `text` in the original's colour of alarm, on terminals.
pub fn alarm(text: &str) -> String {
    paint("\x1b[0;31m", text)
}

/// `line` without colour, for files.
pub fn plain(line: &str) -> String {
    let mut pieces = line.split('\x1b');
    let first = pieces.next().unwrap_or("").to_string();
    pieces.fold(first, |text, piece| text + piece.split_once('m').map_or(piece, |(_, rest)| rest))
}

fn paint(color: &str, text: &str) -> String {
    if COLOR.load(Ordering::Relaxed) { format!("{color}{text}\x1b[0m") } else { text.to_string() }
}
