//! What the user chose: order, filters, the row that is looked at. Keys change it; it says which rows are shown.

use super::picture::{Picture, ProgramRow, SocketRow};
use stats::Carrier;
use std::cmp::Ordering;

/// What a key does to the program as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Leave,
}

/// A key, as the terminal told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Program(u32),
    /// Of a program, by its descriptor.
    Socket(u32, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Calls,
    Bytes,
    Moves,
    /// The youngest first.
    Since,
    Name,
}

impl Order {
    pub(super) const ALL: [(Order, &'static str); 5] = [
        (Order::Calls, "calls"),
        (Order::Bytes, "bytes"),
        (Order::Moves, "moves"),
        (Order::Since, "since"),
        (Order::Name, "name"),
    ];

    fn name(self) -> &'static str {
        Order::ALL.iter().find(|(order, _)| *order == self).map_or("", |(_, name)| name)
    }

    fn next(self) -> Order {
        let at = Order::ALL.iter().position(|(order, _)| *order == self).unwrap_or(0);
        Order::ALL[(at + 1) % Order::ALL.len()].0
    }
}

/// Looks are no more often than this, and no less; milliseconds.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) order: Order,
    pub(super) reversed: bool,
    pub(super) carrier: Option<Carrier>,
    pub(super) filter: String,
    /// The filter is being typed.
    typing: bool,
    pub(super) chosen: Option<Row>,
    /// The sockets of this program alone.
    alone: Option<u32>,
    pub(super) helps: bool,
    pub(super) pauses: bool,
    pub(super) interval_ms: u64,
}

impl Choice {
    pub(super) fn new(order: Order, filter: String, interval_ms: u64) -> Choice {
        Choice {
            order,
            reversed: false,
            carrier: None,
            filter: filter.to_lowercase(),
            typing: false,
            chosen: None,
            alone: None,
            helps: false,
            pauses: false,
            interval_ms: interval_ms.clamp(*INTERVAL_MS.start(), *INTERVAL_MS.end()),
        }
    }

    /// The programs that are shown, in order: those that fit the filter, and those of sockets that do.
    pub(super) fn programs<'a>(&self, picture: &'a Picture) -> Vec<&'a ProgramRow> {
        let fits = |row: &&ProgramRow| {
            self.filter.is_empty()
                || self.is_in(&[&row.name, &row.pid.to_string()])
                || picture.sockets.iter().any(|socket| socket.pid == row.pid && self.shows(socket))
        };
        let mut rows: Vec<&ProgramRow> = picture.programs.iter().filter(fits).collect();
        let rates = |row: &ProgramRow| row.rates.unwrap_or_default();
        rows.sort_by(|one, other| {
            let order = match self.order {
                Order::Calls => rates(other).calls.total_cmp(&rates(one).calls),
                Order::Bytes => rates(other).bytes.total_cmp(&rates(one).bytes),
                Order::Moves => other.moves.cmp(&one.moves),
                Order::Since | Order::Name => one.name.cmp(&other.name),
            };
            self.turned(order).then(one.pid.cmp(&other.pid))
        });
        rows
    }

    /// The sockets that are shown, in order.
    pub(super) fn sockets<'a>(&self, picture: &'a Picture) -> Vec<&'a SocketRow> {
        let mut rows: Vec<&SocketRow> = picture.sockets.iter().filter(|row| self.shows(row)).collect();
        let rates = |row: &SocketRow| row.rates.unwrap_or_default();
        rows.sort_by(|one, other| {
            let order = match self.order {
                Order::Calls => rates(other).calls.total_cmp(&rates(one).calls),
                Order::Bytes => rates(other).bytes.total_cmp(&rates(one).bytes),
                Order::Moves => other.moves.cmp(&one.moves),
                Order::Since => one.since_s.total_cmp(&other.since_s),
                Order::Name => one.program.cmp(&other.program),
            };
            self.turned(order).then((one.pid, one.fd).cmp(&(other.pid, other.fd)))
        });
        rows
    }

    fn turned(&self, order: Ordering) -> Ordering {
        if self.reversed { order.reverse() } else { order }
    }

    fn shows(&self, row: &SocketRow) -> bool {
        self.carrier.is_none_or(|carrier| carrier == row.carrier)
            && self.alone.is_none_or(|pid| pid == row.pid)
            && (self.filter.is_empty()
                || self.is_in(&[&row.program, &row.pid.to_string(), &row.local, &row.remote, &row.reason]))
    }

    fn is_in(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| text.to_lowercase().contains(&self.filter))
    }

    /// What is behind the numbers of the first line.
    pub(super) fn describe(&self) -> String {
        let mut out = format!("; by {}{}", self.order.name(), if self.reversed { ", reversed" } else { "" });
        if let Some(name) = self.carrier.and_then(Carrier::name) {
            out += &format!("; {name} alone");
        }
        if let Some(pid) = self.alone {
            out += &format!("; of {pid}");
        }
        if !self.filter.is_empty() {
            out += &format!("; with \"{}\"", self.filter);
        }
        out += if self.pauses { "; stands still" } else { "" };
        out
    }

    /// The last line.
    pub(super) fn prompt(&self) -> String {
        if self.typing {
            return format!(" /{}_", self.filter);
        }
        let every = self.interval_ms as f64 / 1000.0;
        format!(" ? keys  q leave  s sort  r reverse  c carrier  / filter  Enter one  every {every} s")
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: Key, picture: &Picture) -> Step {
        if key == Key::Interrupt {
            return Step::Leave;
        }
        if self.typing {
            self.type_key(key);
            return Step::Stay;
        }
        if std::mem::take(&mut self.helps) {
            return Step::Stay;
        }
        match key {
            Key::Letter('q') | Key::Escape => return Step::Leave,
            Key::Letter('s') => self.order = self.order.next(),
            Key::Letter('r') => self.reversed = !self.reversed,
            Key::Letter('c') => {
                self.carrier = match self.carrier {
                    None => Some(Carrier::Wire),
                    Some(Carrier::Wire) => Some(Carrier::Memory),
                    Some(Carrier::Memory) => Some(Carrier::Kernel),
                    Some(_) => None,
                }
            }
            Key::Letter('/') => {
                self.filter.clear();
                self.typing = true;
            }
            Key::Letter('?' | 'h') => self.helps = true,
            Key::Letter(' ') => self.pauses = !self.pauses,
            Key::Letter('+') => self.every(self.interval_ms / 2),
            Key::Letter('-') => self.every(self.interval_ms * 2),
            Key::Up | Key::Letter('k') => self.choose(picture, -1),
            Key::Down | Key::Letter('j') => self.choose(picture, 1),
            Key::PageUp => self.choose(picture, -10),
            Key::PageDown => self.choose(picture, 10),
            Key::Enter => {
                let pid = match self.chosen {
                    Some(Row::Program(pid) | Row::Socket(pid, _)) => Some(pid),
                    None => None,
                };
                self.alone = if self.alone.is_some() { None } else { pid };
            }
            Key::Letter(_) | Key::Backspace | Key::Interrupt => {}
        }
        Step::Stay
    }

    fn type_key(&mut self, key: Key) {
        match key {
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => _ = self.filter.pop(),
            Key::Letter(letter) => self.filter.extend(letter.to_lowercase()),
            _ => {}
        }
    }

    fn every(&mut self, ms: u64) {
        self.interval_ms = ms.clamp(*INTERVAL_MS.start(), *INTERVAL_MS.end());
    }

    /// Goes so many rows down: programs first, then sockets.
    fn choose(&mut self, picture: &Picture, by: isize) {
        let programs = self.programs(picture).into_iter().map(|row| Row::Program(row.pid));
        let sockets = self.sockets(picture).into_iter().map(|row| Row::Socket(row.pid, row.fd));
        let rows: Vec<Row> = programs.chain(sockets).collect();
        let at = self.chosen.and_then(|chosen| rows.iter().position(|row| *row == chosen));
        let to = match at {
            Some(at) => at.saturating_add_signed(by).min(rows.len() - 1),
            None => 0,
        };
        self.chosen = rows.get(to).copied();
    }
}
