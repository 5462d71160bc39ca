//! THE TABLE of parameters: one row is the field, its default, its bounds, its environment variable and its place in
//! the manual. A parameter is added here and read where it matters; nothing else.
//!
//! Every variable that VMA knows has a row, so that nobody's start script needs a change; a row marked `unused` says
//! why it changes nothing here.

use crate::choice::*;
use crate::table::{Row, parameters};
use crate::value::{Affinity, Bounds, Outside, Value, accepted, assign};

parameters! {
"Acceleration" {
    /// Refuse instead of falling back: a TCP or UDP socket over IPv4 that cannot be accelerated fails
    /// (EPROTONOSUPPORT), with the reason in the log as an ERROR: also one to loopback or an address of this host, as
    /// these are never accelerated. What a rule, or VMA_OFFLOADED_SOCKETS, leaves to the kernel does not fail. For
    /// tests that prove acceleration.
    strict: bool = false, env "SIDESTEP_STRICT", label "Strict";
    /// Which interfaces are accelerated: `auto` (veth), or patterns such as `eth1,veth*`; `!eth0` excludes, and
    /// exclusion wins.
    interfaces: String = "auto".to_owned(), env "SIDESTEP_INTERFACES", label "Interfaces";
    /// How the XDP program is attached: `native` is in the driver, without copies where it can; some drivers take the
    /// link down for seconds then, for everybody, when the program starts and when it ends. `generic` works on every
    /// interface, copies, and disturbs nobody. `auto` is generic but for veth on old kernels.
    xdp_mode: XdpMode = XdpMode::Auto, env "SIDESTEP_XDP_MODE", label "XDP mode";
    /// Packet buffers per interface, 4 KiB each, shared by receive and transmit; 256 at least. 0: twice as many as its
    /// receive rings have entries, 4096 at least and 16 384 at most. More than that is cut to an eighth of the memory
    /// that is free (of a container, of its limit), as they are locked.
    frames: u32 = 0, in 0..=1_048_576 or default, env "SIDESTEP_FRAMES", label "Frames";
    /// Entries of each receive ring; rounded up to a power of two.
    rx_ring: u32 = 2048, in 64..=65_536 or nearest, env "SIDESTEP_RX_RING", label "Rx ring";
    /// Entries of each transmit ring; rounded up to a power of two.
    tx_ring: u32 = 2048, in 64..=65_536 or nearest, env "SIDESTEP_TX_RING", label "Tx ring";
    /// Whether large sends on a TCP connection leave as packets of up to 64 KiB, which the kernel cuts into segments or
    /// hands over whole to a peer on this host. On veth only; elsewhere each segment is a frame.
    tso: bool = true, env "SIDESTEP_TSO", label "TSO";
    /// What carries sockets of IPv4 that the rules accelerate: with `auto` they begin in the kernel; when they have
    /// shown that they gain, an interface is opened beside the program, and they move to the wire; bulk moves back to
    /// the kernel where the interface copies. What a rule names (`use vma`) is on the wire at once. `wire` has all on
    /// the wire at once, and keeps them there, as SIDESTEP_STRICT, VMA's profiles, VMA_SOCKETXTREME and
    /// VMA_EXCEPTION_HANDLING=-2 do; `late` is `auto`, whatever else is set, and
    /// tries no process by both carriers; `kernel` leaves all of them in the kernel.
    carrier: Carrier = Carrier::Auto, env "SIDESTEP_CARRIER", label "Carrier";
    /// Where the keeper (sidestepd) is, which does what the program has no privilege for: `auto` is that of the network
    /// namespace, `none` asks nobody, all else is the path of its socket. With `start` (or `start=PROGRAM`, which is
    /// not /usr/sbin/sidestepd) a root program that opens an interface starts one where there is none; it ends 30
    /// seconds after the last program.
    keeper: String = "auto".to_owned(), env "SIDESTEP_KEEPER", label "Keeper";
    /// For tests: connections go over from the kernel to the wire and back at every so-manieth call; 0: as it pays.
    move_every: u32 = 0, env "SIDESTEP_MOVE_EVERY", label "Move every";
    /// Microseconds that small sends may gather behind a busy transmit ring before the kernel is told; 0 tells it at
    /// once.
    tx_coalesce_usec: u32 = 10, in 0..=100_000 or nearest,
        env "SIDESTEP_TX_COALESCE_USEC", label "Tx coalesce (usec)";
    /// Milliseconds that the process may live on at exit to get pending data acknowledged.
    exit_linger_msec: u32 = 1000, in 0..=600_000 or nearest,
        env "SIDESTEP_EXIT_LINGER_MSEC", label "Exit linger (msec)";
    /// Who carries connections inside this host: shared memory, where both ends are one user's processes with libvma.so
    /// or libsdp.so (there, what is wanted as SDP), or the kernel.
    local: LocalTransport = LocalTransport::Shm, env "SIDESTEP_LOCAL", label "Local transport";
    /// A ready-made set of parameters, applied before the variables that are set explicitly (docs/profiles.md).
    spec: Spec = Spec::None, env "VMA_SPEC", label "VMA Spec";
    /// First parameter of the 29west and wombat_fh profiles: microseconds between real writes to a pipe.
    spec_param1: i32 = 1, in 0..=2_147_483_647 or default, env "VMA_SPEC_PARAM1", label "Param 1",
        unused "a write to a pipe that is held back could be missed by a reader in another process";
    /// Second parameter of those profiles: writes to a pipe joined to one.
    spec_param2: i32 = 1, in 0..=2_147_483_647 or default, env "VMA_SPEC_PARAM2", label "Param 2",
        unused "a write to a pipe that is held back could be missed by a reader in another process";
    /// Whether sockets are accelerated at all.
    offloaded_sockets: bool = true, env "VMA_OFFLOADED_SOCKETS", label "Offloaded Sockets";
    /// What happens on a call or option that acceleration does not support.
    exception_handling: ExceptionHandling = ExceptionHandling::Debug,
        env "VMA_EXCEPTION_HANDLING", label "Exception handling mode";
}
"Log" {
    /// How much is logged, by name or number.
    tracelevel: TraceLevel = TraceLevel::Info, env "VMA_TRACELEVEL", label "Log Level";
    /// What precedes each line: 0 the level, 1 and the thread, 2 and the process, 3 and the time. 2 at least when the
    /// level is DEBUG or finer.
    log_details: i32 = 0, in 0..=3 or nearest, env "VMA_LOG_DETAILS", label "Log Details";
    /// Colours, when the log goes to a terminal.
    log_colors: bool = true, env "VMA_LOG_COLORS" also "LOG_COLORS", label "Log Colors";
    /// Where the log goes; empty: standard error. `%d` becomes the process number.
    log_file: String = String::new(), env "VMA_LOG_FILE", label "Log File";
    /// Address of a callback in the program's memory.
    log_cb_func_ptr: String = String::new(), env "VMA_LOG_CB_FUNC_PTR", label "Log callback",
        unused "a pointer from the environment is not called";
}
"Statistics" {
    /// Where each socket's statistics are written when it is closed; empty: nowhere. `%d` becomes the process number.
    stats_file: String = String::new(), env "VMA_STATS_FILE", label "Stats File";
    /// Directory of the file that `vma_stats` reads; empty: none. `%d` becomes the process number.
    stats_shmem_dir: String = "/tmp/".to_owned(), env "VMA_STATS_SHMEM_DIR", label "Stats shared memory directory";
    /// Sockets that `vma_stats` can see at once; more are counted together.
    stats_fd_num: u32 = 100, in 0..=1024 or nearest, env "VMA_STATS_FD_NUM", label "Stats FD Num (max)";
    /// Measures the share of time spent polling, shown by `vma_stats`.
    cpu_usage_stats: bool = false, env "VMA_CPU_USAGE_STATS", label "Polling CPU idle usage";
    /// Directory of VMA's service daemon.
    vmad_notify_dir: String = "/tmp/vma".to_owned(), env "VMA_VMAD_NOTIFY_DIR", label "SERVICE output directory",
        unused "there is no service daemon";
    /// Samples of VMA's instrumented builds.
    time_measure_num_samples: i32 = 10_000, in 0..=2_147_483_647 or default,
        env "VMA_TIME_MEASURE_NUM_SAMPLES", label "Time measure samples", unused "no instrumented build";
    /// Output of VMA's instrumented builds.
    time_measure_dump_file: String = "/tmp/VMA_inst.dump".to_owned(),
        env "VMA_TIME_MEASURE_DUMP_FILE", label "Time measure file", unused "no instrumented build";
    /// Multicast counter of VMA's debug builds.
    dbg_send_mcpkt_counter: i32 = 0, env "VMA_DBG_SEND_MCPKT_COUNTER", label "Debug mc counter",
        unused "no debug build";
    /// Multicast group of VMA's debug builds.
    dbg_send_mcpkt_mcgroup: String = String::new(), env "VMA_DBG_SEND_MCPKT_MCGROUP", label "Debug mc group",
        unused "no debug build";
}
"Rules and signals" {
    /// The rules file: which programs and addresses are accelerated, of 1 MiB at most. `%d` becomes the process number.
    /// One that is there and cannot be read is told by a WARNING, and no rule holds; with SIDESTEP_STRICT sockets are
    /// refused then.
    config_file: String = "/etc/libvma.conf".to_owned(), env "VMA_CONFIG_FILE", label "Conf File";
    /// Selects the rules whose application-id is this.
    application_id: String = "VMA_DEFAULT_APPLICATION_ID".to_owned(),
        env "VMA_APPLICATION_ID", label "Application ID";
    /// Chains a handler before the program's on SIGINT.
    handle_sigintr: bool = false, env "VMA_HANDLE_SIGINTR", label "SigIntr Ctrl-C Handle",
        unused "waiting calls end on any signal as in the kernel, and peers are told when it ends the process";
    /// Writes a backtrace to the log when a segmentation fault ends the process, from its first socket on. A handler of
    /// the program's own is called instead.
    handle_sigsegv: bool = false, env "VMA_HANDLE_SIGSEGV", label "SegFault Backtrace";
}
"Lanes" {
    /// As `VMA_RING_ALLOCATION_LOGIC_RX`, where that is at its default: a lane receives and sends.
    ring_allocation_logic_tx: RingLogic = RingLogic::Interface,
        env "VMA_RING_ALLOCATION_LOGIC_TX", label "Ring allocation logic TX";
    /// Which sockets of an interface share a lane: its rings, its engine and its lock. A connection gets the lane of
    /// the thread, core, socket or local address when it moves to the wire, or connects there; so does a UDP socket, or
    /// when it is bound; those that may share a port stay on the first lane. Listeners are the kernel's then, and a
    /// connection moves to the lane of who uses it first.
    ring_allocation_logic_rx: RingLogic = RingLogic::Interface,
        env "VMA_RING_ALLOCATION_LOGIC_RX", label "Ring allocation logic RX";
    /// As `VMA_RING_MIGRATION_RATIO_RX`, where `VMA_RING_ALLOCATION_LOGIC_RX` is at its default.
    ring_migration_ratio_tx: i32 = 100, in -1..=2_147_483_647 or default,
        env "VMA_RING_MIGRATION_RATIO_TX", label "Ring migration ratio TX";
    /// Calls on a socket after which it is asked whether they come from a thread of another lane, where lanes are
    /// for threads or cores. If so, and the next 20 do as well, it moves there; -1 never.
    ring_migration_ratio_rx: i32 = 100, in -1..=2_147_483_647 or default,
        env "VMA_RING_MIGRATION_RATIO_RX", label "Ring migration ratio RX";
    /// Lanes per interface, 8 at the most; beyond it threads or sockets share them in turn. 0: 8.
    ring_limit_per_interface: u32 = 0, env "VMA_RING_LIMIT_PER_INTERFACE", label "Ring limit per interface";
    /// Bytes of the NIC's memory for transmit.
    ring_dev_mem_tx: u32 = 0, env "VMA_RING_DEV_MEM_TX", label "Ring On Device Memory TX",
        unused "AF_XDP has no device memory";
}
"Transmit" {
    /// Connection requests per second that a listener takes on one interface; those beyond are dropped, and come again
    /// after a second. 0: no limit.
    tcp_max_syn_rate: u32 = 0, in 0..=100_000 or nearest, env "VMA_TCP_MAX_SYN_RATE", label "TCP max syn rate";
    /// TCP segment descriptors of the process.
    tx_segs_tcp: u32 = 1_000_000, env "VMA_TX_SEGS_TCP", label "Tx Mem Segs TCP",
        unused "send buffers are bounded per socket, as in the kernel";
    /// Transmit buffers. Where it is set and SIDESTEP_FRAMES is not, an interface has this many packet buffers more
    /// than VMA_RX_BUFS says.
    tx_bufs: u32 = 200_000, env "VMA_TX_BUFS", label "Tx Mem Bufs";
    /// Depth of the transmit queue: where it is set, that of SIDESTEP_TX_RING unless that is set too.
    tx_wre: u32 = 2048, in 1..=1_048_576 or nearest, env "VMA_TX_WRE", label "Tx QP WRE";
    /// Sends per completion.
    tx_wre_batching: u32 = 64, in 1..=64 or nearest, env "VMA_TX_WRE_BATCHING", label "Tx QP WRE Batching",
        unused "the kernel completes one frame at a time";
    /// Largest send copied into the descriptor.
    tx_max_inline: u32 = 204, env "VMA_TX_MAX_INLINE" also "VMA_MAX_INLINE", label "Tx Max QP INLINE",
        unused "AF_XDP descriptors carry no data";
    /// Initial state of IP_MULTICAST_LOOP.
    tx_mc_loopback: bool = true, env "VMA_TX_MC_LOOPBACK", label "Tx MC Loopback";
    /// Whether a non-blocking UDP send without a free buffer fails with EAGAIN rather than dropping the datagram.
    tx_nonblocked_eagains: bool = false, env "VMA_TX_NONBLOCKED_EAGAINS", label "Tx non-blocked eagains",
        unused "a full transmit ring is always EAGAIN, as in the kernel";
    /// Bytes prefetched before a send.
    tx_prefetch_bytes: u32 = 256, in 0..=65_536 or default, env "VMA_TX_PREFETCH_BYTES", label "Tx Prefetch Bytes",
        unused "the copy into the frame prefetches";
    /// Sends waiting for a ring.
    tx_backlog_max: u32 = 100, env "VMA_TX_BACKLOG_MAX", label "Tx backlog max", unused "removed in VMA too";
}
"Receive" {
    /// Receive buffers. Where it is set and SIDESTEP_FRAMES is not, an interface has this many packet buffers, and
    /// those of VMA_TX_BUFS beside them; of the one that is not set, 2048.
    rx_bufs: u32 = 200_000, env "VMA_RX_BUFS", label "Rx Mem Bufs";
    /// Depth of the receive queue: where it is set, that of SIDESTEP_RX_RING unless that is set too.
    rx_wre: u32 = 16_000, in 1..=1_048_576 or nearest, env "VMA_RX_WRE", label "Rx QP WRE";
    /// Buffers handed to the receive queue at once.
    rx_wre_batching: u32 = 64, in 1..=1024 or nearest, env "VMA_RX_WRE_BATCHING", label "Rx QP WRE Batching",
        unused "the fill ring is refilled every turn";
    /// Least bytes that a UDP socket may queue, whatever SO_RCVBUF says.
    rx_bytes_min: u32 = 65_536, env "VMA_RX_BYTES_MIN", label "Rx Byte Min Limit";
    /// Polls of the receive rings before a blocking receive sleeps; -1 polls for ever, 0 is one poll.
    rx_poll: i32 = 100_000, in -1..=100_000_000 or default, env "VMA_RX_POLL", label "Rx Poll Loops";
    /// The same, before the socket has any accelerated traffic.
    rx_poll_init: i32 = 0, in -1..=100_000_000 or default, env "VMA_RX_POLL_INIT", label "Rx Poll Init Loops",
        unused "VMA_RX_POLL holds from the start; its default adapts to the socket";
    /// Polls of the rings between looks at a UDP socket's kernel side; 0 never looks.
    rx_udp_poll_os_ratio: u32 = 100, env "VMA_RX_UDP_POLL_OS_RATIO" also "VMA_RX_POLL_OS_RATIO" also "VMA_RX_SKIP_OS",
        label "Rx UDP Poll OS Ratio",
        unused "while polling, the kernel's side is looked at every 20 microseconds";
    /// Where receive time stamps come from.
    hw_ts_conversion: TimestampConversion = TimestampConversion::Sync,
        env "VMA_HW_TS_CONVERSION", label "HW TS Conversion",
        unused "time stamps are taken in software: the hardware's come to an XDP program only if it was loaded for one device and runs in that driver's own hook, as of Linux 6.3; ours is one for all interfaces, hooks and kernels";
    /// Polls between sched_yield(2); 0 never yields.
    rx_poll_yield: u32 = 0, env "VMA_RX_POLL_YIELD", label "Rx Poll Yield";
    /// Bytes prefetched after a receive.
    rx_prefetch_bytes: u32 = 256, in 32..=2044 or default, env "VMA_RX_PREFETCH_BYTES", label "Rx Prefetch Bytes",
        unused "one cache line is prefetched per frame";
    /// Bytes prefetched before a poll.
    rx_prefetch_bytes_before_poll: u32 = 0, in 0..=2044 or default,
        env "VMA_RX_PREFETCH_BYTES_BEFORE_POLL", label "Rx Prefetch Bytes Before Poll",
        unused "one cache line is prefetched per frame";
    /// Nanoseconds after which a receive takes in what has arrived although its socket has data queued; 0: it does not,
    /// and the background thread takes in what the program leaves for 2 milliseconds.
    rx_cq_drain_rate_nsec: u32 = 0, env "VMA_RX_CQ_DRAIN_RATE_NSEC", label "Rx CQ Drain Rate";
    /// Streams joined in software.
    gro_streams_max: u32 = 32, env "VMA_GRO_STREAMS_MAX", label "GRO max streams",
        unused "the engine joins no segments: four full ones taken as one cost it 1630 instructions each, and apart 2264; what joining costs and the kernel's delivery of each frame come on top. What the kernel joined already is taken whole";
    /// Steers TCP by destination only.
    tcp_3t_rules: bool = false, env "VMA_TCP_3T_RULES", label "TCP 3T rules",
        unused "each connection has an entry of its own, by which those that moved to the kernel are told from the others";
    /// Steers connected UDP by destination only.
    udp_3t_rules: bool = true, env "VMA_UDP_3T_RULES", label "UDP 3T rules", unused "UDP is steered by local address";
    /// Steers multicast by hardware address.
    eth_mc_l2_only_rules: bool = false, env "VMA_ETH_MC_L2_ONLY_RULES", label "ETH MC L2 only rules",
        unused "packets are steered by address and port; those of other members on the host must reach the kernel";
    /// Flow tags for reused multicast flows.
    mc_force_flowtag: bool = false, env "VMA_MC_FORCE_FLOWTAG", label "Force Flowtag for MC",
        unused "AF_XDP has no flow tags";
}
"Waiting" {
    /// Microseconds that select, poll and epoll_wait poll before they sleep; -1 polls for ever, 0 never.
    select_poll: i32 = 100_000, in -1..=100_000_000 or default, env "VMA_SELECT_POLL", label "Select Poll (usec)";
    /// Sets VMA_SELECT_POLL_OS_RATIO and VMA_SELECT_SKIP_OS to 1.
    select_poll_os_force: bool = false, env "VMA_SELECT_POLL_OS_FORCE", label "Select Poll OS Force",
        unused "while polling, the kernel's descriptors are looked at every 20 microseconds";
    /// Polls of the rings between looks at the kernel's descriptors; 0 never looks while polling.
    select_poll_os_ratio: u32 = 10, env "VMA_SELECT_POLL_OS_RATIO" also "VMA_SELECT_POLL_RATIO", label "Select Poll OS Ratio",
        unused "while polling, the kernel's descriptors are looked at every 20 microseconds";
    /// Yields between polls.
    select_poll_yield: bool = false, env "VMA_SELECT_POLL_YIELD", label "Select Poll Yield";
    /// Calls between looks at the kernel's descriptors when accelerated ones are ready.
    select_skip_os: u32 = 4, in 0..=10_000 or default, env "VMA_SELECT_SKIP_OS", label "Select Skip OS",
        unused "the kernel's descriptors are looked at every 20 microseconds at the latest";
    /// Sleeps on interrupts.
    select_cq_irq: bool = true, env "VMA_SELECT_CQ_IRQ", label "Select CQ IRQ", unused "sleeping is always by interrupt";
    /// Milliseconds between looks of the background thread when nobody calls, four times as many (up to 100) once
    /// nothing moves; 0: a look a second, and for timers.
    progress_engine_interval: u32 = 10, in 0..=60_000 or nearest,
        env "VMA_PROGRESS_ENGINE_INTERVAL", label "CQ Drain Interval (msec)";
    /// Packets that such a look takes in at the most, and no more than VMA_CQ_POLL_BATCH_MAX; without any, connections
    /// would stall.
    progress_engine_wce_max: u32 = 10_000, in 1..=1_000_000 or nearest, env "VMA_PROGRESS_ENGINE_WCE_MAX" also "VMA_CQ_DRAIN_WCE_MAX", label "CQ Drain WCE (max)";
    /// How often interfaces interrupt for packets: 1, as the parameters below say, 0, for each packet, while the
    /// program runs; then it is again as it was. By the driver's coalescing (ethtool -C), else by the kernel's
    /// deferral of interrupts. The default, unlike VMA's 1, leaves interfaces alone, since their interrupts are all
    /// programs'. One of the parameters below that is set means 1; endless polling then means 0. The first program on
    /// an interface decides.
    cq_moderation_enable: Moderation = Moderation::Driver, env "VMA_CQ_MODERATION_ENABLE",
        label "CQ Interrupts Moderation";
    /// Packets that wait for an interrupt, where the driver counts them.
    cq_moderation_count: u32 = 48, env "VMA_CQ_MODERATION_COUNT", label "CQ Moderation Count";
    /// Microseconds that a packet may wait for an interrupt.
    cq_moderation_period_usec: u32 = 50, in 0..=1_000_000 or nearest,
        env "VMA_CQ_MODERATION_PERIOD_USEC", label "CQ Moderation Period (usec)";
    /// Most packets that wait by adaptive moderation.
    cq_aim_max_count: u32 = 560, env "VMA_CQ_AIM_MAX_COUNT", label "CQ AIM Max Count";
    /// Longest wait by adaptive moderation, microseconds.
    cq_aim_max_period_usec: u32 = 250, in 0..=1_000_000 or nearest,
        env "VMA_CQ_AIM_MAX_PERIOD_USEC" also "VMA_CQ_AIM_MAX_PERIOD_US", label "CQ AIM Max Period (usec)";
    /// Milliseconds between changes of the pace by adaptive moderation, which goes by the traffic; 0: the pace stays.
    cq_aim_interval_msec: u32 = 250, in 0..=3_600_000 or nearest,
        env "VMA_CQ_AIM_INTERVAL_MSEC", label "CQ AIM Interval (msec)";
    /// Interrupts per second that adaptive moderation is after. Small packets, fewer than 450 000 a second, all
    /// interrupt.
    cq_aim_interrupts_rate_per_sec: u32 = 5000, in 1..=1_000_000 or nearest,
        env "VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC", label "CQ AIM Interrupts Rate (per sec)";
    /// Packets taken in by one turn. The default is larger than VMA's 16: a turn takes a lock.
    cq_poll_batch_max: u32 = 256, in 1..=1024 or nearest, env "VMA_CQ_POLL_BATCH_MAX", label "CQ Poll Batch (max)";
    /// Keeps the receive queue full when buffers are short.
    cq_keep_qp_full: bool = true, env "VMA_CQ_KEEP_QP_FULL", label "CQ Keeps QP Full",
        unused "a share of the frames always stays with the fill ring";
    /// Spare buffers per ring.
    qp_compensation_level: u32 = 256, env "VMA_QP_COMPENSATION_LEVEL", label "QP Compensation Level",
        unused "lanes take frames in batches of their own";
    /// Programs ask rings for completions (docs/extra-api.md).
    socketxtreme: bool = false, env "VMA_SOCKETXTREME", label "SocketXtreme mode";
}
"TCP" {
    /// Milliseconds of the background thread's tick.
    timer_resolution_msec: u32 = 10, in 1..=60_000 or nearest,
        env "VMA_TIMER_RESOLUTION_MSEC", label "Timer Resolution (msec)",
        unused "every timer is exact to the turn that runs it";
    /// Milliseconds of TCP's tick; at least VMA_TIMER_RESOLUTION_MSEC.
    tcp_timer_resolution_msec: u32 = 100, in 1..=60_000 or nearest,
        env "VMA_TCP_TIMER_RESOLUTION_MSEC", label "TCP Timer Resolution (msec)",
        unused "every timer is exact to the turn that runs it";
    /// Who does TCP's timers and control segments.
    tcp_ctl_thread: ControlThread = ControlThread::Off, env "VMA_TCP_CTL_THREAD", label "TCP control thread",
        unused "whoever holds the lane does them, the background thread if nobody does";
    /// Whether TCP offers time stamps (RFC 7323). The default is the kernel's, unlike VMA's 0: they protect against old
    /// duplicates and let losses be told from reordering.
    tcp_timestamp_option: Timestamps = Timestamps::Os,
        env "VMA_TCP_TIMESTAMP_OPTION", label "TCP timestamp option";
    /// Sets TCP_NODELAY on every TCP socket.
    tcp_nodelay: bool = false, env "VMA_TCP_NODELAY", label "TCP nodelay";
    /// Sets TCP_QUICKACK on every TCP socket.
    tcp_quickack: bool = false, env "VMA_TCP_QUICKACK", label "TCP quickack";
    /// Answers fcntl, ioctl and setsockopt of connected TCP without asking the kernel.
    avoid_sys_calls_on_tcp_fd: bool = false, env "VMA_AVOID_SYS_CALLS_ON_TCP_FD", label "Avoid sys-calls on tcp fd",
        unused "the kernel's socket must know what its descriptor is set to: the connection may move there at any time";
    /// Hides EPERM of SO_BINDTODEVICE.
    allow_privileged_sock_opt: bool = true, env "VMA_ALLOW_PRIVILEGED_SOCK_OPT", label "Allow privileged sock opt",
        unused "the kernel's own answer is given";
    /// Delay after a multicast join.
    wait_after_join_msec: u32 = 0, in 0..=60_000 or nearest,
        env "VMA_WAIT_AFTER_JOIN_MSEC", label "Delay after join (msec)";
    /// Delay after a repeated registration.
    wait_after_rereg_msec: u32 = 500, env "VMA_WAIT_AFTER_REREG_MSEC", label "Delay after rereg (msec)",
        unused "InfiniBand only";
    /// Largest IP packet; 0 follows the interface.
    mtu: u32 = 0, in 0..=65_535 or default, env "VMA_MTU", label "MTU";
    /// TCP's largest segment; 0 is the MTU less 40.
    mss: u32 = 0, in 0..=65_495 or default, env "VMA_MSS", label "MSS";
    /// TCP's congestion control. The default is Linux's, unlike VMA's 0 (NewReno, as in lwIP).
    tcp_cc_algo: CongestionControl = CongestionControl::Cubic, env "VMA_TCP_CC_ALGO", label "TCP CC Algorithm";
    /// Window scale that TCP offers: 0 to 14; -1: none, and the peer's is not taken either; -2, the default, unlike
    /// VMA's 3: as net.ipv4.tcp_window_scaling and the largest receive buffer say. A small one bounds the window.
    window_scaling: i32 = -2, in -2..=14 or default, env "VMA_WINDOW_SCALING", label "Window scaling";
    /// Gives a descriptor back to the kernel only when its steering is gone.
    deferred_close: bool = false, env "VMA_DEFERRED_CLOSE", label "Deferred close",
        unused "steering is always taken away first";
    /// Polls the receive ring in TCP sends.
    rx_poll_on_tx_tcp: bool = false, env "VMA_RX_POLL_ON_TX_TCP", label "Polling Rx on Tx TCP",
        unused "sends take in what has arrived anyway";
    /// getsockname of a TCP socket triggers a dummy send.
    trigger_dummy_send_getsockname: bool = false,
        env "VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME", label "Trig dummy send getsockname()",
        unused "nothing needs warming by empty sends";
}
"Threads and memory" {
    /// Cores of the background thread: -1 (any), a mask, or a list.
    internal_thread_affinity: Affinity = Affinity::default(),
        env "VMA_INTERNAL_THREAD_AFFINITY", label "Internal Thread Affinity";
    /// Cpuset of the background thread: the folder of one (/dev/cpuset/NAME), or of a threaded cgroup.
    internal_thread_cpuset: String = String::new(), env "VMA_INTERNAL_THREAD_CPUSET", label "Internal Thread Cpuset";
    /// The background thread wakes for each packet.
    internal_thread_arm_cq: bool = false, env "VMA_INTERNAL_THREAD_ARM_CQ", label "Internal Thread Arm CQ",
        unused "the background thread wakes for packets whenever the program is away";
    /// How the program's threads use sockets. 0 and 1: who finds a lock held spins briefly before it sleeps; 2 and 3:
    /// it sleeps at once. The lock itself is always needed, for the background thread.
    thread_mode: ThreadMode = ThreadMode::Spin, env "VMA_THREAD_MODE", label "Thread mode";
    /// How buffers return to the pool.
    buffer_batching_mode: BufferBatching = BufferBatching::Reclaim,
        env "VMA_BUFFER_BATCHING_MODE", label "Buffer batching mode",
        unused "lanes take and give frames in batches whose size follows their need";
    /// Where packet buffers come from: 0 and 1 ordinary pages; 2 huge pages, as far as the kernel has them at hand
    /// (Linux 6.1): cleared and pinned faster, but many times slower where the host of a virtual machine takes free
    /// memory back.
    mem_alloc_type: MemoryType = MemoryType::Contiguous, env "VMA_MEM_ALLOC_TYPE", label "Mem Allocate type";
    /// Huge pages in very old versions.
    hugetbl: String = String::new(), env "VMA_HUGETBL" also "VMA_HUGETLB", label "Huge pages",
        unused "VMA_MEM_ALLOC_TYPE replaced it";
    /// Unicast ARP requests before a broadcast one.
    neigh_uc_arp_quata: u32 = 3, env "VMA_NEIGH_UC_ARP_QUATA", label "Num of UC ARPs",
        unused "the kernel resolves neighbours: net.ipv4.neigh.*.ucast_solicit";
    /// Milliseconds between unicast ARP requests.
    neigh_uc_arp_delay_msec: u32 = 10_000, env "VMA_NEIGH_UC_ARP_DELAY_MSEC", label "UC ARP delay (msec)",
        unused "the kernel resolves neighbours: net.ipv4.neigh.*.retrans_time_ms";
    /// Restarts of the neighbour's state machine.
    neigh_num_err_retries: u32 = 1, env "VMA_NEIGH_NUM_ERR_RETRIES", label "Num of neigh restart retries",
        unused "the kernel resolves neighbours";
    /// Milliseconds between full reads of routes and neighbours.
    netlink_timer: u32 = 10_000, env "VMA_NETLINK_TIMER", label "Netlink timer (msec)",
        unused "changes are followed as the kernel reports them";
}
"Of VMA's hardware" {
    /// BlueFlame doorbells.
    bf: bool = true, env "VMA_BF", label "BF (Blue Flame)", unused "Mellanox hardware only";
    /// Prepares verbs for fork.
    fork: bool = true, env "VMA_FORK", label "fork() support", unused "fork always works";
    /// dup2 closes the library's side of its target.
    close_on_dup2: bool = true, env "VMA_CLOSE_ON_DUP2", label "close on dup2()",
        unused "dup2 always closes its target, as in the kernel";
    /// Warnings about IGMP versions.
    suppress_igmp_warning: bool = false, env "VMA_SUPPRESS_IGMP_WARNING", label "Suppress IGMP warning",
        unused "the kernel speaks IGMP";
    /// Acceleration over InfiniBand.
    ipoib: bool = true, env "VMA_IPOIB", label "IPoIB", unused "InfiniBand only";
    /// Named by an old manual, never read.
    igmp: String = String::new(), env "VMA_IGMP", label "IGMP", unused "never had a meaning";
    /// Checksums in software.
    rx_sw_csum: bool = true, env "VMA_RX_SW_CSUM", label "Rx SW CSUM",
        unused "checksums are verified unless the kernel says that the driver did";
    /// Keeps TCP timers in the background thread.
    internal_thread_tcp_timer_handling: i32 = 0, env "VMA_INTERNAL_THREAD_TCP_TIMER_HANDLING",
        label "Internal Thread TCP Handling", unused "removed in VMA too";
    /// What a full transmit queue drops.
    tx_drop_mode: i32 = 0, env "VMA_TX_DROP_MODE", label "Tx drop mode", unused "removed in VMA too";
}
}

impl Parameters {
    /// Whether the user demands that connections are on the wire from their beginning, and stay there.
    pub fn is_on_wire_at_once(&self) -> bool {
        match self.carrier {
            // A program that would rather end than go without is to learn it now.
            Carrier::Auto => {
                self.strict || self.socketxtreme || self.exception_handling == ExceptionHandling::Exit
            }
            Carrier::Wire => true,
            Carrier::Late | Carrier::Kernel => false,
        }
    }

    /// Whether sockets that no rule demands begin in the kernel.
    pub fn begins_in_kernel(&self) -> bool {
        !self.is_on_wire_at_once()
    }

    /// Replaces the first `%d` of every path and name by the process number, as VMA does.
    pub fn expand_pid(&mut self, pid: u32) {
        let pid = pid.to_string();
        for text in [
            &mut self.log_file,
            &mut self.stats_file,
            &mut self.stats_shmem_dir,
            &mut self.config_file,
            &mut self.application_id,
            &mut self.vmad_notify_dir,
        ] {
            if text.contains("%d") {
                *text = text.replacen("%d", &pid, 1);
            }
        }
    }

    /// The row of a parameter by the name of its environment variable.
    pub fn row(name: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.is_named(name))
    }
}
