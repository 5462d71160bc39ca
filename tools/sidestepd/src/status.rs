//! What the keeper tells of itself, to people who look: `sidestep status`. JSON; a name that is there keeps its
//! meaning.

use crate::clients::Keeper;
use crate::names;
use crate::names::of_user as user_name;
use crate::policy::{program, user_of};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use sys::{Fd, Result};

/// Who asks often is told what others were: counting the flows of an interface takes time, in which nobody gets a lane.
const FRESH: Duration = Duration::from_millis(200);

/// What was told last, and when.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Mutex<Option<(Instant, String)>>);

/// The keeper's state in a file in memory.
pub(crate) fn file(keeper: &Keeper) -> Result<Fd> {
    let mut told = keeper.told().0.lock().unwrap_or_else(PoisonError::into_inner);
    if told.as_ref().is_none_or(|(since, _)| since.elapsed() >= FRESH) {
        let text = names::apart(|| of(keeper).to_string()).ok_or(libc::EAGAIN)?;
        *told = Some((Instant::now(), text));
    }
    let text = told.as_ref().map_or("", |(_, text)| text.as_str());
    let file = sys::memory::sealed_memfd(c"sidestep-status", text.len() as u64)?;
    match sys::fd::write(file.raw(), text.as_bytes())? == text.len() {
        true => Ok(file),
        false => Err(libc::ENOSPC),
    }
}

fn of(keeper: &Keeper) -> Value {
    let held = keeper.held();
    let interfaces: Vec<Value> = held.census().iter().map(|(name, census)| interface(name, census)).collect();
    let clients: Vec<Value> =
        keeper.all_clients().into_iter().map(|(pid, user)| someone(pid, Some(user))).collect();
    let refused = keeper.refusals().latest().into_iter().map(|one| {
        json!({
            "pid": one.process, "uid": one.user, "user": user_name(one.user), "program": one.program,
            "why": one.why, "count": one.count, "seconds_ago": one.last.elapsed().as_secs(),
        })
    });
    json!({
        "keeper": {
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": keeper::protocol::VERSION,
            "pid": sys::process::pid(),
            "socket": keeper.socket(),
            "namespace": keeper::place::namespace().unwrap_or(0),
            "seconds": keeper.began().elapsed().as_secs(),
            "hold_seconds": held.settings().hold.as_secs(),
        },
        "interfaces": interfaces,
        "clients": clients,
        "refused": refused.collect::<Vec<Value>>(),
    })
}

fn interface(name: &str, census: &xdp::Census) -> Value {
    let lanes: Vec<Value> = census
        .lanes
        .iter()
        .map(|lane| {
            let mut value = someone(lane.process, user_of(lane.process));
            value["lane"] = lane.lane.into();
            value["frames"] = lane.frames.into();
            value["flows"] = lane.flows.into();
            value
        })
        .collect();
    json!({
        "name": name,
        "index": census.index,
        "driver": census.driver,
        "mode": if census.native { "native" } else { "generic" },
        "zero_copy": census.zero_copy,
        "queues": census.queues,
        "frames": { "all": census.frames, "free": census.free, "posted": census.posted, "left": census.left },
        "flows": census.flows,
        "lanes": lanes,
    })
}

/// A process; one that is gone has no user.
fn someone(process: i32, user: Option<u32>) -> Value {
    json!({ "pid": process, "uid": user, "user": user.map(user_name), "program": program(process) })
}
