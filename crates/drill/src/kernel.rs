//! The kernel's side: a network namespace of its own for each script, whose only device is a TUN on which the peer is
//! played, and real system calls. The namespace has no name and ends with the thread that plays in it.

use crate::world::{Answer, HOST, HOST_PORT, INFO, PEER, PEER_PORT, STATES, Tolerance, World};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// See the module's page.
pub struct Kernel {
    tun: OwnedFd,
    sockets: HashMap<String, Socket>,
    began: Instant,
    tolerance: Tolerance,
}

/// struct tcp_info.
#[repr(C)]
struct Info([u8; 280]);

impl Default for Info {
    fn default() -> Info {
        Info([0; 280])
    }
}

struct Socket {
    fd: OwnedFd,
    written: u32,
}

/// Runs `work` in a thread with a namespace of its own.
pub fn inside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: unshare takes flags only; it concerns this thread, which ends with `work`.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Kernel {
    /// The world of the calling thread's namespace. `patience` is 0 at first; more bears a busier machine.
    pub fn new(settings: &[(String, String)], patience: u32) -> io::Result<Kernel> {
        let mut mtu = 1500;
        for (name, value) in DEFAULTS {
            // What a kernel does not know cannot be set otherwise either.
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        for (name, value) in settings {
            match name.as_str() {
                "mtu" => mtu = value.parse().map_err(io::Error::other)?,
                _ => std::fs::write(format!("/proc/sys/net/ipv4/tcp_{name}"), value)?,
            }
        }
        let tun = open_tun(mtu)?;
        let factor = f64::from(1 << (2 * patience));
        let tolerance = Tolerance {
            at_once: Duration::from_millis(15).mul_f64(factor),
            late: 1.3,
            late_by: Duration::from_millis(20).mul_f64(factor),
            early: 0.8,
        };
        Ok(Kernel { tun, sockets: HashMap::new(), began: Instant::now(), tolerance })
    }

    fn fresh(&mut self, name: &str) -> io::Result<()> {
        if self.sockets.contains_key(name) {
            return Ok(());
        }
        let fd = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
        // The default here may be another, BBR for one.
        set_bytes(&fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"cubic")?;
        let address = sockaddr(HOST, HOST_PORT);
        // SAFETY: a live address of the length that is told.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), SOCKADDR_LEN) })?;
        self.sockets.insert(name.to_owned(), Socket { fd, written: 0 });
        Ok(())
    }

    fn fd(&self, name: &str) -> Result<i32, String> {
        self.sockets.get(name).map(|socket| socket.fd.as_raw_fd()).ok_or_else(|| format!("no socket {name}"))
    }

    fn accept(&mut self, name: &str, words: &[&str]) -> Result<Answer, String> {
        let new = words.first().ok_or("accept L C")?;
        let none = std::ptr::null_mut();
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(self.fd(name)?, none, none.cast(), libc::SOCK_NONBLOCK) };
        if fd < 0 {
            return Ok(answer(-1));
        }
        // SAFETY: accept4 just made it; nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        self.sockets.insert((*new).to_owned(), Socket { fd, written: 0 });
        Ok(Answer::Number(0))
    }

    fn send(&mut self, name: &str, words: &[&str]) -> Result<Answer, String> {
        let fd = self.fd(name)?;
        let Some(socket) = self.sockets.get_mut(name) else { return Err("no socket".into()) };
        let len: u32 = bytes(words)?;
        let data: Vec<u8> = (0..len).map(|i| crate::packet::content(socket.written + i + 1)).collect();
        let mut flags = libc::MSG_NOSIGNAL;
        for (word, flag) in [("more", libc::MSG_MORE), ("oob", libc::MSG_OOB), ("eor", libc::MSG_EOR)] {
            if words.contains(&word) {
                flags |= flag;
            }
        }
        // SAFETY: a live buffer of the length that is told.
        let sent = unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) };
        socket.written += sent.max(0) as u32;
        Ok(answer(sent as i64))
    }

    fn recv(&self, name: &str, words: &[&str]) -> Result<Answer, String> {
        let mut room = vec![0u8; bytes(words)? as usize];
        let mut flags = 0;
        for (word, flag) in [("peek", libc::MSG_PEEK), ("oob", libc::MSG_OOB), ("trunc", libc::MSG_TRUNC)] {
            if words.contains(&word) {
                flags |= flag;
            }
        }
        // SAFETY: a live buffer of the length that is told.
        Ok(answer(unsafe { libc::recv(self.fd(name)?, room.as_mut_ptr().cast(), room.len(), flags) } as i64))
    }

    fn option(&mut self, name: &str, words: &[&str]) -> Result<Answer, String> {
        let [option, value] = words else { return Err("option C NAME VALUE".into()) };
        self.fresh(name).map_err(|error| error.to_string())?;
        let Some(socket) = self.sockets.get(name) else { return Err("no socket".into()) };
        if *option == "congestion" {
            let set = set_bytes(&socket.fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value.as_bytes());
            return Ok(set.map_or_else(|_| answer(-1), |()| Answer::Number(0)));
        }
        let number: i32 = value.parse().map_err(|_| format!("{value}: not a number"))?;
        if *option == "linger" {
            let linger = libc::linger { l_onoff: 1, l_linger: number };
            let set = set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
            return Ok(set.map_or_else(|_| answer(-1), |()| Answer::Number(0)));
        }
        let known = OPTIONS.iter().find(|(known, ..)| known == option);
        let (_, level, which) = known.ok_or_else(|| format!("option {option}: unknown"))?;
        let set = set_option(&socket.fd, *level, *which, &number);
        Ok(set.map_or_else(|_| answer(-1), |()| Answer::Number(0)))
    }

    fn ask(&self, call: &str, name: &str, words: &[&str]) -> Result<Answer, String> {
        let fd = self.fd(name)?;
        if call == "info" {
            let known = INFO.iter().find(|(known, ..)| words == [*known]);
            let (_, at, len, unit) = known.ok_or_else(|| format!("info {words:?}: unknown"))?;
            let info = get_option::<Info>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default();
            let mut value = [0; 8];
            value[..*len].copy_from_slice(&info.0[*at..at + len]);
            return Ok(Answer::Number(((u64::from_ne_bytes(value) + unit / 2) / unit) as i64));
        }
        let integer = |level, option| get_option::<i32>(fd, level, option).unwrap_or(-1);
        let ioctl = |request| {
            let mut value = 0i32;
            // SAFETY: these requests write one int.
            let outcome = unsafe { libc::ioctl(fd, request, &raw mut value) };
            if outcome < 0 { answer(-1) } else { Answer::Number(value.into()) }
        };
        Ok(match call {
            "error" => Answer::Errno(integer(libc::SOL_SOCKET, libc::SO_ERROR)),
            "mss" => Answer::Number(integer(libc::IPPROTO_TCP, libc::TCP_MAXSEG).into()),
            "poll" => Answer::Words(poll(fd)),
            "state" => {
                let info: [u8; 8] = get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default();
                let number = usize::from(info[0]).wrapping_sub(1);
                Answer::Words((*STATES.get(number).unwrap_or(&"no state")).into())
            }
            "ato" => {
                let info: [u8; 16] = get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or_default();
                let micros = u32::from_ne_bytes([info[12], info[13], info[14], info[15]]);
                Answer::Number(i64::from(micros / 1000))
            }
            "atmark" => ioctl(SIOCATMARK),
            "inq" => ioctl(libc::FIONREAD),
            "outq" => ioctl(libc::TIOCOUTQ),
            _ => return Err(format!("no call {call}")),
        })
    }
}

impl World for Kernel {
    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn inject(&mut self, packet: &[u8]) {
        // SAFETY: a live buffer of the length that is told.
        let written = unsafe { libc::write(self.tun.as_raw_fd(), packet.as_ptr().cast(), packet.len()) };
        assert_eq!(written, packet.len() as isize, "TUN: {}", io::Error::last_os_error());
    }

    fn next(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)> {
        let mut packet = vec![0u8; 65_536];
        loop {
            // SAFETY: a live buffer of the length that is told.
            let n = unsafe { libc::read(self.tun.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len()) };
            if n > 0 {
                packet.truncate(n as usize);
                return Some((self.now(), packet));
            }
            let left = until.checked_sub(self.now()).filter(|left| !left.is_zero())?;
            let timeout =
                libc::timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut entry = libc::pollfd { fd: self.tun.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live entry, a live span of time, no signal mask.
            unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
        }
    }

    fn call(&mut self, words: &[&str]) -> Result<Answer, String> {
        let [call, name, rest @ ..] = words else { return Err("call CALL SOCKET".into()) };
        let number = rest.first().and_then(|word| word.parse::<i32>().ok());
        match *call {
            "socket" | "connect" | "listen" => self.fresh(name).map_err(|error| error.to_string())?,
            _ => {}
        }
        match *call {
            "socket" => Ok(Answer::Number(0)),
            "connect" => {
                let address = sockaddr(PEER, number.map_or(PEER_PORT, |port| port as u16));
                // SAFETY: a live address of the length that is told.
                let outcome =
                    unsafe { libc::connect(self.fd(name)?, (&raw const address).cast(), SOCKADDR_LEN) };
                Ok(answer(outcome.into()))
            }
            // SAFETY: listen and shutdown take numbers.
            "listen" => Ok(answer(unsafe { libc::listen(self.fd(name)?, number.unwrap_or(5)) }.into())),
            "accept" => self.accept(name, rest),
            "send" => self.send(name, rest),
            "recv" => self.recv(name, rest),
            "shutdown" => {
                let how = match rest {
                    ["rd"] => libc::SHUT_RD,
                    ["wr"] => libc::SHUT_WR,
                    ["rdwr"] => libc::SHUT_RDWR,
                    _ => return Err("shutdown C rd|wr|rdwr".into()),
                };
                // SAFETY: as above.
                Ok(answer(unsafe { libc::shutdown(self.fd(name)?, how) }.into()))
            }
            "close" => {
                let closed = self.sockets.remove(*name);
                closed.map(|_| Answer::Number(0)).ok_or_else(|| format!("no socket {name}"))
            }
            "option" => self.option(name, rest),
            _ => self.ask(call, name, rest),
        }
    }

    fn tolerance(&self) -> Tolerance {
        self.tolerance
    }
}

/// Makes the namespace's only device, with the host's address.
fn open_tun(mtu: i32) -> io::Result<OwnedFd> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let control = socket(libc::SOCK_DGRAM)?;
    let request = |fd: &dyn AsRawFd, code, change: &dyn Fn(&mut libc::ifreq)| {
        // SAFETY: ifreq is plain data, for which zeros are valid; the name stays terminated.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (slot, byte) in request.ifr_name.iter_mut().zip(b"confo") {
            *slot = *byte as libc::c_char;
        }
        change(&mut request);
        // SAFETY: these requests read and write one ifreq.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), code, &raw mut request) })
    };
    request(&file, TUNSETIFF, &|r| r.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16)?;
    let address = |address: Ipv4Addr| {
        move |r: &mut libc::ifreq| {
            // SAFETY: both are 16 bytes of plain data.
            r.ifr_ifru.ifru_addr =
                unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(sockaddr(address, 0)) };
        }
    };
    request(&control, libc::SIOCSIFADDR, &address(HOST))?;
    request(&control, libc::SIOCSIFNETMASK, &address(Ipv4Addr::new(255, 255, 255, 0)))?;
    request(&control, libc::SIOCSIFMTU, &|r| r.ifr_ifru.ifru_mtu = mtu)?;
    request(&control, libc::SIOCSIFFLAGS, &|r| {
        r.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16
    })?;
    Ok(file.into())
}

fn socket(kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket takes numbers; the descriptor is new and nobody else's.
    unsafe {
        let fd = libc::socket(libc::AF_INET, kind | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn sockaddr(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    }
}

fn set_option<T>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: a live value of the length that is told.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), len) })
}

fn set_bytes(fd: &OwnedFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let (pointer, len) = (value.as_ptr().cast(), value.len() as u32);
    // SAFETY: a live value of the length that is told.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, len) })
}

fn get_option<T: Default>(fd: i32, level: i32, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes `len` bytes at most; T is an integer or an array of them.
    check(unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

fn poll(fd: i32) -> String {
    let names = [
        (libc::POLLIN, "in"),
        (libc::POLLPRI, "pri"),
        (libc::POLLOUT, "out"),
        (libc::POLLRDHUP, "rdhup"),
        (libc::POLLERR, "err"),
        (libc::POLLHUP, "hup"),
    ];
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLPRI | libc::POLLOUT | libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one live entry.
    unsafe { libc::poll(&raw mut entry, 1, 0) };
    let set: Vec<&str> =
        names.iter().filter(|(bit, _)| entry.revents & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".into() } else { set.join(" ") }
}

fn bytes(words: &[&str]) -> Result<u32, String> {
    words.first().and_then(|word| word.parse().ok()).ok_or_else(|| "a number of bytes is missing".into())
}

fn answer(outcome: i64) -> Answer {
    if outcome >= 0 {
        return Answer::Number(outcome);
    }
    Answer::Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn check(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const SOCKADDR_LEN: u32 = size_of::<libc::sockaddr_in>() as u32;
/// linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// asm-generic/sockios.h.
const SIOCATMARK: libc::Ioctl = 0x8905;
/// linux/tcp.h.
const TCP_NOTSENT_LOWAT: i32 = 25;

const OPTIONS: [(&str, i32, i32); 17] = [
    ("nodelay", libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ("cork", libc::IPPROTO_TCP, libc::TCP_CORK),
    ("quickack", libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    ("keepalive", libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    ("keepidle", libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    ("keepintvl", libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    ("keepcnt", libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    ("user_timeout", libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    ("maxseg", libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    ("syncnt", libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    ("linger2", libc::IPPROTO_TCP, libc::TCP_LINGER2),
    ("window_clamp", libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    ("notsent_lowat", libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT),
    ("rcvbuf", libc::SOL_SOCKET, libc::SO_RCVBUF),
    ("sndbuf", libc::SOL_SOCKET, libc::SO_SNDBUF),
    ("rcvlowat", libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    ("oobinline", libc::SOL_SOCKET, libc::SO_OOBINLINE),
];

/// What the engine's side assumes, whatever this machine was set to.
const DEFAULTS: [(&str, &str); 15] = [
    ("tcp_congestion_control", "cubic"),
    ("tcp_rmem", "4096 131072 6291456"),
    ("tcp_wmem", "4096 16384 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_sack", "1"),
    ("tcp_window_scaling", "1"),
    ("tcp_syn_retries", "6"),
    ("tcp_synack_retries", "5"),
    ("tcp_retries2", "15"),
    ("tcp_orphan_retries", "0"),
    ("tcp_fin_timeout", "60"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_ecn", "2"),
    ("tcp_mtu_probing", "0"),
    ("tcp_base_mss", "1024"),
];
