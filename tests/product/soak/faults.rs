//! What changes around the parties, one thing at a time; each is undone, at once or at the end.

use std::time::Duration;

use rig::{Namespace, TwoHosts};

use super::Choices;

pub(crate) struct Faults<'w> {
    hosts: [&'w Namespace; 2],
    /// Per host and link: the hardware address of the other end.
    hardware: [[String; 2]; 2],
    done: u64,
}

const LINKS: [&str; 2] = ["net0", "net1"];

fn address(link: usize, host: usize) -> String {
    format!("10.77.{}.{}", link + 1, host + 1)
}

fn hardware_address(host: &Namespace, link: &str) -> String {
    let shown = host.ip(&format!("link show dev {link}")).unwrap();
    shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap().to_owned()
}

impl<'w> Faults<'w> {
    pub(crate) fn new(hosts: &'w TwoHosts) -> Faults<'w> {
        let hosts = [&hosts.left.namespace, &hosts.right.namespace];
        let hardware = [1, 0].map(|other: usize| LINKS.map(|link| hardware_address(hosts[other], link)));
        Faults { hosts, hardware, done: 0 }
    }

    /// Something changes on one of the hosts; what would keep it from working is undone after a while.
    pub(crate) fn one(&mut self, choices: &mut Choices) {
        self.done += 1;
        let (at, link) = (choices.below(2) as usize, choices.below(2) as usize);
        let (dev, own, peer) = (LINKS[link], address(link, at), address(link, 1 - at));
        let net = format!("10.77.{}.0/24", link + 1);
        let hardware = self.hardware[at][link].clone();
        // Every fourth lasts long enough for retransmissions to be sent in vain.
        let most = if choices.below(4) == 0 { 1500 } else { 150 };
        let pause = Duration::from_millis(choices.below(most));
        let with = |what: &str, undo: &str| {
            self.ip(at, what);
            std::thread::sleep(pause);
            self.ip(at, undo);
        };
        match choices.below(10) {
            0 | 1 => with(&format!("link set {dev} down"), &format!("link set {dev} up")),
            2 => with(
                &format!("address add 10.77.{}.{}/24 dev {dev}", link + 1, at + 101),
                &format!("address del 10.77.{}.{}/24 dev {dev}", link + 1, at + 101),
            ),
            3 => with(
                &format!("address del {own}/24 dev {dev}"),
                &format!("address replace {own}/24 dev {dev}"),
            ),
            4 => with(
                &format!("route del {net} dev {dev}"),
                &format!("route replace {net} dev {dev} proto kernel scope link src {own}"),
            ),
            5 => with("route replace 10.99.0.0/16 dev net0", "route del 10.99.0.0/16"),
            6 => {
                with(&format!("route replace blackhole {peer}/32"), &format!("route del blackhole {peer}/32"))
            }
            7 => self.ip(at, &format!("neigh flush dev {dev}")),
            8 => with(
                &format!("neigh replace {peer} lladdr 02:00:00:00:00:01 dev {dev} nud reachable"),
                &format!("neigh replace {peer} lladdr {hardware} dev {dev} nud reachable"),
            ),
            _ => {
                let mtu = [1280, 900, 576, 1400][choices.below(4) as usize];
                with(&format!("link set {dev} mtu {mtu}"), &format!("link set {dev} mtu 1500"));
            }
        }
    }

    /// As it was at the beginning; each fault has been undone when the next begins, so this only proves it.
    pub(crate) fn undo(&self) {
        println!("soak: {} changes", self.done);
        for (at, link) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let shown = self.hosts[at].ip(&format!("route get {}", address(link, 1 - at))).unwrap();
            assert!(shown.contains(LINKS[link]) && shown.contains(&address(link, at)), "not undone: {shown}");
        }
    }

    /// A change may be refused: the route is already gone with its address, say.
    fn ip(&self, at: usize, words: &str) {
        let _ = self.hosts[at].ip(words);
    }
}
