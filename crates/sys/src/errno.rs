//! What an errno means, for people. Not by strerror(3), which may take libc's locks for a translation: messages are
//! written in signal handlers and in children of a fork, too.

use core::fmt;

/// An errno as text; one that is not known here, as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TEXTS.iter().find(|(errno, _)| *errno == self.0) {
            Some((_, text)) => to.write_str(text),
            None => write!(to, "errno {}", self.0),
        }
    }
}

/// As libc has them.
const TEXTS: [(i32, &str); 47] = [
    (libc::EPERM, "Operation not permitted"),
    (libc::ENOENT, "No such file or directory"),
    (libc::ESRCH, "No such process"),
    (libc::EINTR, "Interrupted system call"),
    (libc::EIO, "Input/output error"),
    (libc::ENXIO, "No such device or address"),
    (libc::E2BIG, "Argument list too long"),
    (libc::ENOEXEC, "Exec format error"),
    (libc::EBADF, "Bad file descriptor"),
    (libc::ECHILD, "No child processes"),
    (libc::EAGAIN, "Resource temporarily unavailable"),
    (libc::ENOMEM, "Cannot allocate memory"),
    (libc::EACCES, "Permission denied"),
    (libc::EFAULT, "Bad address"),
    (libc::EBUSY, "Device or resource busy"),
    (libc::EEXIST, "File exists"),
    (libc::EXDEV, "Invalid cross-device link"),
    (libc::ENODEV, "No such device"),
    (libc::ENOTDIR, "Not a directory"),
    (libc::EISDIR, "Is a directory"),
    (libc::EINVAL, "Invalid argument"),
    (libc::ENFILE, "Too many open files in system"),
    (libc::EMFILE, "Too many open files"),
    (libc::ETXTBSY, "Text file busy"),
    (libc::EFBIG, "File too large"),
    (libc::ENOSPC, "No space left on device"),
    (libc::EROFS, "Read-only file system"),
    (libc::EPIPE, "Broken pipe"),
    (libc::ENAMETOOLONG, "File name too long"),
    (libc::ENOSYS, "Function not implemented"),
    (libc::ELOOP, "Too many levels of symbolic links"),
    (libc::EPROTO, "Protocol error"),
    (libc::ENOTSOCK, "Socket operation on non-socket"),
    (libc::EPROTOTYPE, "Protocol wrong type for socket"),
    (libc::EOPNOTSUPP, "Operation not supported"),
    (libc::EADDRINUSE, "Address already in use"),
    (libc::EADDRNOTAVAIL, "Cannot assign requested address"),
    (libc::ENETDOWN, "Network is down"),
    (libc::ENETUNREACH, "Network is unreachable"),
    (libc::ECONNABORTED, "Software caused connection abort"),
    (libc::ECONNRESET, "Connection reset by peer"),
    (libc::ENOBUFS, "No buffer space available"),
    (libc::ENOTCONN, "Transport endpoint is not connected"),
    (libc::ETIMEDOUT, "Connection timed out"),
    (libc::ECONNREFUSED, "Connection refused"),
    (libc::EHOSTUNREACH, "No route to host"),
    (libc::EALREADY, "Operation already in progress"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_libcs() {
        for (errno, text) in TEXTS {
            let libcs = std::io::Error::from_raw_os_error(errno).to_string();
            assert_eq!(libcs, format!("{text} (os error {errno})"));
            assert_eq!(Errno(errno).to_string(), text);
        }
        assert_eq!(Errno(9999).to_string(), "errno 9999");
    }
}
