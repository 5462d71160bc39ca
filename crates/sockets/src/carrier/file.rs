//! sendfile(2) on a connection that the kernel does not carry: the file is read, and sent as any bytes are.

use super::Call;
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use libc::{c_int, ssize_t};

/// How much of a file is read at once.
const FILE_PIECE: usize = 1 << 17;

/// sendfile(2) from a file to a connection: from `at`, which moves, or from the file's own position.
pub(crate) fn copy_file(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    input: c_int,
    at: &mut Option<i64>,
    count: usize,
) -> Answer<ssize_t> {
    if !matches!(object.kind(), Kind::Stream | Kind::Memory) {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if at.is_some_and(|at| at < 0) {
        return fail(libc::EINVAL);
    }
    let mut call = Call::begin(runtime, object, fd, 0);
    let mut buffer = vec![0u8; count.min(FILE_PIECE)];
    let mut total = 0usize;
    while total < count {
        let want = (count - total).min(buffer.len());
        let os = &runtime.os;
        let position = at.map_or_else(|| os.position(input), Ok);
        let got = match position.and_then(|position| os.read_at(input, &mut buffer[..want], position)) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if total > 0 => break,
            Err(libc::ESPIPE) => return fail(libc::EINVAL),
            Err(errno) => return fail(errno),
        };
        let bytes = message::piece(buffer.as_ptr().cast(), got);
        let mut data = message::unfilled(&bytes);
        let sent = match call.send(&mut data) {
            Ok(sent) => sent,
            Err(_) if total > 0 => break,
            Err(stop) => return Err(stop),
        };
        total += sent as usize;
        match at {
            Some(at) => *at += sent as i64,
            None => drop(os.move_by(input, sent as i64)),
        }
        if (sent as usize) < got {
            break;
        }
    }
    Ok(total as ssize_t)
}
