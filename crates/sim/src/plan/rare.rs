//! What only some programs and networks do: keepalive, TCP_USER_TIMEOUT, urgent data, interfaces whose MTU changes,
//! routers that mark (ECN), connections that move out of the engine and back, paths that become longer, large window
//! scales, and threads that read the clock before they get hold of the stack. It is drawn from streams of chance of
//! its own, so that the rest of a world stays what it was.

use super::{HostPlan, MS, SECOND, Swarm};
use crate::app::talker;
use crate::chance::Chance;
use stack::Duration;

/// Which of it a world has, and its chance.
pub(super) struct Rare {
    chance: Chance,
    /// Of moves alone.
    moves: Chance,
    /// Of paths that become longer, and of window scales.
    paths: Chance,
    on: On,
}

#[derive(Clone, Copy, Debug, Default)]
struct On {
    keepalive: bool,
    user_timeout: bool,
    urgent: bool,
    mtu_of_host: bool,
    mark: bool,
    stale_clock: bool,
    moves: bool,
    longer: bool,
    scale: bool,
}

impl Rare {
    pub(super) fn new(seed: u64) -> Rare {
        let mut chance = Chance::new(seed, 2);
        let often = chance.within(2, 6);
        let mut some = || chance.one_in(often);
        let on = On {
            keepalive: some(),
            user_timeout: some(),
            urgent: some(),
            mtu_of_host: some(),
            mark: some(),
            stale_clock: some(),
            moves: false,
            longer: false,
            scale: false,
        };
        let mut on = if chance.one_in(4) { On::default() } else { on };
        let mut moves = Chance::new(seed, 4);
        on.moves = moves.one_in(4);
        let mut paths = Chance::new(seed, 5);
        (on.longer, on.scale) = (paths.one_in(6), paths.one_in(4));
        Rare { on, chance, moves, paths }
    }

    /// Nothing of it.
    pub(super) fn none() -> Rare {
        Rare {
            chance: Chance::new(0, 2),
            moves: Chance::new(0, 4),
            paths: Chance::new(0, 5),
            on: On::default(),
        }
    }

    /// No connection moves.
    pub(super) fn stay(&mut self) {
        self.on.moves = false;
    }

    pub(super) fn names(&self) -> String {
        Swarm::names_of(&self.on)
    }

    pub(super) fn change_host(&mut self, host: &mut HostPlan, heals_at: u64) {
        let c = &mut self.chance;
        if self.on.stale_clock && c.one_in(2) {
            host.stale_max = c.magnitude(1000, 5 * MS);
        }
        if self.on.mtu_of_host && c.one_in(2) {
            let one = |c: &mut Chance| (c.below(heals_at.max(1)), c.one_of(&[576, 1000, 1280, 1500, 9000]));
            host.mtus = (0..c.within(1, 4)).map(|_| one(c)).collect();
        }
        for wire in [&mut host.up, &mut host.down] {
            if self.on.mark && c.one_in(2) {
                wire.mark = c.magnitude(1, 1000) as f64 / 2000.0;
            }
        }
        let c = &mut self.paths;
        if self.on.scale && c.one_in(2) {
            host.tcp.window_scale = Some(c.within(0, 14) as u8);
        }
        for wire in [&mut host.up, &mut host.down] {
            if self.on.longer && c.one_in(2) {
                let one = |c: &mut Chance| (c.below(heals_at + 10 * SECOND), c.magnitude(MS, 1000 * MS));
                wire.longer = (0..c.within(1, 2)).map(|_| one(c)).collect();
                wire.longer.sort_unstable();
            }
        }
    }

    /// One that waits for each answer: what it says is measured segment by segment.
    fn talk_in_turn(&mut self, plan: &mut talker::Plan) {
        let c = &mut self.paths;
        if c.one_in(2) {
            plan.patient = true;
            plan.write_max = c.magnitude(1, 500);
            plan.bytes = plan.write_max * c.within(20, 50);
        }
    }

    fn move_often(&mut self, plan: &mut talker::Plan) {
        let c = &mut self.moves;
        if c.one_in(2) {
            plan.moves_max = c.magnitude(1, 300) as u32;
            plan.move_lazy = c.magnitude(1, 64);
            plan.away_max = c.magnitude(1, 5 * MS);
        }
    }

    /// Changes the two sides of a conversation; whether one may give up though nothing is wrong for long.
    pub(super) fn change_conversation(&mut self, plans: &mut [talker::Plan; 2]) -> bool {
        let mut impatient = false;
        for side in 0..2 {
            let c = &mut self.chance;
            let seconds = |c: &mut Chance, low, high| Duration::from_secs(c.within(low, high));
            let options = &mut plans[side].options;
            if self.on.keepalive && c.one_in(2) {
                options.keepalive = true;
                options.keepalive_idle = seconds(c, 1, 60);
                // More probes than a world has time for, or few.
                (options.keepalive_interval, options.keepalive_count) = (seconds(c, 6, 75), 120);
                if c.one_in(3) {
                    (options.keepalive_interval, options.keepalive_count) =
                        (seconds(c, 1, 5), c.within(1, 4) as u8);
                    impatient = true;
                }
            }
            if self.on.user_timeout && c.one_in(2) {
                let hasty = c.one_in(3);
                options.user_timeout = if hasty {
                    Duration::from_nanos(c.magnitude(100 * MS, 20 * SECOND))
                } else {
                    seconds(c, 300, 1000)
                };
                impatient |= hasty;
            }
            if self.on.urgent && c.one_in(2) {
                plans[side].urgent = c.within(2, 20);
                plans[1 - side].options.urgent_inline = c.one_in(2);
            }
        }
        // The position in the stream, by which the ledger follows urgent bytes, begins anew with each move.
        if self.on.moves && plans.iter().all(|plan| plan.urgent == 0) {
            plans.iter_mut().for_each(|plan| self.move_often(plan));
        }
        if self.on.longer {
            plans.iter_mut().for_each(|plan| self.talk_in_turn(plan));
        }
        impatient
    }
}
