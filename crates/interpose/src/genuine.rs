//! Finding the genuine function behind a hook: the next definition of the same name after ours.
//!
//! Constructors of other libraries call hooks before ours has run, so each function is looked up at its first use.
//! Two threads may both look it up; they find the same.
//!
//! `syscall` is found earlier than the others, by [`find_early`]: allocators call it while they prepare themselves
//! (jemalloc, mimalloc), holding a lock that dlsym of a C library before 2.34 would wait for, because it allocates.
//! Until then it is the bare call.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use libc::{c_long, c_void};

/// A function of libc (or of a library preloaded after us), found when first needed.
pub(crate) struct Genuine {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Genuine {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Genuine { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The address; never null.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        if !SETTLED.load(Relaxed) && self.name == SYSCALL {
            return bare_syscall as *const () as *mut c_void;
        }
        // SAFETY: the name is a C string; RTLD_NEXT is relative to this library.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = absent as *const () as *mut c_void;
        }
        self.found.store(found, Relaxed);
        found
    }
}

const SYSCALL: &CStr = c"syscall";

/// Whether `syscall` may be looked up.
static SETTLED: AtomicBool = AtomicBool::new(false);

/// Finds what must not be looked up later. Called by the constructor, where no allocator is in the middle of something.
pub(crate) fn find_early() {
    // What dlsym allocates it does at its first use in a thread.
    // SAFETY: as in `find`.
    unsafe { libc::dlsym(libc::RTLD_NEXT, SYSCALL.as_ptr()) };
    SETTLED.store(true, Relaxed);
    crate::hooks::find_syscall();
}

/// syscall(2) without the C library.
unsafe extern "C-unwind" fn bare_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller vouches for the arguments.
    match unsafe { sys::raw::syscall(number, [a, b, c, d, e, f]) } {
        Ok(value) => value as c_long,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// Stands for a function that this libc does not have; callable with any arguments in the C convention.
extern "C" fn absent() -> c_long {
    set_errno(libc::ENOSYS);
    -1
}

/// Errno of the calling thread.
#[inline]
pub(crate) fn errno() -> i32 {
    // SAFETY: libc's pointer to the thread's own errno.
    unsafe { *libc::__errno_location() }
}

#[inline]
pub(crate) fn set_errno(value: i32) {
    // SAFETY: libc's pointer to the thread's own errno.
    unsafe { *libc::__errno_location() = value }
}

/// Genuine functions, declared as in C; each becomes an `unsafe extern "C-unwind" fn`.
macro_rules! genuine {
    ($( fn $name:ident ( $($argument:ident : $kind:ty),* $(,)? ) $(-> $result:ty)?; )*) => { $(
        #[inline]
        #[allow(non_snake_case)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $kind),*) $(-> $result)? {
            static GENUINE: $crate::genuine::Genuine = $crate::genuine::Genuine::new(
                // The name has no null byte inside: it is an identifier.
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
            );
            type Function = unsafe extern "C-unwind" fn($($kind),*) $(-> $result)?;
            let address = GENUINE.address();
            // SAFETY: libc declares the function so (variadic ones take fixed words, which both conventions that we
            // support pass alike), and `absent` ignores its arguments.
            let function = unsafe { core::mem::transmute::<*mut libc::c_void, Function>(address) };
            // SAFETY: the caller's arguments are the application's.
            unsafe { function($($argument),*) }
        }
    )* };
}
pub(crate) use genuine;
