//! How the library is linked: as libvma.so, see crates/preload/build.rs.

fn main() {
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now,-z,start-stop-visibility=hidden,-soname,libsdp.so"
    );
    println!("cargo::rerun-if-changed=build.rs");
}
