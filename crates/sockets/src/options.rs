//! Socket options: each is set on the kernel's shadow first, which judges it, and then takes effect here where it has a
//! meaning for an accelerated socket, as the table says. Most are read back from the shadow.

mod table;
mod value;

use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::expel::expel;
use crate::extra;
use crate::family::FAMILY;
use crate::lane::Tx;
use crate::message::word_of;
use crate::object::{Kind, Object, Pin, in_flight};
use crate::runtime::Runtime;
use crate::udp::ancillary;
use crate::udp_legs;
use crate::{memory, message, offload, tcp, tcp_info};
use core::sync::atomic::Ordering;
use core::time::Duration;
use libc::{c_int, c_void, socklen_t};
use stack::Instant;
use stack::tcp::{Congestion, Options};
use stats::Verdict;
use std::sync::Arc;
use sys::linux::TCP_NOTSENT_LOWAT;
use table::{Get, SO_BINDTOIFINDEX, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, Set};
use value::{accepted, congestion, low_water, pacing_rate, span_of, window_clamp};

/// Why the kernel keeps a connection that has such an option.
const KERNELS: Verdict = Verdict::OptionOfTheKernel;

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
    if extra::is_option(level, name) {
        // SAFETY: the caller's promise.
        let bytes = (!value.is_null())
            .then(|| unsafe { core::slice::from_raw_parts(value.cast::<u8>(), len as usize) });
        return extra::set(runtime, object, fd, name, bytes);
    }
    if table::find(level, name).is_some_and(|row| row.set == Set::Refused)
        && first_word(value, len).is_some_and(|word| word != 0)
    {
        // Switching it off is always possible.
        return fail(libc::EOPNOTSUPP);
    }
    if object.kind() == Kind::Stream && tcp::is_open(object) && stamps_sends(level, name, value, len) {
        // The shadow would refuse to number the bytes of no connection.
        only_kernel(runtime, object, level, name)?;
        return Err(Stop::Kernel(Why::Unsupported));
    }
    object.shadow_changed.store(true, Ordering::Relaxed);
    // SAFETY: the application's pointer, passed on.
    let genuine = || unsafe { (runtime.os.setsockopt)(fd, level, name, value, len) };
    runtime.os.answer(in_flight::standing_there(object, genuine) as isize)?;
    // SAFETY: the kernel has accepted the value.
    let bytes = unsafe { accepted(level, name, value, len) };
    let word = value::taken(fd, level, name).or_else(|| word_of(bytes));
    let group_option = level == libc::IPPROTO_IP && udp_legs::multicast::is_option(name);
    let Some(row) = table::find(level, name) else {
        if group_option && object.kind() == Kind::Udp {
            udp_legs::multicast::set(runtime, object, fd, name, bytes);
            return Ok(0);
        }
        return unsupported(runtime, object, level, name);
    };
    if row.inherited {
        remember(object, level, name, bytes);
    }
    match row.set {
        Set::Shadow | Set::Refused => note_sharing(runtime, object, level, name, word),
        Set::Layer if group_option => {
            if object.kind() == Kind::Udp {
                udp_legs::multicast::set(runtime, object, fd, name, bytes);
            }
        }
        Set::Layer => return set_layer(runtime, object, fd, level, name, word, bytes),
        Set::Kernel if bytes.iter().any(|byte| *byte != 0) => {
            return unsupported(runtime, object, level, name);
        }
        Set::Kernel => {}
        Set::Engine => match object.kind() {
            Kind::Udp => set_udp(runtime, object, level, name, word),
            Kind::TcpIdle | Kind::Listener | Kind::Stream => {
                set_tcp(runtime, object, level, name, word, bytes)
            }
            Kind::Carried | Kind::Moving | Kind::Memory if name == libc::SO_RCVLOWAT => {
                object.receive_low_water.store(low_water(word.unwrap_or(0)), Ordering::Relaxed);
            }
            _ => {}
        },
    }
    Ok(0)
}

/// What parameters set on a new socket: the kernel's socket says and does the same, and so do those that are accepted
/// by it.
pub(crate) fn begin(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let (level, name, value): (c_int, c_int, c_int) = if object.kind() == Kind::Udp {
        if runtime.parameters.tx_mc_loopback {
            return;
        }
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
    } else {
        if !runtime.parameters.tcp_nodelay {
            return;
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
    };
    let size = size_of_val(&value) as socklen_t;
    // SAFETY: a local of the stated size.
    unsafe { (runtime.os.setsockopt)(fd, level, name, (&raw const value).cast(), size) };
    remember(object, level, name, &value.to_ne_bytes());
}

/// An option that only the kernel can give, or that is not in the table: it was set on the shadow, and the socket is
/// the kernel's from now on, unless VMA_EXCEPTION_HANDLING says to make something else of that.
#[cold]
fn unsupported(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
) -> Answer<c_int> {
    use config::ExceptionHandling::*;
    let fd = object.fd.load(Ordering::Relaxed);
    let how = runtime.parameters.exception_handling;
    let what = format_args!("setsockopt level {level} name {name} (fd {fd}): only the kernel can do it");
    match how {
        Exit | Debug => logger::debug!("{what}"),
        UnOffloadDebug => {
            // The user said how loud it is to be told.
            let _ = runtime.tell_now(Why::Unsupported);
            logger::debug!("{what}");
        }
        UnOffloadError | ReturnError | Abort => {
            logger::error!("{what}, and VMA_EXCEPTION_HANDLING is {}", how.number());
        }
    }
    match how {
        Exit | Debug | UnOffloadDebug | UnOffloadError => only_kernel(runtime, object, level, name),
        ReturnError => fail(libc::EINVAL),
        Abort => {
            sys::process::signal_self(libc::SIGABRT);
            Ok(0)
        }
    }
}

/// What the option asks for only the kernel can do: the socket is left to it, and a connection moves there. Fails with
/// EOPNOTSUPP where a connection cannot move (without CAP_NET_ADMIN): a guard that does not hold must not seem to.
#[cold]
fn only_kernel(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
) -> Answer<c_int> {
    let _pin = match object.kind() {
        Kind::Udp | Kind::TcpIdle | Kind::Listener => match Pin::known(object) {
            Some(pin) => Some(pin),
            None => return Ok(0),
        },
        _ => None,
    };
    match object.kind() {
        Kind::Udp => udp_legs::detach(object),
        Kind::TcpIdle | Kind::Listener => tcp::detach(object),
        Kind::Stream if !tcp::is_open(object) => return Ok(0),
        Kind::Stream => {
            let moves = !runtime.parameters.strict;
            if moves && FAMILY.to_kernel(runtime, object, Why::Unsupported) {
                return Ok(0);
            }
            let fd = object.fd.load(Ordering::Relaxed);
            logger::warning!(
                "setsockopt level {level} name {name} on a connection (fd {fd}): refused, since only the kernel can do it \
                 and the connection {}; set it before connect or listen",
                if moves { "cannot move there" } else { "may not move there (SIDESTEP_STRICT)" }
            );
            return fail(libc::EOPNOTSUPP);
        }
        Kind::Carried | Kind::Moving => {
            in_flight::stays(object, KERNELS);
            return Ok(0);
        }
        Kind::Memory => {
            memory::leave(runtime, object, Why::Unsupported.text());
            return Ok(0);
        }
        Kind::Free | Kind::Inherited | Kind::Lent => return Ok(0),
    }
    match offload::fall_back(runtime, object, Why::Unsupported, "setsockopt") {
        Err(Stop::Kernel(_)) => Ok(0),
        other => other,
    }
}

/// Options of the socket layer itself.
fn set_layer(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    level: c_int,
    name: c_int,
    word: Option<c_int>,
    bytes: &[u8],
) -> Answer<c_int> {
    let is_udp = object.kind() == Kind::Udp;
    let on = word.unwrap_or(0) != 0;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
            object.receive_timeout.store(span_of(bytes), Ordering::Relaxed);
        }
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
            object.send_timeout.store(span_of(bytes), Ordering::Relaxed);
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => set_linger(object, bytes),
        (libc::SOL_SOCKET, libc::SO_PEEK_OFF) => {
            object.peek.set(word.unwrap_or(-1));
            if object.room().is_some() {
                let _ = expel(runtime, object, Why::Unsupported);
            }
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => match object.kind() {
            Kind::TcpIdle | Kind::Listener | Kind::Stream => {
                set_tcp(runtime, object, level, name, word, bytes);
            }
            // Datagrams are paced by the queueing discipline fq, which only the kernel's pass.
            Kind::Udp | Kind::Memory if pacing_rate(bytes) != 0 => {
                return unsupported(runtime, object, level, name);
            }
            _ => {}
        },
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX) => {
            return set_device(runtime, object, fd, level, name);
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) if is_udp && on => {
            return only_kernel(runtime, object, level, name);
        }
        (libc::SOL_SOCKET, _)
            if ancillary::is_timestamping(name) && ancillary::is_of_sends(word.unwrap_or(0)) =>
        {
            return only_kernel(runtime, object, level, name);
        }
        (libc::SOL_SOCKET, _)
            if is_udp && let Some((set, of)) = ancillary::timestamps(name, word.unwrap_or(0)) =>
        {
            object.ancillary.fetch_and(!of, Ordering::Relaxed);
            object.ancillary.fetch_or(set, Ordering::Relaxed);
        }
        _ if is_udp => set_bit(object, ancillary::of_option(level, name), on),
        _ => {}
    }
    Ok(0)
}

fn set_bit(object: &Object, bit: u32, on: bool) {
    if on {
        object.ancillary.fetch_or(bit, Ordering::Relaxed);
    } else {
        object.ancillary.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// SO_REUSEADDR and SO_REUSEPORT: the shadow obeys; we must know that flows may be shared.
fn note_sharing(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
    word: Option<c_int>,
) {
    let bit = ancillary::of_option(level, name);
    if bit != 0 && word.unwrap_or(0) != 0 {
        object.ancillary.fetch_or(bit, Ordering::Relaxed);
        if object.kind() == Kind::Udp
            && let Some(pin) = Pin::known(object)
        {
            udp_legs::gets_company(runtime, &pin);
        }
    }
}

/// SO_BINDTODEVICE. A socket that stands on other lanes already is the kernel's from now on.
fn set_device(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    level: c_int,
    name: c_int,
) -> Answer<c_int> {
    let mut link = 0u32;
    let mut len = size_of_val(&link) as socklen_t;
    // SAFETY: locals of the stated size.
    let result = unsafe {
        (runtime.os.getsockopt)(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX, (&raw mut link).cast(), &raw mut len)
    };
    if result != 0 {
        return only_kernel(runtime, object, level, name);
    }
    object.device.store(link, Ordering::Relaxed);
    object.last_route.store(0, Ordering::Relaxed);
    if object.legs().any(|(lane, _)| offload::on_device(object, lane).is_err()) {
        return only_kernel(runtime, object, level, name);
    }
    Ok(0)
}

/// Whether an option asks that what is sent be stamped.
fn stamps_sends(level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> bool {
    level == libc::SOL_SOCKET
        && ancillary::is_timestamping(name)
        && first_word(value, len).is_some_and(ancillary::is_of_sends)
}

/// An option's value that the kernel has not seen yet, where it is at least an int.
fn first_word(value: *const c_void, len: socklen_t) -> Option<c_int> {
    let is_there = len as usize >= size_of::<c_int>() && message::plausible(value.cast::<c_int>(), 1);
    // SAFETY: the application's value, at least an int.
    is_there.then(|| unsafe { value.cast::<c_int>().read_unaligned() })
}

fn remember(object: &Object, level: c_int, name: c_int, bytes: &[u8]) {
    if object.kind() != Kind::Udp {
        let mut control = object.control.lock();
        let inherited = Arc::make_mut(control.inherited.get_or_insert_default());
        inherited.retain(|(l, n, _)| (*l, *n) != (level, name));
        inherited.push((level, name, bytes.to_vec()));
    }
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
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            options.receive_buffer = (value.max(0) as u32).max(runtime.parameters.rx_bytes_min);
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
    udp_legs::configure(runtime, object, change);
}

fn ttl(runtime: &Runtime, value: c_int) -> u8 {
    if value < 0 { runtime.tcp_settings().options.ttl } else { value as u8 }
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
            options.receive_buffer = Some(value.max(0) as u32 / 2);
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            options.send_buffer = Some(value.max(0) as u32 / 2);
        }
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => options.receive_low_water = low_water(value),
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => options.max_pacing_rate = pacing_rate(bytes),
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
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => options.syn_retries = value as u8,
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => options.set_linger2(value),
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) => options.window_clamp = window_clamp(value),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => options.mss_max = value as u16,
        (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => {
            let by_sysctl = runtime.tcp_settings().options.not_sent_low_water;
            options.not_sent_low_water = if value == 0 { by_sysctl } else { value as u32 };
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => options.congestion = congestion(bytes),
        _ => {}
    };
    {
        let mut control = object.control.lock();
        change(control.tcp.get_or_insert_with(|| Box::new(runtime.tcp_settings().options.clone())));
    }
    if (level, name) == (libc::SOL_SOCKET, libc::SO_RCVLOWAT) {
        object.receive_low_water.store(low_water(value), Ordering::Relaxed);
    }
    let now = Instant(sys::clock::now());
    for (lane, id) in object.legs() {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        inner.stack.tcp_configure(now, id, change, &mut Tx(&mut inner.device));
        if (level, name, on) == (libc::IPPROTO_TCP, libc::TCP_NODELAY, true) {
            inner.stack.tcp_push(now, id, &mut Tx(&mut inner.device));
        }
        inner.flush(now);
        lane.note(inner, now.0);
    }
}

/// getsockopt(2), where the shadow cannot tell.
///
/// # Safety
/// `len` is valid and `value` has `*len` bytes, or they are null.
pub(crate) unsafe fn get(
    runtime: &'static Runtime,
    object: &'static Object,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    if extra::is_option(level, name) {
        // SAFETY: the application's pointers.
        return unsafe { extra::get(object, name, value, len) };
    }
    let from_kernel = Err(Stop::Kernel(Why::NotOurs));
    let can_be = message::plausible(value, 1) && message::is_room(len, 1);
    if can_be
        && (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEADDR)
        && let Some(asked) = tcp::reuse_asked(object)
    {
        // SAFETY: the application's pointers.
        return unsafe { put(&asked.to_ne_bytes(), value, len) };
    }
    if !can_be || table::find(level, name).is_none_or(|row| row.get == Get::Shadow) {
        return from_kernel;
    }
    // SAFETY: the application's pointers.
    let mut put = |bytes: &[u8]| unsafe { put(bytes, value, len) };
    tell(runtime, object, (level, name), &mut put)
}

/// Gives `put` what an engine knows about an option of a socket.
fn tell(
    runtime: &'static Runtime,
    object: &'static Object,
    option: (c_int, c_int),
    put: &mut dyn FnMut(&[u8]) -> Answer<c_int>,
) -> Answer<c_int> {
    let from_kernel = Err(Stop::Kernel(Why::NotOurs));
    match option {
        // A socket that is the kernel's still, or again, is told by the kernel.
        (libc::SOL_SOCKET, libc::SO_PEEK_OFF) if object.leg().is_some() => {
            put(&object.peek.get().to_ne_bytes())
        }
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            if let Some(error) = memory::take_error(runtime, object) {
                return put(&error.to_ne_bytes());
            }
            let Some(error) = pending(object) else {
                return if object.kind() == Kind::Stream { put(&0i32.to_ne_bytes()) } else { from_kernel };
            };
            put(&error.to_ne_bytes())
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) if object.kind() == Kind::Stream => {
            let Some((_, mut inner, id)) = object.engine() else { return from_kernel };
            let now = Instant(sys::clock::now());
            inner.take_in(now.0);
            let (Some(info), Some(state)) = (inner.stack.tcp_info(now, id), inner.stack.tcp_state(id)) else {
                return from_kernel;
            };
            put(&tcp_info::bytes(&info, state))
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) if object.kind() == Kind::Memory => {
            let Some(state) = memory::tcp_state(runtime, object) else { return from_kernel };
            let mut info = [0; tcp_info::LEN];
            let fd = object.fd.load(Ordering::Relaxed);
            let length = sys::socket::option_bytes(fd, option.0, option.1, &mut info).map_err(Stop::Errno)?;
            info[0] = state;
            put(&info[..length])
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) if object.kind() == Kind::Stream => {
            let control = object.control.lock();
            let mut used = [0u8; 16];
            let name: &[u8] =
                match control.tcp.as_deref().unwrap_or(&runtime.tcp_settings().options).congestion {
                    Congestion::Cubic => b"cubic",
                    Congestion::NewReno => b"reno",
                    Congestion::None => b"none",
                };
            used[..name.len()].copy_from_slice(name);
            put(&used)
        }
        (libc::IPPROTO_IP, libc::IP_MTU) if object.kind() == Kind::Stream => {
            let Some((_, inner, id)) = object.engine() else { return from_kernel };
            let Some(info) = inner.stack.tcp_info(Instant(sys::clock::now()), id) else {
                return from_kernel;
            };
            put(&info.pmtu.to_ne_bytes())
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if object.kind() == Kind::Stream => {
            let Some((_, inner, id)) = object.engine() else { return from_kernel };
            let Some(info) = inner.stack.tcp_info(Instant(sys::clock::now()), id) else {
                return from_kernel;
            };
            put(&info.snd_mss.to_ne_bytes())
        }
        _ => from_kernel,
    }
}

/// Takes the pending error of any leg.
fn pending(object: &Object) -> Option<c_int> {
    for (lane, id) in object.legs() {
        let error = {
            let mut inner = lane.lock();
            inner.take_in(sys::clock::now());
            inner.stack.take_error(id)
        };
        if let Some(error) = error {
            object.control.lock().connecting = false;
            return Some(error.errno());
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
    message::check_room(value.cast::<u8>(), copied)?;
    // SAFETY: `value` has `room` bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), copied);
        len.write_unaligned(copied as socklen_t);
    }
    Ok(0)
}
