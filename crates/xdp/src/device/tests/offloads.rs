//! What the kernel switches off for the program is given back when the last who had the interface is gone. A veth
//! merges no packets, so another feature stands for that, and the test switches it off.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use crate::offloads::Offloads;

const FEATURE: [&[u8]; 1] = [b"rx-gro"];

fn is_on(interface: u32) -> bool {
    Offloads::on(interface, &FEATURE) != off(interface)
}

/// What is asked for where none of them is on.
fn off(interface: u32) -> Offloads {
    Offloads::on(interface, &[])
}

fn eventually_on(interface: u32) {
    let end = Instant::now() + PATIENCE;
    while !is_on(interface) {
        assert!(Instant::now() < end, "it is not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// In a namespace of a veth whose feature is on, an interface that a keeper holds, and whose feature it lost.
fn with_kept(test: impl FnOnce(u32, Kept) + Send) {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let index = Interface::named("veth").unwrap().index;
        let ethtool = Command::new("ethtool").args(["-K", "veth", "gro", "on"]).status().unwrap();
        assert!(ethtool.success() && is_on(index));
        let mut kept = Kept::open("veth", &small()).unwrap();
        let lost = Offloads::on(index, &FEATURE);
        Arc::get_mut(&mut kept.shared).unwrap().offloads = lost.hold(index);
        lost.switch_off(index).unwrap();
        assert!(!is_on(index));
        test(index, kept);
    });
}

#[test]
fn a_process_that_is_killed_gives_back_what_the_kernel_switched_off() {
    with_kept(|index, kept| {
        let hold = kept.shared.offloads.as_ref().unwrap().raw();
        let mut other = Command::new("sleep");
        // SAFETY: one system call.
        let other = unsafe {
            other.pre_exec(move || match libc::fcntl(hold, libc::F_SETFD, 0) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            })
        };
        let mut other = other.arg("600").spawn().unwrap();
        drop(kept);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_on(index), "somebody has it still");
        other.kill().unwrap();
        other.wait().unwrap();
        eventually_on(index);
    });
}

/// As they come out of a message.
fn passed(descriptors: &[i32]) -> Vec<sys::Fd> {
    let copy = |fd: &i32| sys::fd::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 0).unwrap();
    descriptors.iter().map(|fd| sys::Fd::adopt(copy(fd) as usize)).collect()
}

#[test]
fn who_was_handed_an_interface_has_what_gives_back_its_offloads_and_hands_it_over() {
    with_kept(|index, kept| {
        let handout = kept.hand_out(sys::process::pid()).unwrap();
        let description = handout.description.clone();
        let (descriptors, own) = handout.behind(sys::fd::eventfd().unwrap());
        let inherited = Inherited::received(&description, passed(&descriptors[1..])).unwrap();
        let device = Device::attach(&inherited).unwrap();
        drop((own, kept, inherited));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_on(index), "a program has it still");
        // To the keeper that comes next.
        device.shared.known_to.store(0, Ordering::Relaxed);
        let what = device.to_hand_over().unwrap();
        let next = Inherited::received(&what.description, passed(&what.descriptors)).unwrap();
        drop(device);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_on(index), "the next keeper has it still");
        drop(next);
        eventually_on(index);
    });
}
