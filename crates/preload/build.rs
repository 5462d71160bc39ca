//! How the library is linked: it stays loaded, because fork handlers, signal handlers and the unwinder know its
//! addresses; and its own references are bound at once, so that no lazy binding happens inside a signal handler.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now");
    println!("cargo::rerun-if-changed=build.rs");
}
