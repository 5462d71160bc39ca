//! The observer's own reading of packets. On purpose it shares no line with crate `wire`: it checks what the engine
//! wrote with that.

/// An IPv4 packet in an Ethernet frame, with everything checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub source: u32,
    pub destination: u32,
    pub ttl: u8,
    pub tos: u8,
    pub id: u16,
    pub dont_fragment: bool,
    /// Total length, bytes.
    pub len: usize,
    pub body: Body<'a>,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    Tcp(Tcp<'a>),
    Udp { source: u16, destination: u16, payload: &'a [u8] },
    Icmp { kind: u8, code: u8 },
    Fragment { offset: usize, more: bool },
    Other(u8),
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    pub source: u16,
    pub destination: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Options,
    /// Length of the options, bytes.
    pub options_len: usize,
    pub payload: &'a [u8],
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<(u32, u32)>,
    pub sacks: [(u32, u32); 4],
    pub sack_count: usize,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

impl Tcp<'_> {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers it occupies.
    pub fn span(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

/// Reads a frame; the error says what is wrong with it. `None` in `Ok`: not IPv4.
pub fn parse(frame: &[u8]) -> Result<Option<Packet<'_>>, &'static str> {
    if frame.len() < 14 {
        return Err("shorter than an Ethernet header");
    }
    if frame[12..14] != [8, 0] {
        return Ok(None);
    }
    let ip = &frame[14..];
    if ip.len() < 20 || ip[0] >> 4 != 4 {
        return Err("not an IPv4 header");
    }
    let header = usize::from(ip[0] & 15) * 4;
    let len = usize::from(be16(ip, 2));
    if header < 20 || len < header || len > ip.len() {
        return Err("IP lengths contradict each other");
    }
    if sum(0, &ip[..header]) != 0xffff {
        return Err("IP header checksum is wrong");
    }
    let fragment = be16(ip, 6);
    let rest = &ip[header..len];
    let body = if fragment & 0x3fff != 0 {
        Body::Fragment { offset: usize::from(fragment & 0x1fff) * 8, more: fragment & 0x2000 != 0 }
    } else {
        match ip[9] {
            6 => tcp(ip, rest)?,
            17 => udp(ip, rest)?,
            1 => icmp(rest)?,
            other => Body::Other(other),
        }
    };
    Ok(Some(Packet {
        source: be32(ip, 12),
        destination: be32(ip, 16),
        ttl: ip[8],
        tos: ip[1],
        id: be16(ip, 4),
        dont_fragment: fragment & 0x4000 != 0,
        len,
        body,
    }))
}

fn tcp<'a>(ip: &[u8], t: &'a [u8]) -> Result<Body<'a>, &'static str> {
    if t.len() < 20 {
        return Err("TCP header is cut");
    }
    let header = usize::from(t[12] >> 4) * 4;
    if header < 20 || header > t.len() {
        return Err("TCP data offset is wrong");
    }
    if sum(pseudo(ip, 6, t.len()), t) != 0xffff {
        return Err("TCP checksum is wrong");
    }
    Ok(Body::Tcp(Tcp {
        source: be16(t, 0),
        destination: be16(t, 2),
        seq: be32(t, 4),
        ack: be32(t, 8),
        flags: t[13],
        window: be16(t, 14),
        urgent: be16(t, 18),
        options: options(&t[20..header])?,
        options_len: header - 20,
        payload: &t[header..],
    }))
}

fn options(mut bytes: &[u8]) -> Result<Options, &'static str> {
    let mut found = Options::default();
    while let [kind, rest @ ..] = bytes {
        match kind {
            0 => break,
            1 => bytes = rest,
            _ => {
                let len = usize::from(*rest.first().ok_or("TCP option without length")?);
                if len < 2 || len > bytes.len() {
                    return Err("TCP option length is wrong");
                }
                let value = &bytes[2..len];
                match (kind, value.len()) {
                    (2, 2) => found.mss = Some(be16(value, 0)),
                    (3, 1) => found.window_scale = Some(value[0]),
                    (4, 0) => found.sack_permitted = true,
                    (8, 8) => found.timestamps = Some((be32(value, 0), be32(value, 4))),
                    (5, 8 | 16 | 24 | 32) => {
                        for block in value.chunks(8) {
                            found.sacks[found.sack_count] = (be32(block, 0), be32(block, 4));
                            found.sack_count += 1;
                        }
                    }
                    (2..=5 | 8, _) => return Err("TCP option has a wrong length"),
                    _ => {}
                }
                bytes = &bytes[len..];
            }
        }
    }
    Ok(found)
}

fn udp<'a>(ip: &[u8], u: &'a [u8]) -> Result<Body<'a>, &'static str> {
    if u.len() < 8 || usize::from(be16(u, 4)) != u.len() {
        return Err("UDP length is wrong");
    }
    if be16(u, 6) != 0 && sum(pseudo(ip, 17, u.len()), u) != 0xffff {
        return Err("UDP checksum is wrong");
    }
    Ok(Body::Udp { source: be16(u, 0), destination: be16(u, 2), payload: &u[8..] })
}

fn icmp(i: &[u8]) -> Result<Body<'_>, &'static str> {
    if i.len() < 8 {
        return Err("ICMP header is cut");
    }
    if sum(0, i) != 0xffff {
        return Err("ICMP checksum is wrong");
    }
    Ok(Body::Icmp { kind: i[0], code: i[1] })
}

fn pseudo(ip: &[u8], protocol: u64, len: usize) -> u64 {
    let addresses: u64 = (12..20).step_by(2).map(|at| u64::from(be16(ip, at))).sum();
    addresses + protocol + len as u64
}

/// The ones-complement sum of `start` and the bytes; 0xffff if a checksum among them holds.
pub fn sum(start: u64, bytes: &[u8]) -> u16 {
    let mut total = start;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0u8; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    total += u64::from(u32::from_be_bytes(last));
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}
