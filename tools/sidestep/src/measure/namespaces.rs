//! Two network namespaces joined by a veth pair, for as long as somebody holds them. Nothing else of the host sees
//! them, and the kernel takes them away with the last descriptor.

use crate::host::{netlink, system};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

/// What the interface is called on both sides.
pub(crate) const INTERFACE: &str = "probe0";

/// One side: a namespace and its address.
pub(crate) struct Side {
    handle: File,
    pub(crate) address: Ipv4Addr,
}

/// The two sides. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
pub(crate) fn pair() -> std::io::Result<(Side, Side)> {
    let one = Side { handle: namespace()?, address: Ipv4Addr::new(198, 18, 0, 1) };
    let other = Side { handle: namespace()?, address: Ipv4Addr::new(198, 18, 0, 2) };
    one.inside(|| netlink::make_veth(INTERFACE, INTERFACE, other.handle.as_raw_fd()))??;
    for side in [&one, &other] {
        side.inside(|| netlink::set_up(netlink::VETH_INDEX, side.address))??;
    }
    Ok((one, other))
}

fn namespace() -> std::io::Result<File> {
    let make = || {
        system::new_network()?;
        File::open("/proc/thread-self/ns/net")
    };
    std::thread::spawn(make).join().unwrap_or_else(|_| Err(std::io::Error::other("the thread ended")))
}

impl Side {
    /// Does something inside, in a thread of its own. Processes that it starts are inside, too.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        let handle = self.handle.as_raw_fd();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                system::enter_network(handle)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread ended")))
        })
    }
}
