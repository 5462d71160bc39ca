//! Why an interface cannot be accelerated, in one line that says what to do.

use core::fmt;

/// Why an interface cannot be accelerated. `Display` says what and what to do, in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The process lacks CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF.
    NoPrivilege,
    /// The kernel was built without AF_XDP.
    NoAfXdp,
    /// No interface of that name in this network namespace.
    NoSuchInterface,
    /// The interface does not carry Ethernet (loopback, tunnels).
    NotEthernet,
    /// A process that lives, or children of it, have it accelerated.
    Owned {
        /// Its number; 0: in another pid namespace.
        pid: i32,
    },
    /// Somebody else has an AF_XDP socket on a queue.
    QueueBusy {
        /// Which.
        queue: u32,
    },
    /// Another XDP program is attached.
    ForeignProgram {
        /// Its id as `bpftool prog` shows it; 0 if it cannot be told.
        id: u32,
    },
    /// The packet memory could not be had or pinned.
    NoMemory,
    /// A system call failed for another reason.
    System {
        /// Which.
        call: &'static str,
        /// How.
        errno: i32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoPrivilege => f.write_str(
                "not permitted; run as root, or grant cap_net_raw, cap_net_admin, cap_bpf (and cap_ipc_lock)",
            ),
            Refusal::NoAfXdp => f.write_str("this kernel has no AF_XDP; it needs CONFIG_XDP_SOCKETS"),
            Refusal::NoSuchInterface => f.write_str("no such interface in this network namespace"),
            Refusal::NotEthernet => {
                f.write_str("not an Ethernet interface; its traffic stays with the kernel")
            }
            Refusal::Owned { pid } => write!(
                f,
                "process {pid} has it: one process, with its children, accelerates an interface; stop that one, or give \
                 each its own"
            ),
            Refusal::QueueBusy { queue } => write!(
                f,
                "queue {queue} is used by another AF_XDP program; stop that one, or give each its own interface"
            ),
            Refusal::ForeignProgram { id: 0 } => {
                f.write_str("another XDP program is attached; detach it (ip link set dev NAME xdp off)")
            }
            Refusal::ForeignProgram { id } => {
                write!(f, "XDP program {id} is attached; detach it (ip link set dev NAME xdp off)")
            }
            Refusal::NoMemory => f.write_str(
                "no memory for packets; raise RLIMIT_MEMLOCK (ulimit -l unlimited), or grant cap_ipc_lock",
            ),
            Refusal::System { call, errno } => write!(f, "{call} failed with errno {errno}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_one_line() {
        let queue = Refusal::QueueBusy { queue: 3 }.to_string();
        assert!(queue.contains("queue 3") && !queue.contains('\n'), "{queue}");
        assert!(Refusal::Owned { pid: 18 }.to_string().contains("process 18 has it"));
        assert!(Refusal::ForeignProgram { id: 17 }.to_string().contains("17"));
        assert!(Refusal::NoMemory.to_string().contains("RLIMIT_MEMLOCK"));
    }
}
