//! Two hosts, two links, eight parties that talk to each other while everything around them changes; afterwards all is
//! as before: transfers succeed, nothing has grown, every frame is accounted for, no program is on an interface.
//!
//! `SIDESTEP_SOAK_SECONDS` is how long things change (10 by default; `cargo x soak --minutes N` sets it),
//! `SIDESTEP_SOAK_SEED` which things: printed with every run.

mod faults;
mod party;

use std::time::{Duration, Instant};

use faults::Faults;
use party::{Crew, Mode, Remains};
use rig::{Options, TwoHosts};
use tests::{World, compile, world};

/// splitmix64: the choices of a run.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % limit
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A second link between the hosts: the parties that are killed live on it, since one process at a time has an
/// interface.
fn second_link(hosts: &TwoHosts) {
    let (left, right) = (&hosts.left.namespace, &hosts.right.namespace);
    left.ip(&format!("link add net1 type veth peer name net1 netns {}", right.name())).unwrap();
    for (host, address) in [(left, "10.77.2.1/24"), (right, "10.77.2.2/24")] {
        host.ip("link set net1 up").unwrap();
        host.ip(&format!("address add {address} dev net1")).unwrap();
    }
}

#[test]
fn everything_recovers_and_nothing_grows_when_all_around_changes() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    second_link(hosts);
    let seconds = number("SIDESTEP_SOAK_SECONDS").unwrap_or(10);
    let seed = number("SIDESTEP_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("soak: seed {seed}, {seconds} s");
    let program = compile("apps/soak.c").unwrap();
    let mut choices = Choices(seed);
    let mut crew = Crew::start(hosts, library, program.path(), seed);

    crew.spend(Mode::Strict, Duration::from_secs(3));
    let before = crew.at_rest();
    crew.tell(Mode::Storm);
    let mut faults = Faults::new(hosts);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if choices.below(6) == 0 {
            crew.kill_one(&mut choices);
        } else {
            faults.one(&mut choices);
        }
        crew.look();
        std::thread::sleep(Duration::from_millis(choices.below(400)));
    }
    faults.undo();
    // Neighbours that did not answer are asked again, and so are connections that were just begun.
    std::thread::sleep(Duration::from_secs(3));
    crew.spend(Mode::Strict, Duration::from_secs(3));
    let after = crew.at_rest();
    Remains::compare(&before, &after);
    crew.end();
    for host in [&hosts.left, &hosts.right] {
        let shown = host.namespace.ip("link show").unwrap();
        assert!(!shown.contains("prog/xdp"), "a program is still attached: {shown}");
    }
}
