//! The command line: what it offers, and clear words about what it does not understand.

use crate::link::Faults;

/// What `middlebox` was asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) seed: u64,
    /// Ends by itself after this many seconds; zero: never.
    pub(crate) seconds: u64,
    pub(crate) json: bool,
    /// Left to right, right to left.
    pub(crate) faults: [Faults; 2],
}

/// Reads the arguments behind the program's name. `Ok(None)`: help was asked for.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { seed: 1, ..Options::default() };
    let mut scope: &[usize] = &[0, 1];
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => options.json = true,
            "--both" => scope = &[0, 1],
            "--left-to-right" => scope = &[0],
            "--right-to-left" => scope = &[1],
            _ => {
                if !NAMES.contains(&name.as_str()) {
                    return Err(format!("{name}: no such option; see middlebox --help"));
                }
                let value = arguments.next().ok_or_else(|| format!("{name} needs a value after it"))?;
                set(&mut options, scope, &name, &value)
                    .map_err(|expected| format!("{name} {value}: expected {expected}"))?;
            }
        }
    }
    for (side, name) in [("--left", &options.left), ("--right", &options.right)] {
        if name.is_empty() {
            return Err(format!(
                "{side} IFACE is missing: the box needs two interfaces; see middlebox --help"
            ));
        }
    }
    if options.left == options.right {
        return Err(format!("--left and --right are both {}: name two interfaces", options.left));
    }
    Ok(Some(options))
}

const NAMES: &[&str] = &[
    "--left",
    "--right",
    "--seed",
    "--seconds",
    "--delay",
    "--jitter",
    "--rate",
    "--queue",
    "--loss",
    "--burst",
    "--lose-every",
    "--lose-frames",
    "--reorder",
    "--duplicate",
    "--corrupt",
];

fn set(options: &mut Options, scope: &[usize], name: &str, value: &str) -> Result<(), &'static str> {
    match name {
        "--left" => options.left = value.to_string(),
        "--right" => options.right = value.to_string(),
        "--seed" => options.seed = whole(value)?,
        "--seconds" => options.seconds = whole(value)?,
        _ => {
            for direction in scope {
                set_fault(&mut options.faults[*direction], name, value)?;
            }
        }
    }
    Ok(())
}

fn set_fault(faults: &mut Faults, name: &str, value: &str) -> Result<(), &'static str> {
    match name {
        "--delay" => faults.delay_ns = span(value)?,
        "--jitter" => faults.jitter_ns = span(value)?,
        "--rate" => faults.rate_bps = rate(value)?,
        "--queue" => faults.queue_bytes = bytes(value)?,
        "--loss" => faults.loss = percent(value)?,
        "--burst" => faults.burst = Some(burst(value)?),
        "--lose-every" => faults.lose_every = whole(value)?,
        "--lose-frames" => {
            faults.lose_frames = value.split(',').map(whole).collect::<Result<_, _>>()?;
        }
        "--reorder" => {
            let (p, by) = value.split_once(',').ok_or("a percentage and a time, as 1%,5ms")?;
            faults.reorder = percent(p)?;
            faults.reorder_by_ns = span(by)?;
        }
        "--duplicate" => faults.duplicate = percent(value)?,
        "--corrupt" => faults.corrupt = percent(value)?,
        _ => return Err("an option of a direction"),
    }
    Ok(())
}

fn whole(value: &str) -> Result<u64, &'static str> {
    value.parse().map_err(|_| "a whole number")
}

fn percent(value: &str) -> Result<f64, &'static str> {
    const EXPECTED: &str = "a percentage from 0% to 100%, as 0.1%";
    let number: f64 = value.strip_suffix('%').ok_or(EXPECTED)?.parse().map_err(|_| EXPECTED)?;
    if (0.0..=100.0).contains(&number) { Ok(number / 100.0) } else { Err(EXPECTED) }
}

fn burst(value: &str) -> Result<(f64, f64, f64), &'static str> {
    let parts: Vec<f64> = value.split(',').map(percent).collect::<Result<_, _>>()?;
    match parts[..] {
        [begin, end] => Ok((begin, end, 1.0)),
        [begin, end, loss] => Ok((begin, end, loss)),
        _ => Err("BEGIN,END[,LOSS] in percent, as 0.5%,25%"),
    }
}

/// A number with one of `units`.
fn scaled(value: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (suffix, factor) = units.iter().find(|(suffix, _)| value.ends_with(suffix))?;
    let number: f64 = value.strip_suffix(suffix)?.parse().ok()?;
    (number >= 0.0 && number * (*factor as f64) < 1e18).then_some((number * *factor as f64) as u64)
}

fn span(value: &str) -> Result<u64, &'static str> {
    scaled(value, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)])
        .ok_or("a time with its unit, as 20ms (ns, us, ms, s)")
}

fn rate(value: &str) -> Result<u64, &'static str> {
    match scaled(value, &[("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)]) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err("a rate with its unit, as 100mbit (kbit, mbit, gbit)"),
    }
}

fn bytes(value: &str) -> Result<u64, &'static str> {
    scaled(value, &[("k", 1 << 10), ("m", 1 << 20), ("", 1)])
        .filter(|bytes| *bytes >= 1514)
        .ok_or("at least one frame in bytes, as 64k (nothing, k, m)")
}

/// What `--help` prints.
pub(crate) const HELP: &str = "\
middlebox: a wire with faults between two interfaces

It bridges Ethernet frames between two interfaces, both ways, and does to them what bad networks do. Everything random
follows from the seed: frame n of a direction has the same fate in each run with the same seed.

  middlebox --left IFACE --right IFACE [options]      needs CAP_NET_RAW; SIGTERM or SIGINT ends it

Once it bridges it says `middlebox: ready` on standard error. At the end it reports what it did.

  --seed N              where chance begins (1)
  --seconds N           end after N seconds
  --json                report on standard output as one JSON object
  --version             print the version

What befalls frames, in both directions unless one of these stands before it:
  --left-to-right, --right-to-left, --both

  --delay TIME          each frame takes TIME (20ms)
  --jitter TIME         and up to TIME more, at random; order is kept
  --rate RATE           frames leave one after the other at RATE (100mbit); bytes count from the Ethernet header on
  --queue BYTES         what may wait for --rate; more is lost (256k; k and m are powers of 1024)
  --loss P              each frame is lost with probability P (0.1%)
  --burst B,E[,L]       bursts: begin with probability B per frame, end with E, lose L of the frames (100%) meanwhile;
                        0.5%,25% loses about 2 % in bursts of four (Gilbert-Elliott)
  --lose-every N        each N-th frame is lost
  --lose-frames N,N,... these are lost, counted from 1
  --reorder P,TIME      with probability P a frame is held back by TIME and others overtake it (1%,5ms)
  --duplicate P         with probability P a frame arrives twice
  --corrupt P           with probability P one bit behind the Ethernet header flips

Only IP frames are lost, doubled or changed, and only they are counted as N; ARP passes with the delay alone.

Offloads: the ends may keep theirs. Super-frames (TSO, UDP GSO) are cut into the packets a wire would carry and partial
checksums are completed before anything else happens. VLAN tags are not carried. Do not give its interfaces addresses.

A rig of two hosts and a bad network between them:

  for ns in a box b; do ip netns add $ns; done
  ip link add eth0 netns a type veth peer name left netns box
  ip link add eth0 netns b type veth peer name right netns box
  ip -n box link set left up addrgenmode none; ip -n box link set right up addrgenmode none
  ip -n a addr add 10.1.0.1/24 dev eth0; ip -n a link set eth0 up
  ip -n b addr add 10.1.0.2/24 dev eth0; ip -n b link set eth0 up
  ip netns exec box middlebox --left left --right right --delay 10ms --left-to-right --loss 1%
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Options>, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn faults_belong_to_the_direction_named_before_them() {
        let o = parsed(
            "--left a --right b --delay 20ms --left-to-right --loss 0.1% --right-to-left --rate 10mbit",
        )
        .unwrap()
        .unwrap();
        assert_eq!(o.faults[0], Faults { delay_ns: 20_000_000, loss: 0.001, ..Faults::default() });
        assert_eq!(o.faults[1], Faults { delay_ns: 20_000_000, rate_bps: 10_000_000, ..Faults::default() });
    }

    #[test]
    fn the_manual_page_and_the_help_have_every_option() {
        let page = include_str!("../../../man/middlebox.1").replace("\\-", "-");
        let flags = ["--version", "--json", "--both", "--left-to-right", "--right-to-left"];
        for name in NAMES.iter().chain(&flags) {
            let stands_in = |text: &str| {
                text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == *name)
            };
            assert!(stands_in(HELP), "--help lacks {name}");
            assert!(stands_in(&page), "man/middlebox.1 lacks {name}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, part) in [
            ("--left a", "--right"),
            ("--left a --right a", "both a"),
            ("--left a --right b --loss 1", "percentage"),
            ("--left a --right b --loss 101%", "percentage"),
            ("--left a --right b --delay 20", "unit"),
            ("--left a --right b --rate 0mbit", "rate"),
            ("--left a --right b --reorder 1%", "1%,5ms"),
            ("--left a --right b --burst 1%", "BEGIN"),
            ("--left a --right b --queue 10", "one frame"),
            ("--left a --right b --wat", "--wat"),
            ("--left", "needs a value"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
