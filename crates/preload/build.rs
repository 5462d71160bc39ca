//! How the library is linked: it stays loaded, because fork handlers, signal handlers and the unwinder know its
//! addresses; and its own references are bound at once, so that no lazy binding happens inside a signal handler.
//! Its name for the linker is the one that LD_PRELOAD is given; the linker's names for the ends of sections stay inside
//! the library.

fn main() {
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now,-z,start-stop-visibility=hidden,-soname,libvma.so"
    );
    println!("cargo::rerun-if-changed=build.rs");
}
