//! Two sides of one segment that keep to the rules.

use super::*;

/// Both sides of a new connection.
pub(super) fn pair() -> (Connection, Connection) {
    let (made, file) = Segment::make().unwrap();
    let joined = Segment::join(&file).unwrap();
    (Connection::new(made, Side::Maker), Connection::new(joined, Side::Guest))
}

/// Bytes that tell where in the stream they are.
pub(super) fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

pub(super) fn all_of(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 5000];
    loop {
        let _ = connection.take_in();
        match connection.receive(&mut buffer).0 {
            0 => return all,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

#[test]
fn what_is_sent_is_received_whatever_the_sizes() {
    let (mut a, mut b) = pair();
    let (mut sent, mut got) = (0, Vec::new());
    let mut random = 12345u32;
    while sent < 20_000_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = [1, 60, 231, 232, 233, 1000, 8191, 8192, 8193, 100_000][(random >> 24) as usize % 10];
        sent += a.send(&bytes(sent, size)).0;
        if random & 0x300 == 0 || a.send(&[]).0 == 0 && !a.is_writable() {
            got.extend(all_of(&mut b));
        }
    }
    got.extend(all_of(&mut b));
    assert!(got == bytes(0, sent), "{} of {sent} bytes, or others", got.len());
    assert_eq!((a.broken(), b.broken()), (None, None));
    assert!(a.is_read_by_peer());
}

#[test]
fn a_reader_that_does_not_read_stops_the_writer_and_its_end_still_goes_through() {
    let (mut a, mut b) = pair();
    let mut sent = 0;
    loop {
        match a.send(&bytes(sent, 1)).0 {
            0 => break,
            count => sent += count,
        }
    }
    assert_eq!(sent as u64, SCARCE + (SCARCE - RESERVE) * PAYLOAD_MAX as u64);
    assert!(!a.is_writable());
    let _ = a.shut();
    let _ = b.take_in();
    assert_eq!(b.unread(), sent);
    assert!(!b.is_at_end());
    let mut one = [0];
    assert_eq!(b.receive(&mut one).0, 1);
    assert!(!a.is_read_by_peer());
    assert_eq!(all_of(&mut b), bytes(1, sent - 1));
    assert!(b.is_at_end() && a.is_read_by_peer());
    assert_eq!(a.send(b"late").0, 0);
    assert_eq!(b.send(b"the other half is open").0, 22);
    assert_eq!(all_of(&mut a), b"the other half is open");
}

/// The kernel's buffers hold bytes, whatever pieces they came in; so both sides may send before either reads.
#[test]
fn many_short_messages_each_way_fit_before_anybody_reads() {
    let (mut a, mut b) = pair();
    for side in [&mut a, &mut b] {
        for at in 0..200_000 {
            assert_eq!(side.send(&bytes(at, 1)).0, 1, "byte {at}");
        }
    }
    for side in [&mut a, &mut b] {
        assert!(all_of(side) == bytes(0, 200_000));
        assert_eq!(side.broken(), None);
    }
    assert!(a.is_read_by_peer() && b.is_read_by_peer());
}

#[test]
fn what_a_message_grows_by_is_news_and_what_was_read_is_closed() {
    let (mut a, mut b) = pair();
    while a.granted - a.sent > SCARCE {
        assert_eq!(a.send(b"short").0, 5);
    }
    let (number, before) = (a.sent + 1, 5 * SCARCE as usize);
    assert_eq!((a.send(b"one").0, a.sent, a.grows), (3, number, true));
    assert!(b.take_in().0 && !b.take_in().0);
    b.want(Wants::DATA);
    assert_eq!((a.send(b"two"), a.sent), ((3, Ring::Yes), number));
    assert!(b.take_in().0 && !b.take_in().0);
    assert_eq!(b.unread(), before + 6);
    assert_eq!((b.receive(&mut vec![0; before + 4]).0, a.send(b"!").0, a.sent), (before + 4, 1, number));
    let mut some = [0; 6];
    // Not taken in yet, and found at the end of what is known.
    assert_eq!((b.receive(&mut some).0, &some[..3]), (3, &b"wo!"[..]));
    assert_eq!((a.send(b"new").0, a.sent, a.grows), (3, number + 1, false));
    assert_eq!(all_of(&mut b), b"new");
    let _ = (a.send(b"last"), a.shut());
    assert_eq!((all_of(&mut b), b.is_at_end()), (b"last".to_vec(), true));
}

#[test]
fn a_message_grows_while_another_thread_reads_it() {
    const COUNT: usize = 300_000;
    let (mut a, mut b) = pair();
    let reader = std::thread::spawn(move || {
        let (mut got, mut piece) = (Vec::new(), [0; 700]);
        while got.len() < COUNT && b.broken().is_none() {
            let _ = b.take_in();
            let size = 1 + got.len() % 700;
            let count = b.receive(&mut piece[..size]).0;
            got.extend_from_slice(&piece[..count]);
        }
        got
    });
    let mut sent = 0;
    while sent < COUNT {
        sent += a.send(&bytes(sent, (1 + sent % 3).min(COUNT - sent))).0;
    }
    assert!(reader.join().unwrap() == bytes(0, COUNT));
}

#[test]
fn what_a_message_grew_by_is_owed_to_who_leaves() {
    let (mut a, mut b) = pair();
    let mut sent = 0;
    while sent < 100_000 {
        sent += a.send(&bytes(sent, 7)).0;
    }
    let _ = b.take_in();
    let mut first = vec![0; 5000];
    assert_eq!(b.receive(&mut first).0, 5000);
    sent += a.send(&bytes(sent, 9)).0;
    let _ = b.leave();
    let _ = a.take_in();
    assert_eq!(a.send(b"by the socket").0, 0);
    let mut owed = vec![0; sent];
    assert_eq!(a.owed(0, &mut owed), sent - 5000);
    assert!(first == bytes(0, 5000) && owed[..sent - 5000] == bytes(5000, sent - 5000));
}

#[test]
fn a_peek_takes_nothing_and_reaches_across_messages() {
    let (mut a, mut b) = pair();
    for size in [3, 300, 9000, 1] {
        let from = a.bytes_sent as usize;
        assert_eq!(a.send(&bytes(from, size)).0, size);
    }
    let _ = b.take_in();
    let mut two = [0; 2];
    assert_eq!(b.receive(&mut two).0, 2);
    for (skip, count) in [(0, 1), (0, 500), (1, 9000), (250, 9000), (9301, 10), (9302, 1), (20_000, 5)] {
        let mut buffer = vec![0; count];
        let got = b.peek(skip, &mut buffer);
        assert_eq!(got, count.min(9302usize.saturating_sub(skip)));
        assert_eq!(buffer[..got], bytes(2 + skip, got));
    }
    assert_eq!(b.discard(5000).0, 5000);
    assert_eq!(all_of(&mut b), bytes(5002, 4302));
}

#[test]
fn an_abort_is_heard_behind_what_was_sent_before() {
    let (mut a, mut b) = pair();
    assert_eq!(a.send(b"before").0, 6);
    let _ = a.abort();
    let _ = b.take_in();
    assert_eq!(b.broken(), Some(Broken::Reset));
    let mut buffer = [0; 10];
    assert_eq!(b.receive(&mut buffer).0, 6);
    assert_eq!(b.send(b"x").0, 0);
}

/// What the socket carries, as two queues.
#[derive(Default)]
struct Sockets {
    to_a: Vec<u8>,
    to_b: Vec<u8>,
}

fn pay(debtor: &Connection, socket: &mut Vec<u8>) {
    let mut buffer = [0; 777];
    let mut paid = 0;
    loop {
        match debtor.owed(paid, &mut buffer) {
            0 => return,
            count => {
                socket.extend_from_slice(&buffer[..count]);
                paid += count as u64;
            }
        }
    }
}

#[test]
fn each_direction_goes_on_by_the_socket_at_an_exact_byte() {
    for (read_before, unread) in [(0, 0), (0, 5000), (1, 9000), (8000, 20_000), (8193, 1)] {
        let (mut a, mut b) = pair();
        let mut sockets = Sockets::default();
        assert_eq!(b.send(&bytes(0, read_before + unread)).0, read_before + unread);
        assert_eq!(a.send(b"by the ring, ").0, 13);
        let _ = a.take_in();
        let mut start = vec![0; read_before];
        assert_eq!(a.receive(&mut start).0, read_before);
        let _ = a.leave();
        assert!(a.is_leaving() && !a.has_left() && a.receives_by_socket());
        assert_eq!(a.send(b"not yet").0, 0);
        // The peer has sent on, before it knows.
        let more = b.send(&bytes(read_before + unread, 10_000)).0;
        let _ = b.take_in();
        assert!(b.has_left() && !b.receives_by_socket());
        pay(&b, &mut sockets.to_a);
        sockets.to_a.extend(bytes(read_before + unread + more, 10));
        let _ = a.take_in();
        assert!(a.has_left() && !a.is_leaving());
        pay(&a, &mut sockets.to_b);
        sockets.to_b.extend(b"by the socket");
        assert_eq!(sockets.to_a, bytes(read_before, unread + more + 10));
        let mut heard = all_of(&mut b);
        assert!(b.receives_by_socket());
        heard.extend(&sockets.to_b);
        assert_eq!(heard, b"by the ring, by the socket");
        assert_eq!((a.broken(), b.broken()), (None, None));
    }
}

#[test]
fn both_may_leave_at_once_and_each_pays_what_the_other_has_not_read() {
    let (mut a, mut b) = pair();
    let mut sockets = Sockets::default();
    assert_eq!((a.send(&bytes(0, 3000)).0, b.send(&bytes(7, 600)).0), (3000, 600));
    let (_, _) = (a.take_in(), b.take_in());
    let mut some = [0; 100];
    assert_eq!((a.receive(&mut some).0, b.receive(&mut some).0), (100, 100));
    let (_, _) = (a.leave(), b.leave());
    let (_, _) = (a.take_in(), b.take_in());
    assert!(a.has_left() && b.has_left());
    pay(&a, &mut sockets.to_b);
    pay(&b, &mut sockets.to_a);
    assert_eq!(sockets.to_b, bytes(100, 2900));
    assert_eq!(sockets.to_a, bytes(107, 500));
    assert_eq!((a.broken(), b.broken()), (None, None));
}

#[test]
fn who_ended_its_stream_may_leave_and_be_left() {
    let (mut a, mut b) = pair();
    let mut sockets = Sockets::default();
    assert_eq!((a.send(b"all").0, b.send(b"answer").0), (3, 6));
    let (_, _) = (a.shut(), b.shut());
    let _ = a.leave();
    let _ = b.take_in();
    let _ = a.take_in();
    pay(&b, &mut sockets.to_a);
    assert_eq!(sockets.to_a, b"answer");
    assert_eq!(all_of(&mut b), b"all");
    assert!(a.has_left() && b.has_left() && b.is_at_end());
    assert_eq!((a.broken(), b.broken()), (None, None));
}

#[test]
fn leaving_with_all_grants_used_is_possible_in_both_directions() {
    let (mut a, mut b) = pair();
    while a.send(b"x").0 > 0 {}
    while b.send(b"y").0 > 0 {}
    let (_, _) = (a.shut(), b.shut());
    let _ = a.leave();
    let _ = b.take_in();
    let _ = a.take_in();
    assert!(a.has_left() && b.has_left());
    assert_eq!((a.broken(), b.broken()), (None, None));
    let _ = b.abort();
    let _ = a.take_in();
    assert_eq!(a.broken(), Some(Broken::Reset));
}

/// Only what the peer has not read could be owed.
#[test]
fn a_direction_parts_alone_and_at_once_as_soon_as_everything_is_read() {
    let (mut a, mut b) = pair();
    assert_eq!((a.send(b"first").0, b.send(b"answer").0), (5, 6));
    let _ = a.part();
    assert!(!a.has_left(), "unread");
    assert_eq!(all_of(&mut b), b"first");
    b.want(Wants::DATA);
    assert_eq!((a.part(), a.has_left(), a.send(b"late").0), (Ring::Yes, true, 0));
    assert!(!b.receives_by_socket() && !b.has_peer_parted());
    let _ = b.take_in();
    assert!(b.receives_by_socket() && b.has_peer_parted() && !b.has_left());
    // The other direction goes on here, and ends here.
    assert_eq!(b.send(b", more").0, 6);
    let _ = b.shut();
    assert_eq!((all_of(&mut a), a.is_at_end()), (b"answer, more".to_vec(), true));
    assert!(!a.receives_by_socket());
    assert_eq!((a.owed(0, &mut [0]), a.broken(), b.broken()), (0, None, None));
}

#[test]
fn who_parts_may_be_left_at_the_same_moment_and_owes_nothing() {
    let (mut a, mut b) = pair();
    let mut sockets = Sockets::default();
    assert_eq!((a.send(b"read").0, b.send(b"unread").0), (4, 6));
    assert_eq!(all_of(&mut b), b"read");
    let _ = (a.part(), b.leave());
    sockets.to_b.extend(b", by the socket");
    let (_, _) = (a.take_in(), b.take_in());
    assert!(a.has_left() && b.has_left() && b.receives_by_socket());
    pay(&a, &mut sockets.to_b);
    pay(&b, &mut sockets.to_a);
    assert_eq!((&sockets.to_b[..], &sockets.to_a[..]), (&b", by the socket"[..], &b""[..]));
    assert_eq!(all_of(&mut a), b"unread");
    assert!(a.receives_by_socket());
    assert_eq!((a.broken(), b.broken()), (None, None));
}

/// It has granted nothing yet, which is no word of what it read.
#[test]
fn a_peer_that_died_before_it_came_has_left_nothing_unread() {
    let mut alone = Connection::new(Segment::make().unwrap().0, Side::Maker);
    assert!(alone.was_read_by_peer());
    assert_eq!(alone.send(b"to nobody").0, 9);
    assert!(!alone.was_read_by_peer());
}

#[test]
fn an_end_that_the_peer_has_not_seen_is_nothing_unread() {
    let (mut a, mut b) = pair();
    assert_eq!(a.send(b"all").0, 3);
    assert!(!a.was_read_by_peer());
    assert_eq!(all_of(&mut b), b"all");
    let _ = a.shut();
    assert!(a.was_read_by_peer() && a.is_read_by_peer());
}
