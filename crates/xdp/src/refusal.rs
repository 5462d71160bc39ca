//! Why an interface cannot be accelerated, in one line that says what to do.

use core::fmt;

use crate::privilege::Missing;

/// Why an interface cannot be accelerated. `Display` says what and what to do, in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel does not permit it; what was missing then.
    NoPrivilege(Missing),
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
    /// The process is in another pid namespace than the one that it inherits the interface from.
    OtherPidNamespace,
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

impl Refusal {
    /// Of this thread, as it is now.
    pub(crate) fn not_permitted() -> Refusal {
        Refusal::NoPrivilege(Missing::now())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoPrivilege(missing) => write!(f, "not permitted: {missing}"),
            Refusal::NoAfXdp => f.write_str("this kernel has no AF_XDP; it needs CONFIG_XDP_SOCKETS"),
            Refusal::NoSuchInterface => f.write_str("no such interface in this network namespace"),
            Refusal::NotEthernet => {
                f.write_str("not an Ethernet interface; its traffic stays with the kernel")
            }
            Refusal::Owned { pid } => write!(
                f,
                "{} has it: one process, with its children, accelerates an interface; stop that one, or give \
                 each its own",
                Process(*pid)
            ),
            Refusal::OtherPidNamespace => {
                f.write_str("inherited from a process in another pid namespace, which could not tell whether this one lives")
            }
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
                "no memory for packets; raise RLIMIT_MEMLOCK (ulimit -l unlimited), or grant CAP_IPC_LOCK",
            ),
            Refusal::System { call, errno } => {
                write!(f, "{call}: {}", sys::Errno(*errno))?;
                explanation(call, *errno).map_or(Ok(()), |words| write!(f, ": {words}"))
            }
        }
    }
}

/// A process as people know it: its number, and what it calls itself.
struct Process(i32);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("a process in another pid namespace");
        }
        write!(f, "process {}", self.0)?;
        let mut name = [0; 32];
        let path = std::ffi::CString::new(format!("/proc/{}/comm", self.0)).unwrap_or_default();
        match sys::file::read_to(&path, &mut name) {
            Ok(length) => write!(f, " ({})", String::from_utf8_lossy(&name[..length]).trim_end()),
            Err(_) => Ok(()),
        }
    }
}

/// What a kernel or driver means that lacks something, where that is known.
fn explanation(call: &str, errno: i32) -> Option<&'static str> {
    Some(match (call, errno) {
        ("memfd_create", libc::EFBIG) => {
            "packet memory is larger than the files that this process may make; raise RLIMIT_FSIZE (ulimit -f unlimited)"
        }
        ("bpf(BPF_PROG_LOAD)", libc::EACCES | libc::EINVAL) => {
            "this kernel's verifier does not take the program, which needs Linux 5.10"
        }
        ("bpf(BPF_LINK_CREATE)", libc::EOPNOTSUPP) => {
            "the driver has no XDP hook, or none with the offloads that are on"
        }
        ("bpf(BPF_LINK_CREATE)", libc::EINVAL | libc::ERANGE) => {
            "the driver takes no XDP program with this MTU or these queues, or Linux is older than 5.9"
        }
        ("bpf(BPF_LINK_CREATE)", libc::ENOMEM | libc::ENOSPC) => "the driver has too few queues for it",
        ("bind(AF_XDP)", libc::EOPNOTSUPP) => "the driver cannot do it without a copy",
        ("bind(AF_XDP)", libc::EINVAL) => {
            "the interface has fewer queues by now, or the kernel lacks a flag (several buffers: Linux 6.6)"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_one_line() {
        let queue = Refusal::QueueBusy { queue: 3 }.to_string();
        assert!(queue.contains("queue 3") && !queue.contains('\n'), "{queue}");
        let own = sys::process::pid();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        let told = Refusal::Owned { pid: own }.to_string();
        assert!(told.contains(&format!("process {own} (")), "{told} of {name}");
        let elsewhere = Refusal::Owned { pid: 0 }.to_string();
        assert!(elsewhere.contains("a process in another pid namespace has it"), "{elsewhere}");
        assert!(Refusal::ForeignProgram { id: 17 }.to_string().contains("17"));
        let driver = Refusal::System { call: "bpf(BPF_LINK_CREATE)", errno: libc::EOPNOTSUPP }.to_string();
        assert!(driver.contains("Operation not supported: the driver"), "{driver}");
        let limited = Refusal::System { call: "memfd_create", errno: libc::EFBIG }.to_string();
        assert!(limited.contains("RLIMIT_FSIZE"), "{limited}");
        let unknown = Refusal::System { call: "bind(AF_XDP)", errno: libc::EIO }.to_string();
        assert_eq!(unknown, "bind(AF_XDP): Input/output error");
        assert!(Refusal::NoMemory.to_string().contains("RLIMIT_MEMLOCK"));
    }
}
