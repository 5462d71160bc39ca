//! `middlebox`: a wire with faults between two interfaces. options.rs holds the manual, link.rs what happens to frames.

mod chance;
mod link;
mod options;
mod port;
mod report;
mod segment;

use link::Link;
use options::Options;
use port::{BATCH_OUT, Port};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|word| word == "--version" || word == "-V") {
        println!("middlebox {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("middlebox: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("middlebox: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, String> {
    let open = |name: &str| {
        Port::open(name).map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM) => format!("{name}: {e}; AF_PACKET needs CAP_NET_RAW (run it as root)"),
            Some(libc::ENODEV) => format!("{name}: no such interface in this network namespace"),
            _ => format!("{name}: {e}"),
        })
    };
    let mut ports = [open(&options.left)?, open(&options.right)?];
    let [forth, back] = options.faults.clone();
    let mut links = [Link::new(forth, options.seed, 0), Link::new(back, options.seed, 1)];
    let waiting = signals();
    eprintln!("middlebox: ready");
    let began = now();
    let end = if options.seconds == 0 { u64::MAX } else { began + options.seconds * 1_000_000_000 };
    let mut not_understood = [0u64; 2];
    let mut scratch = Vec::with_capacity(2048);
    while !ASKED_TO_END.load(Ordering::Relaxed) && now() < end {
        for side in 0..2 {
            let received = ports[side].receive().map_err(|e| format!("receiving failed: {e}"))?;
            let at = now();
            for i in 0..received {
                let link = &mut links[side];
                let understood = ports[side].frame(i).is_some_and(|(offload, frame)| {
                    segment::to_wire(offload, frame, &mut scratch, |packet| link.enter(at, packet))
                });
                not_understood[side] += u64::from(!understood);
            }
            deliver(&mut links[side], &mut ports[1 - side]);
        }
        wait(&ports, &links, end, &waiting);
    }
    ports.iter_mut().for_each(Port::count_overrun);
    let seconds = (now() - began) as f64 / 1e9;
    Ok(report::render(options, seconds, &ports, &links, &not_understood))
}

/// Sends what is due, and what would be due before a wait could end.
fn deliver(link: &mut Link, to: &mut Port) {
    loop {
        let until = now() + EARLY_NS;
        let mut slots = [0usize; BATCH_OUT];
        let mut count = 0;
        while count < BATCH_OUT {
            let Some(slot) = link.leave(until) else { break };
            slots[count] = slot;
            count += 1;
        }
        let mut frames: [&[u8]; BATCH_OUT] = [&[]; BATCH_OUT];
        for (frame, slot) in frames.iter_mut().zip(&slots[..count]) {
            *frame = link.bytes(*slot);
        }
        to.send(&frames[..count]);
        slots[..count].iter().for_each(|slot| link.release(*slot));
        if count < BATCH_OUT {
            return;
        }
    }
}

/// Sleeps until a frame arrives, one is due, or a signal comes.
fn wait(ports: &[Port; 2], links: &[Link; 2], end: u64, signals: &libc::sigset_t) {
    let due = links.iter().filter_map(Link::next_due).min().unwrap_or(u64::MAX);
    let due = due.saturating_sub(EARLY_NS).min(end);
    let span = due.saturating_sub(now()).min(1_000_000_000);
    let timeout =
        libc::timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
    let mut fds = [0, 1].map(|i| libc::pollfd { fd: ports[i].fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: two pollfds, a timespec and a signal set, all living for the call.
    unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &timeout, signals) };
}

/// Blocks SIGTERM and SIGINT except inside `wait`, so that none is missed; answers the mask to wait with.
fn signals() -> libc::sigset_t {
    // SAFETY: plain libc calls on local values; the handler only stores to an atomic.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut blocked);
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let handler: extern "C" fn(libc::c_int) = on_signal;
            libc::signal(signal, handler as libc::sighandler_t);
            libc::sigaddset(&mut blocked, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &blocked, &mut before);
        // Without it a wait may end 50 us late.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        before
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    ASKED_TO_END.store(true, Ordering::Relaxed);
}

/// CLOCK_MONOTONIC, nanoseconds.
fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

static ASKED_TO_END: AtomicBool = AtomicBool::new(false);
/// Frames due within this time leave together: a wake-up costs more than the error is worth.
const EARLY_NS: u64 = 20_000;
