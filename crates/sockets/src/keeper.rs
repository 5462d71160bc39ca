//! What needs a privilege that this process may not have: it tries by itself, and asks the keeper (`docs/keeper.md`)
//! where it may not, or the process that forked it (`family/lending.rs`). Why they did not do it is told once.

use crate::address;
use crate::background::BACKGROUND;
use crate::locks::Rank;
use crate::runtime::Runtime;
use core::net::{Ipv4Addr, SocketAddrV4};
use keeper::client::{self, Attached, Error, NotAttached};
use libc::{IPPROTO_TCP, c_int};
use netlink::{Link, PolicyMonitor};
use sys::socket::{attach_filter, set_option};
use sys::{Fd, capability};
use xdp::{Device, HandOver, Inherited};

/// Sets TCP_REPAIR of a socket, which takes CAP_NET_ADMIN.
pub(crate) fn set_repair(fd: c_int, value: c_int) -> sys::Result<()> {
    match set_option(fd, IPPROTO_TCP, libc::TCP_REPAIR, &value) {
        Err(libc::EPERM) => client::repair(fd, value).map_err(refused),
        outcome => outcome,
    }
}

/// Attaches a filter to a TCP socket by which nothing comes in, which takes the same privilege since Linux 6.18.
pub(crate) fn deafen(fd: c_int) -> sys::Result<()> {
    // BPF_RET | BPF_K: accept no byte.
    match attach_filter(fd, &[libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }]) {
        Err(libc::EPERM) => client::deafen(fd).map_err(refused),
        outcome => outcome,
    }
}

/// Binds a socket in repair mode, to a port below `net.ipv4.ip_unprivileged_port_start`, too, where this program still
/// listens: `listener_at` finds its descriptor.
pub(crate) fn bind(
    fd: c_int,
    to: SocketAddrV4,
    listener_at: impl FnOnce(SocketAddrV4) -> Option<c_int>,
) -> sys::Result<()> {
    let outcome = address::bind(fd, to);
    let Some(listener) = (outcome == Err(libc::EACCES)).then(|| listener_at(to)).flatten() else {
        return outcome;
    };
    client::bind(fd, listener, to).map_err(|error| match error {
        Error::Errno(errno) => errno,
        _ => libc::EACCES,
    })
}

/// A lane on an interface by another process, beside that which was inherited, if it is to be had so: from the keeper,
/// or one that forked this one. `Err`: why not, unless there is nobody.
pub(crate) fn attach(
    runtime: &Runtime,
    link: &Link,
    inherited: Option<&Inherited>,
) -> Result<Device, Option<String>> {
    match inherited {
        Some(inherited) if !inherited.is_kept() && has_privilege() => Err(None),
        Some(inherited) if !inherited.is_kept() => attach_by_parent(runtime, link),
        _ => attach_by_keeper(runtime, link)
            .or_else(|said| attach_by_parent(runtime, link).map_err(|by_parent| by_parent.or(said))),
    }
}

fn attach_by_keeper(runtime: &Runtime, link: &Link) -> Result<Device, Option<String>> {
    if runtime.parameters.tcp_max_syn_rate > 0 {
        // Such a program must see all requests, which the program that all share answers some of.
        return Err(None);
    }
    let by_keeper = attached(runtime, link, "the keeper (sidestepd)", client::attach, Inherited::received);
    if by_keeper.is_err()
        && let Some(said) = client::misnamed()
    {
        logger::once!(Warning, "SIDESTEP_KEEPER={said}");
    }
    by_keeper
}

fn attach_by_parent(runtime: &Runtime, link: &Link) -> Result<Device, Option<String>> {
    let who = "the process that forked this one";
    attached(runtime, link, who, client::attach_by_parent, Inherited::received_of_family)
}

fn attached(
    runtime: &Runtime,
    link: &Link,
    who: &str,
    ask: impl Fn(u32, c_int) -> Result<Attached, NotAttached>,
    receive: impl Fn(&[u8], Vec<Fd>) -> Result<Inherited, xdp::Refusal>,
) -> Result<Device, Option<String>> {
    let here = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|_| None)?;
    let Attached { description, mut descriptors, has_policies } =
        ask(link.index, here.raw()).map_err(|not| match not {
            Ok(words) => Some(format!("{who}: {words}")),
            Err(Error::Absent) => None,
            Err(error) => Some(error.to_string()),
        })?;
    if descriptors.is_empty() {
        return Err(Some(format!("{who} handed out nothing")));
    }
    let monitor = PolicyMonitor::received(descriptors.remove(0));
    let device = receive(&description, descriptors).and_then(|inherited| Device::attach(&inherited));
    let device = device.map_err(|refusal| Some(format!("what {who} handed out: {refusal}")))?;
    runtime.policies.begin_by(monitor, has_policies);
    logger::debug!("{}: by {who}", link.name);
    Ok(device)
}

/// Whether there is a keeper by now, of a process that had none.
pub(crate) fn comes() -> bool {
    client::comes()
}

/// Now and then: the interface that a keeper handed out is handed over, where that one is gone and another one came.
/// True: it has it.
pub(crate) fn restore(interface: u32, what: &HandOver) -> bool {
    match client::restore(interface, &what.description, &what.descriptors) {
        Ok(()) => {
            logger::debug!("the keeper (sidestepd) took over from one that is gone");
            true
        }
        Err(Error::Absent) => false,
        Err(error) => {
            logger::once!(
                Warning,
                "the keeper that held an interface is gone, and the next one does not take over: {error}"
            );
            false
        }
    }
}

/// Neighbours that this process has no privilege to look for, until the background thread asks for them: who wants to
/// know holds a lane, and nobody waits for another process with one.
static UNASKED: sys::Mutex<Unasked> = Rank::Unasked.lock(Unasked { neighbours: [None; UNASKED_MAX] });
/// The engine says once more what it did not learn, so the others' turn comes.
const UNASKED_MAX: usize = 16;

#[derive(Default)]
struct Unasked {
    neighbours: [Option<(u32, Ipv4Addr)>; UNASKED_MAX],
}

impl Unasked {
    fn note(&mut self, link: u32, next_hop: Ipv4Addr) {
        if !self.neighbours.contains(&Some((link, next_hop)))
            && let Some(free) = self.neighbours.iter_mut().find(|place| place.is_none())
        {
            *free = Some((link, next_hop));
        }
    }

    fn take(&mut self) -> Option<(u32, Ipv4Addr)> {
        self.neighbours.iter_mut().find_map(Option::take)
    }
}

/// Has the kernel look for a neighbour, at once or by [`ask_for_neighbours`]. Nothing is waited for.
pub(crate) fn resolve(runtime: &Runtime, link: u32, next_hop: Ipv4Addr) {
    match runtime.netlink(|netlink| netlink.resolve(link, next_hop)) {
        Err(libc::EPERM) if BACKGROUND.is_running() => UNASKED.lock().note(link, next_hop),
        Err(libc::EPERM) => speak_to(next_hop),
        _ => {}
    }
}

/// By the background thread, which holds no lane. Without a keeper that may, the kernel does it when it has something
/// to send there.
pub(crate) fn ask_for_neighbours() {
    while let Some((link, next_hop)) = take_unasked() {
        if client::resolve(link, next_hop).is_err() {
            speak_to(next_hop);
        }
    }
}

/// Gives the kernel something to send there.
fn speak_to(neighbour: Ipv4Addr) {
    /// Discard (RFC 863).
    const PORT: u16 = 9;
    if let Ok(socket) = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) {
        let to = address::to_sockaddr(SocketAddrV4::new(neighbour, PORT));
        let _ = sys::socket::send_to(socket.raw(), &[], libc::MSG_DONTWAIT, &to);
    }
}

/// Without the lock afterwards.
fn take_unasked() -> Option<(u32, Ipv4Addr)> {
    UNASKED.lock().take()
}

/// In the child of a fork: they are its parent's.
pub(crate) fn after_fork(child: &sys::InChild) {
    UNASKED.take_over(child);
    *UNASKED.lock() = Unasked::default();
}

/// A process that has the privilege may be about to give it up, with the user by which the keeper admits it.
pub(crate) fn prepare() {
    if has(capability::NET_ADMIN) {
        client::prepare();
    }
}

/// Whether this process does by itself what others ask for.
pub(crate) fn has_privilege() -> bool {
    has(capability::NET_ADMIN | capability::NET_RAW)
}

fn has(all: u64) -> bool {
    sys::process::capabilities().unwrap_or(0) & all == all
}

/// That there is no keeper is the usual case, and no fault.
#[cold]
fn refused(error: Error) -> i32 {
    if error == Error::Absent {
        logger::once!(Debug, "{STAY}, and {error}");
    } else {
        logger::once!(Warning, "{STAY}, and {error}");
    }
    libc::EPERM
}

const STAY: &str = "connections that the kernel has stay there: CAP_NET_ADMIN is missing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_asked_for_once_however_often_it_is_wanted() {
        let mut unasked = Unasked { neighbours: [None; UNASKED_MAX] };
        let neighbour = |n: usize| Ipv4Addr::new(10, 0, 0, n as u8);
        (0..UNASKED_MAX + 2).for_each(|n| unasked.note(1, neighbour(n)));
        unasked.note(1, neighbour(0));
        let mut asked: Vec<_> = core::iter::from_fn(|| unasked.take()).collect();
        asked.sort_unstable();
        assert_eq!(asked, (0..UNASKED_MAX).map(|n| (1, neighbour(n))).collect::<Vec<_>>());
    }
}
