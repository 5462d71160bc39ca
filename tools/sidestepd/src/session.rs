//! One client of the keeper: what the keeper has for it.

use crate::clients::{Keeper, Seat};
use crate::policy::Who;
use crate::status;
use keeper::session::{Attachment, Given, Lender, Next, Session};
use netlink::Netlink;
use std::net::Ipv4Addr;
use std::sync::Arc;
use sys::Fd;

/// The keeper, as those see it who have a seat, and those who have none (they may look at the status).
pub(crate) struct Client<'a> {
    pub(crate) keeper: &'a Arc<Keeper>,
    pub(crate) seat: Option<&'a Seat>,
}

/// Serves the client behind a connection until it hangs up. `seat` is given back then.
pub(crate) fn serve(keeper: &Arc<Keeper>, session: &mut Session, seat: &Seat) {
    let client = Client { keeper, seat: Some(seat) };
    while session.serve(&client, 0) == Next::GoesOn {}
}

impl Lender for Client<'_> {
    fn namespace(&self) -> u64 {
        self.keeper.namespace()
    }

    fn attach(&self, interface: u32, process: i32) -> Attachment {
        match self.keeper.held().attach(interface, process) {
            Ok(given) => {
                let description = given.handout.description.clone();
                let (descriptors, own) = given.handout.behind(given.monitor);
                Attachment::Given(Given { description, descriptors, own, has_policies: given.has_policies })
            }
            Err(words) => {
                let user = self.seat.map_or(u32::MAX, Seat::user);
                self.keeper.refusals().note(&Who { process, user, groups: Vec::new() }, &words);
                Attachment::Refused(words)
            }
        }
    }

    fn resolve(&self, interface: u32, address: Ipv4Addr) -> i32 {
        let asked = Netlink::open().and_then(|mut netlink| netlink.resolve(interface, address));
        asked.err().unwrap_or(0)
    }

    fn join(&self, connection: Fd) {
        if let Some(seat) = self.seat {
            self.keeper.admit(connection, seat.user());
        }
    }

    fn restore(&self, interface: u32, description: &[u8], passed: Vec<Fd>, process: i32) -> Option<i32> {
        Some(self.keeper.held().restore(interface, description, passed, process))
    }

    fn status(&self) -> Option<sys::Result<Fd>> {
        Some(status::file(self.keeper))
    }
}
