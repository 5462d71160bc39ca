//! Memory to the byte: what clients and lanes that come and go leave in the keeper's heap, which is nothing. All that
//! the process allocates is counted, so the test has a process of its own.

use super::*;
use crate::interfaces::{Held, Settings};
use crate::policy::Policy;
use rig::Namespace;
use rig::eventually;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicIsize, Ordering};
use sys::socket::{pair, receive_descriptors, send_descriptors};

/// Allocations that live, and their bytes.
static LIVE: [AtomicIsize; 2] = [AtomicIsize::new(0), AtomicIsize::new(0)];

struct Counting;

fn count(allocations: isize, bytes: usize) {
    LIVE[0].fetch_add(allocations, Ordering::Relaxed);
    LIVE[1].fetch_add(allocations * bytes as isize, Ordering::Relaxed);
}

// SAFETY: the system's allocator, whose answers are passed on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-1, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn live() -> [isize; 2] {
    [LIVE[0].load(Ordering::Relaxed), LIVE[1].load(Ordering::Relaxed)]
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// What a program says, and what some say that are none; then it is gone.
fn come_and_go(keeper: &Arc<Keeper>, round: u32) {
    let (ours, theirs) = pair(libc::SOCK_SEQPACKET).unwrap();
    keeper.greet(ours);
    let tcp = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let (joined, _other) = pair(libc::SOCK_SEQPACKET).unwrap();
    let questions: [(Kind, i32, &[i32]); 6] = [
        (Kind::Hello, 0, &[]),
        (Kind::Repair, 1, &[tcp.raw()]),
        (Kind::Attach, 1, &[tcp.raw()]),
        (Kind::Status, 0, &[]),
        (Kind::Restore, 1, &[tcp.raw(), tcp.raw()]),
        (Kind::Join, 0, &[joined.raw()]),
    ];
    for (number, (kind, value, descriptors)) in (1..).zip(questions).take(2 + round as usize % 5) {
        let question = Packet::question(kind, number, value).bytes();
        send_descriptors(theirs.raw(), &question, descriptors).unwrap();
        if kind != Kind::Join {
            receive_descriptors(theirs.raw(), &mut [0; 512], &mut Vec::new(), 0).unwrap();
        }
    }
    if round.is_multiple_of(2) {
        send_descriptors(theirs.raw(), b"no question", &[]).unwrap();
    }
}

/// What the keeper has with no client and nothing told.
fn left(keeper: &Arc<Keeper>, before: usize) -> [isize; 2] {
    eventually("its threads are gone", || threads() == before && Arc::strong_count(keeper) == 1);
    *keeper.told().0.lock().unwrap() = None;
    live()
}

/// So many lanes, of processes that have ended.
fn lanes(keeper: &Arc<Keeper>, index: u32, count: u32) {
    /// Above the largest pid_max.
    const NOBODY: i32 = 0x3fff_fff0;
    (0..count).for_each(|at| drop(keeper.held().attach(index, NOBODY + at as i32).unwrap()));
    eventually("they are forgotten", || {
        keeper.held().tend(false);
        keeper.held().lanes_handed() == 0
    });
}

fn compare() {
    let namespace = Namespace::create("heap").unwrap();
    namespace.ip("link add veth type veth peer name peer").unwrap();
    namespace.ip("link set veth up").unwrap();
    namespace.ip("link set peer up").unwrap();
    let index = namespace.ip("-o link show veth").unwrap();
    let index = index.split(':').next().unwrap().parse().unwrap();
    let run = || {
        let (interfaces, _) = config::Interfaces::parse("veth");
        let held = Held::new(Settings { interfaces, hold: Duration::MAX, frames: 4096 });
        let policy = Policy::new([].into_iter(), ["root"].into_iter()).unwrap();
        let keeper = Keeper::new(policy, Limits::default(), "here".to_owned(), held).unwrap();
        let before = threads();
        (0..100).for_each(|round| come_and_go(&keeper, round));
        let had = left(&keeper, before);
        (0..2500).for_each(|round| come_and_go(&keeper, round));
        let has = left(&keeper, before);
        println!("2500 clients: {had:?}, {has:?}");
        assert_eq!(has, had, "2500 clients");
        lanes(&keeper, index, 100);
        let had = left(&keeper, before);
        (0..3).for_each(|_| lanes(&keeper, index, 100));
        let has = left(&keeper, before);
        println!("300 lanes: {had:?}, {has:?}");
        assert_eq!(has, had, "300 lanes");
    };
    namespace.inside(run).unwrap();
}

#[test]
fn clients_and_lanes_come_and_go_and_leave_no_byte() {
    const HERE: &str = "SIDESTEP_TEST_COUNTS_ITS_HEAP";
    if !rig::is_root() {
        return rig::skip::skipped_here("needs root");
    }
    if std::env::var_os(HERE).is_some() {
        return compare();
    }
    let name = "clients::tests::clients_and_lanes_come_and_go_and_leave_no_byte";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let alone =
        alone.args([name, "--exact", "--test-threads=1", "--nocapture"]).env(HERE, "1").output().unwrap();
    println!("{}", String::from_utf8_lossy(&alone.stdout));
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
}
