//! What a client hands over is of the kinds that a keeper hands out, or is not taken: whatever else there is may have
//! the keeper wait when it lets go of it.

use super::*;
use rig::Namespace;

/// Descriptors that all have before the anchors, as `xdp` hands them out; the place of some.
const COMMON: usize = 10;
const FILE: usize = 0;
const MAKER: usize = 1;
const LINK: usize = 2;

/// What a program can hand over that was handed this.
struct Handed {
    index: u32,
    description: Vec<u8>,
    descriptors: Vec<Fd>,
}

impl Handed {
    /// As a program on a veth of one queue gets it.
    fn of(client: &mut Client, index: u32) -> Handed {
        let attached = client.attach(index, tcp().raw());
        let attached = attached.unwrap_or_else(|why| panic!("{why:?}"));
        let flags = u32::from_ne_bytes(attached.description[32..36].try_into().unwrap());
        let offloads = (flags >> 4 & 1) as usize;
        let descriptors = attached.descriptors.into_iter().skip(1).take(COMMON + 1 + offloads + 1).collect();
        Handed { index, description: attached.description, descriptors }
    }

    /// With another descriptor at one place.
    fn restore(&self, client: &mut Client, place: usize, other: &Fd) -> Result<(), Error> {
        let mut all: Vec<i32> = self.descriptors.iter().map(Fd::raw).collect();
        all[place] = other.raw();
        client.restore(self.index, &self.description, &all)
    }
}

/// A connection whose last copy takes whoever closes it as long as the peer likes.
fn lingering() -> (Fd, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = tcp();
    let port = listener.local_addr().unwrap().port();
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    sys::socket::connect(socket.raw(), &address).unwrap();
    // struct linger: on, seconds.
    let for_ever = [1i32, i32::MAX / 1000];
    set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_LINGER, &for_ever).unwrap();
    let more = vec![0; 1 << 20];
    while sys::socket::send(socket.raw(), &more, libc::MSG_DONTWAIT).is_ok() {}
    (socket, listener)
}

#[test]
fn what_is_of_another_kind_than_a_keeper_hands_out_is_not_taken_over() {
    if !rig::is_root() {
        return rig::skip::skipped_here("needs root");
    }
    let namespace = Namespace::create("handover").unwrap();
    namespace.ip("link set lo up").unwrap();
    namespace.ip("link add veth type veth peer name peer").unwrap();
    namespace.ip("link set veth up").unwrap();
    namespace.ip("link set peer up").unwrap();
    let index = namespace.ip("-o link show veth").unwrap();
    let index: u32 = index.split(':').next().unwrap().parse().unwrap();
    namespace.inside(|| hand_over_other_kinds(index)).unwrap();
}

fn hand_over_other_kinds(index: u32) {
    let Some(daemon) = Daemon::start("handover", &["--interfaces", "veth"]) else { return };
    let mut client = daemon.client();
    let handed = Handed::of(&mut client, index);
    let own = handed.descriptors.len() - 1;
    assert_eq!(
        handed.restore(&mut client, own, &handed.descriptors[own]),
        Ok(()),
        "that is what it handed out"
    );
    let (connection, _peer) = lingering();
    let event = sys::fd::eventfd().unwrap();
    let memory = sys::memory::sealed_memfd(c"test", 4096).unwrap();
    let refused = Err(Error::Errno(libc::EPERM));
    for place in 0..handed.descriptors.len() {
        for (what, other) in [("connection", &connection), ("eventfd", &event), ("memory", &memory)] {
            let outcome = handed.restore(&mut client, place, other);
            match (place, what) {
                // Memory of another interface, or none: it is not what is held.
                (FILE, "memory") => assert_eq!(outcome, Err(Error::Errno(libc::EBUSY))),
                _ => assert_eq!(outcome, refused, "{what} at {place}"),
            }
        }
    }
    for place in [MAKER, LINK, own] {
        let program = &handed.descriptors[LINK + 1];
        assert_eq!(handed.restore(&mut client, place, program), refused, "a program at {place}");
    }
    assert_eq!(client.repair(tcp().raw(), -1), Ok(()), "mistakes are forgiven");
}
