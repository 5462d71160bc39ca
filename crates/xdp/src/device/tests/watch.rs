//! Interfaces that change while they are open.

use super::*;

#[test]
fn queues_that_are_added_are_received_from() {
    let Some(rig) = Rig::new(4) else { return };
    let channels = |count: &str| {
        let status =
            std::process::Command::new("ethtool").args(["-L", "veth", "rx", count, "tx", count]).status();
        status.is_ok_and(|status| status.success())
    };
    if !rig.in_a(|| channels("1")) || !rig.in_b(|| channels("1")) {
        return ::rig::skip::skipped_here("needs ethtool and a veth whose queues can be changed");
    }
    rig.in_a(|| {
        let mut device = Device::open("veth", &small()).unwrap();
        device.steer(udp_flow()).unwrap();
        assert_eq!((device.descriptors().len(), device.look_after()), (1, None));
        assert!(channels("4") && rig.in_b(|| channels("4")));
        assert_eq!(device.look_after(), Some(Change::QueuesAdded(4)));
        assert_eq!((device.descriptors().len(), device.look_after()), (4, None));
        for round in 0..40 {
            sys::thread::pin(round % 2).unwrap();
            let peer = rig.in_b(|| UdpSocket::bind((B, 0)).unwrap());
            peer.send_to(b"hello", (A, PORT)).unwrap();
            assert!(receive_until(&mut device, |_, _| true), "round {round}");
        }
    });
}

#[test]
fn queues_that_children_cannot_have_are_told() {
    let Some(rig) = Rig::new(2) else { return };
    rig.in_a(|| {
        let mut device = Device::open("veth", &small()).unwrap();
        device.before_fork();
        device.queues.pop();
        // As if there had been one when it was opened.
        device.watch = Some(crate::device::watch::Watch::new(1));
        assert_eq!(device.look_after(), Some(Change::QueuesMissed(2)));
        assert_eq!(device.look_after(), None, "once");
    });
}

#[test]
fn a_hook_that_does_not_run_is_left_for_the_generic_one() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let mut device = Device::open("veth", &Options { mode: Mode::Native, ..small() }).unwrap();
        device.steer(udp_flow()).unwrap();
        let peer = rig.in_b(|| UdpSocket::bind((B, 5000)).unwrap());
        let look = |device: &mut Device| {
            peer.send_to(b"hello", (A, PORT)).unwrap();
            device.look_after()
        };
        assert!((0..10).all(|_| look(&mut device).is_none()), "the program runs");
        device.unhook();
        let change = (0..20).find_map(|_| look(&mut device));
        assert_eq!((change, device.mode()), (Some(Change::MovedToGeneric), Mode::Generic));
        device.receive(64, |_, _| {});
        peer.send_to(b"again", (A, PORT)).unwrap();
        assert!(receive_until(&mut device, |head, _| &head[42..47] == b"again"));
        assert!((0..10).all(|_| look(&mut device).is_none()));
    });
}
