//! What a host, a wire and a side of a conversation are like, drawn by chance. The order of draws is what a seed means:
//! it stays as it is.

use super::{HostPlan, MS, SECOND, Swarm};
use crate::app::talker::{self, Ending};
use crate::chance::Chance;
use crate::link::Faults;
use stack::Duration;
use stack::tcp::{Congestion, Ecn, MtuProbes, MtuProbing, Options, Settings};

pub(super) fn endings(c: &mut Chance, swarm: &Swarm) -> [Ending; 2] {
    if swarm.rude && c.one_in(2) {
        let mut one = || match c.below(6) {
            0 => Ending::Abrupt,
            1 => Ending::Reset(c.magnitude(1, 100_000)),
            2 => Ending::Sated(c.magnitude(1, 100_000)),
            _ => Ending::Polite,
        };
        return [one(), one()];
    }
    match c.below(4) {
        0 => [Ending::Late, Ending::Polite],
        1 => [Ending::Polite, Ending::Late],
        _ => [Ending::Polite, Ending::Polite],
    }
}

pub(super) fn talk(c: &mut Chance, swarm: &Swarm, ending: Ending) -> talker::Plan {
    let bytes = match c.below(8) {
        0 => 0,
        1 => c.magnitude(1, 300_000),
        _ => c.magnitude(1, 20_000),
    };
    let lazy = |c: &mut Chance| if swarm.lazy && c.one_in(2) { c.within(1, 20) } else { 0 };
    let mut options = Options {
        nodelay: c.one_in(2),
        cork: c.one_in(16),
        quickack: c.one_in(8),
        congestion: c.one_of(&[Congestion::Cubic, Congestion::Cubic, Congestion::NewReno, Congestion::None]),
        ..Options::default()
    };
    if swarm.small_buffers {
        options.receive_buffer = c.one_in(2).then(|| c.magnitude(2304, 65536) as u32);
        options.send_buffer = c.one_in(2).then(|| c.magnitude(4608, 65536) as u32);
    }
    if c.one_in(8) {
        options.mss_max = c.within(88, 1460) as u16;
    }
    talker::Plan {
        bytes,
        write_max: c.magnitude(1, 65536).max(bytes / 64).max(1),
        read_max: c.magnitude(1, 65536).max(bytes / 64).max(1),
        write_lazy: lazy(c),
        read_lazy: lazy(c),
        rest_max: c.magnitude(MS, 300 * MS),
        pushes: c.one_in(3),
        patient: false,
        urgent: 0,
        move_lazy: 1,
        moves_max: 0,
        away_max: 0,
        ending,
        options,
    }
}

pub(super) fn host(c: &mut Chance, swarm: &Swarm, heals_at: u64) -> HostPlan {
    let no = |c: &mut Chance| swarm.no_options && c.one_in(2);
    HostPlan {
        mtu: if c.one_in(8) { c.one_of(&[576, 1280, 9000]) } else { 1500 },
        attached_max: c.magnitude(4, 1024) as u32,
        tx_ring: if swarm.small_ring { c.within(1, 16) as usize } else { 1024 },
        // Not a draw of its own: the worlds of older seeds stay what they were.
        cuts: heals_at / 4 % 2 == 1,
        merge: swarm.merge && c.one_in(2),
        partial: swarm.merge && c.one_in(2),
        chunk: if swarm.chunk { c.within(64, 2048) as usize } else { 0 },
        clock_start: c.magnitude(1, 1 << 50),
        late_max: if c.one_in(2) { 0 } else { c.magnitude(1, 5 * MS) },
        pauses: spans(c, swarm.pause, heals_at, 5 * SECOND),
        mtus: Vec::new(),
        stale_max: 0,
        jumps: match swarm.jump {
            true => {
                let longest = if c.one_in(4) { 3600 * SECOND } else { 5 * SECOND };
                vec![(c.below(heals_at.max(1)), c.magnitude(MS, longest))]
            }
            false => Vec::new(),
        },
        tcp: Settings {
            rmem: [4096, 131_072, 6 << 20],
            wmem: [4096, 16_384, 4 << 20],
            options: Options::default(),
            syn_retries: 6,
            synack_retries: 5,
            retries2: 15,
            fin_timeout: Duration::from_secs(c.within(1, 60)),
            time_wait: Duration::from_secs(60),
            sack: !no(c),
            timestamps: !no(c),
            window_scaling: !no(c),
            window_scale: None,
            // Not a draw of its own: the worlds of older seeds stay what they were.
            ecn: [Ecn::Off, Ecn::Ask, Ecn::Passive, Ecn::Ask][heals_at as usize % 4],
            time_wait_max: 1024,
            orphans_max: 1024,
            orphan_retries: 0,
            syn_rate_max: 0,
            // Not a draw either.
            mtu_probing: MtuProbing {
                when: [MtuProbes::Never, MtuProbes::AfterBlackHole, MtuProbes::Always]
                    [(heals_at / 16 % 3) as usize],
                ..MtuProbing::default()
            },
        },
        up: faults(c, swarm, heals_at),
        down: faults(c, swarm, heals_at),
    }
}

fn spans(c: &mut Chance, on: bool, until: u64, longest: u64) -> Vec<(u64, u64)> {
    if !on || c.one_in(2) {
        return Vec::new();
    }
    let from = c.below(until.max(1));
    vec![(from, (from + c.magnitude(MS, longest)).min(until))]
}

fn faults(c: &mut Chance, swarm: &Swarm, heals_at: u64) -> Faults {
    let some = |on: bool, c: &mut Chance, most: f64| match on && c.one_in(2) {
        true => most * c.magnitude(1, 1000) as f64 / 1000.0,
        false => 0.0,
    };
    Faults {
        delay: c.magnitude(1000, 50 * MS),
        jitter: if swarm.jitter { c.magnitude(1, 20 * MS) } else { 0 },
        longer: Vec::new(),
        rate_bps: if swarm.rate { c.magnitude(1_000_000, 1_000_000_000) } else { 0 },
        queue_bytes: c.magnitude(20_000, 1_000_000),
        loss: some(swarm.loss, c, 0.3),
        burst: (swarm.burst && c.one_in(2)).then_some((0.02, 0.25, 0.9)),
        reorder: (some(swarm.reorder, c, 0.3), c.magnitude(1, 100 * MS)),
        duplicate: (some(swarm.duplicate, c, 0.3), c.magnitude(1, 100 * MS)),
        corrupt: some(swarm.corrupt, c, 0.1),
        mark: 0.0,
        outages: spans(c, swarm.outage, heals_at, 10 * SECOND),
        mtus: match swarm.mtu && c.one_in(2) {
            true => vec![(c.below(heals_at.max(1)), c.one_of(&[576, 1000, 1280, 1400, 1492]))],
            false => Vec::new(),
        },
    }
}
