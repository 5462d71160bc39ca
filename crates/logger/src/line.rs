//! One line, built in place.

use core::fmt;

/// Bytes of the longest line with its newline, as in VMA; also less than PIPE_BUF, so that lines of several processes
/// do not mix in a pipe.
pub const LINE_MAX: usize = 512;

/// Ends a line that did not fit.
const CUT: &str = "...";
const RESET: &str = "\x1b[0m";

/// A line on the stack. What does not fit is cut off and marked; control characters become `?`, so that no text from
/// outside can forge a line or drive a terminal.
pub struct Line {
    bytes: [u8; LINE_MAX],
    length: usize,
    cut: bool,
    colored: bool,
}

impl Line {
    /// A line that begins with an escape sequence for its colour, or with nothing.
    pub fn new(color: &str) -> Line {
        let mut line = Line { bytes: [0; LINE_MAX], length: 0, cut: false, colored: !color.is_empty() };
        line.append(color.as_bytes());
        line
    }

    /// The whole line with its end.
    pub fn finish(&mut self) -> &[u8] {
        if self.cut {
            self.append(CUT.as_bytes());
        }
        if self.colored {
            self.append(RESET.as_bytes());
        }
        self.append(b"\n");
        &self.bytes[..self.length]
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Room for the end of the line is always kept.
        const ROOM: usize = LINE_MAX - CUT.len() - RESET.len() - 1;
        for character in text.chars() {
            let character = if character.is_control() && character != '\t' { '?' } else { character };
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            if self.cut || self.length + encoded.len() > ROOM {
                self.cut = true;
                return Ok(());
            }
            self.append(encoded);
        }
        Ok(())
    }
}
