//! A segment written and read back, and bytes that are none.

use crate::reader::{Snapshot, Unreadable, Wish};
use crate::segment::{About, Segment, address, address_of, flag};
use crate::{Lane, Process, Socket, Why};
use core::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// Blocks handed out are counted per process, so one segment at a time.
static ONE: Mutex<()> = Mutex::new(());

struct Memory {
    words: &'static mut [u64],
    at: usize,
    _one: MutexGuard<'static, ()>,
}

fn memory(size: usize) -> Memory {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let words = Vec::leak(vec![0u64; size / 8 + 8]);
    let at = words.as_ptr().align_offset(64);
    Memory { words, at, _one: one }
}

impl Memory {
    fn segment(&mut self, lanes: usize, sockets: usize) -> Segment {
        let length = (self.words.len() - self.at) * 8;
        let start = NonNull::from(&mut self.words[self.at]).cast();
        let about = About { pid: 42, program: b"prog\x1b", started_ns: 7 };
        // SAFETY: zeroed, leaked, aligned, and read only as bytes.
        unsafe { Segment::create(start, length, lanes, sockets, about) }.unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        // As another process would see them: word by word.
        let words = self.words[self.at..].as_ptr();
        (0..self.words.len() - self.at)
            // SAFETY: within the allocation.
            .flat_map(|place| unsafe { words.add(place).read_volatile() }.to_ne_bytes())
            .collect()
    }
}

fn with(lanes: usize, sockets: usize) -> (Memory, Segment) {
    let mut memory = memory(Segment::size(lanes, sockets));
    let segment = memory.segment(lanes, sockets);
    (memory, segment)
}

#[test]
fn what_was_counted_is_read_back() {
    let (memory, segment) = with(2, 3);
    segment.process().sockets_accelerated.add(5);
    segment.left_to_kernel(Why::QueueBusy);
    segment.lane(1).interface.set(4);
    segment.lane(1).rx_frames.add(9);
    let socket = segment.claim_socket(0);
    socket.flags.set(flag::ACCELERATED | flag::TCP);
    socket.local.set(address("10.0.0.1:80".parse().unwrap()));
    socket.rx_queued_packets_max.seen(3);
    socket.rx_queued_packets_max.seen(2);
    let read = Snapshot::parse(&memory.bytes()).unwrap();
    assert_eq!((read.pid, read.program.as_str(), read.started_ns), (42, "prog?", 7));
    assert_eq!(read.process.sockets_accelerated.value(), 5);
    assert_eq!(read.process.sockets_left.value(), 1);
    assert_eq!(read.left.iter().find(|(why, _)| *why == Why::QueueBusy), Some(&(Why::QueueBusy, 1)));
    assert_eq!(read.lanes.len(), 1);
    assert_eq!((read.lanes[0].0, read.lanes[0].1.rx_frames.value()), (1, 9));
    let socket = read.socket(0).unwrap();
    assert_eq!(address_of(socket.local.value()).to_string(), "10.0.0.1:80");
    assert_eq!(socket.rx_queued_packets_max.value(), 3);
}

#[test]
fn blocks_are_handed_out_once_and_again_after_release() {
    let (memory, segment) = with(1, 2);
    let (first, second) = (segment.claim_socket(3), segment.claim_socket(4));
    first.rx_packets.one();
    let beyond = segment.claim_socket(5);
    assert!(!core::ptr::eq(first, second) && !core::ptr::eq(second, beyond));
    assert!(core::ptr::eq(beyond, segment.claim_socket(6)), "all further sockets share one block");
    beyond.tx_packets.add(2);
    segment.release_socket(beyond);
    segment.release_socket(first);
    let again = segment.claim_socket(7);
    assert!(core::ptr::eq(first, again));
    assert_eq!((again.rx_packets.value(), again.generation.value()), (0, 2));
    let read = Snapshot::parse(&memory.bytes()).unwrap();
    assert_eq!(read.others.tx_packets.value(), 2);
    assert!(read.socket(7).is_some() && read.socket(3).is_none() && read.socket(6).is_none());
}

#[test]
fn without_blocks_sockets_still_count() {
    let (_memory, segment) = with(0, 0);
    segment.claim_socket(3).rx_packets.one();
    segment.lane(5).turns.one();
    Segment::nowhere().claim_socket(3).rx_packets.one();
    Segment::nowhere().left_to_kernel(Why::NoRoute);
}

#[test]
fn counts_set_to_zero_begin_anew_for_the_same_socket_only() {
    let (memory, segment) = with(1, 1);
    let socket = segment.claim_socket(3);
    socket.rx_packets.add(10);
    socket.rx_queued_bytes.set(4);
    segment.left_to_kernel(Why::NoRoute);
    let mut bytes = memory.bytes();
    let (at, from) = Snapshot::parse(&bytes).unwrap().zeroing();
    let baseline = bytes[from].to_vec();
    let zeroed = |bytes: &mut Vec<u8>| bytes[at..at + baseline.len()].copy_from_slice(&baseline);
    socket.rx_packets.add(1);
    bytes = memory.bytes();
    zeroed(&mut bytes);
    let read = Snapshot::parse(&bytes).unwrap();
    assert_eq!(read.socket(3).unwrap().rx_packets.value(), 1);
    assert_eq!(read.socket(3).unwrap().rx_queued_bytes.value(), 4, "only counts begin anew");
    assert_eq!(read.process.sockets_left.value(), 0);
    segment.release_socket(socket);
    segment.claim_socket(3).rx_packets.add(5);
    bytes = memory.bytes();
    zeroed(&mut bytes);
    assert_eq!(Snapshot::parse(&bytes).unwrap().socket(3).unwrap().rx_packets.value(), 5);
}

#[test]
fn hundreds_of_groups_are_read_back_and_go_with_their_socket() {
    let (memory, segment) = with(0, 2);
    let group = |n: u32| core::net::Ipv4Addr::from_bits(0xef00_0000 | n);
    let (many, one) = (segment.claim_socket(3), segment.claim_socket(4));
    for n in 0..500 {
        segment.member(many, group(n), true);
    }
    segment.member(many, group(7), true);
    segment.member(many, group(8), false);
    segment.member(one, group(7), true);
    segment.member(segment.claim_socket(5), group(9), true);
    let read = Snapshot::parse(&memory.bytes()).unwrap();
    let expected: Vec<_> = (0..500).filter(|n| *n != 8).map(group).collect();
    assert_eq!(read.groups(read.socket(3).unwrap()), expected);
    assert_eq!(read.socket(3).unwrap().groups.value(), 499);
    assert_eq!(read.groups(read.socket(4).unwrap()), [group(7)]);
    assert!(read.groups(&read.others).is_empty(), "the shared block is of no group");
    segment.release_socket(many);
    let again = segment.claim_socket(3);
    assert!(segment.groups(again).is_empty());
    assert_eq!(segment.groups(one), [group(7)]);
}

#[test]
fn memberships_beyond_the_room_are_counted() {
    let (_memory, segment) = with(0, 1);
    let socket = segment.claim_socket(3);
    let group = |n: u32| core::net::Ipv4Addr::from_bits(0xef00_0000 | n);
    let most = crate::layout::GROUPS as u32;
    (0..most + 2).for_each(|n| segment.member(socket, group(n), true));
    assert_eq!((socket.groups.value(), segment.groups(socket).len()), (u64::from(most) + 2, most as usize));
    segment.member(socket, group(most + 1), false);
    segment.member(socket, group(0), false);
    assert_eq!(socket.groups.value(), u64::from(most));
}

#[test]
fn wishes_reach_the_process_once() {
    let (memory, segment) = with(0, 0);
    for wish in [Wish::LogLevel(-1), Wish::LogDetails(3), Wish::Dump(0, 5), Wish::Capture(9)] {
        for (at, word) in wish.writes() {
            let place = memory.at + at / 8;
            memory.words[place] = u64::from_ne_bytes(word);
        }
    }
    let control = segment.control();
    assert_eq!(control.take_log_level(), Some(-1));
    assert_eq!(control.take_log_level(), None);
    assert_eq!(control.take_log_details(), Some(3));
    assert_eq!(control.take_dump(), Some((0, 5)));
    assert_eq!((control.take_log_details(), control.take_dump()), (None, None));
    assert_eq!((control.capture(), control.capture()), (9, 9), "which stands until it is done with");
    control.end_capture(8, 0);
    assert_eq!(Snapshot::parse(&memory.bytes()).unwrap().capture, 9, "another one");
    control.end_capture(9, 28);
    let told = Snapshot::parse(&memory.bytes()).unwrap();
    assert_eq!((told.capture, told.capture_errno), (0, 28));
}

#[test]
fn bytes_that_are_no_segment_are_refused_without_harm() {
    let (memory, segment) = with(1, 2);
    segment.claim_socket(3);
    let good = memory.bytes();
    assert!(Snapshot::parse(&good).is_ok());
    assert_eq!(Snapshot::parse(b"").unwrap_err(), Unreadable::NotASegment);
    assert_eq!(Snapshot::parse(&[0; 4096]).unwrap_err(), Unreadable::NotASegment);
    assert_eq!(Snapshot::parse(&good[..4096.min(good.len() / 2)]).unwrap_err(), Unreadable::Damaged);
    let broken = |at: usize, word: u64| {
        let mut bytes = good.clone();
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        Snapshot::parse(&bytes).unwrap_err()
    };
    assert!(matches!(broken(2, 1), Unreadable::OtherVersion([_, 1], _)));
    for at in [5, 6, 7] {
        for word in [0, 1, 3, 1025, u64::MAX, u64::MAX / 2] {
            if (at, word) != (5, 1) {
                assert_eq!(broken(at, word), Unreadable::Damaged, "word {at} = {word}");
            }
        }
    }
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let small = memory(64);
    let start = NonNull::from(&small.words[small.at]).cast();
    let about = About { pid: 1, program: b"", started_ns: 0 };
    // SAFETY: refused before anything is written.
    assert!(unsafe { Segment::create(start, 64, 1, 1, about) }.is_none());
}

#[test]
fn names_are_unique_and_every_row_says_what_it_means() {
    for columns in [Process::COLUMNS, Lane::COLUMNS, Socket::COLUMNS] {
        for (place, column) in columns.iter().enumerate() {
            assert!(column.doc.trim().ends_with(['.', ':']), "{}", column.name);
            assert!(columns[..place].iter().all(|other| other.name != column.name), "{}", column.name);
        }
    }
    assert_eq!(Socket::column("fd"), Some(0));
}

#[test]
fn the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    let (written, table) = (std::fs::read_to_string(path).unwrap_or_default(), crate::manual::markdown());
    if written != table {
        std::fs::write(path, &table).unwrap();
        panic!("docs/counters.md was stale and is written anew: look at it and commit it");
    }
}
