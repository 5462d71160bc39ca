//! Small files: `/proc`, `/sys`, configuration, logs.

use core::ffi::CStr;

use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// openat(2) from the current directory, close-on-exec; `flags` is `libc::O_*`.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<Fd> {
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    unsafe {
        syscall(
            libc::SYS_openat,
            [int(libc::AT_FDCWD), path.as_ptr() as usize, int(flags), mode as usize, 0, 0],
        )
    }
    .map(Fd::adopt)
}

/// unlinkat(2): removes a name of a file.
pub fn unlink(path: &CStr) -> Result<()> {
    let arguments = [int(libc::AT_FDCWD), path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path is a C string.
    unsafe { syscall(libc::SYS_unlinkat, arguments) }.map(|_| ())
}

/// Makes a new file `length` zero bytes long, with its room reserved where the file system can (ENOSPC: no room).
pub fn reserve(fd: i32, length: u64) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { syscall(libc::SYS_ftruncate, [int(fd), length as usize, 0, 0, 0, 0]) }?;
    // SAFETY: no pointer.
    match unsafe { syscall(libc::SYS_fallocate, [int(fd), 0, 0, length as usize, 0, 0]) } {
        Ok(_) | Err(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Reads a file from its beginning into `buffer`; says how much of it fitted.
pub fn read_to(path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let fd = open(path, libc::O_RDONLY, 0)?;
    let mut filled = 0;
    while filled < buffer.len() {
        match crate::fd::read(fd.raw(), &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// A whole file of at most `limit` bytes; a larger one is EFBIG.
pub fn read_whole(path: &CStr, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; limit + 1];
    let length = read_to(path, &mut bytes)?;
    if length > limit {
        return Err(libc::EFBIG);
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The number in a file such as `/proc/sys/net/core/rmem_max`.
pub fn read_number(path: &CStr) -> Result<i64> {
    let mut buffer = [0; 32];
    let length = read_to(path, &mut buffer)?;
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
    }
}
