//! A running program: is the library in it?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Program;

pub(super) const CHECK: Check = Check {
    id: "program-library",
    title: "the program: is the library in it?",
    why: "LD_PRELOAD reaches dynamically linked programs that gain no privileges at their start; Go programs make system calls \
          by themselves",
    weight: [94, 94],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let program: Program = view.fact(&view.program())?;
    let path = &program.path;
    one(if program.preloaded {
        Finding::good(format!("{path} runs with it"))
    } else if program.raised {
        Finding::bad(
            format!("{path} is setuid or setgid: the linker ignores LD_PRELOAD"),
            Mend::by_hand("give the service's user the capabilities instead (/usr/share/doc/sidestep/install.md)"),
        )
    } else if !program.dynamic {
        Finding::bad(format!("{path} is linked statically"), Mend::by_hand("a dynamically linked build of it"))
    } else if program.go {
        Finding::bad(format!("{path} is a Go program"), Mend::by_hand("Go makes system calls without libc: it is not supported"))
    } else {
        Finding::bad(
            format!("{path} runs without it"),
            Mend::by_hand("start it with LD_PRELOAD=libvma.so (systemd: Environment=LD_PRELOAD=libvma.so)"),
        )
    })
}
