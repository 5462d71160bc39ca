//! Several devices of one process on one interface.

use super::*;

fn connected(peer: &UdpSocket) -> Flow {
    let Ok(std::net::SocketAddr::V4(remote)) = peer.local_addr() else { panic!("an IPv4 socket") };
    Flow { remote: Some(remote), ..udp_flow() }
}

#[test]
fn each_of_two_devices_receives_what_is_steered_to_it_and_sends() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let first = Device::open("veth", &small()).unwrap();
        let second = Device::attach(&first.beside()).unwrap();
        let mut devices = [first, second];
        let peers = [(); 2].map(|()| rig.in_b(|| UdpSocket::bind((B, 0)).unwrap()));
        for (device, peer) in devices.iter().zip(&peers) {
            device.steer(connected(peer)).unwrap();
        }
        assert!(!devices[0].is_of_another(&connected(&peers[0])));
        assert!(devices[0].is_of_another(&connected(&peers[1])));
        // More than the fill ring has: each posts for what it took.
        for round in 0..300 {
            for (device, peer) in devices.iter_mut().zip(&peers) {
                peer.send_to(b"hello", (A, PORT)).unwrap();
                assert!(receive_until(device, |_, _| true), "round {round}");
            }
        }
        for device in &mut devices {
            device.reserve(64).unwrap().fill(0);
            device.commit(64);
            device.kick();
            assert_eq!((device.unkicked(), device.send_error()), (0, None));
        }
        assert!(devices.iter_mut().all(|device| device.look_after().is_none()));
    });
}

#[test]
fn many_devices_leave_each_other_frames_of_a_small_arena() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let mut devices = vec![Device::open("veth", &Options { frames: 256, ..small() }).unwrap()];
        let beside = devices[0].beside();
        devices.extend((0..40).map(|_| Device::attach(&beside).unwrap()));
        devices.iter_mut().for_each(Device::bury_dead);
        for (number, device) in devices.iter_mut().enumerate() {
            assert!(device.reserve(64).is_some(), "device {number}");
        }
        assert!(devices[0].queues[0].fill.waiting() >= 64, "the ring has its part");
    });
}
