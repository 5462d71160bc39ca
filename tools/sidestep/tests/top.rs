//! `sidestep top` as people run it, in a terminal and in a script, over the statistics of this very test process.

use stats::segment::{About, address, file_name, flag};
use stats::{Carrier, Segment, Verdict};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIDESTEP: &str = env!("CARGO_BIN_EXE_sidestep");

/// A folder with the statistics of this process: one connection on the wire, and one in memory.
fn folder(name: &str) -> (PathBuf, Segment) {
    let pid = std::process::id();
    let folder = std::env::temp_dir().join(format!("sidestep-top-{name}-{pid}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join(file_name(pid));
    let length = Segment::size(1, 4);
    std::fs::File::create(&path).unwrap().set_len(length as u64).unwrap();
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let file = sys::file::open(&path, libc::O_RDWR, 0).unwrap();
    let mapping = sys::memory::Mapping::shared(file.raw(), length, 0, false).unwrap();
    let about = About { pid, program: b"a-server", started_ns: 1 };
    // SAFETY: a new file, zeroed; the mapping is leaked below.
    let segment = unsafe { Segment::create(mapping.start(), length, 1, 4, about) }.unwrap();
    std::mem::forget(mapping);
    let socket = segment.claim_socket(14);
    socket.flags.set(flag::ACCELERATED | flag::TCP);
    socket.carrier.set(Carrier::Wire as u64);
    socket.verdict.set(Verdict::SmallCalls as u64);
    socket.local.set(address("10.0.0.1:80".parse().unwrap()));
    socket.remote.set(address("10.0.0.2:4000".parse().unwrap()));
    let inside = segment.claim_socket(15);
    inside.flags.set(flag::ACCELERATED | flag::TCP);
    inside.carrier.set(Carrier::Memory as u64);
    inside.verdict.set(Verdict::MetPeer as u64);
    inside.local.set(address("127.0.0.1:80".parse().unwrap()));
    inside.remote.set(address("127.0.0.1:4001".parse().unwrap()));
    (folder, segment)
}

fn top(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(SIDESTEP);
    command.arg("top").arg("--directory").arg(folder).args(words.split_whitespace()).output().unwrap()
}

/// Runs its arguments in a terminal of 80 by 24, which becomes one of 60 by 16; types what each line of the screen
/// that is waited for is answered with. Then once more, under nohup, in one that does not know
/// its size and is closed.
const TERMINAL: &str = "\
import fcntl,os,pty,select,signal,struct,sys,termios,time
def size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))
pid, fd = pty.fork()
if pid == 0:
    os.environ['TERM'] = 'xterm'
    size(0, 24, 80)
    os.execv(sys.argv[1], sys.argv[1:])
seen = b''
def until(text):
    global seen
    end = time.monotonic() + 60
    while text not in seen:
        assert time.monotonic() < end, (text, seen)
        if select.select([fd], [], [], 1)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                break
    assert text in seen, (text, seen)
    before, seen = seen, b''
    return before
until(b'10.0.0.2:4000')
os.write(fd, b'?')
until(b'stand still')
os.write(fd, b'x/nobody\\r')
until(b'with \"nobody\"')
size(fd, 16, 60)
# The last line of the new screen, in reverse as that of the old one was.
until(b'\\x1b[16;1H\\x1b[7m')
os.write(fd, b'q')
until(b'\\x1b[?1049l')
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 0, status
pid, fd = pty.fork()
if pid == 0:
    os.environ['TERM'] = 'xterm'
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.execv(sys.argv[1], sys.argv[1:])
until(b'10.0.0.2:4000')
os.close(fd)
os.waitpid(pid, 0)
";

#[test]
fn in_a_terminal_it_shows_obeys_keys_follows_the_size_and_leaves() {
    let (folder, _segment) = folder("terminal");
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, SIDESTEP, "top", "--directory"]).arg(&folder);
    let output = command.output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn once_prints_every_row_and_writes_nothing() {
    let (folder, segment) = folder("once");
    let path = folder.join(file_name(std::process::id()));
    let before = std::fs::read(&path).unwrap();
    let output = top(&folder, "--once --interval 0.1");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["a-server", "10.0.0.2:4000", "wire", Verdict::SmallCalls.text()] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(before == std::fs::read(&path).unwrap(), "the statistics were written to");
    assert_eq!(segment.process().sockets_open.value(), 0);
    let none = top(&folder, "--once --interval 0.1 --pid 1");
    assert_eq!(none.status.code(), Some(1));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn what_cannot_be_done_is_said() {
    let (folder, _segment) = folder("cannot");
    let output = top(&folder, "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--once"));
    let output = top(Path::new("/nonexistent"), "--once");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(top(&folder, "--once --interval 0").status.code(), Some(2));
    let _ = std::fs::remove_dir_all(&folder);
}
