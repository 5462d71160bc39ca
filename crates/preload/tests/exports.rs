//! What the linker made of the library: it exports exactly the hooks, and nothing of ours calls a hooked name.

mod common;

use common::{library, linked};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Names that `nm` prints with these options.
fn names(options: &[&str], file: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(options).arg(file).output().expect("nm is needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap().to_owned())
        .collect()
}

fn hooks() -> BTreeSet<String> {
    interpose::symbols().map(str::to_owned).collect()
}

#[test]
fn the_library_exports_the_hooks_and_nothing_else() {
    assert_eq!(interpose::symbols().count(), hooks().len(), "a name stands twice in the tables");
    let exported = names(&["-D", "--defined-only"], &library());
    let missing: Vec<_> = hooks().difference(&exported).cloned().collect();
    let stray: Vec<_> = exported.difference(&hooks()).cloned().collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    assert!(stray.is_empty(), "exported, but no hook: {stray:?}");
}

/// What is needed is loaded into every program, and searched for each of its symbols.
#[test]
fn the_library_needs_the_c_library_alone() {
    let output = Command::new("readelf").args(["-dW"]).arg(library()).output().expect("readelf is needed");
    let said = String::from_utf8(output.stdout).unwrap();
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<&str> = needed.filter_map(|line| line.split_once('[')).map(|(_, name)| name).collect();
    assert_eq!(needed, ["libc.so.6]"]);
}

/// Every function that the library takes from elsewhere is named here, with the reason.
#[test]
fn the_library_imports_only_what_is_known_to_be_harmless() {
    const ALLOWED: &[&str] = &[
        // Memory and strings.
        "malloc calloc realloc free posix_memalign memcpy memmove memset memcmp bcmp strlen",
        // Of `interpose`: finding genuine functions, errno, who we are.
        "dlsym __errno_location getpid gettid getauxval sched_yield clock_gettime __register_atfork",
        // The end of a process whose last thread ended (`sys`).
        "exit",
        // Of `interpose`: the end by quick_exit, and the fork of daemon.
        "__cxa_at_quick_exit fork",
        // Of `interpose`: loading the unwinder.
        "dlopen",
        // End of thread, of std.
        "__cxa_thread_atexit_impl __cxa_finalize pthread_key_create pthread_key_delete",
        "pthread_setspecific pthread_getspecific",
        // Of std: starting the worker thread, and the seed of its hash tables. None of these is hooked.
        "pthread_create pthread_detach pthread_join pthread_self pthread_setname_np pthread_getattr_np",
        "pthread_attr_init pthread_attr_destroy pthread_attr_setstacksize pthread_attr_getstack",
        "pthread_attr_getguardsize sigaltstack mprotect sysconf getrandom pause",
        // Of `interpose`: the stream that fdopen of a socket gives, whose reads and writes are our hooks.
        "fopencookie",
        // Of `interpose`: the text that dprintf writes to a socket.
        "vasprintf __vasprintf_chk",
        // Of `interpose`: the backtrace of VMA_HANDLE_SIGSEGV.
        "backtrace dladdr",
        // The program's name, for the log.
        "program_invocation_short_name",
        // Of std's report of a panic, which `start` replaces; linked, never run.
        "abort dl_iterate_phdr fstat64 stat64 statx lseek64 mmap64 munmap readlink realpath getcwd getenv",
        "strerror_r __xpg_strerror_r environ",
        // What every shared object has.
        "_ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __gmon_start__",
    ];
    let allowed: BTreeSet<String> =
        ALLOWED.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
    let imported = names(&["-D", "--undefined-only"], &library());
    let unknown: Vec<_> = imported.difference(&allowed).collect();
    assert!(
        unknown.is_empty(),
        "new imports {unknown:?}: our own I/O goes through crate `sys`; if these are harmless, say why in this test"
    );
}

/// The objects of these crates, as they are in the library.
fn objects(crates: &[&str]) -> Vec<(String, &'static Path)> {
    let found: Vec<_> = linked()
        .iter()
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix("lib")?.split_once('-')?.0;
            crates.contains(&name).then(|| (name.to_owned(), path.as_path()))
        })
        .collect();
    for name in crates {
        assert!(found.iter().any(|(krate, _)| krate == name), "{name} is not in the library");
    }
    found
}

/// Every crate that runs inside the process.
const INSIDE: [&str; 10] =
    ["wire", "stats", "sys", "logger", "stack", "xdp", "netlink", "keeper", "memory", "sockets"];

/// A call of ours to a hooked name would bind to our own hook. So the objects of every crate inside the process, other
/// than std's, must not refer to one: hook entries during our own work are zero.
#[test]
fn no_crate_of_ours_calls_a_hooked_name() {
    for (krate, path) in objects(&[&INSIDE[..], &["config", "rustix"]].concat()) {
        let calls: Vec<String> = names(&["--undefined-only"], path).intersection(&hooks()).cloned().collect();
        assert!(calls.is_empty(), "{krate} calls {calls:?}, which are our own hooks: use crate `sys`");
    }
}

/// And none may use the parts of std that do I/O or park threads: those calls are std's, where the check above cannot
/// see them.
#[test]
fn no_crate_of_ours_uses_std_for_input_output_or_locks() {
    // As they stand in mangled names.
    const FORBIDDEN: &[&str] = &[
        "3std2fs",
        "3std3net",
        "7process7Command",
        "7process5Child",
        "7process4exit",
        "3std2io5stdio",
        "4sync6poison5mutex",
        "4sync6poison7condvar",
    ];
    for (krate, path) in objects(&INSIDE) {
        for symbol in names(&["--undefined-only"], path) {
            let waits =
                symbol.contains("3std6thread") && (symbol.contains("4park") || symbol.contains("5sleep"));
            let forbidden = waits || FORBIDDEN.iter().any(|part| symbol.contains(part));
            assert!(!forbidden, "{krate} uses {symbol}: that is I/O or a lock of std's");
        }
    }
}
