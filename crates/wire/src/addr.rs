//! Addresses as the whole project names them.

/// An IPv4 address and a port.
pub type Endpoint = core::net::SocketAddrV4;

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);
