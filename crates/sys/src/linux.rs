//! Numbers of Linux's socket interface (include/uapi) that libc has no name for, used in several places.

use libc::c_int;

/// ioctl(2): whether what is read next is behind the urgent mark (asm-generic/sockios.h).
pub const SIOCATMARK: u32 = 0x8905;
/// ioctl(2): bytes that were not sent yet (linux/sockios.h).
pub const SIOCOUTQNSD: u32 = 0x894b;

/// send(2): nothing is sent; the path is probed (linux/socket.h).
pub const MSG_PROBE: c_int = 0x10;

/// asm-generic/socket.h.
pub const SO_BUF_LOCK: c_int = 72;
/// See [`SO_BUF_LOCK`].
pub const SO_TIMESTAMP_NEW: c_int = 63;
/// See [`SO_BUF_LOCK`].
pub const SO_TIMESTAMPNS_NEW: c_int = 64;
/// See [`SO_BUF_LOCK`].
pub const SO_TIMESTAMPING_NEW: c_int = 65;

/// linux/tcp.h.
pub const TCP_NOTSENT_LOWAT: c_int = 25;
/// See [`TCP_NOTSENT_LOWAT`].
pub const TCP_REPAIR_WINDOW: c_int = 29;
/// Values of TCP_REPAIR: back to an ordinary connection, with a window probe and without.
pub const TCP_REPAIR_OFF: c_int = 0;
/// See [`TCP_REPAIR_OFF`].
pub const TCP_REPAIR_OFF_NO_WP: c_int = -1;
/// Values of TCP_REPAIR_QUEUE.
pub const TCP_RECV_QUEUE: c_int = 1;
/// See [`TCP_RECV_QUEUE`].
pub const TCP_SEND_QUEUE: c_int = 2;

/// Pieces of a message, and messages of a call, at the most (linux/uio.h).
pub const UIO_MAXIOV: usize = 1024;
