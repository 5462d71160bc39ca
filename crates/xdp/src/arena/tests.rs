//! The arena alone: no privilege needed.

use core::sync::atomic::AtomicBool;

use super::*;

#[test]
fn every_frame_is_taken_once_and_comes_back() {
    let arena = Arena::create(100).unwrap();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let (one, two) = (arena.join().unwrap(), arena.join().unwrap());
    assert_ne!(one, two);
    arena.take(one, 64, &mut a);
    arena.take(two, 64, &mut b);
    assert_eq!((a.len(), b.len()), (64, 36));
    let mut all: Vec<_> = a.iter().chain(&b).copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    assert!(a.iter().all(|&frame| arena.owner(frame) == one));
    arena.give(a.drain(..));
    arena.take(two, 100, &mut b);
    assert_eq!(b.len(), 100);
}

/// No process has this number: above the largest pid_max.
const NOBODY: u32 = 0x3fff_fff0;

#[test]
fn the_number_of_a_dead_process_is_free_at_once_and_its_frames_after_a_while_but_for_posted_ones() {
    let arena = Arena::create(10).unwrap();
    let lane = arena.join().unwrap();
    let mut frames = Vec::new();
    arena.take(lane, 10, &mut frames);
    arena.posted(frames[0]);
    assert_eq!(arena.find_dead(), 0);
    arena.header().lanes[lane as usize].store(NOBODY, Ordering::Relaxed);
    let now = seconds();
    assert_eq!(arena.find_dead(), 1 << lane);
    arena.bury(1 << lane, now);
    assert_eq!(arena.find_dead(), 0);
    assert_eq!(arena.join(), Ok(lane), "the number is free");
    let mut again = Vec::new();
    arena.take(lane, 10, &mut again);
    arena.take_back_left(now + GRACE_S - 1);
    arena.take(lane, 10, &mut again);
    assert_eq!(again, [], "what it sent may still be the kernel's");
    assert_eq!((arena.count_frames().left, arena.count_frames().posted), (9, 1));
    // One came back in between, and who was about to bury its lane sees that.
    assert!(!arena.pass_on(frames[1], lane, FREE));
    arena.take_back_left(now + GRACE_S);
    arena.take(lane, 10, &mut again);
    assert_eq!(again.len(), 9);
    assert!(!again.contains(&frames[0]));
    assert_eq!(arena.count_frames().left, 0);
}

#[test]
fn a_completion_that_comes_after_the_grace_of_the_dead_frees_nothing_twice() {
    let arena = Arena::create(2).unwrap();
    let (dead, one, two) = (arena.join().unwrap(), arena.join().unwrap(), arena.join().unwrap());
    let mut sent = Vec::new();
    arena.take(dead, 2, &mut sent);
    sent.iter().for_each(|&frame| arena.sending(frame, dead));
    let now = seconds();
    arena.bury(1 << dead, now);
    arena.take_back_left(now + GRACE_S);
    let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
    arena.take(one, 1, &mut of_one);
    arena.take(two, 1, &mut of_two);
    assert_eq!((of_one.len(), of_two.len()), (1, 1), "the grace is over");
    for &frame in &sent {
        assert_eq!(arena.completed(frame, one), None, "frame {frame} is in use");
    }
    // What they send themselves comes back, once.
    arena.sending(of_one[0], one);
    arena.sending(of_two[0], two);
    assert_eq!(arena.completed(of_one[0], one), Some(Completed::Own));
    assert_eq!(arena.completed(of_one[0], one), None);
    assert_eq!(arena.completed(of_two[0], one), Some(Completed::Another));
    assert_eq!(arena.completed(of_two[0], one), None);
}

#[test]
fn a_process_that_got_the_number_of_a_dead_one_does_not_keep_its_lane() {
    let arena = Arena::create(4).unwrap();
    let lane = arena.join().unwrap();
    assert_eq!((arena.find_dead(), arena.find_dead_and_followed()), (0, 0));
    let mut other = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let identity = arena.header().identities[lane as usize].load(Ordering::Relaxed);
    if identity == sys::process::identity(other.id() as i32) {
        rig::skip::skipped_here("pidfds of one inode: Linux before 6.9");
    } else {
        // As if this process had died, and the next one had its number.
        arena.header().lanes[lane as usize].store(other.id(), Ordering::Relaxed);
        assert_eq!((arena.find_dead(), arena.find_dead_and_followed()), (0, 1 << lane));
        arena.bury(1 << lane, seconds());
        assert_eq!(arena.join(), Ok(lane));
        assert_eq!(arena.find_dead_and_followed(), 0);
    }
    other.kill().and_then(|()| other.wait()).unwrap();
}

#[test]
fn any_number_of_lanes_come_and_go_within_a_moment() {
    let arena = Arena::create(256).unwrap();
    let now = seconds();
    for round in 0..20 {
        let mut frames = Vec::new();
        while let Ok(lane) = arena.join() {
            arena.take(lane, 1, &mut frames);
            arena.header().lanes[lane as usize].store(NOBODY, Ordering::Relaxed);
        }
        assert_eq!(arena.find_dead(), !1, "round {round}");
        arena.bury(!1, now);
    }
    arena.take_back_left(now + GRACE_S);
    assert_eq!(arena.count_frames().free, 256);
}

#[test]
fn the_lock_of_a_thread_that_ended_is_taken_over_although_its_process_lives() {
    let arena = std::sync::Arc::new(Arena::create(4).unwrap());
    let holder = arena.clone();
    std::thread::spawn(move || core::mem::forget(holder.lock_rings())).join().unwrap();
    let (say, said) = std::sync::mpsc::channel();
    let next = arena.clone();
    std::thread::spawn(move || {
        drop(next.lock_rings());
        say.send(()).unwrap();
    });
    // Far more than it takes: it only matters when the test fails.
    assert_eq!(said.recv_timeout(std::time::Duration::from_secs(20)), Ok(()), "somebody waits for ever");
    assert_eq!(arena.header().rings.load(Ordering::Relaxed), 0);
}

#[test]
fn the_lock_of_a_dead_process_is_taken_over_and_that_of_a_live_one_is_not() {
    let arena = Arena::create(4).unwrap();
    core::mem::forget(arena.lock_rings());
    arena.header().rings.store(NOBODY, Ordering::Relaxed);
    drop(arena.lock_rings());

    let held = arena.lock_rings();
    let is_held = AtomicBool::new(true);
    let had_waited = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            drop(arena.lock_rings());
            !is_held.load(Ordering::Relaxed)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        is_held.store(false, Ordering::Relaxed);
        drop(held);
        other.join().unwrap()
    });
    assert!(had_waited);
    assert_eq!(arena.header().rings.load(Ordering::Relaxed), 0);
}
