//! The engine under attack, with what must hold of it at any time: what it sends is well formed, it holds no more
//! frames than it says and may, its timers fire, and once everything is closed nothing is left.

use crate::memory::{Books, Counted};
use stack::testing::VecOutlet;
use stack::{Config, Duration, Instant, MacAddr, Path, Request, Stack};
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Its address.
pub(crate) const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The attacker's, one of many.
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Frames of the device that may wait in queues, few so that the limit is met.
pub(crate) const ATTACHED_MAX: u32 = 32;

pub(crate) struct Victim {
    pub(crate) stack: Stack<Counted>,
    pub(crate) out: VecOutlet,
    pub(crate) books: Rc<Books>,
    pub(crate) now: Instant,
    /// Whether neighbours answer.
    pub(crate) link_works: bool,
}

impl Victim {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Victim {
        let mut config = stack::testing::config(MacAddr([2, 0, 0, 0, 0, 1]));
        config.attached_frames_max = ATTACHED_MAX;
        change(&mut config);
        let now = Instant(1_000_000_000);
        let mut stack = Stack::new(config, now);
        stack.set_addresses(&[ME], &[]);
        Victim { stack, out: VecOutlet::default(), books: Rc::default(), now, link_works: true }
    }

    /// A frame arrives, in pieces of `piece` bytes behind the headers if that is not 0.
    pub(crate) fn receive(&mut self, frame: &[u8], piece: usize) {
        const HEADERS: usize = 94;
        let cut = if piece == 0 { frame.len() } else { frame.len().min(HEADERS) };
        let head = Counted::new(&frame[..cut], &self.books);
        let pieces = frame[cut..].chunks(piece.max(1));
        let mut tail = pieces.map(|piece| Counted::new(piece, &self.books)).collect();
        self.stack.on_frame(self.now, head, &mut tail, &mut self.out);
        assert!(tail.is_empty(), "a tail was left");
        self.settle();
    }

    /// Answers questions and drains events.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "questions without end");
            let Some(request) = self.stack.take_request() else { break };
            match request {
                Request::Path(query) => {
                    let path = Path { next_hop: query.to, mtu: 1500, elsewhere: false };
                    self.stack.set_path(self.now, query, Ok(path), &mut self.out);
                }
                Request::Neighbour(hop) => {
                    let mac = self.link_works.then_some(MacAddr([2, 0, 0, 0, 0, hop.octets()[3]]));
                    self.stack.set_neighbour(self.now, hop, mac, &mut self.out);
                }
            }
        }
        self.stack.flush(self.now, &mut self.out);
        for round in 0.. {
            assert!(round < 100_000, "events without end");
            if self.stack.take_event().is_none() {
                break;
            }
        }
        self.check();
    }

    /// What holds between any two calls.
    fn check(&self) {
        let census = self.stack.census();
        let attached = self.books.attached.get();
        assert_eq!(census.attached_frames, attached, "the engine's count of frames is wrong");
        assert!(attached <= ATTACHED_MAX as usize, "{attached} frames of the device are held");
        assert!(census.held_bytes <= 4 << 20, "{} bytes wait for a neighbour", census.held_bytes);
    }

    /// Time passes; every timer in between fires when it is due.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut again = 0;
        while let Some(due) = self.stack.next_timer().filter(|due| *due <= end) {
            again = if due <= self.now { again + 1 } else { 0 };
            assert!(again < 8, "a timer that fired is still due");
            self.now = self.now.max(due);
            self.stack.on_time(self.now, &mut self.out);
            self.settle();
        }
        self.now = end;
    }

    /// To the next timer, if there is one within a quarter of an hour.
    pub(crate) fn pass_to_timer(&mut self) {
        if let Some(due) = self.stack.next_timer() {
            self.pass(due.since(self.now).min(Duration::from_secs(900)));
        }
    }

    /// What was sent since the last call, each frame well formed by an independent reader.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        let frames: Vec<Vec<u8>> = self.out.frames.drain(..).collect();
        for frame in &frames {
            match sim::packet::parse(frame) {
                Ok(Some(packet)) => {
                    assert_eq!(packet.source, u32::from(ME), "from somebody else's address");
                    assert_eq!(packet.len + 14, frame.len(), "padding was sent");
                }
                Ok(None) => panic!("sent something that is not IPv4: {frame:02x?}"),
                Err(why) => panic!("{why}: {frame:02x?}"),
            }
        }
        frames
    }

    /// Everything was closed: time passes, and nothing may be left.
    pub(crate) fn must_be_empty_in_the_end(&mut self) {
        self.out.room = usize::MAX;
        self.link_works = true;
        self.settle();
        for _ in 0..400 {
            self.sent();
            if self.stack.census().sockets == 0 && self.stack.next_timer().is_none() {
                break;
            }
            self.pass(Duration::from_secs(600));
        }
        let census = self.stack.census();
        assert_eq!(census.sockets, 0, "sockets left: {census:?}");
        assert_eq!(census.demux_entries, 0, "entries left: {census:?}");
        assert!(!census.has_timers, "timers left: {census:?}");
        assert_eq!((census.reassemblies, census.held_bytes), (0, 0), "{census:?}");
        assert_eq!(self.books.attached.get(), 0, "frames of the device left");
        assert_eq!(self.books.bytes.get(), 0, "memory left");
    }
}
