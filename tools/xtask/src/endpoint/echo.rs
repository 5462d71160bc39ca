//! An epoll echo server for any number of connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};

use rig::{Context, Result};

use super::{Epoll, NO_EVENT, check};

/// Serves until killed, in `processes` processes: one has no more connections than it may have descriptors.
pub(super) fn serve(address: SocketAddrV4, processes: usize) -> Result<()> {
    const LISTENER: u64 = u64::MAX;
    let listener = TcpListener::bind(address).context(address)?;
    listener.set_nonblocking(true).context("O_NONBLOCK")?;
    for _ in 1..processes {
        // SAFETY: this process has one thread of its own, so the child may go on as it does.
        if check(unsafe { libc::fork() }).context("fork")? == 0 {
            // SAFETY: takes values.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            break;
        }
    }
    let epoll = Epoll::new().context("epoll")?;
    epoll.add(&listener, libc::EPOLLIN, LISTENER).context("epoll_ctl")?;
    // Before the first client, so that the growth of this program's own table is not taken for its sockets' memory.
    let mut streams: Vec<Option<TcpStream>> = Vec::with_capacity(1 << 17);
    let mut free = Vec::with_capacity(1 << 17);
    streams.resize_with(1 << 17, || None);
    free.extend((0..1 << 17).rev());
    let (mut buffer, mut events) = (vec![0; 65_536], [NO_EVENT; 256]);
    println!("ready");
    loop {
        for word in epoll.wait(&mut events, -1).context("epoll_wait")? {
            if word == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    let Some(slot) = free.pop() else { continue };
                    stream.set_nonblocking(true).context("O_NONBLOCK")?;
                    epoll.add(&stream, libc::EPOLLIN, slot as u64).context("epoll_ctl")?;
                    streams[slot] = Some(stream);
                }
            } else if let Some(stream) = &mut streams[word as usize]
                && !echo(stream, &mut buffer)
            {
                streams[word as usize] = None;
                free.push(word as usize);
            }
        }
    }
}

/// Answers what is there; `false`: the connection is over.
fn echo(stream: &mut TcpStream, buffer: &mut [u8]) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        Ok(count) => stream.write_all(&buffer[..count]).is_ok(),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
