//! A program without flows is taken off the interface, and is there again for the next one.

use super::*;

fn has_program(device: &Device) -> bool {
    crate::query::xdp_program(device.index()).is_some()
}

/// With a device without flows in the generic hook, and a peer of it.
fn with_quiet_device(test: impl FnOnce(Device, UdpSocket) + Send) {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let device = Device::open("veth", &Options { mode: Mode::Generic, ..small() }).unwrap();
        test(device, rig.in_b(|| UdpSocket::bind((B, 5000)).unwrap()));
    });
}

#[test]
fn a_program_without_flows_is_taken_off_and_the_next_flow_brings_it_back() {
    with_quiet_device(|mut device, peer| {
        let hook = device.hook();
        device.steer(udp_flow()).unwrap();
        assert!(!hook.take_off() && !hook.is_off() && has_program(&device), "something is steered");
        device.unsteer(udp_flow());
        assert!(hook.take_off() && hook.is_off() && !has_program(&device));
        assert!(!hook.take_off(), "it is off");

        device.steer(udp_flow()).unwrap();
        assert!(!hook.is_off() && has_program(&device));
        peer.send_to(b"again", (A, PORT)).unwrap();
        assert!(receive_until(&mut device, |frame, _| frame.ends_with(b"again")));

        device.unsteer(udp_flow());
        assert!(hook.take_off());
        hook.put_on().unwrap();
        assert!(!hook.is_off() && has_program(&device));
    });
}

#[test]
fn a_program_stays_on_where_others_may_steer_by_it() {
    with_quiet_device(|device, _| {
        let hook = device.hook();
        assert!(hook.take_off());
        device.before_fork();
        assert!(!hook.is_off() && has_program(&device), "children would not know");
        assert!(!hook.take_off());
    });
}

#[test]
fn a_program_in_the_hook_of_the_driver_stays_there() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let device = Device::open("veth", &Options { mode: Mode::Native, ..small() }).unwrap();
        assert!(!device.hook().take_off() && has_program(&device));
    });
}
