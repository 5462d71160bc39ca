//! The two queues against a naive model, and the attacks on them.

use super::*;
use crate::testing::Random;
use std::cell::Cell;
use std::rc::Rc;

/// A frame that counts itself while it is attached.
struct Counted {
    bytes: Vec<u8>,
    live: Option<Rc<Cell<i32>>>,
}

impl Counted {
    fn new(bytes: Vec<u8>, live: &Rc<Cell<i32>>) -> Counted {
        live.set(live.get() + 1);
        Counted { bytes, live: Some(live.clone()) }
    }
}

impl Frame for Counted {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn detach(&mut self) {
        if let Some(live) = self.live.take() {
            live.set(live.get() - 1);
        }
    }
    fn is_attached(&self) -> bool {
        self.live.is_some()
    }
    fn narrow(&mut self, keep: core::ops::Range<usize>) {
        self.bytes = self.bytes[keep].to_vec();
    }
    fn duplicate(&self) -> Counted {
        Counted { bytes: self.bytes.clone(), live: None }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.detach();
    }
}

struct Parts {
    budget: Budget,
    pool: Pool,
}

impl Parts {
    fn new(attached_max: u32) -> Parts {
        Parts { budget: Budget::new(attached_max), pool: Pool::default() }
    }
    fn hold(&mut self) -> Hold<'_> {
        Hold { budget: &mut self.budget, pool: &mut self.pool }
    }
}

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 13) as u8
}

fn put(
    queue: &mut ReceiveQueue<Counted>,
    hold: &mut Parts,
    live: &Rc<Cell<i32>>,
    at: u64,
    len: u32,
) -> Taken {
    let mut bytes = vec![0xee; 10];
    bytes.extend((at..at + u64::from(len)).map(byte));
    let head = Counted::new(bytes, live);
    queue.segment(&mut hold.hold(), at, head, (10, 10 + len), &mut Vec::new(), len, u64::MAX, 1 << 30)
}

fn read_all(queue: &mut ReceiveQueue<Counted>, hold: &mut Parts) -> Vec<u8> {
    let mut bytes = vec![0; queue.len()];
    let n = queue.read(&mut hold.hold(), &mut &mut bytes[..], usize::MAX);
    assert_eq!(n, bytes.len());
    bytes
}

#[test]
fn segments_in_any_order_with_overlaps_and_duplicates_give_the_stream_once() {
    for seed in 1..20u64 {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (mut queue, mut hold, live) = (ReceiveQueue::new(), Parts::new(64), Rc::new(Cell::new(0)));
        let total = 60_000u64;
        let mut have = vec![false; total as usize];
        let (mut got, mut expected) = (0u64, 0u64);
        while got < total {
            let at = (queue.next() + random.below(20_000)).saturating_sub(random.below(6000)).min(total - 1);
            let len = (1 + random.below(if seed % 3 == 0 { 60 } else { 1460 })).min(total - at) as u32;
            put(&mut queue, &mut hold, &live, at, len);
            have[at as usize..at as usize + len as usize].fill(true);
            while expected < total && have[expected as usize] {
                expected += 1;
            }
            assert_eq!(queue.next(), expected, "seed {seed}");
            for &(a, b) in queue.ranges() {
                assert!(a > queue.next() && have[a as usize] && have[b as usize - 1]);
            }
            assert!(live.get() <= 64);
            if random.below(3) == 0 {
                for b in read_all(&mut queue, &mut hold) {
                    assert_eq!(b, byte(got));
                    got += 1;
                }
            }
        }
        assert_eq!((live.get(), queue.has_holes()), (0, false));
    }
}

#[test]
fn a_slow_reader_does_not_pin_more_frames_than_its_share() {
    let (mut queue, mut hold, live) = (ReceiveQueue::new(), Parts::new(100), Rc::new(Cell::new(0)));
    for i in 0..1000 {
        put(&mut queue, &mut hold, &live, i * 1448, 1448);
    }
    assert_eq!(live.get(), 50);
    assert!(read_all(&mut queue, &mut hold).iter().enumerate().all(|(i, b)| *b == byte(i as u64)));
    assert_eq!(live.get(), 0);
}

#[test]
fn one_byte_segments_are_packed() {
    let (mut queue, mut hold, live) = (ReceiveQueue::new(), Parts::new(10_000), Rc::new(Cell::new(0)));
    for i in 0..5000 {
        put(&mut queue, &mut hold, &live, i, 1);
    }
    assert!(live.get() <= BEHIND as i32);
    assert!(queue.ready.len() <= BEHIND + 2);
}

#[test]
fn one_byte_segments_out_of_order_cost_their_limit_and_no_frame() {
    let (mut queue, mut hold, live) =
        (ReceiveQueue::<Counted>::new(), Parts::new(10_000), Rc::new(Cell::new(0)));
    for i in 0..100_000u64 {
        let head = Counted::new(vec![byte(2 * i + 1)], &live);
        queue.segment(&mut hold.hold(), 2 * i + 1, head, (0, 1), &mut Vec::new(), 1, u64::MAX, 100_000);
    }
    assert_eq!(live.get(), 0);
    assert!(queue.later.as_ref().unwrap().pieces.len() as u64 <= 100_000 / store::PIECE_COST);
}

#[test]
fn of_two_segments_with_differing_bytes_the_first_one_counts() {
    let (mut queue, mut hold, live) = (ReceiveQueue::<Counted>::new(), Parts::new(64), Rc::new(Cell::new(0)));
    put(&mut queue, &mut hold, &live, 1000, 500);
    let liar = Counted::new(vec![0; 3000], &live);
    let taken = queue.segment(&mut hold.hold(), 0, liar, (0, 3000), &mut Vec::new(), 3000, u64::MAX, 1 << 20);
    assert_eq!((taken.in_order, taken.duplicate), (3000, Some((1000, 1500))));
    let bytes = read_all(&mut queue, &mut hold);
    assert!(bytes[1000..1500].iter().enumerate().all(|(i, b)| *b == byte(1000 + i as u64)));
    assert!(bytes[..1000].iter().chain(&bytes[1500..]).all(|b| *b == 0));
}

#[test]
fn bytes_beyond_the_window_are_not_taken() {
    let (mut queue, mut hold, live) = (ReceiveQueue::<Counted>::new(), Parts::new(64), Rc::new(Cell::new(0)));
    let head = Counted::new(vec![1; 100], &live);
    let taken = queue.segment(&mut hold.hold(), 0, head, (0, 100), &mut Vec::new(), 100, 40, 1 << 20);
    assert_eq!((taken.in_order, queue.len()), (40, 40));
}

#[test]
fn a_super_frame_is_taken_with_its_tail_and_its_padding_is_not() {
    let (mut queue, mut hold, live) = (ReceiveQueue::<Counted>::new(), Parts::new(64), Rc::new(Cell::new(0)));
    let head = Counted::new(vec![1; 100], &live);
    let mut tail = vec![Counted::new(vec![2; 2000], &live), Counted::new(vec![3; 2000], &live)];
    let taken =
        queue.segment(&mut hold.hold(), 0, head, (54, 100), &mut tail, 46 + 2000 + 500, u64::MAX, 1 << 20);
    assert_eq!(taken.in_order, 2546);
    let bytes = read_all(&mut queue, &mut hold);
    assert_eq!((bytes[45], bytes[46], bytes[2045], bytes[2046]), (1, 2, 2, 3));
}

#[test]
fn peek_leaves_the_bytes_and_skip_throws_them_away() {
    let (mut queue, mut hold, live) = (ReceiveQueue::new(), Parts::new(64), Rc::new(Cell::new(0)));
    put(&mut queue, &mut hold, &live, 0, 3000);
    put(&mut queue, &mut hold, &live, 3000, 100);
    let mut bytes = [0; 200];
    assert_eq!(queue.peek(&mut &mut bytes[..], 2950, usize::MAX), 150);
    assert_eq!((bytes[0], bytes[149]), (byte(2950), byte(3099)));
    assert_eq!(queue.skip(&mut hold.hold(), 3050), 3050);
    assert_eq!(queue.len(), 50);
    assert_eq!(read_all(&mut queue, &mut hold)[0], byte(3050));
}

#[test]
fn what_is_next_in_order_is_taken_though_the_store_is_full() {
    let (mut queue, mut hold, live) = (ReceiveQueue::new(), Parts::new(64), Rc::new(Cell::new(0)));
    let mut take = |start: u64, len: u32| {
        let head = Counted::new((start..start + u64::from(len)).map(byte).collect(), &live);
        queue.segment(&mut hold.hold(), start, head, (0, len), &mut Vec::new(), len, u64::MAX, 2000)
    };
    for start in [3000, 1000, 2000] {
        take(start, 500);
    }
    // Cut otherwise than before, so that it covers the beginning of what is stored.
    assert_eq!(take(0, 1200).in_order, 1500);
    assert_eq!(read_all(&mut queue, &mut hold), (0..1500).map(byte).collect::<Vec<_>>());
}
