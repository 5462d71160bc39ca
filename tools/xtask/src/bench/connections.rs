//! `cargo x bench connections`: an echo server with many connections, what each of them holds, and what a request
//! costs among many against among few. Clients are the kernel's, from several addresses.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rig::{Context, Error, Host, Options, Result, Running, TwoHosts};
use serde_json::{Value, json};

use super::syn_flood::word_after;
use super::{Plan, median, save};
use crate::table::{Table, thousands};
use crate::{build, endpoint};

/// Addresses of the clients: none has more ports than ip_local_port_range allows.
const SOURCES: u32 = 10;
/// Requests under way at a time, on as many connections.
const BURST: u32 = 10;

/// One server, with its clients connected.
struct Site {
    server: Running,
    clients: Vec<Running>,
    figures: Figures,
}

/// What was measured of one.
struct Figures {
    count: u32,
    /// Of the server: as many as its connections need descriptors.
    processes: u32,
    /// Bytes of the server's memory, and of the kernel's, for each connection.
    own: f64,
    kernel: f64,
    /// Server's nanoseconds of CPU for each request, and packets that each took, a round each.
    costs: Vec<(f64, f64)>,
}

impl Figures {
    fn request(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.0))
    }

    fn packet(&self) -> f64 {
        self.request() / self.packets()
    }

    fn packets(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.1))
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("xtask")?;
    let hosts = rig::two_hosts(&Options::default())?;
    for i in 0..SOURCES {
        hosts.left.namespace.ip(&format!(
            "address add 10.77.1.{}/24 dev {}",
            10 + i,
            hosts.left.interface
        ))?;
    }
    let mut results = Vec::new();
    for (name, accelerated) in [("kernel", false), ("accelerated", true)] {
        // A sixth is left for what else a process has open, and for luck in the distribution over processes.
        let processes = plan.count.div_ceil(endpoint::raise_descriptor_limit() / 6 * 5);
        // Few before and after many: one server at a time can have the interface.
        let mut few = figures(plan, &hosts, accelerated, BURST, 1)?;
        eprintln!("{name}: {} connections", thousands(u64::from(plan.count)));
        // Requests that spread over processes wake each of them for less work: that is not the connections' doing.
        let spread =
            if processes > 1 { Some(figures(plan, &hosts, accelerated, BURST, processes)?) } else { None };
        let many = figures(plan, &hosts, accelerated, plan.count, processes)?;
        few.costs.extend(figures(plan, &hosts, accelerated, BURST, 1)?.costs);
        results.push((name, [Some(few), spread, Some(many)].into_iter().flatten().collect()));
    }
    drop(hosts);
    show(&results);
    save(
        "connections",
        &results.iter().flat_map(|(name, both)| both.iter().map(|f| as_json(name, f))).collect(),
    )
}

/// Measures one server of so many processes with `count` connections.
fn figures(plan: &Plan, hosts: &TwoHosts, accelerated: bool, count: u32, processes: u32) -> Result<Figures> {
    let mut site = site(plan, hosts, accelerated, count, processes)?;
    let requests = if plan.quick { 2_000 } else { 50_000 };
    for _ in 0..plan.rounds {
        let cost = ask(&mut site, hosts, requests)?;
        site.figures.costs.push(cost);
    }
    Ok(site.figures)
}

/// Starts a server and its clients, and waits until every client was answered.
fn site(plan: &Plan, hosts: &TwoHosts, accelerated: bool, count: u32, processes: u32) -> Result<Site> {
    let right: &Host = &hosts.right;
    // A port of its own: workers of the one before may still be ending, and have its listener until then.
    static PORT: AtomicU16 = AtomicU16::new(7000);
    let address = format!("{}:{}", right.address, PORT.fetch_add(1, Ordering::Relaxed));
    // Without polling: what the server then uses is what its requests cost.
    let server = plan.endpoint(right, accelerated)?.any_cpu().words(&format!("echo {address} {processes}"));
    let server = server.environment("VMA_SELECT_POLL", "0");
    let mut server = server.start()?;
    server.wait_for_output(&"ready\n".repeat(processes as usize), Duration::from_secs(10))?;
    let (own, kernel) = (resident(&server)?, kernel_memory()?);
    // Each client process has a burst's worth at least.
    let clients = processes.min(count / BURST).max(1);
    let words = format!("clients {address} {} {SOURCES} {BURST}", count / clients);
    let client = plan.endpoint(&hosts.left, false)?.words(&words).piped();
    let mut clients = (0..clients).map(|_| client.start()).collect::<Result<Vec<Running>>>()?;
    for client in &mut clients {
        client.wait_for_output("served", Duration::from_secs(600))?;
    }
    let each = |after: i64, before: i64| (after - before) as f64 * 1024.0 / f64::from(count);
    let (own, kernel) = (each(resident(&server)?, own), each(kernel_memory()?, kernel));
    Ok(Site { server, clients, figures: Figures { count, processes, own, kernel, costs: Vec::new() } })
}

/// Has `requests` made; the server's CPU nanoseconds and the packets for each. Among few connections the next request
/// carries the acknowledgment of the last answer, among many it is a packet of its own.
fn ask(site: &mut Site, hosts: &TwoHosts, requests: u32) -> Result<(f64, f64)> {
    let (before, counted) = (cpu(&site.server)?, hosts.left.counters()?);
    let share = requests / site.clients.len() as u32;
    for client in &mut site.clients {
        let said = client.stdout().matches("answered").count();
        client.tell(&format!("{share}\n"))?;
        let end = std::time::Instant::now() + Duration::from_secs(120);
        while client.stdout().matches("answered").count() == said {
            if std::time::Instant::now() > end {
                return Err(Error::new(format!("requests are not answered: {}", client.stderr())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // Delayed acknowledgments of the last answers.
    std::thread::sleep(Duration::from_millis(50));
    let packets = hosts.left.counters()?.since(&counted).transport_packets() as f64;
    let each = |sum: f64| sum / f64::from(requests);
    Ok((each((cpu(&site.server)? - before) as f64), each(packets)))
}

/// The server and what it forked.
fn family(server: &Running) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", server.pid());
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|word| word.parse().ok());
    std::iter::once(server.pid()).chain(children).collect()
}

/// Nanoseconds that the server's threads ran.
pub(super) fn cpu(server: &Running) -> Result<u64> {
    let mut sum = 0;
    for pid in family(server) {
        let path = format!("/proc/{pid}/task");
        for task in std::fs::read_dir(&path).context(&path)?.flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(sum)
}

/// KiB of memory of the server's own; that of packets is shared with the kernel, and the same for any number.
fn resident(server: &Running) -> Result<i64> {
    let mut sum = 0;
    for pid in family(server) {
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(&path).context(&path)?;
        sum += word_after(&status, "RssAnon:")? as i64;
    }
    Ok(sum)
}

/// KiB of slab memory of the whole machine: both ends' sockets are in it.
fn kernel_memory() -> Result<i64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    word_after(&text, "SUnreclaim:").map(|kib| kib as i64)
}

fn show(results: &[(&str, Vec<Figures>)]) {
    println!(
        "An epoll echo server, {BURST} requests of 64 bytes under way on connections chosen at random; CPU of the \
         server,\nno polling. Kernel memory is the whole machine's, the clients' sockets included.\n"
    );
    let mut table = Table::new(&[
        "",
        "connections",
        "processes",
        "bytes each",
        "kernel bytes each",
        "ns a request",
        "packets",
        "ns a packet",
        "× few",
        "× few, as many processes",
    ]);
    for (name, sites) in results {
        // The same number of processes, else the only base there is.
        let base = |site: &Figures| {
            let same = |few: &&Figures| few.count == BURST && few.processes == site.processes;
            sites.iter().find(same).unwrap_or(&sites[0]).packet()
        };
        for site in sites {
            table.row(vec![
                (*name).to_owned(),
                thousands(u64::from(site.count)),
                site.processes.to_string(),
                format!("{:.0}", site.own),
                format!("{:.0}", site.kernel),
                format!("{:.0}", site.request()),
                format!("{:.1}", site.packets()),
                format!("{:.0}", site.packet()),
                format!("{:.2}", site.packet() / sites[0].packet()),
                format!("{:.2}", site.packet() / base(site)),
            ]);
        }
        table.rule();
    }
    table.print();
}

fn as_json(name: &str, site: &Figures) -> Value {
    json!({
        "server": name, "connections": site.count, "processes": site.processes, "bytes": site.own, "kernel_bytes": site.kernel,
        "request_ns": site.request(), "request_packets": site.packets(), "rounds": site.costs,
    })
}
