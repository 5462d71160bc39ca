//! The bits of [`super::Object::ancillary`].

/// What an application asked to be told: bits of `Object::ancillary`.
pub(crate) const PKTINFO: u32 = 1;
/// IP_RECVTTL.
pub(crate) const TTL: u32 = 1 << 1;
/// IP_RECVTOS.
pub(crate) const TOS: u32 = 1 << 2;
/// IP_RECVORIGDSTADDR.
pub(crate) const DESTINATION: u32 = 1 << 3;
/// SO_TIMESTAMP.
pub(crate) const MICROS: u32 = 1 << 4;
/// SO_TIMESTAMPNS.
pub(crate) const NANOS: u32 = 1 << 5;
/// The two above in the form for 64-bit seconds (…_NEW), which differs in its name only.
pub(crate) const NEW: u32 = 1 << 6;
/// SO_TIMESTAMPING with software timestamps of what is received.
pub(crate) const TIMESTAMPING: u32 = 1 << 7;
/// SO_RXQ_OVFL.
pub(crate) const OVERFLOW: u32 = 1 << 8;

/// All of these.
pub(crate) const TOLD: u32 = (1 << 9) - 1;

/// Sends go through the kernel as long as one of these is set: UDP_CORK, data behind MSG_MORE, UDP_SEGMENT.
pub(crate) const CORK: u32 = 1 << 16;
/// See `CORK`.
pub(crate) const MORE: u32 = 1 << 17;
/// See `CORK`.
pub(crate) const SEGMENT: u32 = 1 << 18;
/// Other sockets may be bound to the same port (SO_REUSEADDR, SO_REUSEPORT).
pub(crate) const SHARES: u32 = 1 << 19;
/// Why sends go through the kernel.
pub(crate) const KERNEL_SENDS: u32 = CORK | MORE | SEGMENT;
