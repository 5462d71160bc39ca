//! Small files: `/proc`, `/sys`, configuration, logs.

use core::ffi::{CStr, c_char};

use crate::fd::Brief;
use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// openat(2) from the current directory, close-on-exec; `flags` is `libc::O_*`.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<Fd> {
    open_number(path, flags, mode).map(Fd::adopt)
}

/// The same to read what does not wait to be opened, to be closed again at once.
fn open_briefly(path: &CStr, flags: i32) -> Result<Brief> {
    Brief::made(|| open_number(path, libc::O_RDONLY | flags, 0))
}

fn open_number(path: &CStr, flags: i32, mode: u32) -> Result<usize> {
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    unsafe {
        syscall(
            libc::SYS_openat,
            [int(libc::AT_FDCWD), path.as_ptr() as usize, int(flags), mode as usize, 0, 0],
        )
    }
}

/// flock(2) of an open file for us alone, which ends with the last descriptor of it. EWOULDBLOCK: somebody has it.
pub fn lock(file: &Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { syscall(libc::SYS_flock, [int(file.raw()), int(libc::LOCK_EX | libc::LOCK_NB), 0, 0, 0, 0]) }
        .map(|_| ())
}

/// unlinkat(2): removes a name of a file.
pub fn unlink(path: &CStr) -> Result<()> {
    let arguments = [int(libc::AT_FDCWD), path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path is a C string.
    unsafe { syscall(libc::SYS_unlinkat, arguments) }.map(|_| ())
}

/// Whether exec of this path can succeed, as execve(2) judges: by the effective user, and of a regular file. Where the
/// kernel cannot be asked so (before 5.8) every regular file is one. It judges the pointer, too.
pub fn is_program(path: *const c_char) -> bool {
    const EXECUTE: usize = libc::X_OK as usize;
    let here = int(libc::AT_FDCWD);
    // SAFETY: all-zero bytes are a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: EFAULT where the path is none; as in `size`.
    let found =
        unsafe { syscall(libc::SYS_newfstatat, [here, path as usize, &raw mut status as usize, 0, 0, 0]) };
    if found.is_err() || status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return false;
    }
    let arguments = [here, path as usize, EXECUTE, int(libc::AT_EACCESS), 0, 0];
    // SAFETY: as above.
    matches!(unsafe { syscall(libc::SYS_faccessat2, arguments) }, Ok(_) | Err(libc::ENOSYS | libc::EPERM))
}

/// Bytes of the open file behind a descriptor.
pub fn size(fd: i32) -> Result<u64> {
    // SAFETY: all-zero bytes are a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel's stat and libc's agree on 64-bit Linux, and it lives here.
    unsafe { syscall(libc::SYS_fstat, [int(fd), &raw mut status as usize, 0, 0, 0, 0]) }?;
    Ok(status.st_size as u64)
}

/// mkdirat(2).
pub fn make_folder(path: &CStr, mode: u32) -> Result<()> {
    let arguments = [int(libc::AT_FDCWD), path.as_ptr() as usize, mode as usize, 0, 0, 0];
    // SAFETY: the path is a C string.
    unsafe { syscall(libc::SYS_mkdirat, arguments) }.map(|_| ())
}

/// Makes a new file `length` bytes long. EFBIG: the process may not (RLIMIT_FSIZE); the kernel would end it with
/// SIGXFSZ, for memory files, too.
pub(crate) fn grow(fd: i32, length: u64) -> Result<()> {
    if crate::process::limit(libc::RLIMIT_FSIZE as i32)?.soft < length {
        return Err(libc::EFBIG);
    }
    // SAFETY: no pointer.
    unsafe { syscall(libc::SYS_ftruncate, [int(fd), length as usize, 0, 0, 0, 0]) }.map(|_| ())
}

/// Makes a new file `length` zero bytes long, with its room reserved where the file system can (ENOSPC: no room).
pub fn reserve(fd: i32, length: u64) -> Result<()> {
    grow(fd, length)?;
    // SAFETY: no pointer.
    match unsafe { syscall(libc::SYS_fallocate, [int(fd), 0, 0, length as usize, 0, 0]) } {
        Ok(_) | Err(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Reads a file from its beginning into `buffer`; says how much of it fitted.
pub fn read_to(path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let file = open_briefly(path, 0)?;
    fill(&file, buffer)
}

fn answers(file: &Brief) -> bool {
    let mut one = [libc::pollfd { fd: file.raw(), events: libc::POLLIN, revents: 0 }];
    crate::poll::poll(&mut one, Some(ANSWERS_NS), None).is_ok_and(|ready| ready > 0)
}

/// Reads on, to the end of the file or of the buffer.
fn fill(file: &Brief, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match crate::fd::read(file.raw(), &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) if answers(file) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// How long a pipe or a terminal that was named for a file may take for the next bytes, nanoseconds.
const ANSWERS_NS: u64 = 1_000_000_000;

/// A whole file of at most `limit` bytes; a larger one is EFBIG. What is no file holds nobody up: a pipe that nobody
/// writes to is empty, and what says nothing for a second is EAGAIN.
pub fn read_whole(path: &CStr, limit: usize) -> Result<Vec<u8>> {
    /// Most files are smaller: memory that nothing is read into costs time, too.
    const FIRST: usize = 16 << 10;
    let file = open_briefly(path, libc::O_NONBLOCK)?;
    let mut bytes = vec![0; FIRST.min(limit + 1)];
    let mut filled = 0;
    loop {
        filled += fill(&file, &mut bytes[filled..])?;
        if filled < bytes.len() {
            bytes.truncate(filled);
            return Ok(bytes);
        }
        if filled > limit {
            return Err(libc::EFBIG);
        }
        bytes.resize((2 * filled).min(limit + 1), 0);
    }
}

/// Whether the process has a descriptor of this kind, as /proc/self/fd shows it ("anon_inode:[eventfd]"), that is
/// `meant`: its number.
pub fn descriptor_of(kind: &[u8], meant: impl Fn(i32) -> bool) -> Option<i32> {
    let Ok(folder) = open_briefly(c"/proc/self/fd", libc::O_DIRECTORY) else {
        return None;
    };
    let mut entries = [0u8; 2048];
    loop {
        let arguments = [int(folder.raw()), entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0];
        // SAFETY: the buffer is ours.
        let Ok(length @ 1..) = (unsafe { syscall(libc::SYS_getdents64, arguments) }) else { return None };
        let mut at = 0;
        // struct linux_dirent64: inode, offset, length (16 bits at 16), type, name (at 19).
        while at < length
            && let Some(&[low, high]) = entries.get(at + 16..at + 18)
        {
            let mut target = [0u8; 64];
            let name = entries.as_ptr() as usize + at + 19;
            let arguments = [int(folder.raw()), name, target.as_mut_ptr() as usize, target.len(), 0, 0];
            // SAFETY: the kernel ended the name with a null byte; the buffer is ours.
            if let Ok(found) = unsafe { syscall(libc::SYS_readlinkat, arguments) }
                && target.get(..found) == Some(kind)
                && let Some(number) = number_at(&entries[at + 19..])
                && meant(number)
            {
                return Some(number);
            }
            at += usize::from(u16::from_ne_bytes([low, high])).max(1);
        }
    }
}

/// The number that a name ended by a null byte is.
fn number_at(name: &[u8]) -> Option<i32> {
    let end = name.iter().position(|byte| *byte == 0)?;
    core::str::from_utf8(&name[..end]).ok()?.parse().ok()
}

/// The number in a file such as `/proc/sys/net/core/rmem_max`, which the kernel gives with the first read.
pub fn read_number(path: &CStr) -> Result<i64> {
    let mut buffer = [0; 32];
    let file = open_briefly(path, 0)?;
    let length = crate::fd::read(file.raw(), &mut buffer)?;
    let text = core::str::from_utf8(&buffer[..length]).map_err(|_| libc::EINVAL)?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_proc_are_read_and_missing_files_are_enoent() {
        assert!(read_number(c"/proc/sys/net/core/rmem_max").unwrap() > 0);
        assert_eq!(read_number(c"/proc/sys/net/core/no_such"), Err(libc::ENOENT));
        assert_eq!(read_whole(c"/proc/self/status", 8), Err(libc::EFBIG));
        let own = read_whole(c"/proc/self/exe", 1 << 30).unwrap();
        assert_eq!(own, std::fs::read("/proc/self/exe").unwrap());
        assert_eq!(read_whole(c"/proc/self/exe", own.len() - 1), Err(libc::EFBIG));
        assert_eq!(read_whole(c"/proc/self/exe", own.len()).unwrap().len(), own.len());
    }

    #[test]
    fn a_pipe_that_is_named_for_a_file_holds_nobody_up() {
        let path = std::env::temp_dir().join(format!("sidestep-pipe-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(read_whole(&name, 100).as_deref(), Ok(&[][..]));
        // One that is written to by and by is read to its end.
        let mut both = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::io::Write::write_all(&mut both, b"text").unwrap();
        });
        assert_eq!(read_whole(&name, 100).as_deref(), Ok(&b"text"[..]));
        writer.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_program_is_a_regular_file_that_the_effective_user_may_execute() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("sidestep-program-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let may = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        may(0o600);
        assert!(!is_program(name.as_ptr()));
        may(0o700);
        assert!(is_program(name.as_ptr()));
        assert!(!is_program(c"/tmp".as_ptr()), "it may be searched, not executed");
        assert!(!is_program(c"/no/such/program".as_ptr()));
        assert!(!is_program(std::ptr::null()));
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } == 0 {
            let as_nobody = || {
                // SAFETY: no pointer; this thread alone changes.
                unsafe { syscall(libc::SYS_setresuid, [usize::MAX, 65534, usize::MAX, 0, 0, 0]) }.unwrap();
                is_program(name.as_ptr())
            };
            let is_nobodys = std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
            assert!(!is_nobodys, "the real user may, whom nobody asks");
        } else {
            rig::skip::skipped_here("not root: nobody else to be, in a part of it");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
