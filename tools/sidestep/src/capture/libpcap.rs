//! tcpdump's filters: libpcap compiles and applies them. It is looked for when a filter is given, so that the tool runs
//! where it is not installed. Everything of it stays in this file.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// Its names on Debian, and elsewhere.
const NAMES: [&CStr; 3] = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];
const ETHERNET: c_int = 1;
const NETMASK_UNKNOWN: c_uint = 0xffff_ffff;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    insns: *mut c_void,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, c_uint) -> c_int;
type Error = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Close = unsafe extern "C" fn(*mut c_void);
type Apply = unsafe extern "C" fn(*const c_void, *const u8, c_uint, c_uint) -> c_uint;

/// A compiled filter. libpcap stays loaded and the program allocated until the process ends.
pub(super) struct Filter {
    apply: Apply,
    program: *const c_void,
}

impl Filter {
    /// Compiles what tcpdump would be given. The error is a message for the user.
    pub(super) fn compile(text: &str, snap: u32) -> Result<Filter, String> {
        let code = CString::new(text).map_err(|_| "a filter has no zero bytes".to_owned())?;
        let library = open()?;
        // SAFETY: these are the types of libpcap's functions (pcap/pcap.h, pcap/bpf.h), the same in all its versions.
        let (open_dead, compile, error, close, apply) = unsafe {
            (
                std::mem::transmute::<*mut c_void, OpenDead>(function(library, c"pcap_open_dead")?),
                std::mem::transmute::<*mut c_void, Compile>(function(library, c"pcap_compile")?),
                std::mem::transmute::<*mut c_void, Error>(function(library, c"pcap_geterr")?),
                std::mem::transmute::<*mut c_void, Close>(function(library, c"pcap_close")?),
                std::mem::transmute::<*mut c_void, Apply>(function(library, c"bpf_filter")?),
            )
        };
        let mut program = Program { len: 0, insns: std::ptr::null_mut() };
        // SAFETY: two numbers; the handle is checked before it is used, and closed once. The program is filled in by
        // pcap_compile alone and does not belong to the handle. The message lives as long as the handle.
        unsafe {
            let handle = open_dead(ETHERNET, snap as c_int);
            if handle.is_null() {
                return Err("libpcap: pcap_open_dead failed".to_owned());
            }
            let outcome = compile(handle, &mut program, code.as_ptr(), 1, NETMASK_UNKNOWN);
            let message = match outcome {
                0 => None,
                _ => Some(CStr::from_ptr(error(handle)).to_string_lossy().into_owned()),
            };
            close(handle);
            match message {
                None => Ok(Filter { apply, program: program.insns }),
                Some(message) => Err(format!("the filter \"{text}\": {message}")),
            }
        }
    }

    /// Whether a packet passes: its bytes, and how many it had.
    pub(super) fn passes(&self, bytes: &[u8], original: u32) -> bool {
        // SAFETY: a compiled program, which pcap_compile made valid, and bytes with their length.
        unsafe { (self.apply)(self.program, bytes.as_ptr(), original, bytes.len() as c_uint) != 0 }
    }
}

fn open() -> Result<*mut c_void, String> {
    for name in NAMES {
        // SAFETY: a C string; what libpcap's constructors do is what they do in tcpdump.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !library.is_null() {
            return Ok(library);
        }
    }
    Err("a filter needs libpcap, which is not installed (Debian: apt-get install libpcap0.8); without a filter \
         all packets are written, and tcpdump -r or Wireshark can choose from them"
        .to_owned())
}

fn function(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: a library that was opened and is never closed, and a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("the installed libpcap has no {}", name.to_string_lossy()));
    }
    Ok(found)
}
