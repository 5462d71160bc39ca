//! stdio over a socket. A stream that libc opens on a descriptor reads and writes by libc's internal names, past every
//! hook; so a stream on a descriptor of ours is one with functions of its own (fopencookie(3)), which are our hooks.

use crate::hooks::{data, descriptor};
use crate::start::running;
use crate::table::hooks;
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use sockets::{Answer, Stop, Why, calls};

/// A FILE*; null when it could not be made.
type Stream = usize;

/// cookie_io_functions_t.
#[repr(C)]
struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C-unwind" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> Stream;
}

/// The descriptor is the cookie.
fn descriptor_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C-unwind" fn read(cookie: *mut c_void, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: stdio's buffer.
    unsafe { data::read(descriptor_of(cookie), buffer.cast(), size) }
}

/// Writes all, as a stream on a descriptor does; what is missing in the result is an error.
unsafe extern "C-unwind" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
    let mut done = 0;
    while done < size {
        // SAFETY: within stdio's buffer.
        let sent = unsafe { data::write(descriptor_of(cookie), buffer.add(done).cast(), size - done) };
        if sent <= 0 {
            break;
        }
        done += sent as usize;
    }
    done as ssize_t
}

unsafe extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: no pointers.
    unsafe { descriptor::close(descriptor_of(cookie)) }
}

/// Where glibc's FILE keeps the descriptor that fileno(3) tells.
const FILENO: usize = 112;

unsafe fn open(fd: c_int, mode: *const c_char) -> Answer<Stream> {
    if !cfg!(target_env = "gnu") || !calls::knows(fd) || calls::is_internal(fd) {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    let functions = Functions { read, write, seek: None, close };
    // SAFETY: the application's mode; the functions are ours, and the library stays loaded.
    let stream = unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) };
    if stream != 0 {
        // SAFETY: inside the FILE that was just made (struct _IO_FILE is part of glibc's ABI).
        unsafe { ((stream + FILENO) as *mut c_int).write(fd) };
    }
    Ok(stream)
}

hooks! { running:
    fn fdopen(fd: c_int, mode: *const c_char) -> Stream {
        open(fd, mode)
    }
}
