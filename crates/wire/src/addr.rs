//! Addresses as the whole project names them.

/// An IPv4 address and a port.
pub type Endpoint = core::net::SocketAddrV4;

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of every station on the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it names a group (the broadcast address included) and not one station.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The group address that carries an IPv4 multicast group (RFC 1112, 6.4).
    #[inline]
    pub fn of_multicast(group: core::net::Ipv4Addr) -> MacAddr {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }
}
