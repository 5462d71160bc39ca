//! Plays a script on one side and compares what follows with what is written.

use crate::packet::{self, Base, Choice, Pattern, Seen};
use crate::script::{Action, Script, Side, Step};
use crate::world::World;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::time::Duration;
use wire::tcp::Flags;

/// Where a side did otherwise than written.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The line, and what happened instead.
    pub what: String,
    /// Everything that happened until then.
    pub trace: String,
}

/// Plays `script` on `world`, whose lines are those of `side`.
pub fn play(script: &Script, side: Side, world: &mut impl World) -> Result<(), Difference> {
    let mut player = Player {
        world,
        bases: HashMap::new(),
        waiting: VecDeque::new(),
        last: Duration::ZERO,
        trace: String::new(),
    };
    for step in script.steps.iter().filter(|step| step.side.is_none_or(|of| of == side)) {
        let outcome = player.step(step);
        outcome.map_err(|wrong| player.difference(step, wrong))?;
    }
    let Some(last) = script.steps.last() else { return Ok(()) };
    player.silent(Duration::ZERO).map_err(|wrong| player.difference(last, wrong))
}

struct Player<'a, W> {
    world: &'a mut W,
    /// By the peer's port.
    bases: HashMap<u16, Base>,
    /// Segments that came and were not looked at.
    waiting: VecDeque<(Duration, Seen)>,
    /// When the step before happened.
    last: Duration,
    trace: String,
}

impl<W: World> Player<'_, W> {
    fn difference(&self, step: &Step, wrong: String) -> Difference {
        let what = format!("line {}: {}: {}", step.line, step.text, wrong);
        Difference { what, trace: self.trace.clone() }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if !step.wait.is_zero() {
            let until = self.world.now() + step.wait;
            self.gather(until)?;
            self.last = until;
        }
        match &step.action {
            Action::Inject(pattern) => {
                let base = self.base(pattern.port);
                self.note_now(&step.text);
                self.last = self.world.now();
                self.world.inject(&pattern.packet(&base));
                Ok(())
            }
            Action::Icmp { kind, code, mtu, seq } => {
                let base = self.base(crate::world::PEER_PORT);
                self.note_now(&step.text);
                self.last = self.world.now();
                self.world.inject(&packet::icmp(*kind, *code, *mtu, seq.wrapping_add(base.host)));
                Ok(())
            }
            Action::Expect(pattern, range) => self.expect(pattern, *range),
            Action::Silent(span) => self.silent(*span),
            Action::Call(words, wanted) => self.call(&step.text, words, wanted.as_deref()),
        }
    }

    fn call(&mut self, text: &str, words: &[String], wanted: Option<&str>) -> Result<(), String> {
        self.last = self.world.now();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = self.world.call(&words)?.to_string();
        self.note_now(&format!("{} = {answer}", text.split(" = ").next().unwrap_or(text)));
        match wanted {
            Some(wanted) if wanted != answer => Err(format!("answered {answer}")),
            _ => Ok(()),
        }
    }

    fn expect(&mut self, pattern: &Pattern, range: Option<(Duration, Duration)>) -> Result<(), String> {
        let tolerance = self.world.tolerance();
        let latest = self.last
            + match range {
                None => tolerance.at_once,
                Some((_, to)) => to.mul_f64(tolerance.late) + tolerance.late_by,
            };
        let Some((when, seen)) = self.next(latest)? else {
            return Err("nothing came".into());
        };
        let base = self.base(seen.port);
        if let Some(why) = pattern.mismatch(&seen, &base) {
            return Err(format!("{why}: {}", seen.show(&base)));
        }
        let after = when.saturating_sub(self.last);
        if let Some((from, _)) = range
            && after < from.mul_f64(tolerance.early)
        {
            return Err(format!("came already after {after:?}"));
        }
        if when > latest {
            return Err(format!("came only after {after:?}"));
        }
        self.last = self.last.max(when);
        Ok(())
    }

    fn silent(&mut self, span: Duration) -> Result<(), String> {
        // What was sent before this line is no less unexpected.
        let until = self.world.now() + span;
        let Some((when, seen)) = self.next(until)? else {
            self.last = until;
            return Ok(());
        };
        let base = self.base(seen.port);
        let after = when.saturating_sub(self.last);
        Err(format!("but {after:?} after the line before came: {}", seen.show(&base)))
    }

    fn next(&mut self, until: Duration) -> Result<Option<(Duration, Seen)>, String> {
        if self.waiting.is_empty() {
            self.take(until)?;
        }
        Ok(self.waiting.pop_front())
    }

    /// Takes what comes until then.
    fn gather(&mut self, until: Duration) -> Result<(), String> {
        while self.take(until)? {}
        Ok(())
    }

    fn take(&mut self, until: Duration) -> Result<bool, String> {
        while let Some((when, bytes)) = self.world.next(until) {
            let bases = &self.bases;
            let Some(seen) = Seen::read(&bytes, |port| bases.get(&port).copied().unwrap_or(Base::of(port)))
            else {
                continue;
            };
            let seen = seen?;
            let base = self.bases.entry(seen.port).or_insert(Base::of(seen.port));
            if seen.flags.has(Flags::SYN) {
                base.host = seen.seq;
            }
            for option in &seen.options {
                if let Choice::Stamps(Some(value), _) = option {
                    base.stamp = *value;
                }
            }
            let shown = seen.show(base);
            self.note(when, &format!("> {shown}"));
            self.waiting.push_back((when, seen));
            return Ok(true);
        }
        Ok(false)
    }

    fn base(&self, port: u16) -> Base {
        self.bases.get(&port).copied().unwrap_or(Base::of(port))
    }

    fn note_now(&mut self, what: &str) {
        let now = self.world.now();
        self.note(now, what);
    }

    fn note(&mut self, when: Duration, what: &str) {
        let _ = writeln!(self.trace, "{:9.4} {what}", when.as_secs_f64());
    }
}

impl Base {
    /// The peer's initial number differs by port; the host's is not known yet.
    fn of(port: u16) -> Base {
        Base { host: 0, peer: u32::from(port).wrapping_mul(700_001), stamp: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    fn outcome(lines: &str) -> Result<(), String> {
        let script = Script::parse(&format!("# A title\nestablished C <mss 1000>\n{lines}")).unwrap();
        let mut engine = Engine::new(&script.settings).unwrap();
        play(&script, Side::Engine, &mut engine).map_err(|difference| difference.what)
    }

    #[test]
    fn what_follows_as_written_is_no_difference() {
        assert_eq!(outcome("call send C 10 = 10\n> P. 1:11 ack 1\n> P. 1:11 ack 1 in 0.1..0.4"), Ok(()));
    }

    #[test]
    fn every_other_thing_is_a_difference() {
        for (lines, said) in [
            ("call send C 10 = 20", "answered 10"),
            ("call send C 10\n> P. 1:12 ack 1", "other sequence numbers"),
            ("call send C 10\n> P. 1:11 ack 2", "another acknowledgment"),
            ("call send C 10\n> F. 1:11 ack 1", "other flags"),
            ("call send C 10\n> P. 1:11 ack 1 win 7", "another window"),
            ("call send C 10\n> P. 1:11 ack 1\n> P. 1:11 ack 1 in 1..2", "came already"),
            ("call send C 10\n> P. 1:11 ack 1\n> P. 1:11 ack 1 in 0..0.1", "nothing came"),
            ("call send C 10\nsilent 1", "came: P. 1:11"),
            ("call send C 10", "came: P. 1:11"),
            ("> . seq 1", "nothing came"),
        ] {
            let what = outcome(lines).unwrap_err();
            assert!(what.contains(said), "{lines}: {what}");
        }
    }
}
