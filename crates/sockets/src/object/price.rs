//! After how many calls a connection looks for its other side: what that costs, and a segment, is lost on one that is
//! over soon, or whose peer does not come. So each such one doubles the calls that its process waits with the next,
//! and each that lasts in memory halves them.

use core::sync::atomic::{AtomicU32, Ordering};

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Connected,
    Accepted,
}

/// Calls after which the side that connected offers a place: at least, and at most.
const OFFERS: [u32; 2] = [4, 512];
/// The same of the side that accepted, which looks for it. Its calls may be several times the other side's: it begins
/// sooner, and looks on.
const LOOKS: [u32; 2] = [8, 256];
/// A meeting costs what so many calls in memory gain.
const WORTH: u32 = 64;

static OFFERS_AT: AtomicU32 = AtomicU32::new(OFFERS[0]);
static LOOKS_AT: AtomicU32 = AtomicU32::new(LOOKS[0]);

impl Role {
    fn place(self) -> (&'static AtomicU32, [u32; 2]) {
        match self {
            Role::Connected => (&OFFERS_AT, OFFERS),
            Role::Accepted => (&LOOKS_AT, LOOKS),
        }
    }

    /// Calls after which a connection of this process looks first; a power of two.
    pub(crate) fn price(self) -> u32 {
        self.place().0.load(Ordering::Relaxed)
    }

    /// A connection that has looked is over, or the kernel's for good, after so many calls in memory.
    pub(crate) fn was_worth(self, calls: u32) {
        let (place, [least, most]) = self.place();
        let price = place.load(Ordering::Relaxed);
        let next = if calls < WORTH { price * 2 } else { price / 2 };
        place.store(next.clamp(least, most), Ordering::Relaxed);
    }
}

/// Before so many calls no connection looks.
#[inline]
pub(crate) fn least() -> u32 {
    Role::Connected.price().min(Role::Accepted.price())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_end_soon_make_the_next_wait_and_one_that_lasts_less_so() {
        for (role, [least, most]) in [(Role::Connected, OFFERS), (Role::Accepted, LOOKS)] {
            let after = |calls| {
                role.was_worth(calls);
                role.price()
            };
            assert_eq!([after(WORTH - 1), after(0)], [least * 2, least * 4]);
            assert_eq!([(); 10].map(|()| after(0))[9], most);
            assert_eq!([(); 10].map(|()| after(WORTH))[9], least);
        }
    }
}
