//! The format on crafted bytes, and the kernel's answers in a namespace of our own (needs root).

use core::net::Ipv4Addr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::message::{Attributes, Message, Request};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);

#[test]
fn messages_and_attributes_end_where_the_bytes_end() {
    let mut request = Request::new(7, 0, &[1, 2, 3, 4]).attribute(9, b"abcde").attribute(10, &[]);
    let bytes = request.finish(77).to_vec();
    let (message, rest) = Message::first(&bytes).unwrap();
    assert_eq!((message.kind, message.sequence, rest.len()), (7, 77, 0));
    assert_eq!(message.attributes(4).collect::<Vec<_>>(), [(9, &b"abcde"[..]), (10, &[][..])]);
    for length in 0..bytes.len() {
        assert!(Message::first(&bytes[..length]).is_none(), "{length}");
    }
    assert!(Attributes(&[3, 0, 1, 0]).next().is_none(), "shorter than its own header");
    assert!(Attributes(&[9, 0, 1, 0, 5]).next().is_none(), "longer than the message");
    assert!(Attributes(&[0, 0, 0, 0]).next().is_none(), "no length at all: would never end");
}

#[test]
fn loopback_is_there_and_routes_to_it_are_local() {
    let mut netlink = Netlink::open().unwrap();
    let links = netlink.links().unwrap();
    let lo = links.iter().find(|link| link.name == "lo").unwrap();
    assert!(lo.loopback && !lo.ethernet && lo.index == 1);
    let to = Ipv4Addr::new(127, 0, 0, 1);
    assert!(netlink.addresses().unwrap().iter().any(|address| address.address == to && address.prefix == 8));
    let route = netlink.route(to, RouteQuery::default()).unwrap();
    assert_eq!((route.kind, route.link, route.source), (RouteKind::Local, 1, Some(to)));
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Two namespaces with a veth pair, and this thread's `body` in the first.
fn in_namespaces(name: &str, body: impl FnOnce(&str) + Send) {
    let (a, b) = (format!("xdp-nl-{name}-a"), format!("xdp-nl-{name}-b"));
    if !ip(&["netns", "add", &a]) || !ip(&["netns", "add", &b]) {
        return rig::skip::skipped_here("cannot make network namespaces; run as root");
    }
    let add = ["-n", &a, "link", "add", "veth", "type", "veth", "peer", "name", "veth", "netns", &b];
    assert!(ip(&add));
    assert!(ip(&["-n", &a, "address", "add", "10.66.0.1/24", "broadcast", "+", "dev", "veth"]));
    assert!(ip(&["-n", &b, "address", "add", "10.66.0.2/24", "dev", "veth"]));
    assert!(ip(&["-n", &a, "link", "set", "veth", "up"]) && ip(&["-n", &b, "link", "set", "veth", "up"]));
    let outcome = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{a}")).unwrap();
            let arguments = [file.as_raw_fd() as usize, libc::CLONE_NEWNET as usize, 0, 0, 0, 0];
            // SAFETY: setns takes no pointer, and changes this thread only.
            unsafe { sys::raw::syscall(libc::SYS_setns, arguments) }.unwrap();
            body(&a);
        });
        inside.join()
    });
    assert!(ip(&["netns", "delete", &a]) && ip(&["netns", "delete", &b]));
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Waits for an update that `wanted` likes.
fn wait_for(monitor: &mut Monitor, wanted: impl Fn(&Update) -> bool) -> Update {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        while let Some(update) = monitor.next() {
            if wanted(&update) {
                return update;
            }
        }
        let mut one = [sys::poll::pollfd { fd: monitor.descriptor(), events: libc::POLLIN, revents: 0 }];
        let _ = sys::poll::poll(&mut one, Some(100_000_000), None);
    }
    panic!("no such update came");
}

#[test]
fn links_addresses_and_routes_are_as_configured() {
    in_namespaces("routes", |a| {
        let mut netlink = Netlink::open().unwrap();
        let links = netlink.links().unwrap();
        let veth = links.iter().find(|link| link.name == "veth").unwrap();
        assert!(veth.up && veth.ethernet && veth.mtu == 1500 && veth.mac != [0; 6]);
        assert_eq!((veth.kind.as_deref(), veth.master, veth.xdp_program), (Some("veth"), None, None));
        let broadcast = Some(Ipv4Addr::new(10, 66, 0, 255));
        let address = Address { link: veth.index, address: OURS, prefix: 24, broadcast };
        assert_eq!(netlink.addresses().unwrap(), [address]);

        let mut route = |to: [u8; 4], query| netlink.route(to.into(), query);
        let any = RouteQuery::default();
        let direct = Route {
            kind: RouteKind::Unicast,
            link: veth.index,
            gateway: None,
            source: Some(OURS),
            mtu: None,
        };
        assert_eq!(route([10, 66, 0, 2], any), Ok(direct));
        assert_eq!(route([10, 66, 0, 1], any).unwrap().kind, RouteKind::Local);
        assert_eq!(route([10, 66, 0, 255], any).unwrap().kind, RouteKind::Broadcast);
        assert_eq!(route([8, 8, 8, 8], any), Err(libc::ENETUNREACH));
        assert!(ip(&["-n", a, "route", "add", "default", "via", "10.66.0.2", "mtu", "1400"]));
        assert!(ip(&["-n", a, "route", "add", "unreachable", "10.1.0.0/16"]));
        assert!(ip(&["-n", a, "route", "add", "10.2.0.0/16", "via", "10.66.0.3", "table", "7"]));
        assert!(ip(&["-n", a, "rule", "add", "fwmark", "9", "table", "7"]));
        let far = Route { gateway: Some(PEER), mtu: Some(1400), ..direct };
        assert_eq!(route([8, 8, 8, 8], any), Ok(far));
        assert_eq!(route([10, 1, 2, 3], any), Err(libc::EHOSTUNREACH));
        assert_eq!(route([10, 2, 0, 1], any).unwrap().gateway, Some(PEER));
        let marked = RouteQuery { mark: 9, ..any };
        assert_eq!(route([10, 2, 0, 1], marked).unwrap().gateway, Some(Ipv4Addr::new(10, 66, 0, 3)));
        assert_eq!(route([239, 1, 1, 1], any).unwrap().kind, RouteKind::Multicast);
    });
}

#[test]
fn neighbours_are_resolved_by_the_kernel_and_changes_are_followed() {
    in_namespaces("follow", |a| {
        let (mut netlink, mut monitor) = (Netlink::open().unwrap(), Monitor::open().unwrap());
        let link = netlink.links().unwrap().iter().find(|link| link.name == "veth").unwrap().index;
        assert_eq!(netlink.neighbour(link, PEER), Ok(None));
        netlink.resolve(link, PEER).unwrap();
        let update =
            wait_for(&mut monitor, |update| matches!(update, Update::Neighbour { mac: Some(_), .. }));
        let Update::Neighbour { link: on, address, mac, state } = update else { unreachable!() };
        assert_eq!((on, address, state), (link, PEER, NeighbourState::Usable));
        assert_eq!(netlink.neighbour(link, PEER).unwrap().unwrap().0, mac.unwrap());

        let nobody = Ipv4Addr::new(10, 66, 0, 99);
        netlink.resolve(link, nobody).unwrap();
        assert_eq!(netlink.neighbour(link, nobody), Ok(None));
        wait_for(
            &mut monitor,
            |update| matches!(update, Update::Neighbour { address, state: NeighbourState::Failed, .. } if *address == nobody),
        );

        assert!(ip(&["-n", a, "link", "set", "veth", "mtu", "1300"]));
        wait_for(
            &mut monitor,
            |update| matches!(update, Update::Link(veth) if veth.index == link && veth.mtu == 1300),
        );
        assert!(ip(&["-n", a, "address", "add", "10.67.0.1/24", "dev", "veth"]));
        wait_for(
            &mut monitor,
            |update| matches!(update, Update::Address(new) if new.address.octets() == [10, 67, 0, 1]),
        );
        wait_for(&mut monitor, |update| matches!(update, Update::Routes));
        assert!(ip(&["-n", a, "address", "delete", "10.67.0.1/24", "dev", "veth"]));
        wait_for(
            &mut monitor,
            |update| matches!(update, Update::AddressGone(old) if old.address.octets() == [10, 67, 0, 1]),
        );
        assert!(ip(&["-n", a, "link", "delete", "veth"]));
        wait_for(&mut monitor, |update| *update == Update::LinkGone(link));
        assert_eq!(monitor.next(), None);
    });
}

#[test]
fn policies_are_told_and_followed_and_those_that_let_pass_are_none() {
    in_namespaces("xfrm", |a| {
        let mut netlink = Netlink::open_xfrm().unwrap();
        assert_eq!(netlink.policies(), Ok(Vec::new()));
        let monitor = PolicyMonitor::open().unwrap();
        let add = |words: &str| {
            let all = format!("-n {a} xfrm policy add {words}");
            assert!(ip(&all.split(' ').collect::<Vec<_>>()), "{words}");
        };
        add(
            "src 10.66.0.0/24 dst 10.9.0.0/16 dir out tmpl src 10.66.0.1 dst 10.66.0.2 proto esp mode tunnel",
        );
        add("src 10.66.0.7/32 dst 10.66.0.8/32 dir out action allow");
        add("src 10.9.0.0/16 dst 10.66.0.1/32 dir fwd action block");
        let all = netlink.policies().unwrap();
        assert_eq!(all, monitor.changed().unwrap());
        assert_eq!(monitor.changed(), None);
        let [policy] = all[..] else { panic!("{all:?}") };
        let inside = Ipv4Addr::new(10, 9, 200, 1);
        assert!(policy.could_select(Some(OURS), Some(inside)) && policy.could_select(None, None));
        assert!(!policy.could_select(Some(OURS), Some(PEER)) && !policy.could_select(Some(inside), None));
        add("src 10.66.0.2/32 dst 10.66.0.1/32 dir in action block");
        let blocked = netlink.policies().unwrap();
        assert!(blocked.iter().any(|policy| policy.could_select(Some(OURS), Some(PEER))), "{blocked:?}");
    });
}
