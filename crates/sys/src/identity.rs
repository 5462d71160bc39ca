//! What an open descriptor is: needed before writing to a number that the application may have given another meaning.

use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// The file behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device that holds the inode.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
}

impl Identity {
    /// Whether the file is of this type (`libc::S_IFSOCK`, ...).
    pub fn is(&self, kind: libc::mode_t) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

/// fstat(2), as far as it identifies the file.
pub fn identity(fd: i32) -> Result<Identity> {
    // SAFETY: all-zero bytes are a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel's stat and libc's agree on 64-bit Linux, and it lives here.
    unsafe { syscall(libc::SYS_fstat, [int(fd), &raw mut status as usize, 0, 0, 0, 0]) }?;
    Ok(Identity { device: status.st_dev, inode: status.st_ino, mode: status.st_mode })
}

/// Whose a file is, and how many names it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// Hard links.
    pub names: u64,
}

/// fstat(2), as far as it tells who can have put the file there.
pub fn owner(fd: i32) -> Result<Owner> {
    // SAFETY: all-zero bytes are a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel's stat and libc's agree on 64-bit Linux, and it lives here.
    unsafe { syscall(libc::SYS_fstat, [int(fd), &raw mut status as usize, 0, 0, 0, 0]) }?;
    Ok(Owner { user: status.st_uid, names: status.st_nlink as u64 })
}

/// The same of a descriptor of another process, where /proc tells.
pub fn identity_in(process: i32, fd: i32) -> Result<Identity> {
    use std::io::Write;
    let mut path = [0u8; 64];
    // Two numbers of at most eleven bytes leave the last byte null.
    write!(&mut path[..], "/proc/{process}/fd/{fd}").map_err(|_| libc::ENAMETOOLONG)?;
    // SAFETY: all-zero bytes are a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    let arguments = [int(libc::AT_FDCWD), path.as_ptr() as usize, &raw mut status as usize, 0, 0, 0];
    // SAFETY: the path ends with a null byte; the kernel's stat and libc's agree on 64-bit Linux, and it lives here.
    unsafe { syscall(libc::SYS_newfstatat, arguments) }?;
    Ok(Identity { device: status.st_dev, inode: status.st_ino, mode: status.st_mode })
}

/// isatty(3).
pub fn is_terminal(fd: i32) -> bool {
    // Larger than the kernel's struct termios on any architecture.
    let mut termios = [0u8; 128];
    let arguments = [int(fd), libc::TCGETS as usize, termios.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the buffer is ours and large enough.
    unsafe { syscall(libc::SYS_ioctl, arguments) }.is_ok()
}

/// Lets an owned descriptor refer to another open file, atomically: its number stays, and stays ours.
pub fn replace(number: i32, with: Fd) -> Result<()> {
    let flags = libc::O_CLOEXEC;
    // SAFETY: dup3 takes no pointer.
    unsafe { syscall(libc::SYS_dup3, [int(with.raw()), int(number), int(flags), 0, 0, 0]) }.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_one_file_have_one_identity() {
        let null = crate::file::open(c"/dev/null", libc::O_WRONLY, 0).unwrap();
        let event = crate::fd::eventfd().unwrap();
        let copy = null.duplicate().unwrap();
        assert_eq!(identity(null.raw()), identity(copy.raw()));
        assert_ne!(identity(null.raw()), identity(event.raw()));
        assert_eq!(identity_in(crate::process::pid(), event.raw()), identity(event.raw()));
        assert!(identity(null.raw()).unwrap().is(libc::S_IFCHR));
        assert!(!is_terminal(null.raw()));
        let expected = identity(event.raw());
        replace(copy.raw(), event).unwrap();
        assert_eq!(identity(copy.raw()), expected);
        assert_eq!(identity(-1), Err(libc::EBADF));
    }
}
