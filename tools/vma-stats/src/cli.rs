//! The options: VMA's, and ours. Read as getopt_long(3) would: `-p 5`, `-p5`, `-Fp5`, `--pid 5`, `--pid=5`, `--pi=5`.

use config::TraceLevel;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Version,
    Run(Options),
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Basic,
    Extra,
    Full,
    Multicast,
    Netstat,
    Why,
    Json,
    Keeper,
}

/// Which program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Any,
    Pid(u32),
    Name(String),
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) which: Which,
    pub(crate) directory: PathBuf,
    pub(crate) keep_dead: bool,
    pub(crate) interval_s: u64,
    /// 0: until the program ends.
    pub(crate) cycles: u64,
    pub(crate) view: View,
    /// Changes per second instead of totals.
    pub(crate) deltas: bool,
    pub(crate) zero: bool,
    pub(crate) wishes: Vec<stats::Wish>,
    /// Ranges of descriptors; empty: all.
    pub(crate) sockets: Vec<(i32, i32)>,
    /// Whether there is anything to print; a wish alone is sent and that is all.
    pub(crate) watches: bool,
    /// Where to serve the counters.
    pub(crate) prometheus: Option<SocketAddr>,
}

/// One option: short and long name, argument, help.
struct Row(char, &'static str, &'static str, &'static str);

/// THE TABLE of options.
const OPTIONS: &[Row] = &[
    Row('p', "pid", "<pid>", "Show the program with this process number"),
    Row('n', "name", "<program>", "Show the program of this name"),
    Row('f', "find_pid", "", "Show the first program found (default)"),
    Row(
        'k',
        "directory",
        "<dir>",
        "Where programs keep their statistics; default VMA_STATS_SHMEM_DIR or /tmp",
    ),
    Row('F', "forbid_clean", "", "Keep statistics files whose program is gone"),
    Row('i', "interval", "<n>", "Print every n seconds; default 1"),
    Row('c', "cycles", "<n>", "Print n times and end; default 0: until the program ends"),
    Row(
        'v',
        "view",
        "<1-5>",
        "1 basic (default), 2 with queues, 3 everything, 4 multicast groups, 5 as netstat",
    ),
    Row('d', "details", "<1|2>", "1 totals (default), 2 changes per second"),
    Row('w', "why", "", "Show what carries each socket, why, and what to do about it"),
    Row('K', "keeper", "", "Show the keeper: its interfaces, programs on them, who was refused and why"),
    Row('j', "json", "", "Print one JSON object per look; once unless -c says otherwise"),
    Row(
        'P',
        "prometheus",
        "<addr:port>",
        "Serve the counters of all programs over HTTP, as Prometheus reads them",
    ),
    Row('z', "zero", "", "Let all counts begin at zero"),
    Row(
        'l',
        "log_level",
        "<level>",
        "Change the program's log level: none ... debug, fine, finer, or VMA's number",
    ),
    Row('S', "fd_dump", "<fd> [level]", "Let the program log the state of a descriptor (0: of all)"),
    Row('D', "details_level", "<0-3>", "Change what precedes the program's log lines"),
    Row('s', "sockets", "<list>", "Show these descriptors only, such as 4-16,1,9"),
    Row('V', "version", "", "Print the version"),
    Row('h', "help", "", "Print this"),
];

/// One line of help for wrong options.
pub(crate) fn usage() -> String {
    "Usage: vma_stats [-p pid] [-v view] [-d details] [-i interval]; vma_stats --help explains all".to_owned()
}

/// The whole help.
pub(crate) fn help() -> String {
    let mut out = String::from(
        "vma_stats: what the accelerated sockets of running programs do\n\n\
         Usage: vma_stats [options]\n\n",
    );
    for Row(short, long, argument, text) in OPTIONS {
        let names = if argument.is_empty() { format!("--{long}") } else { format!("--{long}={argument}") };
        out += &format!("  -{short}, {names:<24} {text}\n");
    }
    out += "\n\
        Which of my sockets are accelerated, and why are the others not?\n    \
            vma_stats --why -n redis-server\n\
        Does a keeper (sidestepd) run here, who has its interfaces, whom did it refuse?\n    \
            vma_stats --keeper\n\
        Where does the time go? Polls that hit, packets and errors per second:\n    \
            vma_stats -d 2 -v 2\n\
        Is something dropped? Look at drop, full and exhausted:\n    \
            vma_stats -v 3 -c 1\n\
        For a script or a dashboard (names as in docs/counters.md):\n    \
            vma_stats --json -p 4711\n    \
            vma_stats --prometheus 9400\n\n\
        In the table, pkt counts datagrams for UDP and calls for TCP; poll% is the share of receives that found\n\
        data while polling. -l, -D and -S need write access to the program's file: the same user, or root.\n\n\
        Exit status: 0 done; 1 wrong options, no such program, or statistics of another version.\n";
    out
}

/// Reads the arguments; the error says what is wrong.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
    let mut draft = Draft::default();
    let mut rest = arguments.iter().map(String::as_str).peekable();
    while let Some(argument) = rest.next() {
        if let Some(long) = argument.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, mut value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let row = long_option(name)?;
            match (row.2.is_empty(), value) {
                (true, Some(_)) => return Err(format!("'--{}' takes no value", row.1)),
                (false, None) => value = rest.next(),
                _ => {}
            }
            draft.take(row, value, &mut rest)?;
            continue;
        }
        let Some(mut cluster) = argument.strip_prefix('-').filter(|cluster| !cluster.is_empty()) else {
            return Err(format!("'{argument}' is no option"));
        };
        while let Some(short) = cluster.chars().next() {
            cluster = &cluster[short.len_utf8()..];
            let short = if short == '?' { 'h' } else { short };
            let row = OPTIONS.iter().find(|row| row.0 == short).ok_or(format!("'-{short}' is no option"))?;
            if row.2.is_empty() {
                draft.take(row, None, &mut rest)?;
            } else {
                let value = if cluster.is_empty() { rest.next() } else { Some(std::mem::take(&mut cluster)) };
                // `-i=5`, as the manual writes it.
                draft.take(row, value.map(|value| value.strip_prefix('=').unwrap_or(value)), &mut rest)?;
                break;
            }
        }
    }
    draft.finish()
}

/// By its full name or an unambiguous beginning.
fn long_option(name: &str) -> Result<&'static Row, String> {
    if let Some(row) = OPTIONS.iter().find(|row| row.1 == name) {
        return Ok(row);
    }
    let mut fitting = OPTIONS.iter().filter(|row| row.1.starts_with(name));
    match (fitting.next(), fitting.next()) {
        (Some(row), None) => Ok(row),
        (Some(one), Some(other)) => Err(format!("'--{name}' may be --{} or --{}", one.1, other.1)),
        _ => Err(format!("'--{name}' is no option")),
    }
}

/// Options as read so far.
#[derive(Default)]
struct Draft {
    other: Option<Command>,
    which: Option<Which>,
    directory: Option<PathBuf>,
    keep_dead: bool,
    interval_s: Option<u64>,
    cycles: Option<u64>,
    view: Option<View>,
    deltas: Option<bool>,
    zero: bool,
    wishes: Vec<stats::Wish>,
    sockets: Vec<(i32, i32)>,
    prometheus: Option<SocketAddr>,
}

impl Draft {
    fn take<'a>(
        &mut self,
        row: &Row,
        value: Option<&str>,
        rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    ) -> Result<(), String> {
        let Row(short, long, argument, _) = row;
        let value = match value {
            Some(value) => value,
            None if argument.is_empty() => "",
            None => return Err(format!("'-{short}' (--{long}) needs {argument}")),
        };
        let wrong = || format!("'-{short}' Invalid {long} val: {value}");
        match short {
            'p' => {
                self.which = Some(Which::Pid(value.parse().ok().filter(|pid| *pid > 0).ok_or_else(wrong)?))
            }
            'n' => self.which = Some(Which::Name(value.to_owned())),
            'f' => self.which = Some(Which::Any),
            'k' => self.directory = Some(vma_stats::place::absolute(Path::new(value))),
            'F' => self.keep_dead = true,
            'i' => {
                self.interval_s =
                    Some(value.parse().ok().filter(|s| (1..=86_400).contains(s)).ok_or_else(wrong)?)
            }
            'c' => self.cycles = Some(value.parse().map_err(|_| wrong())?),
            'v' => {
                self.view = Some(match value {
                    "1" => View::Basic,
                    "2" => View::Extra,
                    "3" => View::Full,
                    "4" => View::Multicast,
                    "5" => View::Netstat,
                    _ => return Err(wrong()),
                });
            }
            'd' => {
                self.deltas =
                    Some(["1", "2"].iter().position(|known| *known == value).ok_or_else(wrong)? == 1)
            }
            'w' => self.view = Some(View::Why),
            'K' => self.view = Some(View::Keeper),
            'j' => self.view = Some(View::Json),
            'P' => self.prometheus = Some(place(value).ok_or_else(wrong)?),
            'z' => self.zero = true,
            'l' => {
                let level = TraceLevel::from_text(value).ok_or_else(wrong)?;
                self.wishes.push(stats::Wish::LogLevel(level.number()));
            }
            'S' => {
                let fd = value.parse().ok().filter(|fd| *fd >= 0).ok_or_else(wrong)?;
                let level = rest.peek().and_then(|next| TraceLevel::from_text(next));
                if level.is_some() {
                    rest.next();
                }
                self.wishes.push(stats::Wish::Dump(fd, level.unwrap_or(TraceLevel::Info).number()));
            }
            'D' => {
                let details = value.parse().ok().filter(|details| *details <= 3).ok_or_else(wrong)?;
                self.wishes.push(stats::Wish::LogDetails(details));
            }
            's' => self.sockets = ranges(value).ok_or_else(wrong)?,
            'V' => self.other = self.other.take().or(Some(Command::Version)),
            _ => self.other = Some(Command::Help),
        }
        Ok(())
    }

    fn finish(self) -> Result<Command, String> {
        if let Some(other) = self.other {
            return Ok(other);
        }
        let view = self.view.unwrap_or(View::Basic);
        // These say it once unless asked for more.
        let once = matches!(view, View::Multicast | View::Netstat | View::Why | View::Json | View::Keeper);
        let asked = self.view.is_some()
            || self.cycles.is_some()
            || self.deltas.is_some()
            || self.interval_s.is_some();
        let from_environment =
            std::env::var_os("VMA_STATS_SHMEM_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Ok(Command::Run(Options {
            which: self.which.unwrap_or(Which::Any),
            directory: self.directory.or(from_environment).unwrap_or_else(|| PathBuf::from("/tmp")),
            keep_dead: self.keep_dead,
            interval_s: self.interval_s.unwrap_or(1),
            cycles: self.cycles.unwrap_or(u64::from(once)),
            view,
            deltas: self.deltas.unwrap_or(false),
            zero: self.zero,
            watches: asked || self.wishes.is_empty() && !self.zero,
            wishes: self.wishes,
            sockets: self.sockets,
            prometheus: self.prometheus,
        }))
    }
}

/// `127.0.0.1:9400`, or a port of this host alone.
fn place(text: &str) -> Option<SocketAddr> {
    let alone = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    text.parse().ok().or_else(|| text.trim_start_matches(':').parse().ok().map(alone))
}

/// `4-16,1,9`.
fn ranges(text: &str) -> Option<Vec<(i32, i32)>> {
    text.split(',')
        .map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (0 <= low && low <= high).then_some((low, high))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Wish;

    fn run(line: &str) -> Options {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments) {
            Ok(Command::Run(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn wrong(line: &str) -> String {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap_err()
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        for line in ["-p 5", "-p5", "--pid 5", "--pid=5", "--pi=5", "-Fp5", "-p=5"] {
            assert_eq!(run(line).which, Which::Pid(5), "{line}");
        }
        assert!(run("-Fp5").keep_dead);
        assert_eq!(run("-n redis -v2 -d 2 -i 3 -c4").view, View::Extra);
        assert_eq!(run("--why").cycles, 1);
        assert_eq!((run("").cycles, run("--json -c 0").cycles), (0, 0));
        assert_eq!(run("-s 4-16,1").sockets, [(4, 16), (1, 1)]);
    }

    #[test]
    fn wishes_alone_print_nothing() {
        let options = run("-l debug -D 3 -S 7 finer");
        assert_eq!(options.wishes, [Wish::LogLevel(5), Wish::LogDetails(3), Wish::Dump(7, 7)]);
        assert!(!options.watches && run("-l 4 -v 1").watches);
        assert!(!run("-z").watches && run("-z -c 1").watches && run("").watches);
        assert_eq!(run("-S 3 -F").wishes, [Wish::Dump(3, 3)]);
    }

    #[test]
    fn wrong_values_are_named_with_their_option() {
        assert_eq!(wrong("-p zero"), "'-p' Invalid pid val: zero");
        assert_eq!(wrong("--view=6"), "'-v' Invalid view val: 6");
        assert_eq!(wrong("-s 9-4"), "'-s' Invalid sockets val: 9-4");
        assert_eq!(wrong("-p"), "'-p' (--pid) needs <pid>");
        assert_eq!(wrong("--de 1"), "'--de' may be --details or --details_level");
        for line in ["-x", "--nope", "stray", "-i 0", "-l loud", "-D 4", "-d 3", "--why=1", "-P here"] {
            assert!(!wrong(line).is_empty());
        }
    }

    #[test]
    fn the_manual_page_has_every_option() {
        let page = include_str!("../../../man/vma_stats.8").replace("\\-", "-");
        for Row(short, long, ..) in OPTIONS {
            let entry = format!("\n.BR -{short} \", \" --{long}");
            assert!(page.contains(&entry), "man/vma_stats.8 lacks --{long}");
        }
    }

    #[test]
    fn help_and_version_are_found_anywhere() {
        for line in ["-h", "-?", "-p 5 --help"] {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&arguments), Ok(Command::Help));
        }
        assert_eq!(parse(&["-V".to_owned()]), Ok(Command::Version));
    }
}
