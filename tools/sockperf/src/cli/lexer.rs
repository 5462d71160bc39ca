//! Cuts the words of the command line into options and values, by the original's rules.
//!
//! Short: `-o123`, `-o 123`, `-o=123`; flags are not bundled. Long: `--opt 123`, `--opt=123`, exact names. A value in
//! the next word is taken only when that word does not begin with `-`, so negative values need `=`; a lone `-` is a
//! value.

use crate::cli::options::{Argument, OptionSpec, find_long, find_short};
use crate::exit::{Code, Failure, Result};
use crate::settings::Mode;

/// One option as it was given.
pub struct Given {
    /// Its row in the table.
    pub option: &'static OptionSpec,
    /// The spelling used, for messages.
    pub spelling: String,
    /// Its value, if it has one.
    pub value: Option<String>,
}

fn wrong(text: String) -> Failure {
    Failure::new(Code::Argument, text)
}

/// All options of `words`, each at most once.
pub fn cut(mode: Mode, words: &[String]) -> Result<Vec<Given>> {
    let mut given: Vec<Given> = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (option, spelling, attached) = one(mode, word)?;
        let next_is_value = rest.peek().is_some_and(|next| !next.starts_with('-') || *next == "-");
        let value = match option.argument {
            Argument::None => {
                if attached.is_some() {
                    return Err(wrong(format!("'{spelling}' takes no value")));
                }
                None
            }
            Argument::Required(what) => match attached {
                Some(value) => Some(value),
                None if next_is_value => rest.next().cloned(),
                None => {
                    let hint = "a value that begins with '-' must be written with '='";
                    return Err(wrong(format!("'{spelling}' needs <{what}> ({hint})")));
                }
            },
            Argument::Optional(_) => match attached {
                Some(value) => Some(value),
                None if next_is_value => rest.next().cloned(),
                None => None,
            },
        };
        if given.iter().any(|g| std::ptr::eq(g.option, option)) {
            return Err(wrong(format!("'{spelling}' is given twice")));
        }
        given.push(Given { option, spelling, value });
    }
    Ok(given)
}

fn one(mode: Mode, word: &str) -> Result<(&'static OptionSpec, String, Option<String>)> {
    let elsewhere = |spelling: &str| wrong(format!("'{spelling}' is not an option of this subcommand"));
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v.to_string())));
        let option = find_long(mode, name).ok_or_else(|| elsewhere(&format!("--{name}")))?;
        return Ok((option, format!("--{name}"), value));
    }
    let mut letters = word.strip_prefix('-').unwrap_or("").chars();
    let Some(letter) = letters.next() else {
        return Err(wrong(format!(
            "'{word}' is not an option; addresses and files follow one, as in -i {word}"
        )));
    };
    let option = find_short(mode, letter).ok_or_else(|| elsewhere(&format!("-{letter}")))?;
    let tail = letters.as_str();
    let value = match option.argument {
        // The original looks at the first letter only; what follows a flag is silently dropped there.
        Argument::None => None,
        _ if tail.is_empty() => None,
        _ => Some(tail.strip_prefix('=').unwrap_or(tail).to_string()),
    };
    Ok((option, format!("-{letter}"), value))
}
