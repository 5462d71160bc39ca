//! Pieces that leave the receive queue whole, and a filter that sees them first.

use super::*;
use crate::Ready;

type Piece = crate::tcp::Piece<crate::testing::VecFrame>;

fn take(
    world: &mut World,
    id: SocketId,
    pieces: usize,
    bytes: usize,
) -> Result<Option<Vec<Piece>>, RecvError> {
    let mut taken = Vec::new();
    let host = &mut world.hosts[1];
    let n = host.stack.tcp_take(world.now, id, (pieces, bytes), &mut taken, &mut host.out)?;
    assert_eq!(n.unwrap_or(0), taken.iter().map(|piece| piece.bytes().len()).sum::<usize>());
    Ok(n.map(|_| taken))
}

fn give_back(world: &mut World, id: SocketId, bytes: usize) {
    let host = &mut world.hosts[1];
    host.stack.tcp_give_back(world.now, id, bytes as u32, &mut host.out);
}

fn skip(world: &mut World, id: SocketId, bytes: usize, lent: bool) {
    let host = &mut world.hosts[1];
    host.stack.tcp_skip(world.now, id, bytes as u32, lent, &mut host.out);
}

#[test]
fn a_stream_is_taken_piece_by_piece_and_ends() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let bytes: Vec<u8> = (0..500_000).map(byte).collect();
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        if sent < bytes.len() {
            sent += world.send(0, a, &bytes[sent..]).unwrap_or(0);
        }
        world.run(MS);
        match take(&mut world, b, 3, usize::MAX) {
            Ok(Some(pieces)) => {
                let before = got.len();
                pieces.iter().for_each(|piece| got.extend_from_slice(piece.bytes()));
                let back = got.len() - before;
                give_back(&mut world, b, back);
            }
            Ok(None) => panic!("nothing is lent, and nothing is urgent"),
            Err(why) => assert_eq!(why, RecvError::WouldBlock),
        }
    }
    assert_eq!(got, bytes);
    assert_eq!(world.hosts[1].stack.budget.attached(), 0);
    world.shutdown(0, a).unwrap();
    world.run(MS);
    assert!(take(&mut world, b, 3, usize::MAX).unwrap().unwrap().is_empty());
}

#[test]
fn what_is_kept_closes_the_window_by_half_and_copies_go_on() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let bytes: Vec<u8> = (0..2_000_000).map(byte).collect();
    let (mut sent, mut read, mut kept) = (0, 0, 0);
    let mut copies = 0;
    while read < bytes.len() {
        if sent < bytes.len() {
            sent += world.send(0, a, &bytes[sent..]).unwrap_or(0);
        }
        world.run(MS * 10);
        match take(&mut world, b, 64, usize::MAX) {
            Ok(Some(pieces)) => {
                for piece in &pieces {
                    assert_eq!(piece.bytes(), &bytes[read..read + piece.bytes().len()]);
                    read += piece.bytes().len();
                    kept += piece.bytes().len();
                }
            }
            Ok(None) => {
                let part = world.recv(1, b, 5000).unwrap();
                assert_eq!(part, bytes[read..read + part.len()]);
                read += part.len();
                copies += 1;
            }
            Err(why) => assert_eq!(why, RecvError::WouldBlock),
        }
    }
    assert!(copies > 0 && kept > 0 && kept < bytes.len() / 2, "{kept} kept, {copies} copies");
    give_back(&mut world, b, kept);
    world.transfer(0, a, b, 100_000);
}

#[test]
fn a_filter_sees_each_piece_and_what_it_drops_is_not_read() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.hosts[1].stack.tcp_filter(b, true);
    let arrive = |world: &mut World, text: &[u8]| {
        world.send(0, a, text).unwrap();
        world.run(MS * 300);
    };
    arrive(&mut world, b"drop");
    assert!(!world.hosts[1].stack.ready(b).has(Ready::IN));
    assert_eq!(world.recv(1, b, 10), Err(RecvError::WouldBlock));
    assert_eq!(world.hosts[1].stack.tcp_queued(b).unwrap().receive, 0);
    let piece = world.hosts[1].stack.tcp_take_unseen(b).unwrap();
    assert_eq!(piece.bytes(), b"drop");
    assert!(world.hosts[1].stack.tcp_take_unseen(b).is_none(), "one at a time");
    skip(&mut world, b, 4, false);
    arrive(&mut world, b"pass");
    let piece = world.hosts[1].stack.tcp_take_unseen(b).unwrap();
    world.hosts[1].stack.tcp_pass(b, piece);
    assert!(world.hosts[1].stack.ready(b).has(Ready::IN));
    arrive(&mut world, b"hold");
    assert!(world.hosts[1].stack.tcp_take_unseen(b).is_none(), "what passed is read first");
    assert_eq!(world.recv(1, b, 10).unwrap(), b"pass");
    let piece = world.hosts[1].stack.tcp_take_unseen(b).unwrap();
    skip(&mut world, b, 4, true);
    give_back(&mut world, b, piece.bytes().len());
    arrive(&mut world, b"end");
    world.shutdown(0, a).unwrap();
    world.run(MS);
    assert_eq!(world.recv(1, b, 10), Err(RecvError::WouldBlock), "it ends behind what nobody saw");
    let piece = world.hosts[1].stack.tcp_take_unseen(b).unwrap();
    assert_eq!(world.recv(1, b, 10), Err(RecvError::WouldBlock), "nor while somebody looks");
    world.hosts[1].stack.tcp_pass(b, piece);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"end");
    assert_eq!(world.recv(1, b, 10).unwrap(), b"");
}

#[test]
fn the_end_of_a_filter_lets_all_pass() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.hosts[1].stack.tcp_filter(b, true);
    world.send(0, a, b"text").unwrap();
    world.run(MS);
    world.hosts[1].stack.tcp_filter(b, false);
    assert_eq!(world.recv(1, b, 10).unwrap(), b"text");
}

#[test]
fn while_a_filter_looks_nobody_reads_past_the_piece_and_the_connection_stays() {
    for passes in [true, false] {
        let mut world = World::new();
        let (a, b) = world.pair();
        world.hosts[1].stack.tcp_filter(b, true);
        world.send(0, a, b"first").unwrap();
        world.run(MS * 300);
        let piece = world.hosts[1].stack.tcp_take_unseen(b).unwrap();
        world.send(0, a, b"second").unwrap();
        world.run(MS * 300);
        let now = world.now;
        assert!(world.hosts[1].stack.tcp_describe(now, b).is_none(), "a piece is out of the queue");
        // Taken away, set again and taken away while it looks.
        for on in [false, true, false] {
            world.hosts[1].stack.tcp_filter(b, on);
            assert_eq!(world.recv(1, b, 10), Err(RecvError::WouldBlock), "{on}");
            assert!(!world.hosts[1].stack.ready(b).has(Ready::IN));
        }
        let mut all = Vec::new();
        if passes {
            world.hosts[1].stack.tcp_pass(b, piece);
            all.extend_from_slice(b"first");
        } else {
            skip(&mut world, b, 5, false);
        }
        all.extend_from_slice(b"second");
        assert!(world.hosts[1].stack.ready(b).has(Ready::IN));
        assert_eq!(world.hosts[1].stack.tcp_describe(now, b).unwrap().unread, all);
        assert_eq!(world.recv(1, b, 100).unwrap(), all);
    }
}

#[test]
fn a_rehearsal_moves_nothing() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100);
    world.run(MS * 300);
    world.log.clear();
    let mut dry = crate::testing::VecOutlet::default();
    let host = &mut world.hosts[0];
    for _ in 0..3 {
        assert_eq!(host.stack.tcp_rehearse(world.now, a, &mut &b"dummy"[..], &mut dry), Ok(5));
    }
    let large = vec![0; 5000];
    let result = host.stack.tcp_rehearse(world.now, a, &mut &large[..], &mut dry);
    assert_eq!(result, Err(SendError::WouldBlock));
    assert_eq!(dry.frames.len(), 3);
    assert!(dry.frames.iter().all(|frame| frame.ends_with(b"dummy")));
    world.run(MS * 1000);
    assert!(world.log.is_empty(), "nothing was sent, and nothing again");
    world.transfer(0, a, b, 10_000);
    world.shutdown(0, a).unwrap();
    world.run(MS);
    let host = &mut world.hosts[0];
    let result = host.stack.tcp_rehearse(world.now, a, &mut &b"dummy"[..], &mut dry);
    assert_eq!(result, Err(SendError::Closed));
}
