//! The engine's side: frames in, frames out, virtual time. The calls are answered as the socket layer answers them.

use crate::world::{Answer, HOST, HOST_PORT, PEER, PEER_PORT, STATES, Tolerance, World};
use stack::tcp::{Close, Congestion, MtuProbes, Options, Push, State, Take};
use stack::testing::{Host, VecOutlet, mac_of};
use stack::{Endpoint, Instant, Ready, SocketError, SocketId};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::ethernet;

/// See the module's page.
pub struct Engine {
    host: Host,
    now: Instant,
    sockets: HashMap<String, Socket>,
    sent: VecDeque<(Duration, Vec<u8>)>,
}

struct Socket {
    /// Before connect or listen: none.
    id: Option<SocketId>,
    options: Options,
    linger_zero: bool,
    /// Bytes sent so far, which say what the next ones are.
    written: u32,
}

impl Engine {
    /// A host with these `set` lines.
    pub fn new(settings: &[(String, String)]) -> Result<Engine, String> {
        let mut failed = None;
        let host = Host::with(HOST.octets()[3], |config| {
            for (name, value) in settings {
                if let Err(why) = set(config, name, value) {
                    failed = Some(why);
                }
            }
        });
        match failed {
            Some(why) => Err(why),
            // The clock of a host that was up for a while: at zero much looks as if it never happened.
            None => Ok(Engine { host, now: Instant(EPOCH), sockets: HashMap::new(), sent: VecDeque::new() }),
        }
    }

    /// Answers what the engine asks and takes what it sent.
    fn catch_up(&mut self) {
        self.host.answer(self.now);
        self.host.stack.flush(self.now, &mut self.host.out);
        while self.host.stack.take_event().is_some() {}
        let now = self.elapsed();
        while let Some(frame) = self.host.out.frames.pop_front() {
            self.sent.push_back((now, frame[ethernet::HEADER_LEN..].to_vec()));
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now.0 - EPOCH)
    }

    fn fresh(&mut self, name: &str) {
        let options = stack::testing::tcp_settings().options;
        let socket = Socket { id: None, options, linger_zero: false, written: 0 };
        self.sockets.entry(name.to_owned()).or_insert(socket);
    }

    fn connect(&mut self, name: &str, port: u16) -> Answer {
        self.fresh(name);
        let (local, remote) = (Endpoint::new(HOST, HOST_PORT), Endpoint::new(PEER, port));
        let (stack, out) = (&mut self.host.stack, &mut self.host.out);
        let Some(socket) = self.sockets.get_mut(name) else { return Answer::Errno(libc::EBADF) };
        match stack.tcp_connect(self.now, local, remote, &socket.options, 0, out) {
            Ok(id) => {
                socket.id = Some(id);
                Answer::Errno(libc::EINPROGRESS)
            }
            Err(why) => Answer::Errno(why.errno()),
        }
    }

    fn listen(&mut self, name: &str, backlog: u32) -> Answer {
        self.fresh(name);
        let Some(socket) = self.sockets.get_mut(name) else { return Answer::Errno(libc::EBADF) };
        if let Some(id) = socket.id {
            self.host.stack.tcp_set_backlog(id, backlog);
            return Answer::Number(0);
        }
        let local = Endpoint::new(HOST, HOST_PORT);
        socket.id = self.host.stack.tcp_listen(local, backlog, &socket.options, 0).ok();
        Answer::Number(0)
    }

    fn accept(&mut self, listener: SocketId, name: &str) -> Answer {
        let Some(id) = self.host.stack.tcp_accept(listener) else { return Answer::Errno(libc::EAGAIN) };
        self.fresh(name);
        if let Some(socket) = self.sockets.get_mut(name) {
            socket.id = Some(id);
        }
        Answer::Number(0)
    }

    fn option(&mut self, name: &str, option: &str, value: &str) -> Result<Answer, String> {
        self.fresh(name);
        let Some(socket) = self.sockets.get_mut(name) else { return Ok(Answer::Errno(libc::EBADF)) };
        if option == "linger" {
            socket.linger_zero = value == "0";
            return Ok(Answer::Number(0));
        }
        let (id, now, out) = (socket.id, self.now, &mut self.host.out);
        configure(&mut socket.options, option, value)?;
        if let Some(id) = id {
            let change = |options: &mut Options| _ = configure(options, option, value);
            self.host.stack.tcp_configure(now, id, change, out);
            if option == "nodelay" && value != "0" {
                self.host.stack.tcp_push(now, id, out);
            }
        }
        Ok(Answer::Number(0))
    }

    fn on_socket(&mut self, name: &str, call: &str, words: &[&str]) -> Result<Answer, String> {
        let socket = self.sockets.get_mut(name).ok_or_else(|| format!("no socket {name}"))?;
        let id = socket.id.ok_or_else(|| format!("{name} is neither connected nor listening"))?;
        let (stack, out, now) = (&mut self.host.stack, &mut self.host.out, self.now);
        let bytes = words.first().and_then(|word| word.parse().ok()).unwrap_or(0);
        Ok(match call {
            "accept" => return Ok(self.accept(id, words.first().ok_or("accept L C")?)),
            "send" => {
                let data: Vec<u8> =
                    (0..bytes).map(|i| crate::packet::content(socket.written + i + 1)).collect();
                let answer = stack.tcp_send(now, id, &mut &data[..], push(words), out);
                socket.written += *answer.as_ref().unwrap_or(&0) as u32;
                answer.map_or_else(|why| Answer::Errno(why.errno()), |n| Answer::Number(n as i64))
            }
            "recv" => {
                let mut room = vec![0; bytes as usize];
                match stack.tcp_recv(now, id, &mut &mut room[..], take(words), out) {
                    Ok(n) => Answer::Number(n as i64),
                    Err(why) => Answer::Errno(why.errno()),
                }
            }
            "shutdown" => shutdown(stack, now, id, words, out)?,
            "close" => {
                let how = if socket.linger_zero { Close::Abort } else { Close::Orderly };
                stack.tcp_close(now, id, how, out);
                self.sockets.remove(name);
                Answer::Number(0)
            }
            "error" => Answer::Errno(stack.take_error(id).map_or(0, SocketError::errno)),
            "poll" => Answer::Words(readiness(stack.ready(id))),
            "state" => Answer::Words(state(stack.tcp_state(id)).into()),
            "atmark" => Answer::Number(i64::from(stack.tcp_at_mark(id))),
            "inq" => Answer::Number(stack.tcp_queued(id).unwrap_or_default().receive as i64),
            "outq" => Answer::Number(stack.tcp_queued(id).unwrap_or_default().send as i64),
            "ato" => Answer::Number(stack.tcp_info(now, id).unwrap_or_default().ato.as_millis() as i64),
            "mss" => Answer::Number(stack.tcp_info(now, id).unwrap_or_default().snd_mss.into()),
            "info" => {
                let info = stack.tcp_info(now, id).unwrap_or_default();
                let halves = |span: Duration| (span.as_millis() as i64 + 250) / 500;
                Answer::Number(match words {
                    ["ca_state"] => info.ca_state.into(),
                    ["last_data_recv"] => halves(info.last_data_recv),
                    ["snd_ssthresh"] => info.snd_ssthresh.map_or(i64::from(i32::MAX), i64::from),
                    ["reordering"] => info.reordering.into(),
                    ["busy_time"] => halves(info.busy_time),
                    ["rwnd_limited"] => halves(info.rwnd_limited),
                    ["sndbuf_limited"] => halves(info.sndbuf_limited),
                    ["total_rto"] => info.total_rto.into(),
                    _ => return Err(format!("info {words:?}: unknown")),
                })
            }
            _ => return Err(format!("no call {call}")),
        })
    }
}

impl World for Engine {
    fn now(&mut self) -> Duration {
        self.elapsed()
    }

    fn inject(&mut self, packet: &[u8]) {
        let ether = ethernet::Header::ipv4(mac_of(HOST), mac_of(PEER));
        self.host.receive(self.now, [&ether[..], packet].concat());
        self.catch_up();
    }

    fn next(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)> {
        let until = Instant(EPOCH) + until;
        loop {
            if let Some(packet) = self.sent.pop_front() {
                return Some(packet);
            }
            match self.host.stack.next_timer() {
                Some(due) if due <= until => {
                    self.now = due.max(self.now);
                    self.host.stack.on_time(self.now, &mut self.host.out);
                    self.catch_up();
                }
                _ => {
                    self.now = until.max(self.now);
                    return None;
                }
            }
        }
    }

    fn call(&mut self, words: &[&str]) -> Result<Answer, String> {
        let [call, name, rest @ ..] = words else { return Err("call CALL SOCKET".into()) };
        let port = rest.first().and_then(|word| word.parse().ok());
        let answer = match *call {
            "socket" => {
                self.fresh(name);
                Ok(Answer::Number(0))
            }
            "connect" => Ok(self.connect(name, port.unwrap_or(PEER_PORT))),
            "listen" => Ok(self.listen(name, u32::from(port.unwrap_or(5)))),
            "option" => match rest {
                [option, value] => self.option(name, option, value),
                _ => Err("option C NAME VALUE".into()),
            },
            _ => self.on_socket(name, call, rest),
        };
        self.catch_up();
        answer
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance { at_once: Duration::from_millis(1), late: 1.0, late_by: Duration::ZERO, early: 1.0 }
    }
}

fn set(config: &mut stack::Config, name: &str, value: &str) -> Result<(), String> {
    let number: u32 = value.parse().map_err(|_| format!("set {name} {value}: not a number"))?;
    let tcp = &mut config.tcp;
    match name {
        "mtu" => config.mtu = number,
        "timestamps" => tcp.timestamps = number != 0,
        "sack" => tcp.sack = number != 0,
        "window_scaling" => tcp.window_scaling = number != 0,
        "syn_retries" => tcp.syn_retries = number as u8,
        "synack_retries" => tcp.synack_retries = number as u8,
        "retries2" => tcp.retries2 = number as u8,
        "orphan_retries" => tcp.orphan_retries = number as u8,
        "mtu_probing" => {
            tcp.mtu_probing.when = match number {
                0 => MtuProbes::Never,
                1 => MtuProbes::AfterBlackHole,
                _ => MtuProbes::Always,
            };
        }
        "fin_timeout" => tcp.fin_timeout = Duration::from_secs(number.into()),
        // The engine always allows it, as Linux does with tcp_tw_reuse = 1.
        "tw_reuse" => {}
        _ => return Err(format!("set {name}: unknown")),
    }
    Ok(())
}

fn configure(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let number = || value.parse::<u32>().map_err(|_| format!("option {name} {value}: not a number"));
    let seconds = || Ok::<_, String>(Duration::from_secs(number()?.into()));
    match name {
        "nodelay" => options.nodelay = number()? != 0,
        "cork" => options.cork = number()? != 0,
        "quickack" => options.quickack = number()? != 0,
        "keepalive" => options.keepalive = number()? != 0,
        "keepidle" => options.keepalive_idle = seconds()?,
        "keepintvl" => options.keepalive_interval = seconds()?,
        "keepcnt" => options.keepalive_count = number()? as u8,
        "user_timeout" => options.user_timeout = Duration::from_millis(number()?.into()),
        "maxseg" => options.mss_max = number()? as u16,
        "syncnt" => options.syn_retries = number()? as u8,
        "linger2" => options.set_linger2(value.parse().map_err(|_| "linger2: a number")?),
        "window_clamp" => options.window_clamp = number()?,
        "notsent_lowat" => options.not_sent_low_water = number()?,
        "rcvbuf" => options.receive_buffer = Some(number()?),
        "sndbuf" => options.send_buffer = Some(number()?),
        "rcvlowat" => options.receive_low_water = number()?,
        "oobinline" => options.urgent_inline = number()? != 0,
        "congestion" => {
            options.congestion = match value {
                "cubic" => Congestion::Cubic,
                "reno" => Congestion::NewReno,
                _ => return Err(format!("congestion {value}: cubic, reno")),
            }
        }
        _ => return Err(format!("option {name}: unknown")),
    }
    Ok(())
}

fn push(words: &[&str]) -> Push {
    match () {
        _ if words.contains(&"oob") => Push::Urgent,
        _ if words.contains(&"more") => Push::More,
        _ if words.contains(&"eor") => Push::Record,
        _ => Push::Now,
    }
}

fn take(words: &[&str]) -> Take {
    match () {
        _ if words.contains(&"oob") && words.contains(&"peek") => Take::PeekUrgent,
        _ if words.contains(&"oob") => Take::Urgent,
        _ if words.contains(&"peek") => Take::Peek(0),
        _ if words.contains(&"trunc") => Take::Discard,
        _ => Take::Consume,
    }
}

fn shutdown(
    stack: &mut stack::Stack<stack::testing::VecFrame>,
    now: Instant,
    id: SocketId,
    words: &[&str],
    out: &mut VecOutlet,
) -> Result<Answer, String> {
    let (read, write) = match words {
        ["rd"] => (true, false),
        ["wr"] => (false, true),
        ["rdwr"] => (true, true),
        _ => return Err("shutdown C rd|wr|rdwr".into()),
    };
    // As the socket layer does.
    if matches!(stack.tcp_state(id), None | Some(State::Closed)) {
        return Ok(Answer::Errno(libc::ENOTCONN));
    }
    if read && let Err(why) = stack.tcp_shutdown_read(now, id) {
        return Ok(Answer::Errno(why.errno()));
    }
    if write && let Err(why) = stack.tcp_shutdown_write(now, id, out) {
        return Ok(Answer::Errno(why.errno()));
    }
    Ok(Answer::Number(0))
}

fn readiness(ready: Ready) -> String {
    let names = [
        (Ready::IN, "in"),
        (Ready::PRI, "pri"),
        (Ready::OUT, "out"),
        (Ready::RDHUP, "rdhup"),
        (Ready::ERR, "err"),
        (Ready::HUP, "hup"),
    ];
    let set: Vec<&str> = names.iter().filter(|(bit, _)| ready.has(*bit)).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".into() } else { set.join(" ") }
}

fn state(state: Option<State>) -> &'static str {
    STATES[usize::from(state.unwrap_or(State::Closed).number()) - 1]
}

/// When the engine's time begins, ns.
const EPOCH: u64 = 1_000_000_000_000;
