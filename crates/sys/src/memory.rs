//! Memory from the kernel: mappings and sealed shared files.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// A mapping, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is an address range; who may touch it when is decided by those who get pointers from it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Shared, readable and writable memory of a file, from `offset`. `populate` faults its pages in now.
    pub fn shared(fd: i32, length: usize, offset: u64, populate: bool) -> Result<Mapping> {
        let flags = libc::MAP_SHARED | if populate { libc::MAP_POPULATE } else { 0 };
        Self::map(fd, length, offset, flags, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Shared memory of a file, for reading only.
    pub fn shared_read_only(fd: i32, length: usize) -> Result<Mapping> {
        Self::map(fd, length, 0, libc::MAP_SHARED, libc::PROT_READ)
    }

    /// Private zeroed memory.
    pub fn anonymous(length: usize) -> Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::map(-1, length, 0, flags, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn map(fd: i32, length: usize, offset: u64, flags: i32, protection: i32) -> Result<Mapping> {
        let arguments = [0, length, int(protection), int(flags), int(fd), offset as usize];
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let start = unsafe { syscall(libc::SYS_mmap, arguments) }?;
        let start = NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)?;
        Ok(Mapping { start, length })
    }

    /// The first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes mapped.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let arguments = [self.start.as_ptr() as usize, self.length, 0, 0, 0, 0];
        // SAFETY: the range is ours since `map`, and those who hold pointers into it hold the mapping too.
        let _ = unsafe { syscall(libc::SYS_munmap, arguments) };
    }
}

/// A memfd of exactly `length` bytes whose size can no longer change, for anybody.
pub fn sealed_memfd(name: &CStr, length: u64) -> Result<Fd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let fd =
        unsafe { syscall(libc::SYS_memfd_create, [name.as_ptr() as usize, flags as usize, 0, 0, 0, 0]) }?;
    let fd = Fd::adopt(fd);
    // SAFETY: no pointer.
    unsafe { syscall(libc::SYS_ftruncate, [int(fd.raw()), length as usize, 0, 0, 0, 0]) }?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    crate::fd::fcntl(fd.raw(), libc::F_ADD_SEALS, seals as usize)?;
    Ok(fd)
}

/// The size of a file, and whether it can still shrink under a mapping (which would be SIGBUS).
pub fn size_and_shrinkable(fd: i32) -> Result<(u64, bool)> {
    // SAFETY: lseek takes no pointer.
    let size = unsafe { syscall(libc::SYS_lseek, [int(fd), 0, int(libc::SEEK_END), 0, 0, 0]) }?;
    let seals = crate::fd::fcntl(fd, libc::F_GET_SEALS, 0)?;
    Ok((size as u64, seals & libc::F_SEAL_SHRINK == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_sealed_file_are_the_same_memory_and_it_cannot_shrink() {
        let file = sealed_memfd(c"sidestep-test", 8192).unwrap();
        let (a, b) = (
            Mapping::shared(file.raw(), 8192, 0, true).unwrap(),
            Mapping::shared(file.raw(), 8192, 0, false).unwrap(),
        );
        // SAFETY: both mappings are 8192 bytes and alive.
        unsafe {
            a.start().add(5000).write(77);
            assert_eq!(b.start().add(5000).read(), 77);
        }
        assert_eq!(size_and_shrinkable(file.raw()), Ok((8192, false)));
        // SAFETY: no pointer.
        let shrink = unsafe { syscall(libc::SYS_ftruncate, [int(file.raw()), 4096, 0, 0, 0, 0]) };
        assert_eq!(shrink, Err(libc::EPERM));
    }
}
