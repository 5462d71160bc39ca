//! How the library is linked: it stays loaded, because fork handlers, signal handlers and the unwinder know its
//! addresses; and its own references are bound at once, so that no lazy binding happens inside a signal handler.
//! Its name for the linker is the one that LD_PRELOAD is given; the linker's names for the ends of sections stay inside
//! the library.

fn main() {
    // zig's linker does not know the option: there the names are protected, seen from outside and still the
    // library's own.
    let zig = std::env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zigcc"));
    let inside = if zig { "" } else { ",-z,start-stop-visibility=hidden" };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now{inside},-soname,libvma.so");
    println!("cargo::rerun-if-changed=build.rs");
}
