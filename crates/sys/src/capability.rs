//! Capabilities (linux/capability.h), as [`crate::process::capabilities`] tells them: one bit each.

/// Ports below 1024.
pub const NET_BIND_SERVICE: u64 = 1 << 10;
/// Programs on interfaces, TCP_REPAIR, routes and neighbours.
pub const NET_ADMIN: u64 = 1 << 12;
/// Packet, raw and AF_XDP sockets.
pub const NET_RAW: u64 = 1 << 13;
/// Any amount of locked memory.
pub const IPC_LOCK: u64 = 1 << 14;
/// Much; before Linux 5.8 what [`BPF`] and [`PERFMON`] are now, for which it stands still.
pub const SYS_ADMIN: u64 = 1 << 21;
/// Priorities.
pub const SYS_NICE: u64 = 1 << 23;
/// BPF programs that compute with addresses.
pub const PERFMON: u64 = 1 << 38;
/// BPF programs and maps.
pub const BPF: u64 = 1 << 39;

/// What opening an interface for AF_XDP takes.
pub const OPENING: u64 = NET_ADMIN | NET_RAW | IPC_LOCK | PERFMON | BPF;
