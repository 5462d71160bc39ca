//! What these tests share: where the library is, and how a program is run with and without it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// libvma.so, built now and in the same profile: cargo builds no cdylib for a test, and an old one would pass for new.
pub(crate) fn library() -> PathBuf {
    built().0.clone()
}

/// The objects that are linked into it. Beside them lie others of the same names, with the features that the tools
/// want.
pub(crate) fn linked() -> &'static [PathBuf] {
    &built().1
}

/// The library, and what cargo says it was made of.
fn built() -> &'static (PathBuf, Vec<PathBuf>) {
    static BUILT: OnceLock<(PathBuf, Vec<PathBuf>)> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/<profile>/deps/<this test>
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--offline", "-p", "preload", "--message-format=json"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let output = cargo.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "libvma.so does not build");
        let told = String::from_utf8(output.stdout).unwrap();
        let objects = told.split('"').filter(|word| word.ends_with(".rlib")).map(PathBuf::from).collect();
        (profile.join("libvma.so"), objects)
    })
}

/// A place for what the tests compile.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// The folder of C programs.
pub(crate) fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apps")
}

/// Whether the machine has this program; says so loudly if not.
pub(crate) fn have(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()));
    if !found {
        rig::skip::skipped_here(&format!("{program} is not installed"));
    }
    found
}

/// Compiles a C program of tests/apps; `source` without its ending.
pub(crate) fn compile(source: &str, more: &[&str]) -> PathBuf {
    let output = scratch(source);
    let result = Command::new("cc")
        .args(["-O1", "-g", "-w", "-pthread", "-o"])
        .arg(&output)
        .arg(apps().join(source).with_extension("c"))
        .args(more)
        .output()
        .expect("cc is needed to compile tests/apps");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    output
}

/// A command, under the preload or not.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, preload: bool) -> Command {
    let mut command = Command::new(program);
    if preload {
        command.env("LD_PRELOAD", library());
    }
    command.stdin(Stdio::null());
    command
}

/// Runs to the end; a program that hangs is ended after `LIMIT` and fails the test.
pub(crate) fn run(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id() as i32;
    let (send, done) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if done.recv_timeout(LIMIT).is_err() {
            // SAFETY: a process of ours that nobody has waited for.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = send.send(());
    guard.join().unwrap();
    // The library goes on without itself, and the program would pass.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("internal error"), "{said}");
    output
}

/// Far more than any of these programs needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs and expects success.
pub(crate) fn succeeds(command: Command) -> Output {
    let what = format!("{command:?}");
    let output = run(command);
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A server that is ended with the test.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Starts it, and waits until something accepts on the port of 127.0.0.1.
    pub(crate) fn start(mut command: Command, port: u16) -> Server {
        let mut server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.0.try_wait().unwrap().is_none(), "{command:?} ended early");
            assert!(begun.elapsed() < LIMIT, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
