//! What a program gives up for itself: privileges, system calls, namespaces, ports. (setuid(3) and its relatives see to
//! all threads by themselves; by number they are here.)

use crate::farewell;
use crate::genuine::{errno, set_errno};
use crate::hooks::process;
use crate::inside::{Inside, opening};
use crate::start::{own_process, retire, running};
use crate::table::hooks;
use crate::unwind;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{c_char, c_int, c_long, c_void};
use sockets::{Answer, Stop, Why, calls};

/// linux/seccomp.h: the operations that filter.
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;

/// A rule set for TCP ports was made (Landlock), and may be enforced.
static RULES_FOR_PORTS: AtomicBool = AtomicBool::new(false);

/// The call's result, with its errno, after `around` made it.
fn result_of<T: Copy>(
    call: impl FnOnce() -> T,
    failed: T,
    around: impl FnOnce(&mut dyn FnMut() -> T),
) -> Answer<T> {
    let _inside = Inside::enter();
    let (mut call, mut outcome, mut error) = (Some(call), failed, errno());
    around(&mut || {
        if let Some(call) = call.take() {
            outcome = opening(call);
            error = errno();
        }
        outcome
    });
    set_errno(error);
    Ok(outcome)
}

fn confined<T: Copy>(failed: T, call: impl FnOnce() -> T) -> Answer<T> {
    match own_process() {
        true => result_of(call, failed, |call| calls::confine(|| _ = call())),
        false => Ok(call()),
    }
}

/// What is read from files, and may be needed later, is read now.
fn before_leaving_files() {
    if own_process() {
        let _inside = Inside::enter();
        let error = errno();
        crate::guard::run(calls::leaving_files);
        unwind::prepare();
        set_errno(error);
    }
}

/// `is_probe`: it has no filter to install, and asks what there is.
fn filtered<T: Copy + PartialEq + From<i8>>(is_probe: bool, call: impl FnOnce() -> T) -> Answer<T> {
    match own_process() && !is_probe {
        true => result_of(call, T::from(-1), |call| {
            let mut is_filtered = false;
            // What stands for a default action makes calls of its own.
            farewell::disarm();
            let is_over = calls::filter(|| {
                is_filtered = call() == T::from(0);
                is_filtered
            });
            if is_over {
                retire();
            } else if !is_filtered {
                farewell::arm();
            }
        }),
        false => Ok(call()),
    }
}

/// A new network namespace is for new sockets: the background thread stays where the interfaces are.
fn is_network_only(flags: c_int) -> bool {
    flags == libc::CLONE_NEWNET
}

hooks! { running:
    // A C variadic of at most five words.
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        match option {
            libc::PR_SET_NO_NEW_PRIVS | libc::PR_CAPBSET_DROP | libc::PR_SET_SECUREBITS | libc::PR_CAP_AMBIENT => {
                confined(-1, || genuine::prctl(option, a, b, c, d))
            }
            libc::PR_SET_SECCOMP => {
                let is_probe = a == libc::SECCOMP_MODE_FILTER as usize && b == 0;
                filtered(is_probe, || genuine::prctl(option, a, b, c, d))
            }
            _ => Err(Stop::Kernel(Why::NotOurs)),
        }
    }

    fn capset(header: *mut c_void, data: *const c_void) -> c_int {
        confined(-1, || genuine::capset(header, data))
    }

    fn chroot(path: *const c_char) -> c_int {
        before_leaving_files();
        Err(Stop::Kernel(Why::NotOurs))
    }

    fn unshare(flags: c_int) -> c_int {
        match is_network_only(flags) {
            true => Err(Stop::Kernel(Why::NotOurs)),
            false => confined(-1, || genuine::unshare(flags)),
        }
    }

    fn setns(fd: c_int, kind: c_int) -> c_int {
        match is_network_only(kind) {
            true => Err(Stop::Kernel(Why::NotOurs)),
            false => confined(-1, || genuine::setns(fd, kind)),
        }
    }
}

/// The same by number, and what has no other name. `None`: none of those.
pub(super) unsafe fn routed(number: c_long, words: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = words;
    // SAFETY: the application's arguments.
    unsafe {
        let call = || process::genuine::syscall(number, a, b, c, d, e, f);
        let answer = match number {
            libc::SYS_prctl => return Some(prctl(a as c_int, b, c, d, e).into()),
            libc::SYS_chroot => {
                before_leaving_files();
                return None;
            }
            libc::SYS_unshare => return Some(unshare(a as c_int).into()),
            libc::SYS_setns => return Some(setns(a as c_int, b as c_int).into()),
            libc::SYS_seccomp if matches!(a, SECCOMP_SET_MODE_STRICT | SECCOMP_SET_MODE_FILTER) => {
                filtered(a == SECCOMP_SET_MODE_FILTER && c == 0, call)
            }
            libc::SYS_capset
            | libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid => confined(-1, call),
            libc::SYS_landlock_create_ruleset => {
                note_rules(a, b);
                return None;
            }
            libc::SYS_landlock_restrict_self => {
                let answer = confined(-1, call);
                if answer == Ok(0) && RULES_FOR_PORTS.load(Relaxed) && own_process() {
                    crate::guard::run(calls::confine_ports);
                }
                answer
            }
            _ => return None,
        };
        answer.ok()
    }
}

/// struct landlock_ruleset_attr: the accesses to files, to ports, and others that it handles.
unsafe fn note_rules(attributes: usize, size: usize) {
    if attributes == 0 || size < 2 * size_of::<u64>() {
        return;
    }
    // SAFETY: as large as the application says.
    let ports = unsafe { (attributes as *const u64).add(1).read_unaligned() };
    if ports != 0 {
        RULES_FOR_PORTS.store(true, Relaxed);
    }
}
