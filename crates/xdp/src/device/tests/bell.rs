//! Frames that are shown while somebody has the device, and sent when it has let go of it.

use super::*;

/// Commits frames that carry numbers, from `numbers`.
fn commit(sender: &mut Device, to: &Device, numbers: core::ops::Range<u32>) {
    let (from, to) = (sender.mac(), to.mac());
    for number in numbers {
        let frame = udp_frame(&from, &to, (A, PORT), (B, PORT), &number.to_be_bytes());
        sender.reserve(frame.len()).unwrap().copy_from_slice(&frame);
        sender.commit(frame.len());
    }
}

#[test]
fn what_is_shown_leaves_by_the_bell_once_and_in_order() {
    let Some(rig) = Rig::new(1) else { return };
    let mut sender = rig.in_a(|| Device::open("veth", &small()).unwrap());
    let mut receiver = rig.in_b(|| Device::open("veth", &small()).unwrap());
    receiver.steer(Flow { protocol: 17, local: SocketAddrV4::new(B, PORT), remote: None }).unwrap();
    let mut next = 0u32;
    let mut arrived = |receiver: &mut Device| {
        receiver.receive(usize::MAX, |head, _| {
            assert_eq!(&head.bytes()[42..46], next.to_be_bytes());
            next += 1;
        });
        next
    };
    let bell = sender.bell();

    assert!(bell.ring() && sender.sent().kicks == 0, "there was nothing to ring for");
    commit(&mut sender, &receiver, 0..2);
    sender.show();
    commit(&mut sender, &receiver, 2..3);
    sender.show();
    assert!(bell.is_due() && sender.is_sending() && sender.unkicked() == 0);
    assert_eq!(arrived(&mut receiver), 0, "the kernel was not told");
    assert!(bell.ring() && bell.ring());
    assert_eq!((arrived(&mut receiver), sender.sent().kicks), (3, 1));
    assert!(!bell.is_due() && !sender.is_sending());

    commit(&mut sender, &receiver, 3..4);
    sender.show();
    commit(&mut sender, &receiver, 4..5);
    sender.kick();
    assert!(!bell.is_due(), "a kick is for what was shown, too");
    assert_eq!(arrived(&mut receiver), 5);

    commit(&mut sender, &receiver, 5..105);
    sender.show();
    if !bell.ring() {
        sender.kick();
    }
    assert_eq!(arrived(&mut receiver), 105, "more than the kernel takes at once");
}
