//! Interfaces, addresses, routes and neighbours as the kernel has them: asked for, and followed.
//!
//! All calls are synchronous on our own netlink sockets (made with `sys`, close-on-exec, moved to high descriptor
//! numbers). [`Netlink`] asks; [`Monitor`] follows. Errors are errno.
//!
//! Reading order: `message` (the format), `socket` (a request and its replies), then a file for each kind of object.
//! Of IPv6 nothing is reported yet.

mod address;
mod conf;
mod link;
mod message;
mod monitor;
mod neighbour;
mod policy;
mod route;
mod socket;

pub use address::Address;
pub use link::Link;
pub use monitor::{Monitor, Update};
pub use neighbour::NeighbourState;
pub use policy::{Policy, PolicyMonitor};
pub use route::{Route, RouteKind, RouteQuery};
pub use socket::Netlink;

/// Reads every message in `bytes` as every kind of object, for the fuzzer; how many messages there were.
#[cfg(feature = "testing")]
pub fn parse_all(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some((message, rest)) = message::Message::first(bytes) {
        let _ = (address::Address::parse(&message), link::Link::parse(&message), link::Link::index(&message));
        let _ =
            (neighbour::Neighbour::parse(&message), route::Route::parse(&message), monitor::update(&message));
        let _ = policy::Policy::parse(&message);
        bytes = rest;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests;
