//! The scoreboard's sums against a recount, and its answers against the RFCs' words.

use super::*;
use crate::testing::Random;

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn board(segments: u32) -> Scoreboard {
    let mut board = Scoreboard::default();
    board.reset(Seq(0));
    for i in 0..segments {
        board.push(Seq(i * 100), 100, at(u64::from(i)));
    }
    board
}

fn recount(board: &Scoreboard) {
    let sum = |pick: fn(&Sent) -> bool| board.sent.iter().filter(|s| pick(s)).map(|s| s.len).sum::<u32>();
    assert_eq!(board.sacked, sum(|s| s.sacked));
    assert_eq!(board.lost, sum(|s| s.lost));
    assert_eq!(board.resent, sum(|s| s.resent));
    assert_eq!(board.sacked_count as usize, board.sent.iter().filter(|s| s.sacked).count());
    for pair in board.sent.iter().zip(board.sent.iter().skip(1)) {
        assert_eq!(pair.0.end(), pair.1.start);
    }
    for segment in &board.sent {
        assert!(!segment.sacked || !(segment.lost || segment.resent));
        assert!(!segment.resent || segment.lost);
        assert!(!segment.waits() || !segment.start.before(board.hint), "the hint passed a lost segment");
    }
}

#[test]
fn sums_and_hint_agree_with_a_recount_over_random_histories() {
    for seed in 1..200u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let start = Seq(u32::MAX - 5000);
        let mut board = Scoreboard::default();
        board.reset(start);
        let (mut una, mut nxt, mut now) = (start, start, 0);
        for _ in 0..400 {
            now += random.below(3);
            let mut delivered = Delivered::default();
            match random.below(8) {
                0..=2 => {
                    let len = 1 + random.below(1460) as u32;
                    board.push(nxt, len, at(now));
                    nxt += len;
                }
                3 if nxt != una => {
                    let ack = una + random.below(u64::from(nxt - una) + 1) as u32;
                    board.acknowledge(ack, &mut delivered);
                    assert!(delivered.bytes <= ack - una);
                    una = ack;
                }
                4 | 5 if nxt != una => {
                    let a = una + random.below(u64::from(nxt - una)) as u32;
                    let b = a + 1 + random.below(u64::from(nxt - a)) as u32;
                    board.sack(&[(a, b.min(nxt))], &mut delivered);
                }
                6 => {
                    if let Some(lost) = board.next_lost() {
                        let len = 1 + random.below(u64::from(lost.len)) as u32;
                        board.sent_again(lost.start, len, at(now));
                    } else if random.below(10) == 0 {
                        board.all_lost(random.below(2) == 0);
                    }
                }
                _ => {
                    let newest = (at(now), nxt);
                    board.detect_lost(at(now), newest, 1_000_000 * random.below(20));
                    if random.below(30) == 0 {
                        board.none_lost();
                    }
                }
            }
            recount(&board);
        }
    }
}

#[test]
fn a_partly_sacked_segment_is_not_sacked() {
    let mut board = board(3);
    let mut delivered = Delivered::default();
    board.sack(&[(Seq(150), Seq(300))], &mut delivered);
    assert_eq!((board.sacked(), delivered.bytes), (100, 100));
    assert!(board.sent[2].sacked && !board.sent[1].sacked);
}

#[test]
fn a_block_that_grows_over_a_segment_that_it_covered_in_part_delivers_it() {
    let mut board = board(4);
    for (end, whole) in [(150, 1), (170, 1), (200, 2), (399, 3), (400, 4)] {
        board.sack(&[(Seq(0), Seq(end))], &mut Delivered::default());
        assert_eq!(board.sacked(), 100 * whole, "up to {end}");
    }
    // What begins within the block before covers no segment that begins before itself.
    let mut board = self::board(4);
    board.sack(&[(Seq(0), Seq(150))], &mut Delivered::default());
    board.sack(&[(Seq(120), Seq(300))], &mut Delivered::default());
    assert_eq!(board.sacked(), 200);
    assert!(!board.sent[1].sacked && board.sent[2].sacked);
}

#[test]
fn what_was_sent_before_the_newest_delivered_by_more_than_the_window_is_lost() {
    let mut board = board(10);
    let mut delivered = Delivered::default();
    board.sack(&[(Seq(500), Seq(600))], &mut delivered);
    let (sent_at, end, _) = delivered.newest.unwrap();
    let (timeout, marked) = board.detect_lost(at(13), (sent_at, end), 10_000_000);
    assert!(marked);
    assert_eq!(board.lost(), 400);
    assert_eq!(timeout, Some(at(14)));
    assert_eq!(board.next_lost().unwrap().start, Seq(0));
}

#[test]
fn the_same_blocks_again_deliver_nothing() {
    let mut board = board(1000);
    let blocks: Vec<(Seq, Seq)> = (0..4).map(|i| (Seq(10_000 * i + 200), Seq(10_000 * i + 5000))).collect();
    let mut first = Delivered::default();
    board.sack(&blocks, &mut first);
    assert_eq!(first.bytes, 4 * 4800);
    let mut again = Delivered::default();
    board.sack(&blocks, &mut again);
    assert_eq!((again.bytes, again.newest), (0, None));
}

#[test]
fn a_late_segment_sent_once_shows_reordering() {
    let mut board = board(5);
    let mut delivered = Delivered::default();
    board.sack(&[(Seq(300), Seq(400))], &mut delivered);
    assert_eq!(delivered.reordered, 0);
    board.sack(&[(Seq(100), Seq(200)), (Seq(300), Seq(400))], &mut delivered);
    assert!(delivered.reordered > 0);
}
