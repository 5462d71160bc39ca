//! What the reader of configuration has to tell the user: values here, written by whoever owns a log.

use crate::choice::TraceLevel;

/// One message about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud.
    pub level: TraceLevel,
    /// One line: what is wrong, where, and what is done about it.
    pub text: String,
}

impl Notice {
    pub(crate) fn warning(text: String) -> Notice {
        Notice { level: TraceLevel::Warning, text }
    }

    pub(crate) fn debug(text: String) -> Notice {
        Notice { level: TraceLevel::Debug, text }
    }
}

/// Whether a reader sees a character: what only joins, marks or turns others would make two words look the same.
fn is_shown(c: char) -> bool {
    let is_hidden = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_hidden
}

/// The user's text as it may stand in a message: no control characters, no more than a line's worth.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String = text.chars().take(LONGEST).map(|c| if is_shown(c) { c } else { '?' }).collect();
    if text.chars().count() > LONGEST {
        shown.push_str("...");
    }
    format!("'{shown}'")
}
