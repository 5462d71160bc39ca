//! The loop: look, print, sleep, until enough or the program ends.

use crate::cli::{Options, View};
use crate::view::{Frame, basic, full, json, multicast, netstat, why};
use crate::{attach, print};
use keeper::client::Error;
use keeper::place::Place;
use stats::{Process, Snapshot, Socket};
use std::time::Duration;
use vma_stats::{Failure, keeper as told};

/// Does what the options say.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match options.view {
        View::Netstat => {
            let mut out = netstat::title();
            for program in attach::all(options)? {
                match program.look() {
                    Ok(now) => out += &netstat::rows(&now, &options.sockets),
                    Err(Failure::Told(text)) => eprintln!("vmastat: {text}"),
                    Err(other) => return Err(other),
                }
            }
            print(&out)
        }
        View::Why => {
            for program in attach::all(options)? {
                match program.look() {
                    Ok(now) => print(&why::text(&now, &options.sockets))?,
                    Err(Failure::Told(text)) => eprintln!("vmastat: {text}"),
                    Err(other) => return Err(other),
                }
            }
            Ok(())
        }
        View::Keeper => {
            let environment = std::env::var("SIDESTEP_KEEPER").unwrap_or_default();
            let Some(text) = told::ask(Place::of(&environment)).map_err(Failure::Told)? else {
                return Err(Failure::Told(Error::Absent.to_string()));
            };
            print(&told::page(&text).map_err(Failure::Told)?)
        }
        _ => watch(options),
    }
}

fn watch(options: &Options) -> Result<(), Failure> {
    let program = attach::find(options)?;
    let mut earlier = program.look()?;
    let words = matches!(options.view, View::Json);
    let told = |text: String| if words { Ok(()) } else { print(&text) };
    told(format!("vmastat: stats for application: {} with pid: {}\n", earlier.program, program.pid))?;
    for wish in &options.wishes {
        program.wish(*wish)?;
    }
    if options.zero {
        program.zero()?;
        earlier = program.look()?;
    }
    if !options.watches {
        return Ok(());
    }
    let mut number = 0;
    loop {
        if options.deltas || number > 0 {
            std::thread::sleep(Duration::from_secs(options.interval_s));
        }
        if !program.lives() {
            return told(format!("vmastat: Process {} ended - exiting\n", program.pid));
        }
        let now = program.look()?;
        print(&shown(options, &now, &earlier, number))?;
        earlier = now;
        number += 1;
        if number == options.cycles {
            return Ok(());
        }
    }
}

/// One look, printed.
fn shown(options: &Options, now: &Snapshot, earlier: &Snapshot, number: u64) -> String {
    let changed = options.deltas.then(|| since(now, earlier));
    let frame = Frame { snapshot: changed.as_ref().unwrap_or(now), options, number };
    match options.view {
        View::Basic | View::Extra => basic::text(&frame),
        View::Full => full::text(&frame),
        View::Multicast => multicast::text(frame.snapshot, &options.sockets),
        View::Json => json::text(frame.snapshot, &options.sockets),
        View::Netstat | View::Why | View::Keeper => String::new(),
    }
}

/// What happened between two looks. A block that went to another socket in between counts from its beginning.
fn since(now: &Snapshot, earlier: &Snapshot) -> Snapshot {
    let socket = |socket: &Socket| {
        let same = |other: &&Socket| {
            (other.fd.value(), other.generation.value()) == (socket.fd.value(), socket.generation.value())
        };
        let then = earlier.sockets.iter().find(same);
        socket.since(then.unwrap_or(&Socket::new()))
    };
    let lane = |number: usize, lane: &stats::Lane| {
        let then = earlier.lanes.iter().find(|(other, _)| *other == number).map(|(_, lane)| lane);
        (number, lane.since(then.unwrap_or(&stats::Lane::new())))
    };
    let left =
        now.left.iter().zip(&earlier.left).map(|((why, now), (_, then))| (*why, now.saturating_sub(*then)));
    now.with(
        Process::since(&now.process, &earlier.process),
        left.collect(),
        now.lanes.iter().map(|(number, block)| lane(*number, block)).collect(),
        now.sockets.iter().map(socket).collect(),
    )
}
