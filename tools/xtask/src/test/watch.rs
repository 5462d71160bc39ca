//! A command whose output is followed line by line, and which cannot stand still: whoever says nothing for long is
//! ended, and what it leaves behind is, too. Otherwise one test that hangs takes the results of all others with it.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rig::{Context, Mark, Marked, Result};

/// Tests that have printed nothing for so long stand still. The longest silence of a good run is that of a single test
/// of some 100 s; a machine may be four times as slow.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(420);

/// From SIGTERM to SIGKILL: the rig deletes its namespaces meanwhile.
const PARTING: Duration = Duration::from_secs(5);

/// A command that has ended may have left others with its standard output: nobody waits for them longer.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often one looks whether the command has ended.
const INTERVAL: Duration = Duration::from_millis(100);

/// What a followed command tells.
pub(crate) enum Said<'a> {
    /// A whole line, without its end.
    Line(&'a str),
    /// Nothing came for too long; these are ended now.
    StandsStill { after: &'a str, who: &'a [Marked] },
}

/// Runs `command` to its end; silence of the length `standstill` ends what it waits for. Returns how it ended, and
/// which processes it had left behind, which are ended.
pub(crate) fn follow(
    command: &mut Command,
    standstill: Duration,
    mut listener: impl FnMut(Said<'_>),
) -> Result<(ExitStatus, Vec<Marked>)> {
    let mark = Mark::default();
    mark.put_on(command);
    let (mut child, chunks) = start(command)?;
    let mut text = Text::default();
    let mut heard = Instant::now();
    let mut ended: Option<ExitStatus> = None;
    loop {
        match chunks.recv_timeout(INTERVAL) {
            Ok(chunk) => {
                heard = Instant::now();
                text.add(&chunk, &mut listener);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ended.is_some() && heard.elapsed() > LAST_WORDS => break,
            Err(RecvTimeoutError::Timeout) if heard.elapsed() > standstill => {
                let who = besides(&child, &mark);
                listener(Said::StandsStill { after: &text.begun(), who: &who });
                end(&child, &mark);
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() {
            ended = child.try_wait().context("wait")?;
            heard = if ended.is_some() { Instant::now() } else { heard };
        }
    }
    text.end(&mut listener);
    let status = child.wait().context("wait")?;
    let left = mark.processes();
    left.iter().for_each(Marked::kill);
    Ok((status, left))
}

/// The command runs; what it and its children print comes in pieces.
fn start(command: &mut Command) -> Result<(Child, Receiver<Vec<u8>>)> {
    let (mut reader, writer) = std::io::pipe().context("pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("pipe")?).stderr(writer);
    let child = command.spawn().context("start")?;
    // The command holds the pipe's writing ends; without this the reader would never see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, chunks) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut chunk) {
            if sender.send(chunk[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    Ok((child, chunks))
}

/// All that the command started and that runs, but for itself: it goes on with what is next.
fn besides(child: &Child, mark: &Mark) -> Vec<Marked> {
    mark.processes().into_iter().filter(|one| one.pid() != child.id()).collect()
}

fn end(child: &Child, mark: &Mark) {
    besides(child, mark).iter().for_each(Marked::terminate);
    std::thread::sleep(PARTING);
    besides(child, mark).iter().for_each(Marked::kill);
}

/// Bytes that become lines.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn add(&mut self, chunk: &[u8], listener: &mut impl FnMut(Said<'_>)) {
        self.0.extend_from_slice(chunk);
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            listener(Said::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])));
        }
    }

    fn begun(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// The last line may have no end.
    fn end(self, listener: &mut impl FnMut(Said<'_>)) {
        if !self.0.is_empty() {
            listener(Said::Line(&self.begun()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_within(standstill: Duration, script: &str) -> (Vec<String>, ExitStatus, Vec<Marked>) {
        let mut lines = Vec::new();
        let (status, left) = follow(Command::new("sh").args(["-c", script]), standstill, |said| match said {
            Said::Line(line) => lines.push(line.to_owned()),
            Said::StandsStill { after, who } => lines.push(format!("after {after}: {}", who.len())),
        })
        .unwrap();
        (lines, status, left)
    }

    fn lines(script: &str) -> (Vec<String>, ExitStatus, Vec<Marked>) {
        lines_within(STANDSTILL, script)
    }

    #[test]
    fn who_stands_still_is_ended_and_the_command_goes_on() {
        let (lines, status, left) =
            lines_within(Duration::from_secs(1), "echo one; printf 'test '; sleep 1000; echo; echo two");
        assert_eq!(lines[..2], ["one", "after test : 1"]);
        assert_eq!(lines.last().map(String::as_str), Some("two"));
        assert!(status.success() && left.is_empty());
    }

    #[test]
    fn lines_of_both_outputs_come_whole() {
        let (lines, status, left) = lines("echo one; printf two; printf three >&2");
        assert_eq!(
            (lines.as_slice(), status.success()),
            (&["one".to_owned(), "twothree".to_owned()][..], true)
        );
        assert!(left.is_empty());
    }

    #[test]
    fn who_is_left_behind_with_the_output_is_named_and_ended() {
        let (lines, _, left) = lines("sleep 1000 & echo done");
        assert_eq!(lines, ["done"]);
        assert_eq!(left.len(), 1);
        rig::eventually("its end", || {
            !std::path::Path::new(&format!("/proc/{}/exe", left[0].pid())).exists()
        });
    }
}
