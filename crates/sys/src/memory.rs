//! Memory from the kernel: mappings and sealed shared files.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// Bytes of a page. Where pages are larger, ends of ranges are rounded up by the kernel.
const PAGE: usize = 4096;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The children of a fork find these pages zero. EINVAL where the kernel cannot do that (not anonymous memory).
pub fn wipe_on_fork<T>(pages: &'static T) -> Result<()> {
    let (start, length) = (core::ptr::from_ref(pages) as usize, size_of::<T>());
    if !start.is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) {
        return Err(libc::EINVAL);
    }
    // SAFETY: changes nothing in this process, and in children only what the caller has put into pages of its own.
    unsafe { syscall(libc::SYS_madvise, [start, length, int(libc::MADV_WIPEONFORK), 0, 0, 0]) }.map(|_| ())
}

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

    /// Shared, readable and writable memory of a memfd from its start, beginning where huge pages do, and in huge pages
    /// as far as the kernel has them at hand: they are zeroed, mapped, pinned and freed many times faster. What is not
    /// in huge pages is not faulted in yet.
    pub fn shared_in_huge_pages(fd: i32, length: usize) -> Result<Mapping> {
        let mapping = Self::shared_aligned(fd, length)?;
        mapping.gather_huge_pages();
        Ok(mapping)
    }

    /// Shared, readable and writable memory of a memfd from its start, beginning where huge pages do: those that it
    /// has are mapped as such.
    pub fn shared_aligned(fd: i32, length: usize) -> Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let reserved = Self::map(-1, length + HUGE, 0, flags, libc::PROT_NONE)?;
        let (first, end) =
            (reserved.start.as_ptr() as usize, reserved.start.as_ptr() as usize + length + HUGE);
        let start = first.next_multiple_of(HUGE);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range lies within the one just reserved, which nobody knows yet.
        unsafe {
            syscall(libc::SYS_mmap, [start, length, int(protection), int(flags), int(fd), 0])?;
        }
        core::mem::forget(reserved);
        let behind = start + length.next_multiple_of(PAGE);
        unmap(first, start - first);
        unmap(behind, end.next_multiple_of(PAGE) - behind);
        Ok(Mapping { start: NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)?, length })
    }

    /// MADV_COLLAPSE (Linux 6.1), which asks nobody's settings: by default the kernel gives shared memory no huge page
    /// otherwise. It ends with the first one that cannot be had. Before, it waits until each processor has emptied its
    /// lists of pages; where real-time threads may keep one to themselves for ever, that is not asked for. All in one
    /// call, so that it is waited for once.
    fn gather_huge_pages(&self) {
        if crate::file::read_number(c"/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|usec| usec < 0) {
            return;
        }
        let start = self.start.as_ptr() as usize;
        let whole = self.length - self.length % HUGE;
        // One without any page would be refused.
        let begun = (start..start + whole)
            .step_by(HUGE)
            .all(|at| advise(at, PAGE, libc::MADV_POPULATE_WRITE).is_ok());
        if whole > 0 && begun {
            let _ = advise(start, whole, libc::MADV_COLLAPSE);
        }
    }

    /// Zeroed memory that children of a fork share.
    pub fn shared_with_children(length: usize) -> Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        Self::map(-1, length, 0, flags, libc::PROT_READ | libc::PROT_WRITE)
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
        // Those who hold pointers into it hold the mapping, too.
        unmap(self.start.as_ptr() as usize, self.length);
    }
}

/// Of a range that is ours.
fn unmap(start: usize, length: usize) {
    if length > 0 {
        // SAFETY: callers own the range, and nobody points into it.
        let _ = unsafe { syscall(libc::SYS_munmap, [start, length, 0, 0, 0, 0]) };
    }
}

/// madvise(2) with advice that changes no contents.
fn advise(start: usize, length: usize, advice: i32) -> Result<()> {
    // SAFETY: populating and collapsing keep what is in memory; the range is a mapping of the caller's.
    unsafe { syscall(libc::SYS_madvise, [start, length, int(advice), 0, 0, 0]) }.map(|_| ())
}

/// A memfd of exactly `length` bytes whose size can no longer change, for anybody.
pub fn sealed_memfd(name: &CStr, length: u64) -> Result<Fd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let with = |flags: libc::c_uint| unsafe {
        syscall(libc::SYS_memfd_create, [name.as_ptr() as usize, flags as usize, 0, 0, 0, 0])
    };
    // A host may refuse what could be executed (vm.memfd_noexec); Linux before 6.3 does not know the flag.
    let fd = Fd::made(|| with(flags | libc::MFD_NOEXEC_SEAL).or_else(|_| with(flags)))?;
    crate::file::grow(fd.raw(), length)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    crate::fd::fcntl(fd.raw(), libc::F_ADD_SEALS, seals as usize)?;
    Ok(fd)
}

/// All threads of this process have one heap from now on. For a program of ours: libc's setting, not the kernel's.
pub fn one_heap() {
    // SAFETY: no pointers.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_huge_pages_is_the_whole_file_zeroed_and_aligned() {
        let length = 2 * HUGE + 3 * PAGE;
        let file = sealed_memfd(c"sidestep-test", length as u64).unwrap();
        let mapping = Mapping::shared_in_huge_pages(file.raw(), length).unwrap();
        let small = Mapping::shared(file.raw(), length, 0, false).unwrap();
        assert_eq!((mapping.start().as_ptr() as usize % HUGE, mapping.length()), (0, length));
        for at in (0..length).step_by(PAGE) {
            // SAFETY: within both mappings of the same file, which are alive.
            unsafe {
                assert_eq!(mapping.start().add(at).read(), 0);
                mapping.start().add(at).write(at as u8 | 1);
                assert_eq!(small.start().add(at).read(), at as u8 | 1);
            }
        }
    }

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
        // SAFETY: no pointer.
        let shrink = unsafe { syscall(libc::SYS_ftruncate, [int(file.raw()), 4096, 0, 0, 0, 0]) };
        assert_eq!(shrink, Err(libc::EPERM));
    }
}
