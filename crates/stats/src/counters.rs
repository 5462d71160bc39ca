//! THE TABLE of counters: one row is a name, a kind, and what it means. A counter is added here and counted where the
//! thing happens; nothing else.

use crate::cell::{Cell, Count, Level, Peak, Shared, State};
use crate::table::{Column, Kind, counters};

counters! {
/// The process as a whole; any thread counts.
Process {
    /// Sockets that were accelerated, ever.
    sockets_accelerated: Shared;
    /// Sockets that were left to the kernel though they might have been ours; the reasons have counters of their own.
    sockets_left: Shared;
    /// Sockets that are accelerated now.
    sockets_open: Level;
    /// Turns of lanes taken by the background thread, since nobody called.
    background_turns: Shared;
    /// Changes of routes, addresses, links and neighbours taken over from the kernel.
    netlink_updates: Shared;
    /// Times that the kernel's reports overflowed and everything was read anew. Worry when it grows steadily.
    netlink_resyncs: Shared;
    /// Panics of the engine caught at a call. Worry when it is not 0: a defect, please report.
    panics: Shared;
    /// Connections whose descriptors passed to another program by exec, without them. Worry when it grows: the new
    /// program sees an unconnected socket.
    exec_connections_lost: Shared;
    /// TCP connections that went over from the kernel to the wire.
    moves_to_wire: Shared;
    /// TCP connections that went over from the wire to the kernel.
    moves_to_kernel: Shared;
    /// TCP connections that met their peer on this host, and went over from the kernel into memory.
    moves_to_memory: Shared;
    /// TCP connections that went back from memory to the kernel.
    moves_from_memory: Shared;
    /// select and poll: calls that found one of our sockets ready.
    poll_ready_ours: Shared;
    /// select and poll: calls that found a descriptor of the kernel ready.
    poll_ready_os: Shared;
    /// select and poll: calls that timed out.
    poll_timeouts: Shared;
    /// select and poll: calls that failed.
    poll_errors: Shared;
    /// select and poll: rounds of polling that found something.
    poll_hits: Shared;
    /// select and poll: rounds of polling that gave up and slept.
    poll_misses: Shared;
    /// epoll: calls that found one of our sockets ready.
    epoll_ready_ours: Shared;
    /// epoll: calls that found a descriptor of the kernel ready.
    epoll_ready_os: Shared;
    /// epoll: calls that timed out.
    epoll_timeouts: Shared;
    /// epoll: calls that failed.
    epoll_errors: Shared;
    /// epoll: rounds of polling that found something.
    epoll_hits: Shared;
    /// epoll: rounds of polling that gave up and slept.
    epoll_misses: Shared;
    /// Percent of the last interval spent polling (VMA_CPU_USAGE_STATS).
    polling_cpu_percent: State;
}

/// One lane: the rings of one interface and the engine behind them. Its lock's holder counts.
Lane {
    /// Index of the interface; 0: this block is not in use.
    interface: State;
    /// The first eight bytes of the interface's name, lowest byte first.
    name_low: State;
    /// The rest of the name.
    name_high: State;
    /// Queues of the interface that the lane covers.
    queues: State;
    /// Bits: 1 zero copy, 2 program in the driver.
    mode: State;
    /// Turns of the lane.
    turns: Count;
    /// Turns that found no frame.
    turns_idle: Count;
    /// Most frames taken in by one turn.
    drained_max: Peak;
    /// Frames received.
    rx_frames: Count;
    /// Bytes of frames received.
    rx_bytes: Count;
    /// Frames sent.
    tx_frames: Count;
    /// Bytes of frames sent.
    tx_bytes: Count;
    /// System calls that told the kernel to send.
    tx_kicks: Count;
    /// Packets larger than the MTU that the kernel cuts (SIDESTEP_TSO), beside the frames.
    tx_large: Count;
    /// Frames that found the transmit ring full. Worry when it grows: raise SIDESTEP_TX_RING.
    tx_ring_full: Count;
    /// Packets that the kernel dropped since our receive ring was full. Worry when it grows: poll more, or raise
    /// SIDESTEP_RX_RING.
    rx_ring_full: Count;
    /// Packets that the kernel dropped for want of a frame in the fill ring. Worry when it grows: raise
    /// SIDESTEP_FRAMES.
    rx_fill_empty: Count;
    /// Packets that the kernel dropped for another reason.
    rx_dropped: Count;
    /// First segments of connections (SYNs) that were too many at a time, answered with a SYN cookie before they reach
    /// us; all lanes of the interface together. Such connections go without window scale and SACK. Worry when it grows:
    /// a flood, or SIDESTEP_RX_RING is too small for a burst of clients.
    rx_syns_answered: Count;
    /// First segments of connections that were too many at a time and were dropped: an answer makes no sense, is not
    /// possible (native mode on veth) or not allowed (VMA_TCP_MAX_SYN_RATE). All lanes of the interface together.
    rx_syns_refused: Count;
    /// Entries of the fill ring that the kernel refused. Worry when it is not 0: a defect, please report.
    rx_invalid_descs: Count;
    /// Entries of the transmit ring that the kernel refused. Worry when it is not 0: a defect, please report.
    tx_invalid_descs: Count;
    /// Times that the kernel looked into the transmit ring and found nothing.
    tx_ring_empty: Count;
    /// Frames at the lane's hand that are free.
    frames_free: Level;
    /// Received frames that wait in sockets' queues.
    rx_frames_held: Level;
    /// Times that no frame was free for sending. Worry when it grows: raise SIDESTEP_FRAMES.
    frames_exhausted: Count;
    /// Frames that no socket wanted. Worry when it is more than stray packets.
    rx_unwanted: Count;
    /// Frames with a wrong length, header or checksum. Worry when it grows: a bad link, or an attack.
    rx_malformed: Count;
    /// Fragments refused, or of datagrams never completed. Worry when it grows: loss, or an attack.
    rx_fragments_dropped: Count;
    /// Packets that the kernel was given to receive or to send, since their way is another interface's.
    left_to_kernel: Count;
    /// Connections that the program opened.
    tcp_active_opens: Count;
    /// Connections that the program accepted.
    tcp_passive_opens: Count;
    /// Closed sockets whose data or FIN is still on its way.
    tcp_orphans: Level;
    /// Closed sockets that were reset as there were more than net.ipv4.tcp_max_orphans. Worry when it grows: peers that
    /// do not acknowledge, or an attack.
    tcp_orphans_reset: Count;
    /// Connection requests that were dropped as their listener had taken VMA_TCP_MAX_SYN_RATE in that second.
    tcp_syns_over_rate: Count;
    /// Bytes of packets that wait for a neighbour's address.
    neighbour_waiting: Level;
    /// Times that a neighbour did not answer.
    neighbour_failed: Count;
    /// Interrupts asked for (times that a thread went to sleep on the lane).
    interrupts_requested: Shared;
    /// Interrupts that brought frames (sleeps that frames followed).
    interrupts_received: Count;
    /// Whether interrupts are moderated (VMA_CQ_MODERATION_ENABLE): 0 as the driver has it, 1 by the kernel's deferral,
    /// 2 by the driver's coalescing, as the program wants it.
    moderation: State;
    /// Packets that wait for an interrupt, where the driver counts them.
    moderation_count: State;
    /// Microseconds that a packet may wait for an interrupt.
    moderation_usec: State;
}

/// One socket. Whoever acts on the socket counts, under the lane's lock; calls that the kernel carries out count in the
/// `os_` columns.
Socket {
    /// Descriptor plus 1; 0: this block is free.
    fd: State;
    /// How often the block was handed out, to tell one socket from the next.
    generation: State;
    /// Bits: 1 accelerated (on the wire or in memory), 2 TCP (else UDP), 4 non-blocking, 8 multicast loop, 16 reason is
    /// valid.
    flags: State;
    /// The number of the reason (see `Why`) if it is left to the kernel.
    why: State;
    /// What carries it now (see `Carrier`): 0 nothing yet, 1 the kernel, 2 the wire, 3 memory.
    carrier: State;
    /// Since when, CLOCK_REALTIME in nanoseconds.
    carrier_since_ns: State;
    /// How often it moved from one carrier to the other.
    carrier_moves: Count;
    /// The number of the judge's reason (see `Verdict`).
    verdict: State;
    /// Calls that the judge had seen of it, in the stretch that it judged by.
    verdict_calls: State;
    /// Their bytes.
    verdict_bytes: State;
    /// Local address: IPv4 address times 65536 plus port.
    local: State;
    /// Remote address, likewise; 0: none.
    remote: State;
    /// State of TCP, RFC 9293's names in order: 0 CLOSED, 1 LISTEN, 2 SYN-SENT, ... 10 TIME-WAIT.
    tcp_state: State;
    /// Inode of the kernel's socket.
    inode: State;
    /// Lane, as its number plus 1.
    lane: State;
    /// Thread that received first.
    rx_thread: State;
    /// Thread that sent first.
    tx_thread: State;
    /// Packets (UDP) or receives (TCP) delivered from the wire.
    rx_packets: Count;
    /// Bytes delivered from the wire.
    rx_bytes: Count;
    /// Receives from memory that a peer on this host shares.
    rx_memory_packets: Count;
    /// Bytes of those receives.
    rx_memory_bytes: Count;
    /// Receives that would have blocked.
    rx_eagain: Count;
    /// Receives that failed.
    rx_errors: Count;
    /// Receives done by the kernel.
    rx_os_packets: Shared;
    /// Bytes received by the kernel.
    rx_os_bytes: Shared;
    /// Receives of the kernel that would have blocked.
    rx_os_eagain: Shared;
    /// Receives of the kernel that failed.
    rx_os_errors: Shared;
    /// Receives that found data while polling.
    rx_poll_hit: Count;
    /// Receives that polled in vain and slept.
    rx_poll_miss: Count;
    /// Bytes that wait for the program.
    rx_queued_bytes: Level;
    /// Packets that wait for the program.
    rx_queued_packets: Level;
    /// Most bytes that waited at any of the worker's looks, twice a second.
    rx_queued_bytes_max: Peak;
    /// Most packets that waited at any of those looks.
    rx_queued_packets_max: Peak;
    /// Bytes that may wait.
    rx_bytes_limit: State;
    /// Bytes dropped, for too many waited. Worry when it grows: the program reads too slowly.
    rx_dropped_bytes: Count;
    /// Packets dropped, for too many waited.
    rx_dropped_packets: Count;
    /// Packets lent to the program by the zero-copy API.
    rx_zero_copy: Level;
    /// Packets delivered by the zero-copy API, ever.
    rx_zero_copied: Count;
    /// Packets that the program's receive callback dropped, or wanted to hold beyond what may be held.
    rx_filter_dropped: Count;
    /// Packets that the program's receive callback held.
    rx_filter_held: Count;
    /// Completions told by socketxtreme_poll.
    rx_completions: Count;
    /// Sends carried out on the wire.
    tx_packets: Count;
    /// Bytes sent on the wire.
    tx_bytes: Count;
    /// Sends into memory that a peer on this host shares.
    tx_memory_packets: Count;
    /// Bytes of those sends.
    tx_memory_bytes: Count;
    /// Sends that would have blocked.
    tx_eagain: Count;
    /// Sends that failed.
    tx_errors: Count;
    /// Sends done by the kernel.
    tx_os_packets: Shared;
    /// Bytes sent by the kernel.
    tx_os_bytes: Shared;
    /// Sends of the kernel that would have blocked.
    tx_os_eagain: Shared;
    /// Sends of the kernel that failed.
    tx_os_errors: Shared;
    /// Bytes not yet acknowledged or not yet sent.
    tx_queued_bytes: Level;
    /// TCP segments sent again.
    tx_retransmits: Count;
    /// Sends dropped silently since no buffer was free.
    tx_dropped: Count;
    /// Dummy sends (VMA_SND_FLAGS_DUMMY), which leave nothing on the wire.
    tx_dummy: Count;
    /// Multicast groups joined.
    groups: Level;
}
}
