//! The command line: one table of options for the three dialects in the field (3.7, 3.8 to 3.10, newest).
//!
//! `options` is the table, `lexer` cuts the words as the original does, `apply` checks values and conflicts,
//! `help` prints. Read `options` first.

pub mod apply;
pub mod help;
pub mod lexer;
pub mod options;
pub mod values;

use crate::exit::Failure;
use crate::settings::{Mode, Settings};

/// What the command line asks for.
pub enum Request {
    /// Run with these settings.
    Run(Box<Settings>),
    /// Print this and leave with exit code 0.
    Show(String),
}

/// A usage error: the line to print, and the subcommand whose help explains it.
pub struct Misuse {
    /// What is wrong.
    pub failure: Failure,
    /// The subcommand, when one was recognised.
    pub mode: Option<Mode>,
}

/// Understands the arguments behind the program name.
pub fn parse(arguments: &[String]) -> Result<Request, Misuse> {
    let Some(first) = arguments.first() else { return Ok(Request::Show(help::overview())) };
    match first.as_str() {
        "help" | "h" | "?" | "-h" | "-?" | "--help" | "--usage" => {
            return Ok(Request::Show(
                arguments.get(1).and_then(|a| mode_of(a)).map_or_else(help::overview, help::of),
            ));
        }
        "--version" | "version" => return Ok(Request::Show(help::version())),
        _ => {}
    }
    let Some(mode) = mode_of(first) else {
        let text = format!("'{first}' is not a subcommand");
        return Err(Misuse { failure: Failure::new(crate::exit::Code::Argument, text), mode: None });
    };
    let blame = |failure| Misuse { failure, mode: Some(mode) };
    let given = lexer::cut(mode, &arguments[1..]).map_err(blame)?;
    if given.iter().any(|g| g.option.name() == "help") {
        return Ok(Request::Show(help::of(mode)));
    }
    let settings = apply::settings(mode, &given).map_err(blame)?;
    Ok(Request::Run(Box::new(settings)))
}

fn mode_of(word: &str) -> Option<Mode> {
    help::SUBCOMMANDS.iter().find(|s| s.name == word || s.alias == word).map(|s| s.mode)
}

#[cfg(test)]
mod tests;
