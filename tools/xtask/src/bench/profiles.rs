//! `cargo x bench profiles`: what each profile of VMA_SPEC is for, by the program that it is named after: on the
//! kernel, accelerated without and with the profile, interleaved. Settings may be given as well, and are tried in place
//! of the profiles' own.

use std::path::Path;
use std::time::{Duration, Instant};

use rig::apps::{App, Ends};
use rig::{Context, Error, Options, Program, Protocol, Result, TwoHosts};
use serde_json::{Value, json};

use super::connections::cpu;
use super::syn_flood::word_after;
use super::{Plan, median, save};
use crate::progress::Progress;
use crate::table::{Table, thousands};

const PORT: u16 = 11111;
const GRACE: Duration = rig::PATIENCE;

/// What a profile is tried on.
struct Row {
    profile: &'static str,
    load: Load,
}

enum Load {
    /// A program of the table, by its rate.
    App(&'static str),
    /// sockperf's ping-pong with so many sockets and threads of the server: the median, in nanoseconds. Threads that
    /// poll have a core each.
    PingPong(u16),
    /// redis that is asked every three milliseconds by a client of the kernel's: the median, in nanoseconds.
    Sparse,
    /// Five thousand datagrams of 1400 bytes while the program computes: how many it finds afterwards.
    Burst,
    /// 500 datagrams a second to a server that sleeps between them: its CPU in microseconds a second.
    Cpu,
    /// The same server's memory in KiB, that of packets included.
    Memory,
}

const ROWS: &[Row] = &[
    Row { profile: "latency", load: Load::PingPong(1) },
    Row { profile: "multi_ring_latency", load: Load::PingPong(2) },
    Row { profile: "mcd", load: Load::App("memcached-4") },
    Row { profile: "memcached", load: Load::App("memcached-4") },
    Row { profile: "redis", load: Load::Sparse },
    Row { profile: "redis", load: Load::App("redis-50") },
    Row { profile: "nginx", load: Load::App("nginx-keepalive") },
    Row { profile: "nginx", load: Load::App("nginx-file") },
    Row { profile: "postgres", load: Load::App("postgresql") },
    Row { profile: "throughput", load: Load::Burst },
    Row { profile: "throughput", load: Load::App("iperf3-8") },
    Row { profile: "frugal", load: Load::Cpu },
    Row { profile: "frugal", load: Load::Memory },
];

/// How the server runs. The client is accelerated where the server is, without a profile.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Kernel,
    Plain,
    Profile,
}

const WAYS: [Way; 3] = [Way::Kernel, Way::Plain, Way::Profile];

/// `names`: of profiles, all if there are none; and settings.
pub(super) fn run(plan: &Plan, names: &[String]) -> Result<()> {
    let (settings, profiles): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.contains('='));
    let is_known = |name: &str| ROWS.iter().any(|row| row.profile == name);
    if let Some(name) = profiles.iter().find(|name| !is_known(name)) {
        return Err(Error::new(format!("no measurement of a profile {name:?}")));
    }
    let chosen: Vec<&Row> = ROWS
        .iter()
        .filter(|row| profiles.is_empty() || profiles.iter().any(|name| *name == row.profile))
        .collect();
    let mut table = Table::new(&["", "kernel", "without", "with", "with : without", "with : kernel"]);
    let mut all = Vec::new();
    let mut progress = Progress::new(chosen.len() * plan.rounds as usize * WAYS.len());
    for row in chosen {
        let app = match row.load {
            Load::App(name) => App::by_name(name),
            _ => None,
        };
        if let Some(missing) = app.and_then(|app| app.install().err()) {
            eprintln!("{} is left out: {missing}", row.profile);
            continue;
        }
        let environment = environment(row.profile, &settings);
        let mut rounds = [Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=plan.rounds {
            for (way, of_way) in WAYS.into_iter().zip(&mut rounds) {
                progress.step(&format!("{}, round {round}", row.title()));
                of_way.push(row.measure(plan, way, &environment)?);
            }
        }
        let middle = rounds.each_ref().map(|of_way| median(of_way.iter().copied()));
        let shown = |value: f64| thousands(value as u64);
        let [kernel, without, with] = middle;
        let mut cells = vec![row.title(), shown(kernel), shown(without), shown(with)];
        cells.extend([with / without, with / kernel].map(|ratio| format!("{ratio:.2}")));
        table.row(cells);
        all.push(as_json(row, &rounds));
    }
    drop(progress);
    println!(
        "Medians of {} interleaved rounds of {} s. The profile is the server's; its client is accelerated without one,\n\
         but for `throughput`, `frugal` and a request each 3 ms, where it is the kernel's.\n",
        plan.rounds, plan.seconds
    );
    table.print();
    save("profiles", &Value::Array(all))
}

/// The variables that make a profile: its own, or the settings that are tried in their place.
fn environment(profile: &str, settings: &[&String]) -> Vec<(String, String)> {
    if settings.is_empty() {
        let spec = config::Spec::from_text(profile).into_iter();
        let of_profile = spec.flat_map(config::profile::settings);
        let given = of_profile.map(|(name, value)| (name.to_owned(), value.to_owned()));
        return given.chain([("VMA_SPEC".to_owned(), profile.to_owned())]).collect();
    }
    let pairs = settings.iter().filter_map(|setting| setting.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Row {
    fn title(&self) -> String {
        let what = match self.load {
            Load::App(name) => {
                let unit = App::by_name(name).map_or("", |app| app.unit);
                format!("{name}, {unit}")
            }
            Load::PingPong(1) => "TCP ping-pong, ns".to_owned(),
            Load::PingPong(count) => format!("ping-pong, {count} threads, ns"),
            Load::Sparse => "a request each 3 ms, ns".to_owned(),
            Load::Burst => "of a burst of 5000 datagrams".to_owned(),
            Load::Cpu => "500 datagrams a second, µs of CPU a second".to_owned(),
            Load::Memory => "memory of the process, KiB".to_owned(),
        };
        format!("{}: {what}", self.profile)
    }

    fn measure(&self, plan: &Plan, way: Way, environment: &[(String, String)]) -> Result<f64> {
        let accelerated = way != Way::Kernel;
        let environment = if way == Way::Profile { environment } else { &[] };
        let hosts = rig::two_hosts(&Options::default())?;
        let ends = Ends {
            library: &plan.library,
            // Bulk from clients that are faster than the library is what this one is for.
            client: accelerated && self.profile != "throughput",
            server: accelerated,
            strict: false,
            environment,
            everywhere: &[],
        };
        match self.load {
            Load::App(name) => {
                let app = App::by_name(name).ok_or_else(|| Error::new(format!("no program {name}")))?;
                app.run(&hosts, ends, plan.seconds).map(|(figures, _)| figures.rate)
            }
            Load::PingPong(sockets) => ping_pong(&hosts, &ends, sockets, plan.seconds),
            Load::Burst => burst(&hosts, &ends),
            Load::Sparse => sparse(&hosts, &ends, plan.seconds),
            Load::Cpu | Load::Memory => quiet(&hosts, &ends, &self.load, plan.seconds),
        }
    }
}

/// A program on the right host, with the profile.
fn server(hosts: &TwoHosts, ends: &Ends<'_>, name: &str) -> Program {
    let library = ends.server.then_some(ends.library);
    let mut program = hosts.right.program(name).preload(library).may_fall_back();
    program = program.environment("SIDESTEP_CARRIER", "auto");
    for (name, value) in ends.environment {
        program = program.environment(name, value);
    }
    program
}

fn ping_pong(hosts: &TwoHosts, ends: &Ends<'_>, sockets: u16, seconds: u32) -> Result<f64> {
    let address = hosts.right.address;
    let feed = Feed::new(address, sockets)?;
    let place = feed.0.display();
    let several = sockets > 1;
    let threads = if several { format!(" --threads-num {sockets}") } else { String::new() };
    let server = server(hosts, ends, "sockperf").words(&format!("server -f {place} -F e{threads}"));
    let mut server = if several { server.any_cpu() } else { server }.start()?;
    server.wait_for_port(Protocol::Tcp, PORT + sockets - 1, GRACE)?;
    let words = format!("ping-pong -f {place} -F e -t {}", seconds + 1);
    // On two cores there is none left for a client that polls, too.
    let library = (ends.client && !several).then_some(ends.library);
    let client = hosts.left.program("sockperf").words(&words).preload(library).may_fall_back();
    let said = client.run(Duration::from_secs(seconds.into()) + GRACE)?.success()?.stdout;
    let _ = server.signal(libc::SIGINT);
    server.finish(GRACE)?;
    let line = said.lines().find(|line| line.contains("percentile 50.000")).unwrap_or_default();
    let median = line.split('=').nth(1).and_then(|text| text.trim().parse::<f64>().ok());
    median.map(|us| us * 1e3).ok_or_else(|| Error::new(format!("no median in:\n{said}")))
}

/// Asks every three milliseconds, for so many seconds; prints the median of the answers' times.
const ASK: &str = "\
import socket,sys,time
sock = socket.create_connection((sys.argv[1], 6379))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(0.003)
    begun = time.monotonic_ns()
    sock.sendall(b'PING\\r\\n')
    assert sock.recv(100) == b'+PONG\\r\\n'
    times.append(time.monotonic_ns() - begun)
print(sorted(times)[len(times) // 2])
";

fn sparse(hosts: &TwoHosts, ends: &Ends<'_>, seconds: u32) -> Result<f64> {
    let address = hosts.right.address;
    let words = format!("--bind {address} --port 6379 --protected-mode no --appendonly no --save");
    let mut server = server(hosts, ends, "redis-server").words(&words).argument("").start()?;
    server.wait_for_port(Protocol::Tcp, 6379, GRACE)?;
    let client =
        hosts.left.program("/usr/bin/python3").words("-c").argument(ASK).argument(address.to_string());
    let said = client.argument(seconds.to_string()).run(Duration::from_secs(seconds.into()) + GRACE)?;
    server.kill()?;
    let said = said.success()?.stdout;
    said.trim().parse().map_err(|_| Error::new(format!("no median in {said:?}")))
}

/// Reads a thousand datagrams, which move it to the wire, computes for a second, and counts what waits then.
const COMPUTES: &str = "\
import socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], 11111))
print('ready', flush=True)
sock.recv(2000)
sock.settimeout(0.3)
try:
    while sock.recv(2000):
        pass
except TimeoutError:
    print('warm', flush=True)
time.sleep(1)
kept = 0
try:
    while sock.recv(2000):
        kept += 1
except TimeoutError:
    print('kept', kept)
";

/// Sends so many datagrams, so many seconds apart.
const SENDS: &str = "\
import socket,sys,time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[2])):
    sock.sendto(bytes(1400), (sys.argv[1], 11111))
    if len(sys.argv) > 3:
        time.sleep(0.001)
";

fn burst(hosts: &TwoHosts, ends: &Ends<'_>) -> Result<f64> {
    let address = hosts.right.address.to_string();
    let program =
        server(hosts, ends, "/usr/bin/python3").words("-u -c").argument(COMPUTES).argument(&address);
    let mut server = program.start()?;
    server.wait_for_output("ready", GRACE)?;
    let sends = hosts.left.program("/usr/bin/python3").words("-c").argument(SENDS).argument(&address);
    sends.clone().words("1000 slowly").run(GRACE)?.success()?;
    server.wait_for_output("warm", GRACE)?;
    sends.words("5000").run(GRACE)?.success()?;
    let said = server.finish(GRACE)?.success()?.stdout;
    let kept = said.split("kept ").nth(1).and_then(|kept| kept.trim().parse().ok());
    kept.ok_or_else(|| Error::new(format!("nothing was counted: {said:?}")))
}

/// sockperf's list of sockets, gone when dropped.
struct Feed(std::path::PathBuf);

impl Feed {
    fn new(address: std::net::Ipv4Addr, sockets: u16) -> Result<Feed> {
        let path = std::env::temp_dir().join(format!("rig-{}-profiles.feed", std::process::id()));
        let ports = PORT..PORT + sockets;
        let text: String = ports.map(|port| format!("T:{address}:{port}\n")).collect();
        std::fs::write(&path, text).context(path.display())?;
        Ok(Feed(path))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server that has little to do, and what it takes for that.
fn quiet(hosts: &TwoHosts, ends: &Ends<'_>, what: &Load, seconds: u32) -> Result<f64> {
    let address = hosts.right.address;
    let mut server =
        server(hosts, ends, "sockperf").words(&format!("server -i {address} -p {PORT}")).start()?;
    server.wait_for_port(Protocol::Udp, PORT, GRACE)?;
    let words = format!("under-load -i {address} -p {PORT} --mps 500 -t {}", seconds + 4);
    let client = hosts.left.program("sockperf").words(&words).start()?;
    // sockperf warms up, which is not at its rate.
    std::thread::sleep(Duration::from_secs(3));
    let (before, begun) = (cpu(&server)?, Instant::now());
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let used = (cpu(&server)? - before) as f64 / 1e3 / begun.elapsed().as_secs_f64();
    let path = format!("/proc/{}/status", server.pid());
    let status = std::fs::read_to_string(Path::new(&path)).context(&path)?;
    let memory = word_after(&status, "VmRSS:")? as f64;
    client.finish(GRACE)?.success()?;
    server.kill()?;
    Ok(if matches!(what, Load::Cpu) { used } else { memory })
}

fn as_json(row: &Row, rounds: &[Vec<f64>; 3]) -> Value {
    let [kernel, without, with] = rounds;
    json!({"profile": row.profile, "what": row.title(), "kernel": kernel, "without": without, "with": with})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_of_ours_is_measured_and_settings_take_their_place() {
        for spec in config::Spec::ALL.iter().filter(|spec| spec.is_ours()) {
            assert!(ROWS.iter().any(|row| row.profile == spec.name()), "{}", spec.name());
        }
        for row in ROWS {
            assert!(config::Spec::from_text(row.profile).is_some(), "{}", row.profile);
            if let Load::App(name) = row.load {
                assert!(App::by_name(name).is_some(), "{name}");
            }
        }
        let tried = environment("redis", &[&"VMA_RX_POLL=0".to_owned()]);
        assert_eq!(tried, [("VMA_RX_POLL".to_owned(), "0".to_owned())]);
        assert!(environment("redis", &[]).iter().any(|(name, _)| name == "VMA_SPEC"));
    }
}
