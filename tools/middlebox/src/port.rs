//! One side of the box: an AF_PACKET socket on an interface (packet(7)). Receives and sends whole Ethernet frames in
//! batches.
//!
//! PACKET_VNET_HDR makes the kernel say what it left to hardware (see segment.rs); the transmit socket is another
//! one, bound to no protocol, so that it receives nothing, and past the qdisc.

use crate::segment::Offload;
use std::ffi::CString;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Frames received by one system call.
pub(crate) const BATCH_IN: usize = 32;
/// Frames sent by one system call: below the 256 entries of a veth peer's ring.
pub(crate) const BATCH_OUT: usize = 64;

/// One interface.
pub(crate) struct Port {
    receiver: OwnedFd,
    sender: OwnedFd,
    buffers: Vec<u8>,
    lengths: [usize; BATCH_IN],
    /// Frames that this machine could not take or pass on in time: not from the seed, a run with some is slower
    /// than it says.
    pub(crate) overrun: u64,
}

impl Port {
    /// Opens `interface` of the current network namespace.
    pub(crate) fn open(interface: &str) -> Result<Port> {
        let name = CString::new(interface)?;
        // SAFETY: `name` is a C string for the time of the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(Error::last_os_error());
        }
        let receiver = socket()?;
        let on: libc::c_int = 1;
        set(&receiver, libc::SOL_PACKET, PACKET_VNET_HDR, &on)?;
        set(&receiver, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on)?;
        let size: libc::c_int = 64 << 20;
        set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size)?;
        bind(&receiver, index, libc::ETH_P_ALL as u16)?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&receiver, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        let sender = socket()?;
        set(&sender, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &on)?;
        set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &size)?;
        bind(&sender, index, 0)?;
        Ok(Port {
            receiver,
            sender,
            buffers: vec![0; BATCH_IN * FRAME_MAX],
            lengths: [0; BATCH_IN],
            overrun: 0,
        })
    }

    /// What poll(2) waits on for frames.
    pub(crate) fn fd(&self) -> i32 {
        self.receiver.as_raw_fd()
    }

    /// Receives up to `BATCH_IN` frames; they are read with `frame`.
    pub(crate) fn receive(&mut self) -> Result<usize> {
        let mut vectors: [libc::iovec; BATCH_IN] = std::array::from_fn(|i| libc::iovec {
            iov_base: self.buffers[i * FRAME_MAX..].as_mut_ptr().cast(),
            iov_len: FRAME_MAX,
        });
        let mut messages: [libc::mmsghdr; BATCH_IN] = std::array::from_fn(|i| message(&mut vectors[i]));
        // SAFETY: each message names one vector, each vector its own FRAME_MAX bytes of `buffers`; all outlive the
        // call.
        let count = unsafe {
            libc::recvmmsg(
                self.fd(),
                messages.as_mut_ptr(),
                BATCH_IN as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(0),
                // The interface went down for a moment; it is the owner's affair.
                Some(libc::ENETDOWN) => Ok(0),
                _ => Err(error),
            };
        }
        for (length, message) in self.lengths.iter_mut().zip(&messages[..count as usize]) {
            *length = message.msg_len as usize;
        }
        Ok(count as usize)
    }

    /// Frame `i` of the last `receive`, with what the kernel says about it.
    pub(crate) fn frame(&mut self, i: usize) -> Option<(Offload, &mut [u8])> {
        let whole = &mut self.buffers[i * FRAME_MAX..i * FRAME_MAX + self.lengths[i]];
        let offload = Offload::read(whole)?;
        Some((offload, &mut whole[Offload::SIZE..]))
    }

    /// Sends frames, at most `BATCH_OUT`.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) {
        assert!(frames.len() <= BATCH_OUT);
        let mut vectors = [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; BATCH_OUT];
        for (vector, frame) in vectors.iter_mut().zip(frames) {
            *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        }
        let mut messages: [libc::mmsghdr; BATCH_OUT] = std::array::from_fn(|i| message(&mut vectors[i]));
        let mut done = 0;
        while done < frames.len() {
            let rest = &mut messages[done..frames.len()];
            // SAFETY: each message names one vector and each vector one frame, which sendmmsg only reads.
            let sent = unsafe {
                libc::sendmmsg(
                    self.sender.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            if sent > 0 {
                done += sent as usize;
            } else {
                // The interface is full, down, or has a smaller MTU: a wire would lose it too.
                self.overrun += 1;
                done += 1;
            }
        }
    }

    /// Adds what the kernel dropped because we were slow.
    pub(crate) fn count_overrun(&mut self) {
        let mut stats = [0u32; 2];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: PACKET_STATISTICS writes struct tpacket_stats, two u32.
        let rc = unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &mut len,
            )
        };
        if rc == 0 {
            self.overrun += u64::from(stats[1]);
        }
    }
}

fn socket() -> Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address and its true size.
    let rc = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
    };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: the value and its true size.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (value as *const T).cast(), size_of::<T>() as u32)
    };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn message(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all-zero bytes are a valid mmsghdr: no name, no control.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = vector;
    message.msg_hdr.msg_iovlen = 1;
    message
}

/// The largest super-frame (64 KiB) with its Ethernet header and the kernel's word about it.
const FRAME_MAX: usize = 65536 + 64;
const PACKET_STATISTICS: i32 = 6;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_IGNORE_OUTGOING: i32 = 23;
