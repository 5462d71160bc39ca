//! Starting a program that is nobody's child: from inside any process, whose signals, descriptors, environment and
//! waits for children it never meets.

use crate::Result;
use crate::raw::{int, syscall};
use crate::thread::{set_mask, without_handlers};
use core::ffi::{CStr, c_char};

/// Starts a program in a session of its own, with an empty environment, /dev/null as its standard descriptors and no
/// others, on any processor. It begins with all signals blocked, and is to unblock them. An error says that there is no
/// process for it; whether the program is there, only the program can say.
pub fn start(program: &CStr, arguments: &[&CStr]) -> Result<()> {
    let words = core::iter::once(&program).chain(arguments).map(|word| word.as_ptr());
    let words: Vec<*const c_char> = words.chain([core::ptr::null()]).collect();
    without_handlers(u64::MAX, || {
        let child = fork();
        if child == Ok(0) {
            become_daemon(program, &words);
        }
        child
    })
    .map(wait_for)
}

/// Waits for the end of a child of [`fork`], which tells nobody of it but who asks for such children, as here.
pub(crate) fn wait_for(child: usize) {
    // SAFETY: without pointers to anything.
    while unsafe { syscall(libc::SYS_wait4, [child, 0, int(libc::__WALL), 0, 0, 0]) } == Err(libc::EINTR) {}
}

/// Ends a child of [`fork`].
pub(crate) fn leave() -> ! {
    loop {
        // SAFETY: without pointers to anything.
        let _ = unsafe { syscall(libc::SYS_exit_group, [0; 6]) };
    }
}

/// A child that sends no signal when it ends, and of which libc knows nothing: it may make system calls only.
pub(crate) fn fork() -> Result<usize> {
    // SAFETY: the child has a copy of the memory; it goes on with this thread's stack, and calls nothing of libc's.
    unsafe { syscall(libc::SYS_clone, [0; 6]) }
}

/// In the child: its own child is the program, and it ends, so that the program is left to init.
fn become_daemon(program: &CStr, words: &[*const c_char]) -> ! {
    let null = c"/dev/null".as_ptr() as usize;
    let nothing: [*const c_char; 1] = [core::ptr::null()];
    let processors = [u64::MAX; 16];
    let of = size_of_val(&processors);
    let exec = [program.as_ptr() as usize, words.as_ptr() as usize, nothing.as_ptr() as usize, 0, 0, 0];
    set_mask(u64::MAX);
    // SAFETY: strings and lists end with a null; all of them live until the process is another program, or ends.
    unsafe {
        let _ = syscall(libc::SYS_setsid, [0; 6]);
        if fork() == Ok(0) {
            let _ = syscall(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0, 0]);
            let _ = syscall(libc::SYS_open, [null, int(libc::O_RDWR), 0, 0, 0, 0]);
            let _ = syscall(libc::SYS_dup, [0; 6]);
            let _ = syscall(libc::SYS_dup, [0; 6]);
            let _ = syscall(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]);
            let _ = syscall(libc::SYS_umask, [0o022, 0, 0, 0, 0, 0]);
            let _ = syscall(libc::SYS_sched_setaffinity, [0, of, processors.as_ptr() as usize, 0, 0, 0]);
            let _ = syscall(libc::SYS_execve, exec);
        }
    }
    leave()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_started_is_nobodys_child_and_has_nothing_of_ours() {
        let told = std::env::temp_dir().join(format!("sys-daemon-{}", std::process::id()));
        // In no pipeline, whose ends the shell would have for a moment.
        let script = "trap '' PIPE; { echo $PPID; ls -m /proc/$$/fd; \
                      tr '\\0' '\\n' < /proc/$$/environ | wc -l; cut -d' ' -f6 /proc/$$/stat; echo $$; } > $1.part; \
                      mv $1.part $1";
        let script = std::ffi::CString::new(script).unwrap();
        let path = std::ffi::CString::new(told.to_str().unwrap()).unwrap();
        let _open = std::fs::File::open("/dev/null").unwrap();
        start(c"/bin/sh", &[c"-c", &script, c"sh", &path]).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !told.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = std::fs::read_to_string(&told).unwrap();
        std::fs::remove_file(&told).unwrap();
        let [parent, descriptors, environment, session, own] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        assert_ne!(parent, std::process::id().to_string());
        // And what the shell itself has for this.
        assert!(
            descriptors
                .split(", ")
                .filter(|fd| fd.parse().is_ok_and(|fd: u32| (3..10).contains(&fd)))
                .count()
                == 0
        );
        assert!(descriptors.starts_with("0, 1, "), "{descriptors}");
        assert_eq!(environment.trim(), "0");
        assert_ne!(session, own, "it can have no terminal");
        // Of this thread: other tests have children, too.
        let options = libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
        // SAFETY: without pointers to anything.
        let waited = unsafe { syscall(libc::SYS_wait4, [int(-1), 0, int(options), 0, 0, 0]) };
        assert!(waited == Err(libc::ECHILD) || waited == Ok(0), "nothing is left to wait for: {waited:?}");
    }

    #[test]
    fn what_is_not_there_does_nothing() {
        assert_eq!(start(c"/nonexistent", &[]), Ok(()));
    }
}
