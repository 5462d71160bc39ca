//! The floor of the substrate: raw AF_XDP frames between two namespaces, nothing above them.
//!
//! Two processes, pinned to two processors, both spinning: `--role server` echoes, `--role client` measures and
//! prints the one-way time (half a round trip) as p50, p99 and p99.9. `--role sender` and `--role receiver` measure
//! frames per second and the cost of a kick instead. No addresses are needed: frames are broadcast and carry
//! addresses of their own (192.0.2.0/24), which the program steers.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::exit;

use sys::clock::now;
use xdp::{Device, Flow, Mode, Options};

const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 4711);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 4712);

/// Where the payload begins, and in it: a sequence number; the last one asks the other side to end.
const PAYLOAD: usize = 42;
const LAST: u64 = u64::MAX;

const SECOND_NS: u64 = 1_000_000_000;
/// Round trips before the measurement.
const WARM_UP: u64 = 2000;

const USAGE: &str = "usage: pingpong --role client|server|sender|receiver --interface NAME
    [--size BYTES (of the UDP payload, 64)] [--count N (100000)] [--cpu N] [--batch N (32)]
    [--mode auto|native|generic] [--json]
Start the server (or receiver) first. Needs root.";

struct Arguments {
    role: String,
    interface: String,
    size: usize,
    count: u64,
    cpu: Option<usize>,
    batch: u64,
    mode: Mode,
    json: bool,
}

fn main() {
    let arguments = parse().unwrap_or_else(|problem| fail(&format!("{problem}\n{USAGE}")));
    if let Some(cpu) = arguments.cpu {
        sys::thread::pin(cpu)
            .unwrap_or_else(|errno| fail(&format!("cannot pin to processor {cpu}: errno {errno}")));
    }
    let options = Options { mode: arguments.mode, ..Options::default() };
    let mut device = Device::open(&arguments.interface, &options)
        .unwrap_or_else(|refusal| fail(&format!("{}: {refusal}", arguments.interface)));
    let local = if matches!(arguments.role.as_str(), "client" | "sender") { CLIENT } else { SERVER };
    device
        .steer(Flow { protocol: 17, local, remote: None })
        .unwrap_or_else(|errno| fail(&format!("cannot steer: errno {errno}")));
    match arguments.role.as_str() {
        "client" => client(&mut device, &arguments),
        "server" => server(&mut device),
        "sender" => sender(&mut device, &arguments),
        "receiver" => receiver(&mut device, &arguments),
        other => fail(&format!("unknown role {other}\n{USAGE}")),
    }
}

fn parse() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        role: String::new(),
        interface: String::new(),
        size: 64,
        count: 100_000,
        cpu: None,
        batch: 32,
        mode: Mode::Auto,
        json: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--json" {
            arguments.json = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value} is no number"));
        match word.as_str() {
            "--role" => arguments.role = value,
            "--interface" => arguments.interface = value,
            "--size" => arguments.size = number()? as usize,
            "--count" => arguments.count = number()?,
            "--cpu" => arguments.cpu = Some(number()? as usize),
            "--batch" => arguments.batch = number()?.max(1),
            "--mode" => {
                arguments.mode = match value.as_str() {
                    "auto" => Mode::Auto,
                    "native" => Mode::Native,
                    "generic" => Mode::Generic,
                    _ => return Err(format!("unknown mode {value}")),
                };
            }
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if arguments.role.is_empty() || arguments.interface.is_empty() {
        return Err("--role and --interface are needed".to_owned());
    }
    if !(8..=1472).contains(&arguments.size) {
        return Err(format!("--size {} is not within 8 and 1472", arguments.size));
    }
    Ok(arguments)
}

fn fail(problem: &str) -> ! {
    eprintln!("pingpong: {problem}");
    exit(1)
}

fn frame(device: &Device, from: SocketAddrV4, to: SocketAddrV4, size: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(device.mac());
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + size as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(from.ip().octets());
    frame.extend(to.ip().octets());
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend((8 + size as u16).to_be_bytes());
    frame.resize(PAYLOAD + size, 0);
    frame
}

fn send(device: &mut Device, frame: &[u8]) -> bool {
    let Some(memory) = device.reserve(frame.len()) else { return false };
    memory.copy_from_slice(frame);
    device.commit(frame.len());
    true
}

fn sequence(frame: &[u8]) -> u64 {
    frame.get(PAYLOAD..PAYLOAD + 8).map_or(LAST, |bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
}

/// One round trip, in nanoseconds; `None` if nothing came back for a second.
fn round_trip(device: &mut Device, frame: &[u8]) -> Option<u64> {
    let start = now();
    send(device, frame);
    device.kick();
    let (wanted, mut end) = (sequence(frame), None);
    let mut spins = 0u32;
    while end.is_none() {
        device.receive(8, |head, _| {
            if sequence(head.bytes()) == wanted {
                end = Some(now());
            }
        });
        spins += 1;
        if spins.is_multiple_of(4096) && now() - start > SECOND_NS {
            return None;
        }
    }
    end.map(|end| end - start)
}

fn client(device: &mut Device, arguments: &Arguments) {
    let mut frame = frame(device, CLIENT, SERVER, arguments.size);
    let mut tries = 0;
    while round_trip(device, &frame).is_none() {
        tries += 1;
        if tries == 15 {
            fail("no answer; is the server running on the other end?");
        }
    }
    let (mut times, mut lost) = (Vec::with_capacity(arguments.count as usize), 0);
    for number in 1..=arguments.count + WARM_UP {
        frame[PAYLOAD..PAYLOAD + 8].copy_from_slice(&number.to_ne_bytes());
        match round_trip(device, &frame) {
            Some(time) if number > WARM_UP => times.push(time),
            Some(_) => {}
            None => lost += 1,
        }
    }
    frame[PAYLOAD..PAYLOAD + 8].copy_from_slice(&LAST.to_ne_bytes());
    send(device, &frame);
    device.kick();
    times.sort_unstable();
    let one_way = |part: f64| {
        let index = (times.len() as f64 * part) as usize;
        times.get(index.min(times.len().saturating_sub(1))).map_or(0.0, |&time| time as f64 / 2000.0)
    };
    let (p50, p99, p999) = (one_way(0.5), one_way(0.99), one_way(0.999));
    let (mode, size, count) = (format!("{:?}", device.mode()).to_lowercase(), arguments.size, times.len());
    if arguments.json {
        println!(
            "{{\"mode\":\"{mode}\",\"size\":{size},\"count\":{count},\"lost\":{lost},\
             \"p50_us\":{p50:.3},\"p99_us\":{p99:.3},\"p999_us\":{p999:.3}}}"
        );
    } else {
        println!("{mode}, {size} bytes, {count} round trips, {lost} lost; one way in microseconds:");
        println!("p50 {p50:.3}  p99 {p99:.3}  p99.9 {p999:.3}");
    }
}

fn server(device: &mut Device) {
    let mut done = false;
    let mut tail = Vec::new();
    while !done {
        while let Some(head) = device.next_packet(&mut tail) {
            let bytes = head.bytes();
            done |= sequence(bytes) == LAST;
            if let Some(reply) = device.reserve(bytes.len()) {
                reply.copy_from_slice(bytes);
                // Addresses and ports change sides; the UDP checksum is not used.
                reply[26..30].copy_from_slice(&bytes[30..34]);
                reply[30..34].copy_from_slice(&bytes[26..30]);
                reply[34..36].copy_from_slice(&bytes[36..38]);
                reply[36..38].copy_from_slice(&bytes[34..36]);
                device.commit(bytes.len());
            }
        }
        if device.unkicked() != 0 {
            device.kick();
        }
        device.refill();
    }
}

fn sender(device: &mut Device, arguments: &Arguments) {
    let frame = frame(device, CLIENT, SERVER, arguments.size);
    let (mut kicks, mut kicking) = (0u64, 0u64);
    let start = now();
    let mut sent = 0;
    while sent < arguments.count {
        for _ in 0..arguments.batch {
            sent += u64::from(send(device, &frame));
        }
        let before = now();
        device.kick();
        kicking += now() - before;
        kicks += 1;
    }
    let seconds = (now() - start) as f64 / SECOND_NS as f64;
    let (rate, per_frame) = (sent as f64 / seconds / 1e6, kicking as f64 / sent as f64);
    let per_kick = kicking as f64 / kicks as f64;
    if arguments.json {
        println!(
            "{{\"sent\":{sent},\"mpps\":{rate:.3},\"kick_ns\":{per_kick:.0},\"kick_ns_per_frame\":{per_frame:.0}}}"
        );
    } else {
        println!("sent {sent}: {rate:.3} M frames/s; a kick {per_kick:.0} ns, {per_frame:.0} ns per frame");
    }
}

fn receiver(device: &mut Device, arguments: &Arguments) {
    let (mut received, mut first, mut last) = (0u64, 0, now());
    // Ends a second after the last frame.
    while received == 0 || now() - last < SECOND_NS {
        let got = device.receive(64, |head, _| drop(head)) as u64;
        if got > 0 {
            last = now();
            if received == 0 {
                first = last;
            }
            received += got;
        }
    }
    let seconds = (last - first).max(1) as f64 / SECOND_NS as f64;
    let (rate, statistics) = (received as f64 / seconds / 1e6, device.statistics());
    let dropped = statistics.rx_ring_full + statistics.rx_fill_ring_empty_descs;
    if arguments.json {
        println!("{{\"received\":{received},\"mpps\":{rate:.3},\"dropped\":{dropped}}}");
    } else {
        println!("received {received}: {rate:.3} M frames/s; {dropped} dropped");
    }
}
