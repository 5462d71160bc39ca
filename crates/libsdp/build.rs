//! How the library is linked: as libvma.so, see crates/preload/build.rs.

fn main() {
    // zig's linker does not know the option: there the names are protected, seen from outside and still the
    // library's own.
    let zig = std::env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zigcc"));
    let inside = if zig { "" } else { ",-z,start-stop-visibility=hidden" };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now{inside},-soname,libsdp.so");
    println!("cargo::rerun-if-changed=build.rs");
}
