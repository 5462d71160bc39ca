//! The terminal: full screen while it is shown, as it was afterwards, whatever ends the program. Each look rewrites all
//! lines in one write, without clearing first, so that nothing flickers, over ssh neither.

use super::choice::Key;
use super::page::{Line, Style};
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, BeginSynchronizedUpdate, EndSynchronizedUpdate};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, event, execute, queue};
use std::io::{Result, Write, stdout};
use std::time::Duration;

/// The full screen, until it is dropped.
pub(super) struct Screen {
    has_colours: bool,
}

impl Screen {
    pub(super) fn begin() -> Result<Screen> {
        terminal::enable_raw_mode()?;
        std::thread::Builder::new().spawn(end_with_the_terminal)?;
        let screen = Screen { has_colours: std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) };
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Columns and lines; a terminal that does not know them, as on a serial line, says 0.
    pub(super) fn size(&self) -> (usize, usize) {
        let known = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = known.unwrap_or((80, 24));
        (usize::from(width), usize::from(height))
    }

    pub(super) fn show(&self, lines: &[Line]) -> Result<()> {
        let mut out = Vec::new();
        queue!(out, BeginSynchronizedUpdate)?;
        for (number, (style, text)) in lines.iter().enumerate() {
            queue!(out, cursor::MoveTo(0, u16::try_from(number).unwrap_or(u16::MAX)))?;
            self.begin_style(&mut out, *style)?;
            queue!(out, Print(text), SetAttribute(Attribute::Reset), ResetColor)?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        stdout().write_all(&out)?;
        stdout().flush()
    }

    fn begin_style(&self, out: &mut Vec<u8>, style: Style) -> Result<()> {
        match style {
            Style::Plain => Ok(()),
            Style::Title => queue!(out, SetAttribute(Attribute::Reverse)),
            Style::Chosen => queue!(out, SetAttribute(Attribute::Bold), SetAttribute(Attribute::Reverse)),
            Style::Faint => queue!(out, SetAttribute(Attribute::Underlined)),
            Style::Wire if self.has_colours => queue!(out, SetForegroundColor(Color::Green)),
            Style::Kernel if self.has_colours => queue!(out, SetForegroundColor(Color::Yellow)),
            Style::Wire | Style::Kernel => Ok(()),
        }
    }

    /// The next key, if one comes in time; a change of the size ends the wait, too.
    pub(super) fn key(&self, patience: Duration) -> Result<Option<Key>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        let Event::Key(key) = event::read()? else { return Ok(None) };
        if key.kind == KeyEventKind::Release {
            return Ok(None);
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        Ok(match key.code {
            KeyCode::Char('c' | 'd') if with_control => Some(Key::Interrupt),
            KeyCode::Char(letter) if !with_control => Some(Key::Letter(letter)),
            KeyCode::Up => Some(Key::Up),
            KeyCode::Down => Some(Key::Down),
            KeyCode::PageUp => Some(Key::PageUp),
            KeyCode::PageDown => Some(Key::PageDown),
            KeyCode::Enter => Some(Key::Enter),
            KeyCode::Esc => Some(Key::Escape),
            KeyCode::Backspace => Some(Key::Backspace),
            _ => None,
        })
    }
}

/// Reading keys from a terminal that is gone never ends in crossterm, and takes a whole processor: the window was
/// closed, and whoever started us may have ignored SIGHUP (nohup).
fn end_with_the_terminal() {
    let mut input = [sys::poll::pollfd { fd: 0, events: 0, revents: 0 }];
    while input[0].revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0 {
        if !matches!(sys::poll::poll(&mut input, None, None), Ok(_) | Err(libc::EINTR)) {
            return;
        }
    }
    std::process::exit(0);
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
