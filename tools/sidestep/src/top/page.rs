//! What is on the screen, as lines of exactly its width: a pure function of the picture, of what the user chose, and of
//! the size. Programs above, sockets below, what is known of the chosen row, the keys.

use super::choice::{Choice, Row};
use super::picture::{Picture, ProgramRow, Rates, SocketRow};
use stats::Carrier;

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Title,
    Chosen,
    Wire,
    Kernel,
    Faint,
}

/// A line of the screen.
pub(super) type Line = (Style, String);

/// Columns of a screen on which there is room for a socket's own address, too.
const WIDE: usize = 120;
/// Screens below this say so, and nothing else.
const LEAST: (usize, usize) = (40, 7);

/// The whole screen: `height` lines of `width` columns.
pub(super) fn screen(picture: &Picture, choice: &Choice, width: usize, height: usize) -> Vec<Line> {
    let mut lines = if width < LEAST.0 || height < LEAST.1 {
        vec![(Style::Plain, "This window is too small.".to_owned())]
    } else if choice.helps {
        help()
    } else {
        tables(picture, choice, width, height)
    };
    lines.truncate(height);
    lines.resize(height, (Style::Plain, String::new()));
    lines.into_iter().map(|(style, text)| (style, fit(&text, width))).collect()
}

/// All rows, for scripts: nothing is chosen, and nothing is cut.
pub(super) fn whole(picture: &Picture, choice: &Choice, width: usize) -> String {
    let mut lines = vec![heading(picture, choice)];
    lines.push(program_title());
    lines.extend(choice.programs(picture).into_iter().map(program));
    lines.push(String::new());
    lines.push(socket_title(width));
    lines.extend(choice.sockets(picture).into_iter().map(|row| socket(row, width)));
    lines.iter().map(|line| cut(line, width).trim_end().to_owned() + "\n").collect()
}

fn tables(picture: &Picture, choice: &Choice, width: usize, height: usize) -> Vec<Line> {
    let (programs, sockets) = (choice.programs(picture), choice.sockets(picture));
    let mut details = details(picture, choice);
    details.truncate(height.saturating_sub(LEAST.1));
    // Titles, an empty line, the line of keys.
    let room = height.saturating_sub(5 + details.len());
    let for_programs = programs.len().clamp(1, (room / 3).max(1));
    let for_sockets = room.saturating_sub(for_programs);
    let at = |row: Row| programs.iter().position(|one| row == Row::Program(one.pid));
    let chosen = choice.chosen;
    let first = chosen.and_then(at).map_or(0, |at| (at + 1).saturating_sub(for_programs));
    let mut lines = vec![(Style::Title, heading(picture, choice)), (Style::Faint, program_title())];
    let above = programs.iter().skip(first).take(for_programs);
    lines
        .extend(above.map(|row| (style(chosen == Some(Row::Program(row.pid)), Carrier::None), program(row))));
    if programs.is_empty() {
        let what = match picture.programs.is_empty() {
            true => " no program keeps statistics here; sidestep run -- PROGRAM starts one",
            false => " nothing fits the filter",
        };
        lines.push((Style::Plain, what.to_owned()));
    }
    lines.push((Style::Faint, socket_title(width)));
    let at = |row: Row| sockets.iter().position(|one| row == Row::Socket(one.pid, one.fd));
    let first = chosen.and_then(at).map_or(0, |at| (at + 1).saturating_sub(for_sockets));
    let below = sockets.iter().skip(first).take(for_sockets);
    lines.extend(
        below.map(|row| {
            (style(chosen == Some(Row::Socket(row.pid, row.fd)), row.carrier), socket(row, width))
        }),
    );
    lines.resize(height - details.len() - 1, (Style::Plain, String::new()));
    lines.extend(details.into_iter().map(|line| (Style::Plain, line)));
    lines.push((Style::Title, choice.prompt()));
    lines
}

fn style(chosen: bool, carrier: Carrier) -> Style {
    match carrier {
        _ if chosen => Style::Chosen,
        Carrier::Wire | Carrier::Memory => Style::Wire,
        Carrier::Kernel => Style::Kernel,
        Carrier::None => Style::Plain,
    }
}

fn heading(picture: &Picture, choice: &Choice) -> String {
    let sum = |of: fn(&ProgramRow) -> usize| picture.programs.iter().map(of).sum::<usize>();
    format!(
        " {} programs, {} sockets: {} wire, {} memory, {} kernel{}",
        picture.programs.len(),
        picture.sockets.len(),
        sum(|row| row.wire),
        sum(|row| row.memory),
        sum(|row| row.kernel),
        choice.describe(),
    )
}

fn program_title() -> String {
    format!(
        " {:>7} {:<15} {:>5} {:>6} {:>6} {:>5} {:>5} {:>7} {:>7}  {}",
        "PID", "PROGRAM", "WIRE", "MEMORY", "KERNEL", "LEFT", "MOVES", "CALLS/s", "B/s", "WHY NOT"
    )
}

fn program(row: &ProgramRow) -> String {
    if let Some(what) = &row.unreadable {
        return format!(" {:>7} {:<15} {what}", row.pid, cut(&row.name, 15));
    }
    format!(
        " {:>7} {:<15} {:>5} {:>6} {:>6} {:>5} {:>5} {:>7} {:>7}  {}",
        row.pid,
        cut(&row.name, 15),
        row.wire,
        row.memory,
        row.kernel,
        short(row.left as f64),
        short(row.moves as f64),
        rate(row.rates, |rates| rates.calls),
        rate(row.rates, |rates| rates.bytes),
        row.reasons.first().map_or("", |(why, _)| why.text()),
    )
}

fn socket_title(width: usize) -> String {
    let (own, moves) = match width >= WIDE {
        true => (format!("{:<22}", "LOCAL"), " MOVES"),
        false => (String::new(), ""),
    };
    format!(
        " {:>7} {:>5}     {own}{:<21} {:<6} {:>5}{moves} {:>5} {:>5} {}",
        "PID", "FD", "PEER", "BY", "SINCE", "CALLS", "B/s", "WHY"
    )
}

fn socket(row: &SocketRow, width: usize) -> String {
    let (own, peer, moves) = match (width >= WIDE, row.remote.as_str()) {
        (true, peer) => {
            (format!("{:<22}", row.local), peer.to_owned(), format!(" {:>5}", short(row.moves as f64)))
        }
        // The own address says more of a socket without a peer.
        (false, "*:*") => (String::new(), format!("at {}", row.local), String::new()),
        (false, peer) => (String::new(), peer.to_owned(), String::new()),
    };
    format!(
        " {:>7} {:>5} {:<3} {own}{peer:<21} {:<6} {:>5}{moves} {:>5} {:>5} {}",
        row.pid,
        row.fd,
        row.protocol,
        row.carrier.name().unwrap_or("-"),
        if row.carrier == Carrier::None { "-".to_owned() } else { span(row.since_s) },
        rate(row.rates, |rates| rates.calls),
        rate(row.rates, |rates| rates.bytes),
        row.reason,
    )
}

/// All that is known of the chosen row: lines above the keys.
fn details(picture: &Picture, choice: &Choice) -> Vec<String> {
    match choice.chosen {
        Some(Row::Program(pid)) => {
            let Some(row) = picture.programs.iter().find(|row| row.pid == pid) else { return Vec::new() };
            let mut lines = vec![format!(" {} ({pid}), {}", row.name, moves(row.moves))];
            let reasons = row.reasons.iter().take(2);
            lines.extend(reasons.map(|(why, count)| {
                let remedy =
                    if why.remedy().is_empty() { String::new() } else { format!(" -> {}", why.remedy()) };
                format!(" {count} left to the kernel: {}{remedy}", why.text())
            }));
            lines.extend(row.lanes.iter().take(2).map(|lane| format!(" {lane}")));
            lines
        }
        Some(Row::Socket(pid, fd)) => {
            let is_it = |row: &&SocketRow| (row.pid, row.fd) == (pid, fd);
            let Some(row) = picture.sockets.iter().find(is_it) else { return Vec::new() };
            let about = format!(
                " {} ({pid}) fd {fd}: {} {} -> {} {}",
                row.program, row.protocol, row.local, row.remote, row.state
            );
            vec![about, format!(" {}; {}", moves(row.moves), row.reason)]
        }
        None => Vec::new(),
    }
}

fn moves(count: u64) -> String {
    format!("{count} {}", if count == 1 { "move" } else { "moves" })
}

fn help() -> Vec<Line> {
    let lines = [
        " sidestep top: what carries the sockets of running programs",
        "",
        "  up, down, k, j     choose a row; all that is known of it stands at the bottom",
        "  Enter              show the sockets of the chosen program alone; again: of all",
        "  s, r               sort by the next column; the other way round",
        "  c                  show what the wire carries, memory, the kernel, everything",
        "  /                  show rows that contain a text: program, address, reason",
        "  space              stand still, and go on",
        "  +, -               look more often, less often",
        "  q, Esc, Ctrl-C     leave",
        "",
        "  CALLS/s and B/s are both directions together, by whatever carried them.",
        "  LEFT counts sockets that were left to the kernel, ever; what the reasons mean",
        "  stands in /usr/share/doc/sidestep/counters.md.",
        "  Programs notice nothing of being looked at.",
    ];
    lines.into_iter().map(|line| (Style::Plain, line.to_owned())).collect()
}

fn rate(rates: Option<Rates>, of: fn(Rates) -> f64) -> String {
    rates.map_or("-".to_owned(), |rates| short(of(rates)))
}

/// A number in at most five columns: 999, 41.0k, 2.5M.
pub(super) fn short(number: f64) -> String {
    let mut rest = number.max(0.0);
    for unit in ["", "k", "M", "G", "T"] {
        if unit.is_empty() && rest < 999.5 {
            return format!("{rest:.0}");
        }
        if rest < 99.95 && !unit.is_empty() {
            return format!("{rest:.1}{unit}");
        }
        if rest < 999.5 {
            return format!("{rest:.0}{unit}");
        }
        rest /= 1000.0;
    }
    ">999T".to_owned()
}

/// A length of time in at most five columns.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 99.95 => format!("{s:.1}s"),
        s if s < 6000.0 => format!("{:.0}m", s / 60.0),
        s if s < 360_000.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('>');
    out
}

fn fit(text: &str, width: usize) -> String {
    format!("{:<width$}", cut(text, width))
}
