//! Options of the commands: `--name` and `--name value`, and at most a few plain words.

use rig::{Context, Error, Result};

/// What is left to be understood of a command line.
pub(crate) struct Arguments {
    words: Vec<String>,
}

impl Arguments {
    pub(crate) fn new(words: &[String]) -> Arguments {
        Arguments { words: words.to_vec() }
    }

    /// Whether `--name` was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The word after `--name`.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(None) };
        if at + 1 >= self.words.len() {
            return Err(Error::new(format!("{name} needs a value")));
        }
        self.words.remove(at);
        Ok(Some(self.words.remove(at)))
    }

    /// The number after `--name`.
    pub(crate) fn number_or(&mut self, name: &str, default: u32) -> Result<u32> {
        let Some(word) = self.value(name)? else { return Ok(default) };
        word.parse().context(format_args!("{name} {word:?}"))
    }

    /// The number after `--name`, at least 1.
    pub(crate) fn number(&mut self, name: &str, default: u32) -> Result<u32> {
        let number = self.number_or(name, default)?;
        if number == 0 { Err(Error::new(format!("{name} must be at least 1"))) } else { Ok(number) }
    }

    /// The next word that is not an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let at = self.words.iter().position(|word| !word.starts_with('-'))?;
        Some(self.words.remove(at))
    }

    /// Everything must have been understood by now.
    pub(crate) fn end(self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Error::new(format!("unknown argument {word:?}; cargo x help lists them"))),
        }
    }
}
