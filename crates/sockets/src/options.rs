//! Socket options: each is set on the kernel's shadow first, which judges it, and then takes effect here where it has a
//! meaning for an accelerated socket. Most are read back from the shadow.

use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::{fail, of_socket};
use crate::lane::Tx;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::{tcp_info, udp};
use core::sync::atomic::Ordering;
use core::time::Duration;
use libc::{c_int, c_void, socklen_t};
use stack::Instant;
use stack::tcp::{Congestion, Options};

/// TCP_* that the libc crate does not name for every target.
const TCP_NOTSENT_LOWAT: c_int = 25;

/// Options that accepted sockets have from their listener, as in Linux: replayed on the shadows of accepted sockets so
/// that getsockopt tells the same.
const INHERITED: [(c_int, c_int); 21] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_TTL),
];

/// setsockopt(2).
///
/// # Safety
/// `value` has `len` bytes.
pub(crate) unsafe fn set(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Answer<c_int> {
    // SAFETY: the application's pointer, passed on.
    if unsafe { (runtime.os.setsockopt)(fd, level, name, value, len) } != 0 {
        return fail(runtime.os.errno());
    }
    // SAFETY: the kernel read `len` bytes there.
    let bytes = unsafe {
        core::slice::from_raw_parts(value.cast::<u8>(), if value.is_null() { 0 } else { len as usize })
    };
    remember(object, level, name, bytes);
    let word = bytes.first_chunk::<4>().map(|four| c_int::from_ne_bytes(*four));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => {
            object.receive_timeout.store(span_of(bytes), Ordering::Relaxed)
        }
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => object.send_timeout.store(span_of(bytes), Ordering::Relaxed),
        (libc::SOL_SOCKET, libc::SO_LINGER) => set_linger(object, bytes),
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_ADD_SOURCE_MEMBERSHIP) => {
            counts::member(object.counts(), bytes, true);
            // Switches take a while to learn of a join; programs may want it done when the call returns.
            match u64::from(runtime.parameters.wait_after_join_msec) {
                0 => {}
                msec => sys::thread::sleep(msec * 1_000_000),
            }
        }
        (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP) => counts::member(object.counts(), bytes, false),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) => {
            counts::loops(object.counts(), bytes.first().is_some_and(|byte| *byte != 0));
        }
        _ => match object.kind() {
            Kind::Udp => set_udp(runtime, object, level, name, word),
            Kind::TcpIdle | Kind::Listener | Kind::Stream => {
                set_tcp(runtime, object, level, name, word, bytes)
            }
            Kind::Free | Kind::Inherited => {}
        },
    }
    Ok(0)
}

fn remember(object: &Object, level: c_int, name: c_int, bytes: &[u8]) {
    if object.kind() != Kind::Udp && INHERITED.contains(&(level, name)) {
        let mut control = object.control.lock();
        control.inherited.retain(|(l, n, _)| (*l, *n) != (level, name));
        control.inherited.push((level, name, bytes.to_vec()));
    }
}

/// A struct timeval as nanoseconds; 0: none.
fn span_of(bytes: &[u8]) -> u64 {
    let word =
        |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, i64::from_ne_bytes);
    let (seconds, micros) = (word(0).max(0) as u64, word(8).max(0) as u64);
    seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000)
}

fn set_linger(object: &Object, bytes: &[u8]) {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes);
    object.control.lock().linger = (word(0) != 0).then(|| word(4).max(0) as u32);
}

fn set_udp(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
    word: Option<c_int>,
) {
    use stack::udp::MtuDiscover;
    let Some(value) = word else { return };
    let change = |options: &mut stack::udp::Options| match (level, name) {
        // Linux doubles what it is asked, for its overhead.
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            options.receive_buffer =
                (value.max(0) as u32).saturating_mul(2).max(runtime.parameters.rx_bytes_min);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) => options.tos = value as u8,
        (libc::IPPROTO_IP, libc::IP_TTL) => options.ttl = ttl(runtime, value),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) => {
            options.multicast_ttl = if value < 0 { 1 } else { value as u8 }
        }
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) => {
            options.mtu_discover = match value {
                libc::IP_PMTUDISC_DONT => MtuDiscover::Dont,
                libc::IP_PMTUDISC_DO => MtuDiscover::Do,
                libc::IP_PMTUDISC_PROBE => MtuDiscover::Probe,
                _ => MtuDiscover::Want,
            };
        }
        _ => {}
    };
    {
        let mut control = object.control.lock();
        change(control.udp.get_or_insert_with(|| Box::new(udp::default_options(runtime))));
    }
    for (lane, id) in object.legs() {
        lane.lock().stack.udp_configure(id, change);
    }
}

fn ttl(runtime: &Runtime, value: c_int) -> u8 {
    if value < 0 { runtime.tcp_settings.options.ttl } else { value as u8 }
}

fn set_tcp(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
    word: Option<c_int>,
    bytes: &[u8],
) {
    let value = word.unwrap_or(0);
    let on = value != 0;
    let seconds = Duration::from_secs(value.max(0) as u64);
    let change = |options: &mut Options| match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keepalive = on,
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.urgent_inline = on,
        // Payload bytes: the engine does not charge the overhead for which Linux doubles the number.
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            options.receive_buffer = Some((value.max(0) as u32).max(1152));
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            options.send_buffer = Some((value.max(0) as u32).max(2304));
        }
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => options.receive_low_water = value.max(1) as u32,
        (libc::IPPROTO_IP, libc::IP_TOS) => options.tos = value as u8,
        (libc::IPPROTO_IP, libc::IP_TTL) => options.ttl = ttl(runtime, value),
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) => options.discover_mtu = value != libc::IP_PMTUDISC_DONT,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.nodelay = on,
        (libc::IPPROTO_TCP, libc::TCP_CORK) => options.cork = on,
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => options.quickack = on,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keepalive_idle = seconds,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => options.keepalive_interval = seconds,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => options.keepalive_count = value as u8,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            options.user_timeout = Duration::from_millis(value.max(0) as u64);
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => options.mss_max = value as u16,
        (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => options.not_sent_low_water = value as u32,
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            // Others that the kernel knows (bbr, ...) are not had here: the nearest is the default.
            options.congestion = match bytes.split(|byte| *byte == 0).next() {
                Some(b"reno") => Congestion::NewReno,
                _ => Congestion::Cubic,
            };
        }
        _ => {}
    };
    {
        let mut control = object.control.lock();
        change(control.tcp.get_or_insert_with(|| Box::new(runtime.tcp_settings.options.clone())));
    }
    let now = Instant(sys::clock::now());
    for (lane, id) in object.legs() {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        inner.stack.tcp_configure(now, id, change, &mut Tx(&mut inner.device));
        inner.hand_over(now);
        lane.note(inner, now.0);
    }
}

/// getsockopt(2), where the shadow cannot tell.
///
/// # Safety
/// `len` is valid and `value` has `*len` bytes, or they are null.
pub(crate) unsafe fn get(
    object: &'static Object,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let from_kernel = Err(Stop::Kernel(Why::NotOurs));
    if value.is_null() || len.is_null() {
        return from_kernel;
    }
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let Some(error) = pending(object) else {
                return if object.kind() == Kind::Stream {
                    // SAFETY: the application's pointers.
                    unsafe { put(&0i32.to_ne_bytes(), value, len) }
                } else {
                    from_kernel
                };
            };
            // SAFETY: as above.
            unsafe { put(&error.to_ne_bytes(), value, len) }
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) if object.kind() == Kind::Stream => {
            let Some((lane, id)) = object.leg() else { return from_kernel };
            let inner = lane.lock();
            let now = Instant(sys::clock::now());
            let (Some(info), Some(state)) = (inner.stack.tcp_info(now, id), inner.stack.tcp_state(id)) else {
                return from_kernel;
            };
            // SAFETY: as above.
            unsafe { put(&tcp_info::bytes(&info, state), value, len) }
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if object.kind() == Kind::Stream => {
            let Some((lane, id)) = object.leg() else { return from_kernel };
            let Some(info) = lane.lock().stack.tcp_info(Instant(sys::clock::now()), id) else {
                return from_kernel;
            };
            // SAFETY: as above.
            unsafe { put(&info.snd_mss.to_ne_bytes(), value, len) }
        }
        _ => from_kernel,
    }
}

/// Takes the pending error of any leg.
fn pending(object: &Object) -> Option<c_int> {
    for (lane, id) in object.legs() {
        if let Some(error) = lane.lock().stack.take_error(id) {
            object.control.lock().connecting = false;
            return Some(of_socket(error));
        }
    }
    None
}

/// Writes an option's value: as much as the application has room for.
unsafe fn put(bytes: &[u8], value: *mut c_void, len: *mut socklen_t) -> Answer<c_int> {
    // SAFETY: valid by the caller's contract.
    let room = unsafe { len.read_unaligned() };
    if (room as i32) < 0 {
        return fail(libc::EINVAL);
    }
    let copied = bytes.len().min(room as usize);
    // SAFETY: `value` has `room` bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), copied);
        len.write_unaligned(copied as socklen_t);
    }
    Ok(0)
}
