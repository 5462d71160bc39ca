//! Does LD_PRELOAD=libvma.so find anything?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Library;

pub(super) const CHECK: Check = Check {
    id: "library",
    title: "the library where programs look for it",
    why: "a name without a path is looked for in the system's folders; what is not found there is left out with one line, and \
          the program runs on the kernel",
    weight: [92, 92],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let library: Library = view.fact("")?;
    one(match library.found.first() {
        Some(path) => Finding::good(path),
        None => Finding::advice(
            "libvma.so is in none of the system's folders",
            Mend::by_hand("apt install ./sidestep_*.deb (/usr/share/doc/sidestep/install.md), or LD_PRELOAD with the whole path"),
        ),
    })
}
