//! The addresses of a lane's interface and of this host's others, and what is asked of those who send to them.

use super::Inner;
use core::net::Ipv4Addr;
use netlink::Address;
use stack::ReversePath;

impl Inner {
    /// What is asked of the senders of packets, by the interface's rp_filter.
    pub(crate) fn learn_reverse_path(&mut self) {
        let link = self.link;
        let rule = match self.runtime.netlink(|netlink| netlink.reverse_path_filter(link)) {
            Ok(1) => ReversePath::Strict,
            Ok(2) => ReversePath::Loose,
            _ => ReversePath::Off,
        };
        self.stack.set_reverse_path(rule);
    }

    /// All addresses of this host, as they are now.
    pub(crate) fn learn_addresses(&mut self, all: &[Address]) {
        self.addresses.clear();
        self.elsewhere.clear();
        all.iter().for_each(|address| self.add_address(address));
        self.tell_addresses();
    }

    pub(crate) fn add_address(&mut self, address: &Address) {
        if address.link == self.link {
            self.addresses.push(address.address);
        } else {
            self.elsewhere.push((address.link, address.address));
        }
    }

    pub(crate) fn forget_address(&mut self, address: &Address) {
        if address.link == self.link {
            self.addresses.retain(|known| *known != address.address);
        } else {
            self.elsewhere.retain(|known| *known != (address.link, address.address));
        }
    }

    pub(crate) fn tell_addresses(&mut self) {
        let elsewhere: Vec<Ipv4Addr> = self.elsewhere.iter().map(|(_, address)| *address).collect();
        self.stack.set_addresses(&self.addresses, &elsewhere);
    }
}
