//! Blocks handed out, kept for sockets that were left.

use super::*;

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
