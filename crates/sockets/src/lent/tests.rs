//! What programs may do with memory that they were lent, and what they may not.

use super::*;

fn frames(texts: &[&str]) -> Vec<Memory> {
    texts.iter().map(|text| Memory::Frame(Frame::of_bytes(text.as_bytes()))).collect()
}

fn socket() -> SocketId {
    SocketId::from_bits(7)
}

#[test]
fn a_packet_comes_back_once_and_to_its_socket_only() {
    let mut lent = Lent::new(3, 64);
    let first = lent.lend(Loan::Packet(1), socket(), frames(&["ab", "cde"]).into_iter());
    let pieces: Vec<_> = lent.pieces(first).map(|(_, bytes)| bytes.to_vec()).collect();
    assert_eq!(pieces, [b"ab".to_vec(), b"cde".to_vec()]);
    let name = lent.name(first);
    assert_eq!(Lent::slot_of(name), Some(3));
    assert_eq!(lent.give_back(name, 2), None, "another socket's");
    assert_eq!(lent.give_back(name, 1), Some((Returned { socket: socket(), bytes: 5 }, 2)));
    assert_eq!(lent.give_back(name, 1), None, "twice");
}

#[test]
fn names_that_nobody_was_given_find_nothing() {
    let mut lent = Lent::new(0, 64);
    let first = lent.lend(Loan::Packet(1), socket(), frames(&["a"]).into_iter());
    let name = lent.name(first);
    for forged in [0, 1, u64::MAX, name + 1, name ^ 1 << 24, name ^ 1 << 55, 0xdead_beef] {
        assert_eq!(lent.give_back(forged, 1), None, "{forged:#x}");
    }
    assert_eq!(Lent::slot_of(0), None);
    // A packet is no buffer, whatever its address.
    let address = lent.address(first).addr();
    assert!(lent.hold(address).is_none() && lent.let_go(address).is_none());
}

#[test]
fn a_buffer_is_free_when_the_last_who_holds_it_lets_go() {
    let mut lent = Lent::new(0, 64);
    let first = lent.lend(Loan::Buffer, socket(), frames(&["ab", "c"]).into_iter());
    let (list, count, bytes) = lent.describe(first);
    assert_eq!((count, bytes), (2, 3));
    // SAFETY: just described.
    let second = unsafe { (*list).next };
    assert_eq!(lent.following(list.addr()), Some(Some(second.addr())));
    assert_eq!(lent.following(second.addr()), Some(None));
    assert_eq!(lent.hold(list.addr()), Some(2));
    assert_eq!(lent.let_go(list.addr()), Some((1, None)));
    assert_eq!(lent.let_go(list.addr()), Some((0, Some(Returned { socket: socket(), bytes: 2 }))));
    assert_eq!(lent.let_go(list.addr()), None, "twice");
    assert_eq!(lent.let_go(second.addr()), Some((0, Some(Returned { socket: socket(), bytes: 1 }))));
}

#[test]
fn addresses_that_are_no_buffers_find_nothing() {
    let mut lent = Lent::new(0, 64);
    let first = lent.lend(Loan::Buffer, socket(), frames(&["ab"]).into_iter());
    let (list, _, _) = lent.describe(first);
    let size = size_of::<Buff>();
    for address in [0, 1, list.addr() + 1, list.addr() + size, list.addr().wrapping_sub(size), usize::MAX] {
        assert_eq!(lent.let_go(address), None, "{address:#x}");
    }
    assert_eq!(lent.let_go(list.addr()).map(|(left, _)| left), Some(0));
}

#[test]
fn what_was_given_back_is_used_again_last() {
    let mut lent = Lent::new(0, 64);
    let one = |lent: &mut Lent| {
        let first = lent.lend(Loan::Buffer, socket(), frames(&["a"]).into_iter());
        let address = lent.describe(first).0.addr();
        lent.let_go(address);
        address
    };
    let gone = one(&mut lent);
    for _ in 1..BLOCK {
        assert_ne!(one(&mut lent), gone);
    }
    assert_eq!(one(&mut lent), gone);
}

#[test]
fn who_keeps_everything_leaves_room_for_others() {
    let mut lent = Lent::new(0, 64);
    let mut held = 0;
    while lent.has_room(held, 1) {
        lent.lend(Loan::Packet(1), socket(), frames(&["a"]).into_iter());
        held += 1;
    }
    assert!(held as usize >= PIECES_MAX / 2 && (held as usize) < PIECES_MAX * 3 / 4, "{held}");
    assert!(lent.has_room(0, 64), "for the next");
    lent.take_all_back(1);
    assert!(lent.has_room(held, 1));
}

#[test]
fn what_is_reserved_can_be_filled_once_or_given_back() {
    let mut lent = Lent::new(0, 64);
    let name = lent.reserve(Loan::Packet(1), socket());
    assert!(lent.fill(name, frames(&["ab", "c"])));
    assert!(!lent.fill(name, frames(&["d"])), "twice");
    assert_eq!(lent.give_back(name, 1).map(|(returned, pieces)| (returned.bytes, pieces)), Some((3, 2)));
    let name = lent.reserve(Loan::Packet(1), socket());
    assert_eq!(lent.give_back(name, 1).map(|(returned, _)| returned.bytes), Some(0));
    assert!(!lent.fill(name, frames(&["d"])), "it was given back");
}
