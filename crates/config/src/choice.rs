//! Parameters with a fixed set of values. A value is given by its name or by a number, as VMA does.

use crate::value::Value;

/// One row per value: number, the name shown, other names accepted. `by number` takes the number too, and shows it with
/// the name beside it, as VMA's banner does; `by name` shows and takes names alone, which may be digits.
macro_rules! choices {
    ($($(#[$doc:meta])* $type:ident by $style:ident {
        $($(#[$arm_doc:meta])* $arm:ident = $number:literal, $name:literal $(, $alias:literal)* ;)+
    })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[$arm_doc])* $arm = $number),+ }

        impl $type {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$arm),+];

            /// The number that VMA gives the value.
            pub fn number(self) -> i32 {
                self as i32
            }

            /// The name, as the banner shows it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$arm => $name),+ }
            }

            /// The value of this text, as in the environment.
            pub fn from_text(text: &str) -> Option<Self> {
                Value::parse(text)
            }
        }

        impl Value for $type {
            fn parse(text: &str) -> Option<Self> {
                let text = text.trim();
                $(
                    if choices!(@names $style $number, $name $(, $alias)*)
                        .iter().any(|name| name.eq_ignore_ascii_case(text))
                    {
                        return Some(Self::$arm);
                    }
                )+
                None
            }

            fn show(&self) -> String {
                choices!(@show $style self)
            }

            fn accepted() -> String {
                [$(choices!(@accepted $style $number, $name $(, $alias)*)),+].join(", ")
            }
        }
    )+ };
    (@names name $number:literal, $name:literal $(, $alias:literal)*) => { [$name $(, $alias)*] };
    (@names number $number:literal, $name:literal $(, $alias:literal)*) => {
        [stringify!($number), $name $(, $alias)*]
    };
    (@show name $self:ident) => { $self.name().to_owned() };
    (@show number $self:ident) => { format!("{:<2}({})", $self.number(), $self.name()) };
    (@accepted name $number:literal, $name:literal $(, $alias:literal)*) => {
        concat!($name $(, "|", $alias)*)
    };
    (@accepted number $number:literal, $name:literal $(, $alias:literal)*) => {
        concat!(stringify!($number), " (", $name, ")")
    };
}

choices! {
    /// How much is logged; each level includes those above it. The digits that VMA takes are not its inner numbers:
    /// `details` came later and has none.
    TraceLevel by name {
        /// Nothing.
        None = -1, "NONE", "-1";
        /// Only what ends the program.
        Panic = 0, "PANIC", "0";
        /// Failures that the program will notice.
        Error = 1, "ERROR", "1";
        /// Something asked for is not had; the program works on.
        Warning = 2, "WARNING", "warn", "2";
        /// The banner and the rare events worth knowing.
        Info = 3, "INFO", "information", "3";
        /// The banner with all parameters.
        Details = 4, "DETAILS";
        /// Every decision about a socket.
        Debug = 5, "DEBUG", "4";
        /// Every call.
        Fine = 6, "FINE", "func", "5";
        /// Every turn and packet batch.
        Finer = 7, "FINER", "func+", "funcall", "func_all", "func-all", "6";
        /// Everything.
        All = 8, "ALL", "7";
    }

    /// What carries TCP connections.
    Carrier by name {
        /// The kernel first, an engine when they have shown that they gain.
        Auto = 0, "auto";
        /// The same, whatever else would demand the wire, and each connection is judged by itself alone.
        Late = 3, "late";
        /// An engine, as soon as they begin.
        Wire = 1, "wire";
        /// The kernel.
        Kernel = 2, "kernel";
    }

    /// Which sockets share a lane.
    RingLogic by number {
        /// One lane per interface.
        Interface = 0, "Ring per interface";
        /// One lane per local address.
        Ip = 1, "Ring per ip";
        /// One lane per socket.
        Socket = 10, "Ring per socket";
        /// One lane per thread that makes sockets.
        Thread = 20, "Ring per thread";
        /// One lane per core.
        Core = 30, "Ring per core";
        /// One lane per core, threads are bound to their core.
        CoreAttach = 31, "Ring per core - attach threads";
    }

    /// Whether the interrupts of interfaces are moderated.
    Moderation by number {
        /// As the driver has it.
        Driver = -1, "The driver's";
        /// Each packet interrupts.
        Off = 0, "Disabled", "no", "off";
        /// As the other parameters of moderation say.
        On = 1, "Enabled", "yes", "on";
    }

    /// Where receive time stamps come from.
    TimestampConversion by number {
        /// No hardware time stamps.
        Off = 0, "Disabled";
        /// As the hardware says.
        Raw = 1, "RAW-HWTIME";
        /// Converted if possible.
        Best = 2, "BEST_POSSIBLE";
        /// Converted to the system's clock.
        Sync = 3, "SYNC";
        /// By PTP.
        Ptp = 4, "PTP";
    }

    /// Who does TCP's timers and control segments.
    ControlThread by number {
        /// Whoever calls.
        Off = 0, "Disabled";
        /// The background thread, woken for it.
        Wakeup = 1, "Delegate TCP timer - with wakeup";
        /// The background thread, on its timer.
        Timer = 2, "Delegate TCP timer - on timer";
    }

    /// Whether TCP offers the time stamp option of RFC 7323.
    Timestamps by number {
        /// Never.
        Off = 0, "Disabled";
        /// Always.
        On = 1, "Enabled";
        /// As net.ipv4.tcp_timestamps says.
        Os = 2, "OS follow";
    }

    /// What happens on a call or option that acceleration does not support.
    ExceptionHandling by number {
        /// End the program.
        Exit = -2, "exit on startup failure";
        /// Log at DEBUG, pass to the kernel.
        Debug = -1, "just log debug message";
        /// Log at DEBUG, leave the socket to the kernel.
        UnOffloadDebug = 0, "log debug and un-offload";
        /// Log at ERROR, leave the socket to the kernel.
        UnOffloadError = 1, "log error and un-offload";
        /// Log at ERROR and fail with EINVAL.
        ReturnError = 2, "log error and return error";
        /// Log at ERROR and abort.
        Abort = 3, "log error and abort";
    }

    /// How the program's threads use sockets.
    ThreadMode by number {
        /// One thread only.
        Single = 0, "Single";
        /// Many threads, spinning on locks.
        Spin = 1, "Multi spin lock";
        /// Many threads, sleeping on locks.
        Mutex = 2, "Multi mutex lock";
        /// More threads than cores.
        MoreThreads = 3, "Multi more threads than cores";
    }

    /// How buffers return to the pool.
    BufferBatching by number {
        /// One at a time.
        None = 0, "No batching buffers";
        /// In batches, unused ones given back on a timer.
        Reclaim = 1, "With reclaim buffers from socket";
        /// In batches that stay.
        Keep = 2, "No buffer reclaim";
    }

    /// Where buffers come from.
    MemoryType by number {
        /// Ordinary pages.
        Anonymous = 0, "Malloc";
        /// Contiguous pages, if there are any.
        Contiguous = 1, "Contig Pages";
        /// Huge pages, if there are any.
        Huge = 2, "Huge Pages";
    }

    /// TCP's congestion control.
    CongestionControl by number {
        /// NewReno.
        NewReno = 0, "LWIP", "newreno", "reno";
        /// CUBIC.
        Cubic = 1, "CUBIC";
        /// None: only the peer's window counts.
        None = 2, "NONE";
    }

    /// A ready-made set of parameters, see `conf/profiles`.
    Spec by name {
        /// None.
        None = 0, "none", "0";
        /// Lowest latency at any price.
        UltraLatency = 10, "ultra-latency", "10";
        /// Low latency.
        Latency = 15, "latency", "15";
        /// 29West LBM.
        West29 = 29, "29west", "29";
        /// Wombat feed handler.
        WombatFh = 554, "wombat_fh", "554";
        /// memcached.
        Mcd = 623, "mcd", "623";
        /// memcached, by interrupts.
        McdIrq = 624, "mcd-irq", "624";
        /// RTI.
        Rti = 784, "rti", "784";
        /// 7750.
        Sr7750 = 7750, "7750";
        /// A lane per thread.
        MultiRingLatency = 7751, "multi_ring_latency";
        /// Ours, for redis.
        Redis = 10_001, "redis";
        /// Ours, for nginx.
        Nginx = 10_002, "nginx";
        /// Ours, for memcached.
        Memcached = 10_003, "memcached";
        /// Ours, for PostgreSQL.
        Postgres = 10_004, "postgres";
        /// Ours, for bulk.
        Throughput = 10_005, "throughput";
        /// Ours, for little CPU and memory.
        Frugal = 10_006, "frugal";
    }

    /// How the XDP program is attached.
    XdpMode by name {
        /// In the driver if it can, else generic.
        Auto = 0, "auto";
        /// In the driver only.
        Native = 1, "native", "driver";
        /// In the kernel's stack, any interface.
        Generic = 2, "generic", "skb";
    }

    /// Who carries connections inside this host.
    LocalTransport by name {
        /// The kernel.
        Kernel = 0, "kernel", "off";
        /// Shared memory, where both sides agree.
        Shm = 1, "shm";
    }
}

impl Spec {
    /// Whether it is a profile of ours, which VMA does not have.
    pub fn is_ours(self) -> bool {
        self >= Spec::Redis
    }
}
