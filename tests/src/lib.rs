//! What the whole-product tests share: the library under test, two hosts or a recorded skip, and the programs in C.
//!
//! `api.rs` runs the programs of `api/` on the kernel (the oracle) and accelerated; `product/` has one file per
//! promise of the product; `apps/` are programs as users write them.

pub mod keeper;
pub mod talk;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rig::skip::{skipped, test_name, without_namespaces};
use rig::sockperf::Witness;
use rig::{Host, KernelCounters, Options, Result, TwoHosts, eventually, eventually_some, run_tool};

/// For the end of any program that is not itself told how long to run; those have limits of [`rig::PATIENCE`]
/// themselves.
pub const DEADLINE: Duration = rig::PATIENCE.saturating_mul(2);

/// Where the library under test is: `SIDESTEP_LIBRARY`, or the workspace's release build.
pub fn library() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SIDESTEP_LIBRARY") {
        return Some(path.into());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder().join("../target"), PathBuf::from);
    target.join("release/libvma.so").canonicalize().ok()
}

/// Two hosts and the library, or `None` with the reason recorded: `let Some(world) = world(..) else { return };`
pub fn world(options: &Options) -> Option<World> {
    if without_namespaces() {
        return None;
    }
    let Some(library) = library() else {
        skipped(&test_name(), "no target/release/libvma.so: cargo build --release -p preload");
        return None;
    };
    let hosts = rig::two_hosts(options).expect("two hosts in namespaces");
    Some(World { hosts, library })
}

/// Two hosts, and the library that their programs run under.
#[derive(Debug)]
pub struct World {
    /// Joined, up, addressed.
    pub hosts: TwoHosts,
    /// Absolute path of `libvma.so`.
    pub library: PathBuf,
}

/// This folder.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A compiled program; its file is removed when dropped.
#[derive(Debug)]
pub struct Executable(PathBuf);

impl Executable {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles a C program of this folder.
pub fn compile(source: &str) -> Result<Executable> {
    // A name of its own each time: tests in parallel compile the same source.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let source = folder().join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let executable = std::env::temp_dir().join(format!("rig-{}-{number}-{name}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    compiler.arg(&executable).arg(&source);
    run_tool(&mut compiler)?;
    Ok(Executable(executable))
}

/// A program of this workspace as `cargo build` makes it from the present sources.
pub fn built(package: &str, program: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", package, "--bin", program]).current_dir(folder());
    run_tool(&mut build).expect("cargo build");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder().join("../target"), PathBuf::from);
    target.join("debug").join(program)
}

/// Waits until an XDP program is attached to the host's interface: whoever runs there is accelerated.
pub fn wait_for_acceleration(host: &Host) {
    let what = format!("{} is accelerated", host.interface);
    eventually(&what, || host.has_xdp_program().expect("ip link"));
}

/// Waits until no XDP program is attached to the host's interface: who died lets go of it a little later.
pub fn wait_for_no_program(host: &Host) {
    let what = format!("no XDP program is attached to {}", host.interface);
    eventually(&what, || !host.has_xdp_program().expect("ip link"));
}

/// Repeats `work` until it gives something and the host's kernel took part in nothing of it but `beside` packets:
/// processes that have just begun, or lost a sibling, are accelerated a little later.
pub fn eventually_bypassed_but<T>(host: &Host, beside: u64, mut work: impl FnMut() -> Option<T>) -> T {
    let what = format!("all that {} does goes past its kernel", host.address);
    eventually_some(&what, || {
        let before = host.counters().expect("counters");
        let done = work()?;
        bypassed(&host.counters().expect("counters").since(&before), beside).is_ok().then_some(done)
    })
}

/// Since `before` the kernel's TCP has sent nothing but resets to other hosts: it has opened no connection, and
/// answered none.
pub fn assert_opened_nothing(host: &Host, before: &KernelCounters) {
    let since = host.counters().expect("counters").since(before);
    let sent = since.get("Tcp.OutSegs").saturating_sub(since.get("lo.tx_packets"));
    let resets = since.get("Tcp.OutRsts");
    assert!(sent <= resets, "the kernel of {} sent {sent} segments, {resets} of them resets", host.address);
}

/// The kernels' own UDP and TCP saw next to nothing of what the interfaces carried.
pub fn assert_bypassed(witness: &Witness) {
    for (end, counters) in [("client", &witness.client), ("server", &witness.server)] {
        assert_host_bypassed(end, counters);
    }
}

/// As [`assert_bypassed`], for one host.
pub fn assert_host_bypassed(host: &str, counters: &KernelCounters) {
    assert_host_bypassed_but(host, counters, 0);
}

/// As [`assert_host_bypassed`]; programs that are the kernel's on purpose may have exchanged `beside` packets.
pub fn assert_host_bypassed_but(host: &str, counters: &KernelCounters, beside: u64) {
    if let Err(why) = bypassed(counters, beside) {
        panic!("{host}: {why}");
    }
}

fn bypassed(counters: &KernelCounters, beside: u64) -> std::result::Result<(), String> {
    let (kernel, wire) = (counters.transport_packets(), counters.wire_packets());
    match kernel.saturating_sub(beside) * 50 <= wire {
        _ if wire == 0 => Err("nothing went over the interface".into()),
        true => Ok(()),
        false => Err(format!("the kernel's UDP and TCP handled {kernel} of {wire} packets")),
    }
}
