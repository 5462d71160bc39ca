//! Devices of parents and children, and of processes that are killed.

use std::os::fd::AsRawFd;

use super::*;

#[test]
fn a_killed_owner_leaves_nothing_behind_and_its_successor_waits_for_the_queue() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let ready = sys::fd::eventfd().unwrap();
        // SAFETY: the child touches nothing that another thread may hold, and ends by a signal.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let device = Device::open("veth", &small());
            if device.is_ok() {
                sys::fd::signal(ready.raw());
            }
            loop {
                sys::thread::sleep(1_000_000_000);
            }
        }
        let mut opened = [sys::poll::pollfd { fd: ready.raw(), events: libc::POLLIN, revents: 0 }];
        assert_eq!(
            sys::poll::poll(&mut opened, Some(PATIENCE.as_nanos() as u64), None),
            Ok(1),
            "the child has the device"
        );
        assert_eq!(Device::open("veth", &small()).err(), Some(Refusal::Owned { pid: child }));
        // SAFETY: the child is ours; its status is not asked for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, core::ptr::null_mut(), 0);
        }
        Device::open("veth", &small()).unwrap();
    });
}

#[test]
fn the_child_of_a_fork_drops_device_and_frames_without_harm_to_the_parent() {
    with_device_and_peer(|mut device, peer| {
        let mut held = Vec::new();
        for _ in 0..10 {
            peer.send_to(b"held", (A, PORT)).unwrap();
        }
        receive_until(&mut device, |_, _| true);
        device.receive(64, |head, _| held.push(head));
        device.pool.take_returned(&mut device.free);
        // SAFETY: the child drops memory and descriptors and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            held.clear();
            // SAFETY: the child's only thread.
            device.inherit(&unsafe { sys::InChild::new() });
            drop(device);
            // SAFETY: ends this process, without the handlers of the test harness.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
        assert!(!device.pool.has_returned(), "what the child dropped is the child's");
        peer.send_to(b"after", (A, PORT)).unwrap();
        assert!(receive_until(&mut device, |head, _| &head[42..47] == b"after"));
    });
}

/// A child that attaches, steers, answers every datagram, and runs until it is killed.
fn child_that_echoes(device: &mut Device) -> i32 {
    let ready = sys::fd::eventfd().unwrap();
    device.before_fork();
    // SAFETY: the child uses its memory and system calls only, and ends by a signal.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child's only thread.
        let inherited = device.inherit(&unsafe { sys::InChild::new() });
        let mut own = Device::attach(&inherited).unwrap();
        own.steer(udp_flow()).unwrap();
        sys::fd::signal(ready.raw());
        loop {
            let mut replies = Vec::new();
            own.receive(64, |head, _| replies.push(head.bytes()[..50].to_vec()));
            for reply in replies {
                let port = u16::from_be_bytes([reply[34], reply[35]]);
                let body = [&reply[42..46], &std::process::id().to_be_bytes()].concat();
                let frame = udp_frame(&reply[..6], &reply[6..12], (A, PORT), (B, port), &body);
                own.reserve(frame.len()).unwrap().copy_from_slice(&frame);
                own.commit(frame.len());
                own.kick();
            }
        }
    }
    let mut opened = [sys::poll::pollfd { fd: ready.raw(), events: libc::POLLIN, revents: 0 }];
    assert_eq!(
        sys::poll::poll(&mut opened, Some(PATIENCE.as_nanos() as u64), None),
        Ok(1),
        "the child has a device"
    );
    child
}

fn kill(child: i32) {
    // SAFETY: the child is ours; its status is not asked for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, core::ptr::null_mut(), 0);
    }
}

#[test]
fn forked_lanes_share_a_flow_and_the_frames_of_a_killed_one_are_taken_back() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let mut device = Device::open("veth", &small()).unwrap();
        let children = [child_that_echoes(&mut device), child_that_echoes(&mut device)];
        // Who answers? Every remote port has its lane.
        let ask = |count: u32| {
            let mut by = std::collections::HashMap::new();
            for _ in 0..count {
                let peer = rig.in_b(|| UdpSocket::bind((B, 0)).unwrap());
                peer.set_read_timeout(Some(PATIENCE)).unwrap();
                // At least 50 bytes of frame, as the child expects.
                peer.send_to(b"ping....", (A, PORT)).unwrap();
                let mut buffer = [0; 64];
                let who = match peer.recv(&mut buffer) {
                    Ok(8) => i32::from_be_bytes(buffer[4..8].try_into().unwrap()),
                    _ => 0,
                };
                *by.entry(who).or_insert(0) += 1;
            }
            by
        };
        let answers = ask(60);
        assert_eq!(answers.values().sum::<i32>(), 60);
        assert!(
            children.iter().all(|child| answers.get(child).is_some_and(|&count| count > 5)),
            "{answers:?}"
        );

        kill(children[0]);
        device.bury_dead();
        assert!(device.half_open(1).is_none(), "there are no connections");
        let answers = ask(20);
        assert_eq!(answers.get(&children[1]), Some(&20), "{answers:?}");
        kill(children[1]);
        assert!(kept::bury(&device.shared).is_empty());
        device.pool.arena.take_back_left(crate::arena::seconds() + 10);
        assert_eq!(device.flow_counters(udp_flow()), None, "nobody steers it any more");
        // What was posted, received and lost in a ring of the killed ones is at most a batch each.
        let frames = frames_at_hand(&mut device);
        assert!(frames >= 1024 - 2 * 64, "{frames}");
    });
}

#[test]
fn a_child_goes_on_when_its_parent_was_killed_and_nothing_is_left_when_all_were() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let pids = sys::fd::eventfd().unwrap();
        // SAFETY: the middle process only forks, and ends by a signal.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            let mut device = Device::open("veth", &small()).unwrap();
            let child = child_that_echoes(&mut device);
            let _ = sys::fd::write(pids.raw(), &(child as u64).to_ne_bytes());
            loop {
                sys::thread::sleep(1_000_000_000);
            }
        }
        let mut told = [sys::poll::pollfd { fd: pids.raw(), events: libc::POLLIN, revents: 0 }];
        assert_eq!(sys::poll::poll(&mut told, Some(PATIENCE.as_nanos() as u64), None), Ok(1));
        let mut child = [0; 8];
        sys::fd::read(pids.raw(), &mut child).unwrap();
        let child = u64::from_ne_bytes(child) as i32;
        kill(parent);
        let peer = rig.in_b(|| UdpSocket::bind((B, 0)).unwrap());
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.send_to(b"ping....", (A, PORT)).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(peer.recv(&mut buffer).unwrap(), 8);
        kill(child);
        Device::open("veth", &small()).expect("the interface is free again");
    });
}

#[test]
fn who_leaves_gives_the_interface_to_its_successor_soon_after_its_end() {
    let Some(rig) = Rig::new(1) else { return };
    rig.in_a(|| {
        let kernel = UdpSocket::bind((A, PORT)).unwrap();
        kernel.set_read_timeout(Some(PATIENCE)).unwrap();
        let left = sys::fd::eventfd().unwrap();
        // SAFETY: the child uses its memory and system calls only, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut device = Device::open("veth", &small()).unwrap();
            device.before_fork();
            device.steer(udp_flow()).unwrap();
            device.unsteer(udp_flow());
            device.leave();
            sys::fd::signal(left.raw());
            // Until it is asked to end, by a packet.
            let mut waiting =
                [sys::poll::pollfd { fd: kernel.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
            let _ = sys::poll::poll(&mut waiting, Some(PATIENCE.as_nanos() as u64), None);
            // SAFETY: ends this process, without the handlers of the test harness.
            unsafe { libc::_exit(0) };
        }
        let mut has_left = [sys::poll::pollfd { fd: left.raw(), events: libc::POLLIN, revents: 0 }];
        assert_eq!(sys::poll::poll(&mut has_left, Some(PATIENCE.as_nanos() as u64), None), Ok(1));
        let peer = rig.in_b(|| UdpSocket::bind((B, 0)).unwrap());
        peer.send_to(b"kernel's", (A, PORT)).unwrap();
        // SAFETY: the child is ours; its status is not asked for.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
        let mut buffer = [0; 16];
        assert_eq!(kernel.recv(&mut buffer).unwrap(), 8);
        Device::open("veth", &small()).expect("the interface is free again");
    });
}

/// From now on this thread can map no fill or completion ring: as for bound sockets before Linux 6.4.
fn refuse_rings_of_queues() {
    let instruction = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let (load, equal, answer) = (0x20, 0x15, 0x06);
    // The number of the system call, and the high half of its sixth argument, which is 1 for these rings.
    let mut filter = [
        instruction(load, 0, 0, 0),
        instruction(equal, libc::SYS_mmap as u32, 0, 3),
        instruction(load, 16 + 5 * 8 + 4, 0, 0),
        instruction(equal, 1, 0, 1),
        instruction(answer, libc::SECCOMP_RET_ERRNO | libc::EBUSY as u32, 0, 0),
        instruction(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives for the call, and is this thread's only.
    let set =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) };
    assert_eq!(set, 0);
}

#[test]
fn a_child_has_lanes_where_the_kernel_maps_no_rings_of_bound_sockets() {
    with_device_and_peer(|mut device, peer| {
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        refuse_rings_of_queues();
        let binding = device.shared.binding(0);
        assert!(QueueRings::map(&device.queues[0].socket.fd, binding).is_err());
        let child = child_that_echoes(&mut device);
        device.unsteer(udp_flow());
        // More than the fill ring has, so that the child fills it again.
        for round in 0..600u32 {
            // At least 50 bytes of frame, as the child expects.
            peer.send_to(&[round.to_be_bytes(), [0; 4]].concat(), (A, PORT)).unwrap();
            let mut buffer = [0; 64];
            assert_eq!(peer.recv_from(&mut buffer).unwrap().0, 8, "{round}");
            assert_eq!(buffer[..8], [round.to_be_bytes(), (child as u32).to_be_bytes()].concat());
        }
        kill(child);
    });
}
