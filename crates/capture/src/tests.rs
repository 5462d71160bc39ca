//! A ring written and read back, around its end and beyond its room, and files that are none.

use crate::{Broken, DATA, Direction, PACKET, Packet, Reader, Ring, Stage, Wish, Word, Writer, file_name};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

const WISH: Wish = Wish { size_log2: 16, snap: 3000, token: 77 };

struct Place {
    path: PathBuf,
    file: File,
    ring: Arc<Ring>,
}

impl Place {
    fn new(label: &str) -> Place {
        let name = format!("{}-{label}", file_name(std::process::id(), 0));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(WISH.file_length() as u64).unwrap();
        let ring = Ring::create(file.as_raw_fd(), WISH, 5, "eth0").unwrap();
        Place { path, file, ring }
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.path, WISH).unwrap().unwrap()
    }

    fn set(&self, word: Word, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), word as u64 * 8).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn taken(reader: &mut Reader) -> Vec<Packet> {
    let mut packets = Vec::new();
    reader.take(|packet| packets.push(packet)).unwrap();
    packets
}

fn content(number: usize) -> Vec<u8> {
    (0..number % 2900 + 1).map(|at| (at + number) as u8).collect()
}

#[test]
fn a_wish_is_one_word_and_nonsense_is_none() {
    assert_eq!(Wish::of(WISH.word()), Some(WISH));
    assert_eq!(Wish::of(0), None);
    for wish in [
        Wish { token: 0, ..WISH },
        Wish { snap: 0, ..WISH },
        Wish { snap: Wish::SNAP_MAX + 1, ..WISH },
        Wish { size_log2: 15, ..WISH },
        Wish { size_log2: 31, ..WISH },
    ] {
        assert_eq!(Wish::of(wish.word()), None, "{wish:?}");
    }
}

#[test]
fn packets_are_read_as_they_were_written_many_times_around_the_ring() {
    let place = Place::new("around");
    let mut writer = Writer::new(place.ring.clone());
    let mut reader = place.reader();
    assert_eq!((reader.interface, reader.name.as_str()), (5, "eth0"));
    let mut before = 0;
    for round in 0..500 {
        for number in round * 7..round * 7 + 7 {
            let bytes = content(number);
            let (head, tail) = bytes.split_at(bytes.len() / 3);
            let direction = if number % 2 == 0 { Direction::In } else { Direction::Out };
            writer.packet(direction, [head, tail].into_iter());
        }
        let packets = taken(&mut reader);
        assert_eq!(packets.len(), 7);
        for (number, packet) in (round * 7..).zip(packets) {
            let direction = if number % 2 == 0 { Direction::In } else { Direction::Out };
            assert_eq!((packet.direction, &packet.bytes), (direction, &content(number)), "{number}");
            assert_eq!(packet.original as usize, packet.bytes.len());
            assert!(packet.time_ns >= before);
            before = packet.time_ns;
        }
    }
    assert_eq!(reader.dropped().unwrap(), 0);
    assert!(taken(&mut reader).is_empty());
}

#[test]
fn long_packets_are_cut_and_their_length_is_told() {
    let place = Place::new("long");
    let mut writer = Writer::new(place.ring.clone());
    let mut reader = place.reader();
    writer.packet(Direction::Out, [[1; 2000].as_slice(), &[2; 2000], &[3; 60_000]].into_iter());
    let packets = taken(&mut reader);
    assert_eq!((packets[0].original, packets[0].bytes.len()), (64_000, 3000));
    assert_eq!(packets[0].bytes, [[1; 2000].as_slice(), &[2; 1000]].concat());
}

#[test]
fn what_finds_no_room_is_dropped_and_counted_and_the_rest_is_whole() {
    let place = Place::new("full");
    let mut writer = Writer::new(place.ring.clone());
    let mut reader = place.reader();
    let room = (1 << WISH.size_log2) / (PACKET + 1000);
    for number in 0..room + 9 {
        writer.packet(Direction::In, [[number as u8; 1000].as_slice()].into_iter());
    }
    assert_eq!(reader.dropped().unwrap(), 9);
    let packets = taken(&mut reader);
    assert_eq!(packets.len(), room);
    assert!(packets.iter().zip(0..).all(|(packet, number)| packet.bytes == [number; 1000]));
    writer.packet(Direction::In, [[99; 1000].as_slice()].into_iter());
    assert_eq!(taken(&mut reader)[0].bytes, [99; 1000]);
}

#[test]
fn a_reader_reads_while_the_writer_writes() {
    const PACKETS: usize = 20_000;
    let place = Place::new("race");
    let mut writer = Writer::new(place.ring.clone());
    let mut reader = place.reader();
    let (mut seen, mut last) = (0, None);
    std::thread::scope(|scope| {
        let writes = scope.spawn(move || {
            for number in 0..PACKETS {
                writer
                    .packet(Direction::Out, [number.to_ne_bytes().as_slice(), &content(number)].into_iter());
            }
        });
        loop {
            let is_last = writes.is_finished();
            for packet in taken(&mut reader) {
                let (number, rest) = packet.bytes.split_at(8);
                let number = usize::from_ne_bytes(number.try_into().unwrap());
                assert!(last.is_none_or(|last| last < number));
                assert_eq!(rest, content(number));
                last = Some(number);
                seen += 1;
            }
            if is_last {
                break;
            }
        }
    });
    assert_eq!(seen + reader.dropped().unwrap() as usize, PACKETS);
}

#[test]
fn a_file_that_is_another_answer_or_none_is_not_opened() {
    let place = Place::new("other");
    let open = |wish: Wish| Reader::open(&place.path, wish).unwrap();
    assert!(open(WISH).is_some());
    assert!(open(Wish { token: 78, ..WISH }).is_none());
    assert!(open(Wish { size_log2: 17, ..WISH }).is_none());
    place.set(Word::Magic, 0);
    assert!(open(WISH).is_none());
    assert!(Reader::open(&place.path.with_extension("absent"), WISH).unwrap().is_none());
}

#[test]
fn stage_and_pulse_are_seen_on_the_other_side() {
    let place = Place::new("stage");
    let mut reader = place.reader();
    assert_eq!(reader.stage().unwrap(), Stage::Made);
    place.ring.reached(Stage::Live);
    assert_eq!(reader.stage().unwrap(), Stage::Live);
    let before = place.ring.pulse();
    reader.beat().unwrap();
    assert_ne!(place.ring.pulse(), before);
}

/// The program may write anything into its file, at any time.
#[test]
fn nonsense_in_a_ring_is_refused() {
    type Spoil = fn(&Place);
    let spoils: [(&str, Spoil); 6] = [
        ("more than there is room for", |place| place.set(Word::Head, (1 << WISH.size_log2) + 8)),
        ("less than was read", |place| place.set(Word::Head, u64::MAX)),
        ("half a packet", |place| place.set(Word::Head, 8)),
        ("longer than the snapshot", |place| {
            place.file.write_all_at(&(3001u64 | 3001 << 32).to_ne_bytes(), DATA as u64).unwrap();
        }),
        ("longer than it was", |place| {
            place.file.write_all_at(&(8u64 | 7 << 32).to_ne_bytes(), DATA as u64).unwrap();
        }),
        ("neither in nor out", |place| {
            place.file.write_all_at(&3u64.to_ne_bytes(), DATA as u64 + 16).unwrap();
        }),
    ];
    for (number, (what, spoil)) in spoils.into_iter().enumerate() {
        let place = Place::new(&format!("nonsense{number}"));
        Writer::new(place.ring.clone()).packet(Direction::In, [[1; 8].as_slice()].into_iter());
        let mut reader = place.reader();
        spoil(&place);
        assert!(matches!(reader.take(|_| {}), Err(Broken::Nonsense)), "{what}");
    }
    let place = Place::new("cut");
    let mut reader = place.reader();
    place.file.set_len(100).unwrap();
    assert!(matches!(reader.take(|_| {}), Ok(()) | Err(Broken::Io(_))));
    assert!(matches!(reader.stage(), Ok(_) | Err(Broken::Io(_))));
}

/// A reader may write anything, too: the writer stays inside of its memory, and does not stop.
#[test]
fn nonsense_from_a_reader_harms_its_own_packets_only() {
    let place = Place::new("reader");
    let mut writer = Writer::new(place.ring.clone());
    for (number, tail) in (0..40_000u64).zip([0, u64::MAX, 8, 1 << 40, 7, 65_536].into_iter().cycle()) {
        place.set(Word::Tail, tail.wrapping_mul(number));
        writer.packet(Direction::Out, [content(number as usize).as_slice()].into_iter());
    }
}
