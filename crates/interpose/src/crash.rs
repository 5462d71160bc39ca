//! VMA_HANDLE_SIGSEGV: a backtrace in the log where a segmentation fault ends the process, which goes on to end as it
//! would. The application's own handler is called instead if it has one, and queries answer SIG_DFL.
//!
//! Runs in a process of which nothing can be trusted: no lock of ours, no allocation, and one thread tells.

use crate::farewell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{SIGSEGV, c_int, c_void, ucontext_t};

static ARMED: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicBool = AtomicBool::new(false);

/// The processor's number for a fault that has an address.
const PAGE_FAULT: i64 = 14;

/// Frames that are told.
const FRAMES: usize = 64;

/// Whether this signal's default tells before it ends the process.
pub(crate) fn stands_for(signal: c_int) -> bool {
    signal == SIGSEGV && ARMED.load(Relaxed)
}

/// The user asked for it. Once, before the first socket of ours.
pub(crate) fn arm() {
    // The first backtrace loads a library, which a handler could not.
    let _ = frames(&mut [core::ptr::null_mut(); 1]);
    ARMED.store(true, Relaxed);
    farewell::stand_for(SIGSEGV);
}

/// The fault has come.
///
/// # Safety
/// What the kernel passed to the handler.
pub(crate) unsafe fn come(signal: c_int, context: *mut c_void) {
    if !TOLD.swap(true, Relaxed) {
        // SAFETY: the caller's promise.
        unsafe { tell(context.cast()) };
    }
    sys::process::take_default(signal);
}

/// # Safety
/// What the kernel passed to the handler.
unsafe fn tell(context: *const ucontext_t) {
    // SAFETY: the caller's promise.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as usize;
    // Not of siginfo_t, which the kernel leaves empty where the application set SIG_DFL without SA_SIGINFO.
    if registers[libc::REG_TRAPNO as usize] == PAGE_FAULT {
        let address = registers[libc::REG_CR2 as usize];
        logger::error!("segmentation fault (SIGSEGV) at address {address:#x}; backtrace:");
    } else {
        logger::error!("segmentation fault (SIGSEGV); backtrace:");
    }
    let mut all = [core::ptr::null_mut(); FRAMES];
    let all = frames(&mut all);
    // Above it are the handler's own.
    let first = all.iter().position(|frame| *frame as usize == at).unwrap_or(0);
    for (number, frame) in all[first..].iter().enumerate() {
        tell_frame(number, *frame);
    }
}

fn frames(all: &mut [*mut c_void]) -> &[*mut c_void] {
    // SAFETY: writes at most so many.
    let count = unsafe { libc::backtrace(all.as_mut_ptr(), all.len() as c_int) };
    &all[..usize::try_from(count).unwrap_or(0).min(all.len())]
}

fn tell_frame(number: usize, frame: *const c_void) {
    // SAFETY: all zeros is a result without names.
    let mut known: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address is only compared; the structure lives here.
    let found = unsafe { libc::dladdr(frame, &mut known) } != 0;
    let text = |name: *const libc::c_char| {
        // SAFETY: null, or the loader's, which stays.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("?"))
    };
    let file = text(known.dli_fname).filter(|_| found).unwrap_or("?");
    match text(known.dli_sname) {
        Some(name) => {
            let offset = (frame as usize).wrapping_sub(known.dli_saddr as usize);
            logger::error!("#{number} {frame:p} {file}({name}+{offset:#x})");
        }
        None => {
            let offset = (frame as usize).wrapping_sub(known.dli_fbase as usize);
            logger::error!("#{number} {frame:p} {file}(+{offset:#x})");
        }
    }
}
