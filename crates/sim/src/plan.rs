//! What happens in a world, all from its seed. Swarm: each world has a random subset of the faults, so that the ones
//! it has are not drowned by the others.

mod draw;
mod rare;

use self::draw::{endings, host, talk};
use self::rare::Rare;
use crate::app::App;
use crate::app::listener::Listener;
use crate::app::talker::{self, Ending, Talker};
use crate::app::writer::{self, Writer};
use crate::chance::Chance;
use crate::host::address;
use crate::link::Faults;
use stack::Endpoint;
use stack::tcp::Settings;
use stack::udp::MtuDiscover;

/// One host.
#[derive(Clone, Debug)]
pub struct HostPlan {
    pub mtu: u32,
    pub attached_max: u32,
    /// Frames that its transmit ring holds.
    pub tx_ring: usize,
    /// Its card takes packets that it cuts (TSO).
    pub cuts: bool,
    /// Segments of a stream that arrive together are joined.
    pub merge: bool,
    /// Local peers leave checksums to hardware.
    pub partial: bool,
    /// Its card delivers packets in pieces of so many bytes; zero: whole.
    pub chunk: usize,
    pub clock_start: u64,
    /// Timers fire up to so late, ns.
    pub late_max: u64,
    /// It stops from .0 to .1, ns.
    pub pauses: Vec<(u64, u64)>,
    /// At .0 its clock jumps ahead by .1, ns.
    pub jumps: Vec<(u64, u64)>,
    /// At .0 (ns) its interface's MTU becomes .1.
    pub mtus: Vec<(u64, u32)>,
    /// Calls come with a time up to so much earlier, ns.
    pub stale_max: u64,
    pub tcp: Settings,
    pub up: Faults,
    pub down: Faults,
}

/// A world.
pub struct Plan {
    pub seed: u64,
    pub hosts: Vec<HostPlan>,
    /// By host.
    pub apps: Vec<Vec<App>>,
    /// When each application starts, ns; by host.
    pub starts: Vec<Vec<u64>>,
    /// For each conversation, whether it may go wrong.
    pub conversations: Vec<bool>,
    /// Conversations with a listener whose queue may overflow.
    pub crowded: Vec<usize>,
    /// Conversations whose both sides have SO_KEEPALIVE.
    pub kept_alive: Vec<usize>,
    /// Client's and server's address and port by conversation.
    pub places: Vec<[(u32, u16); 2]>,
    /// Server's host, client's endpoint, conversation and the server's part: for the listeners.
    guests: Vec<(usize, Endpoint, usize, talker::Plan)>,
    rare: Rare,
    pub senders: usize,
    pub heals_at: u64,
    /// Routers drop what is too big without a word.
    pub black_hole: bool,
    /// The world may deliver datagrams twice.
    pub doubles: bool,
    /// When an attacker forges a packet, ns.
    pub attacks: Vec<u64>,
    /// The canary: the network changes a byte of a stream and mends the checksum. Such a world must fail.
    pub lies: bool,
    /// Frames that are lost, counted over the whole world from 0.
    pub lose_frames: Vec<u64>,
    pub faults: String,
}

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Which faults a world has.
#[derive(Clone, Copy, Debug, Default)]
struct Swarm {
    jitter: bool,
    rate: bool,
    loss: bool,
    burst: bool,
    reorder: bool,
    duplicate: bool,
    corrupt: bool,
    outage: bool,
    mtu: bool,
    pause: bool,
    jump: bool,
    chunk: bool,
    merge: bool,
    attack: bool,
    small_ring: bool,
    lazy: bool,
    rude: bool,
    small_buffers: bool,
    no_options: bool,
}

impl Swarm {
    fn new(c: &mut Chance) -> Swarm {
        if c.one_in(16) {
            return Swarm::default();
        }
        let often = c.within(2, 6);
        let mut on = || c.one_in(often);
        Swarm {
            jitter: on(),
            rate: on(),
            loss: on(),
            burst: on(),
            reorder: on(),
            duplicate: on(),
            corrupt: on(),
            outage: on(),
            mtu: on(),
            pause: on(),
            jump: on(),
            chunk: on(),
            merge: on(),
            attack: on(),
            small_ring: on(),
            lazy: on(),
            rude: on(),
            small_buffers: on(),
            no_options: on(),
        }
    }
}

impl Swarm {
    /// The faults that are on, for people.
    fn names(&self) -> String {
        Swarm::names_of(self)
    }

    /// The names of what is true in a struct of switches.
    fn names_of(switches: &impl std::fmt::Debug) -> String {
        let all = format!("{switches:?}");
        let words = all.split([' ', ',', '{', '}']).filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let on = words.windows(2).filter(|pair| pair[1] == "true").map(|pair| pair[0].trim_end_matches(':'));
        on.collect::<Vec<_>>().join(" ")
    }
}

/// Which protocols a world speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Udp,
    Tcp,
    Both,
}

impl Scope {
    /// As `--only` names it.
    pub fn named(word: &str) -> Option<Scope> {
        match word {
            "udp" => Some(Scope::Udp),
            "tcp" => Some(Scope::Tcp),
            _ => None,
        }
    }
}

impl Plan {
    /// The world of `seed`.
    pub fn from_seed(seed: u64, scope: Scope) -> Plan {
        let mut c = Chance::new(seed, 1);
        let swarm = Swarm::new(&mut c);
        let count = if c.one_in(4) { c.within(3, 4) } else { 2 } as usize;
        let heals_at = c.magnitude(100 * MS, 20 * SECOND);
        let mut hosts: Vec<HostPlan> = (0..count).map(|_| host(&mut c, &swarm, heals_at)).collect();
        let mut rare = Rare::new(seed);
        hosts.iter_mut().for_each(|host| rare.change_host(host, heals_at));
        let mut plan = Plan {
            seed,
            hosts,
            apps: (0..count).map(|_| Vec::new()).collect(),
            starts: (0..count).map(|_| Vec::new()).collect(),
            conversations: Vec::new(),
            crowded: Vec::new(),
            kept_alive: Vec::new(),
            places: Vec::new(),
            guests: Vec::new(),
            senders: 0,
            heals_at,
            black_hole: swarm.mtu && c.one_in(4),
            doubles: swarm.duplicate,
            attacks: match swarm.attack {
                true => (0..c.magnitude(1, 300)).map(|_| c.below(heals_at)).collect(),
                false => Vec::new(),
            },
            lies: false,
            lose_frames: Vec::new(),
            faults: format!("{} {}", swarm.names(), rare.names()).trim().to_owned(),
            rare,
        };
        if scope != Scope::Tcp && (scope == Scope::Udp || c.one_in(3)) {
            plan.add_writers(&mut c, &swarm);
        }
        if !plan.attacks.is_empty() {
            // Whoever guesses every number is kept out by the peer's latest timestamp, which does not move.
            plan.rare.stay();
        }
        if scope != Scope::Udp {
            plan.add_conversations(&mut c, &swarm);
        }
        plan
    }

    /// Two hosts, one connection, `bytes` each way, no fault.
    pub fn quiet(seed: u64, bytes: [u64; 2]) -> Plan {
        let mut c = Chance::new(seed, 1);
        let swarm = Swarm::default();
        let hosts = (0..2).map(|_| host(&mut c, &swarm, 0)).collect();
        let mut plan = Plan {
            seed,
            hosts,
            apps: vec![Vec::new(), Vec::new()],
            starts: vec![Vec::new(), Vec::new()],
            conversations: Vec::new(),
            crowded: Vec::new(),
            kept_alive: Vec::new(),
            places: Vec::new(),
            guests: Vec::new(),
            senders: 0,
            heals_at: 0,
            black_hole: false,
            doubles: false,
            attacks: Vec::new(),
            lies: false,
            lose_frames: Vec::new(),
            faults: String::new(),
            rare: Rare::none(),
        };
        let plans = bytes.map(|bytes| talker::Plan { bytes, ..talk(&mut c, &swarm, Ending::Polite) });
        plan.add_conversation((0, 1), plans, 0, 1000, 80);
        plan.add_listener(1, 80, 16, 0);
        plan
    }

    fn add_writers(&mut self, c: &mut Chance, swarm: &Swarm) {
        let endpoints: Vec<Endpoint> =
            (0..self.hosts.len()).map(|h| Endpoint::new(address(h), 9000)).collect();
        for host in 0..self.hosts.len() {
            let mut peers: Vec<Endpoint> =
                endpoints.iter().copied().filter(|e| *e.ip() != address(host)).collect();
            let connect = self.hosts.len() == 2 && c.one_in(3);
            if c.one_in(3) {
                peers.truncate(1);
            }
            let start = c.below(10 * MS);
            let plan = writer::Plan {
                local: endpoints[host],
                peers,
                connect,
                letters: c.magnitude(1, 64) as u32,
                len_max: if c.one_in(4) { 8000 } else { 1400 },
                gap_max: c.magnitude(1000, 20 * MS),
                lazy: if swarm.lazy { c.within(1, 20) } else { 0 },
                start,
                options: stack::udp::Options {
                    receive_buffer: if swarm.small_buffers { 4096 } else { 212_992 },
                    tos: 0,
                    ttl: 64,
                    multicast_ttl: 1,
                    multicast_all: true,
                    mtu_discover: c.one_of(&[MtuDiscover::Dont, MtuDiscover::Want, MtuDiscover::Want]),
                    bound_to_interface: false,
                },
            };
            self.apps[host].push(App::Writer(Box::new(Writer::new(plan, self.senders))));
            self.starts[host].push(start);
            self.senders += 1;
        }
    }

    fn add_conversations(&mut self, c: &mut Chance, swarm: &Swarm) {
        let count = if c.one_in(8) { c.magnitude(4, 24) } else { c.within(1, 3) };
        for i in 0..count {
            let client = c.below(self.hosts.len() as u64) as usize;
            let server = (client + 1 + c.below(self.hosts.len() as u64 - 1) as usize) % self.hosts.len();
            let endings = endings(c, swarm);
            let mut plans = endings.map(|ending| talk(c, swarm, ending));
            for side in 0..2 {
                // A slow reader is to be done some day.
                plans[side].read_max = plans[side].read_max.max(plans[1 - side].bytes / 64);
            }
            let impatient = self.rare.change_conversation(&mut plans);
            let start = c.below(self.heals_at.min(SECOND));
            let index = self.conversations.len();
            if plans.iter().all(|plan| plan.options.keepalive) {
                self.kept_alive.push(index);
            }
            self.add_conversation((client, server), plans, start, 1000 + i as u16, 80);
            self.conversations[index] |= impatient;
        }
        for host in 0..self.hosts.len() {
            let backlog = if c.one_in(4) { c.within(1, 4) } else { 128 } as u32;
            if backlog < 128 {
                self.guests
                    .iter()
                    .filter(|guest| guest.0 == host)
                    .for_each(|guest| self.crowded.push(guest.2));
            }
            let delay = if swarm.lazy { c.magnitude(1, 500 * MS) } else { 0 };
            self.add_listener(host, 80, backlog, delay);
        }
    }

    fn add_conversation(
        &mut self,
        (client, server): (usize, usize),
        plans: [talker::Plan; 2],
        start: u64,
        from_port: u16,
        to_port: u16,
    ) {
        let index = self.conversations.len();
        let rude = plans.iter().any(|p| !matches!(p.ending, Ending::Polite | Ending::Late))
            || self.hosts[client]
                .jumps
                .iter()
                .chain(&self.hosts[server].jumps)
                .any(|(_, by)| *by > 10 * SECOND);
        self.conversations.push(rude);
        let (local, remote) =
            (Endpoint::new(address(client), from_port), Endpoint::new(address(server), to_port));
        self.places.push([local, remote].map(|e| (e.ip().to_bits(), e.port())));
        let [first, second] = plans;
        self.apps[client].push(App::Talker(Box::new(Talker::client(index, local, remote, first))));
        self.starts[client].push(start);
        self.guests.push((server, local, index, second));
    }

    fn add_listener(&mut self, host: usize, port: u16, backlog: u32, delay_max: u64) {
        let guests = self
            .guests
            .extract_if(.., |(server, ..)| *server == host)
            .map(|(_, client, index, plan)| (client, index, plan))
            .collect();
        let listener = Listener {
            local: Endpoint::new(address(host), port),
            backlog,
            options: stack::tcp::Options::default(),
            delay_max,
            guests,
            served: Vec::new(),
            id: None,
            accept_at: 0,
        };
        self.apps[host].push(App::Listener(listener));
        self.starts[host].push(0);
    }
}
