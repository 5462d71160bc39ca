//! Hostile peers and strangers. The numbers in comments are those of the checklist of attack classes.

mod blind;
mod closed;
mod floods;
mod peers;

use super::*;
use wire::tcp::{Fields, Flags, OptionsWriter};

/// Numbers of a connection as host 1 would have to know them to speak to host 0.
struct Numbers {
    /// What host 0 expects next, and what it sent last.
    rcv_nxt: u32,
    snd_nxt: u32,
    stamp: u32,
    echo: u32,
}

fn numbers(world: &World, a: SocketId) -> Numbers {
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    Numbers {
        rcv_nxt: tcb.rcv_nxt.0,
        snd_nxt: tcb.snd_nxt.0,
        stamp: tcb.ts_recent,
        echo: tcb.stamp(world.now),
    }
}

/// Sends host 0 a segment that claims to be of host 1's side of the pair, with valid timestamps.
fn inject(
    world: &mut World,
    n: &Numbers,
    seq: u32,
    ack: u32,
    flags: Flags,
    sacks: &[(u32, u32)],
    payload: &[u8],
) {
    let mut options = OptionsWriter::new();
    options.timestamps(n.stamp, n.echo);
    options.sack(sacks);
    let fields = Fields { src: 80, dst: 5000, seq, ack, flags, window: 1000, ..Fields::default() };
    let frame = forge(1, &fields, &options, payload);
    let now = world.now;
    world.hosts[0].receive(now, frame);
}

/// What host 0 has sent since and the wire has not yet taken.
fn answers(world: &mut World) -> Vec<Seen> {
    world.hosts[0].out.frames.drain(..).map(|f| seen(&(Instant::ZERO, 0, f))).collect()
}
