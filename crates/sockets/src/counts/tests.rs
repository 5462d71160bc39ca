//! Blocks handed out, kept for sockets that were left, and what they say of multicast.

use super::*;
use stats::report;

#[test]
fn a_socket_left_to_the_kernel_keeps_its_block_and_reason_until_its_descriptor_is_closed() {
    let length = Segment::size(1, 2);
    let memory = sys::memory::Mapping::anonymous(length).unwrap();
    let about = About { pid: 1, program: b"test", started_ns: 0 };
    // SAFETY: fresh zeroed memory that stays mapped.
    let segment = unsafe { Segment::create(memory.start(), length, 1, 2, about) }.unwrap();
    core::mem::forget(memory);
    SEGMENT.store(Box::leak(Box::new(segment)), Ordering::Release);

    let block = claim(Kind::TcpIdle, 700, true);
    assert_eq!(block.flags.value(), flag::TCP | flag::NONBLOCKING);
    left(block, 700, Why::Rule);
    assert_eq!((block.flags.value() & flag::LEFT, block.why.value()), (flag::LEFT, Why::Rule as u64));
    closed(0..700);
    assert!(knows(700) && !knows(701));
    closed(700..701);
    assert!(!knows(700));
    assert_eq!(block.fd.value(), 0, "the block is free again");

    // Sockets beyond the blocks share one, which names no descriptor and is nobody's to keep.
    let (_, _, beyond) = (claim(Kind::Udp, 1, false), claim(Kind::Udp, 2, false), claim(Kind::Udp, 3, false));
    assert_eq!(beyond.fd.value(), 0);
    left(beyond, 3, Why::Rule);
    assert!(!knows(3));
    assert_eq!(beyond.flags.value(), 0);
}

#[test]
fn four_groups_are_shown_and_a_group_that_is_left_makes_room() {
    let block = Block::new();
    block.fd.set(4);
    for last in [1, 2, 2, 3, 4, 5] {
        member(&block, &[239, 0, 0, last, 10, 0, 0, 1], true);
    }
    member(&block, &[239, 0, 0, 2], false);
    member(&block, &[239, 0, 0, 6], true);
    member(&block, &[239], true);
    let shown = report::groups(&block).iter().map(|group| group.octets()[3]).collect::<Vec<_>>();
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 3, 4, 6], "{shown:?}");
}
