//! Interfaces, addresses, routes and neighbours as the kernel has them: asked for, and followed.
//!
//! The contract in signatures. All calls are synchronous on our own netlink sockets (made with `sys`, close-on-exec,
//! moved to high descriptor numbers).
#![allow(unused_variables, missing_docs, dead_code)]

use core::net::Ipv4Addr;

#[derive(Clone, Debug)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mac: [u8; 6],
    pub mtu: u32,
    pub up: bool,
    pub loopback: bool,
    pub ethernet: bool,
    pub kind: Option<String>,
    pub master: Option<u32>,
    pub xdp_program: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub link: u32,
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub broadcast: Option<Ipv4Addr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    Unicast,
    Local,
    Broadcast,
    Multicast,
    Unreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub kind: RouteKind,
    pub link: u32,
    pub gateway: Option<Ipv4Addr>,
    pub source: Option<Ipv4Addr>,
    pub mtu: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    Incomplete,
    Usable,
    Stale,
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RouteQuery {
    pub source: Option<Ipv4Addr>,
    pub link: Option<u32>,
    pub mark: u32,
    pub tos: u8,
}

/// What changed. Routes come without detail: ask again for what is in use.
#[derive(Clone, Debug)]
pub enum Update {
    Link(Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Routes,
    Neighbour {
        link: u32,
        address: Ipv4Addr,
        mac: Option<[u8; 6]>,
        state: NeighbourState,
    },
    /// The kernel dropped notifications: dump again.
    Overrun,
}

/// A socket for questions.
pub struct Netlink {}
impl Netlink {
    pub fn open() -> Result<Netlink, i32> {
        todo!()
    }
    pub fn links(&mut self) -> Result<Vec<Link>, i32> {
        todo!()
    }
    pub fn addresses(&mut self) -> Result<Vec<Address>, i32> {
        todo!()
    }
    /// How the kernel would route to `to` (policy rules included). `Err(errno)` as connect(2) would fail.
    pub fn route(&mut self, to: Ipv4Addr, query: RouteQuery) -> Result<Route, i32> {
        todo!()
    }
    pub fn neighbour(
        &mut self,
        link: u32,
        address: Ipv4Addr,
    ) -> Result<Option<([u8; 6], NeighbourState)>, i32> {
        todo!()
    }
    /// Makes the kernel resolve or refresh a neighbour now (NTF_USE); the outcome is an `Update`.
    pub fn resolve(&mut self, link: u32, address: Ipv4Addr) -> Result<(), i32> {
        todo!()
    }
}

/// A socket that follows changes.
pub struct Monitor {}
impl Monitor {
    pub fn open() -> Result<Monitor, i32> {
        todo!()
    }
    /// Readable while updates wait.
    pub fn descriptor(&self) -> i32 {
        todo!()
    }
    /// The next update, without waiting.
    pub fn next(&mut self) -> Option<Update> {
        todo!()
    }
}
