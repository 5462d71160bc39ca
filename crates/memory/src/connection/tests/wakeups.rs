//! No wake-up is lost, and none is superfluous: two threads that sleep as soon as there is nothing, over one
//! connection.

use super::tests::{bytes, pair};
use super::*;
use core::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Longer than any machine is busy: a wake-up was lost.
const LOST: Duration = Duration::from_secs(60);

/// A side with a bell in each direction.
struct Sleeper {
    connection: Connection,
    bell: Receiver<()>,
    rings: Sender<()>,
    wishes: usize,
    woken: usize,
}

impl Sleeper {
    fn ring(&self, ring: Ring) {
        if ring == Ring::Yes {
            // The other one may have ended.
            let _ = self.rings.send(());
        }
    }

    /// Sleeps until `there` says yes.
    fn wait(&mut self, wants: Wants, mut there: impl FnMut(&mut Connection) -> bool) {
        while !there(&mut self.connection) {
            self.connection.want(wants);
            self.wishes += 1;
            if there(&mut self.connection) {
                self.connection.want_no_more(wants);
                return;
            }
            self.bell.recv_timeout(LOST).expect("a wake-up was lost");
            self.woken += 1;
        }
    }

    fn send(&mut self, from: usize, count: usize) {
        let mut done = 0;
        while done < count {
            let (sent, ring) = self.connection.send(&bytes(from + done, count - done));
            self.ring(ring);
            done += sent;
            if sent == 0 {
                self.wait(Wants::ROOM, Connection::is_writable);
            }
        }
    }

    fn receive(&mut self, from: usize, count: usize) {
        let mut done = 0;
        let mut buffer = vec![0; count];
        while done < count {
            let (got, ring) = self.connection.receive(&mut buffer[..count - done]);
            self.ring(ring);
            assert!(buffer[..got] == bytes(from + done, got), "other bytes at {}", from + done);
            done += got;
            if got == 0 {
                self.wait(Wants::DATA, |connection| {
                    let _ = connection.take_in();
                    assert_eq!(connection.broken(), None);
                    connection.unread() > 0
                });
            }
        }
    }
}

fn sleepers() -> (Sleeper, Sleeper) {
    let (a, b) = pair();
    let ((to_a, bell_a), (to_b, bell_b)) = (channel(), channel());
    let sleeper = |connection, bell, rings| Sleeper { connection, bell, rings, wishes: 0, woken: 0 };
    (sleeper(a, bell_a, to_b), sleeper(b, bell_b, to_a))
}

#[test]
fn questions_and_answers_between_two_that_sleep() {
    let (mut a, mut b) = sleepers();
    const ROUNDS: usize = 30_000;
    let size = |round: usize| [1, 64, 240, 3000][round % 4];
    let other = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            b.receive(round, size(round));
            b.send(round, size(round));
        }
        b
    });
    for round in 0..ROUNDS {
        a.send(round, size(round));
        a.receive(round, size(round));
    }
    let b = other.join().unwrap();
    for sleeper in [a, b] {
        let rings = sleeper.woken + sleeper.bell.try_iter().count();
        assert!(rings <= sleeper.wishes, "{rings} rings for {} wishes", sleeper.wishes);
    }
}

#[test]
fn a_stream_whose_writer_and_reader_sleep_in_turn() {
    let (mut a, mut b) = sleepers();
    const TOTAL: usize = 200_000_000;
    let other = std::thread::spawn(move || {
        let (mut at, mut round) = (0, 0);
        while at < TOTAL {
            let count = (1 + round * 7919 % 70_000).min(TOTAL - at);
            b.receive(at, count);
            at += count;
            round += 1;
        }
    });
    let (mut at, mut round) = (0, 0);
    while at < TOTAL {
        let count = [1, 100, 8192, 65_536, 1_000_000][round % 5].min(TOTAL - at);
        a.send(at, count);
        at += count;
        round += 1;
    }
    other.join().unwrap();
}

#[test]
fn nobody_is_woken_who_does_not_sleep() {
    let (mut a, mut b) = pair();
    for round in 0..1000 {
        assert_eq!(a.send(&bytes(round, 100)).1, Ring::No);
        let (_, ring) = b.take_in();
        assert_eq!(ring, Ring::No);
        assert_eq!(b.receive(&mut [0; 100]), (100, Ring::No));
    }
    b.want(Wants::ROOM);
    assert_eq!(a.send(b"not what it waits for").1, Ring::No);
    b.want(Wants::DATA);
    assert_eq!(a.send(b"this is").1, Ring::Yes);
    assert_eq!(a.shut(), Ring::No);
}

#[test]
fn a_writer_is_woken_when_a_quarter_has_room() {
    let (mut a, mut b) = pair();
    while a.send(b"x").0 > 0 {}
    a.want(Wants::ROOM);
    let _ = b.take_in();
    let mut rings = 0;
    let mut first = 0;
    for read in 1..=u64::from(SLOTS) - RESERVE {
        let (_, ring) = b.receive(&mut [0]);
        if ring == Ring::Yes {
            rings += 1;
            first = read;
            assert!(a.is_writable());
        }
    }
    assert_eq!((rings, first), (1, ROOM - RESERVE));
}

/// Both sides take their two steps at the same moment, as nearly as two processors can: one of them must see the other.
#[test]
fn who_falls_asleep_while_something_is_sent_sees_it_or_is_woken() {
    const ROUNDS: usize = 100_000;
    let (mut a, mut b) = pair();
    let turn = [const { AtomicUsize::new(0) }; 2];
    let (turn, rung) = (&turn, &AtomicUsize::new(0));
    // Returns when both have come to this step.
    let meet = move |me: usize, step: usize| {
        turn[me].store(step, Ordering::SeqCst);
        let mut spins = 0u32;
        while turn[1 - me].load(Ordering::SeqCst) < step {
            spins += 1;
            if spins.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            core::hint::spin_loop();
        }
    };
    let mut lost = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..ROUNDS {
                meet(0, 2 * round + 1);
                let ring = a.send(b"x").1 == Ring::Yes;
                rung.store(usize::from(ring), Ordering::SeqCst);
                meet(0, 2 * round + 2);
            }
        });
        for round in 0..ROUNDS {
            meet(1, 2 * round + 1);
            b.want(Wants::DATA);
            let (saw, _) = b.take_in();
            meet(1, 2 * round + 2);
            lost += usize::from(!saw && rung.load(Ordering::SeqCst) == 0);
            let _ = b.take_in();
            b.want_no_more(Wants::DATA);
            let _ = b.discard(9);
        }
    });
    assert_eq!(lost, 0, "sleeps that nobody would end");
}
