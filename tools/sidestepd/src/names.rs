//! Numbers and names of users and groups, as this host has them: also by LDAP, sssd and systemd (nsswitch.conf(5)), so
//! an answer may take as long as a server likes, and whatever libc loads for it wants a stack.

use std::ffi::{CStr, CString};

/// Bytes of an entry, its members included.
const LENGTH: usize = 1024;
const LENGTH_MAX: usize = 4 << 20;
/// Stack for what libc loads.
const STACK: usize = 1 << 20;

/// The number of a user's name, or that is one.
pub(crate) fn user(name: &str) -> Option<u32> {
    number(name, |name, bytes| {
        // SAFETY: all-zero bytes are a valid entry.
        let mut entry: libc::passwd = unsafe { core::mem::zeroed() };
        let mut found = core::ptr::null_mut();
        let (at, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: a string that ends with a null, and memory of the length said.
        let errno = unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut entry, at, length, &raw mut found) };
        (errno, (!found.is_null()).then_some(entry.pw_uid))
    })
}

/// The number of a group's name, or that is one.
pub(crate) fn group(name: &str) -> Option<u32> {
    number(name, |name, bytes| {
        // SAFETY: all-zero bytes are a valid entry.
        let mut entry: libc::group = unsafe { core::mem::zeroed() };
        let mut found = core::ptr::null_mut();
        let (at, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: a string that ends with a null, and memory of the length said.
        let errno = unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut entry, at, length, &raw mut found) };
        (errno, (!found.is_null()).then_some(entry.gr_gid))
    })
}

/// A user's name, or the number where it has none.
pub(crate) fn of_user(user: u32) -> String {
    let name = with_room(|bytes| {
        // SAFETY: all-zero bytes are a valid entry.
        let mut entry: libc::passwd = unsafe { core::mem::zeroed() };
        let mut found = core::ptr::null_mut();
        let (at, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: memory of the length said.
        let errno = unsafe { libc::getpwuid_r(user, &raw mut entry, at, length, &raw mut found) };
        // SAFETY: the name of an entry that was found is a string in those bytes.
        let name = || unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
        (errno, (!found.is_null() && !entry.pw_name.is_null()).then(name))
    });
    name.unwrap_or_else(|| user.to_string())
}

/// Asks in a thread that has the stack for it.
pub(crate) fn apart<T: Send>(ask: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("names".to_owned()).stack_size(STACK);
        thread.spawn_scoped(scope, ask).ok()?.join().ok()
    })
}

fn number(name: &str, ask: impl Fn(&CStr, &mut [u8]) -> (i32, Option<u32>)) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let name = CString::new(name).ok()?;
    with_room(|bytes| ask(&name, bytes))
}

/// Asks with as many bytes as it takes.
fn with_room<T>(ask: impl Fn(&mut [u8]) -> (i32, Option<T>)) -> Option<T> {
    let mut bytes = vec![0; LENGTH];
    loop {
        match ask(&mut bytes) {
            (libc::ERANGE, _) if bytes.len() < LENGTH_MAX => bytes.resize(bytes.len() * 4, 0),
            (libc::EINTR, _) => {}
            (_, found) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_system() {
        assert_eq!((user("root"), group("root"), of_user(0).as_str()), (Some(0), Some(0), "root"));
        assert_eq!(
            (user("4711"), group("4712"), of_user(4_000_000_001).as_str()),
            (Some(4711), Some(4712), "4000000001")
        );
        assert_eq!((user("no such user"), group("no such group"), user("a\0b")), (None, None, None));
        assert_eq!(apart(|| user("root")), Some(Some(0)));
    }

    #[test]
    fn an_entry_gets_as_many_bytes_as_it_takes() {
        let asked =
            with_room(
                |bytes| if bytes.len() < 60_000 { (libc::ERANGE, None) } else { (0, Some(bytes.len())) },
            );
        assert_eq!(asked, Some(65_536));
        assert_eq!(with_room(|_| (libc::ERANGE, None::<u32>)), None);
    }
}
