//! nginx with two workers: small answers, a large file by sendfile, a reload under load; haproxy in front of it; curl's
//! parallel downloads from it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{App, Figures, GRACE, Stage, content, end, parse};
use crate::{Context, Error, Package, Program, Result, Running};

pub(super) const PORT: u16 = 8080;
/// What the small answer says.
pub(super) const SMALL: &str = "sixteen bytes ok";
pub(super) const NGINX: Package = Package { program: "nginx", package: "nginx-light" };
pub(super) const WRK: Package = Package { program: "wrk", package: "wrk" };
const AB: Package = Package { program: "ab", package: "apache2-utils" };
pub(super) const CURL: Package = Package { program: "curl", package: "curl" };
const HAPROXY: Package = Package { program: "haproxy", package: "haproxy" };

const KEEPALIVE: App = App {
    name: "nginx-keepalive",
    what: "nginx, 2 workers, small answers, wrk with 10 connections",
    unit: "requests/s",
    needs: &[NGINX, WRK, CURL],
    middle: false,
    bypasses: true,
    // Handshakes: the workers share the kernel's listener.
    beside: 200,
    large: false,
    goal: Some(1.5),
    run: |stage| small(stage, ""),
};

pub(super) const APPS: &[App] = &[
    KEEPALIVE,
    App {
        name: "nginx-close",
        what: "the same, a connection per request",
        bypasses: false,
        run: |stage| small(stage, "Connection: close"),
        ..KEEPALIVE
    },
    App {
        name: "nginx-file",
        what: "nginx, sendfile of 50 MB, compared",
        unit: "MB/s",
        needs: &[NGINX, CURL],
        goal: None,
        run: file,
        ..KEEPALIVE
    },
    App {
        name: "nginx-reload",
        what: "nginx -s reload under load, no failed request",
        needs: &[NGINX, AB],
        goal: None,
        bypasses: false,
        run: reload,
        ..KEEPALIVE
    },
    App {
        name: "curl-parallel",
        what: "curl, 8 downloads of 2 MB at a time, compared",
        unit: "MB/s",
        needs: &[NGINX, CURL],
        goal: None,
        run: parallel,
        ..KEEPALIVE
    },
    App {
        name: "haproxy",
        what: "haproxy between wrk and nginx",
        needs: &[NGINX, WRK, CURL, HAPROXY],
        middle: true,
        goal: None,
        run: haproxy,
        ..KEEPALIVE
    },
    App {
        name: "haproxy-splice",
        what: "haproxy, mode tcp with splice, between curl and nginx, 50 MB compared",
        unit: "MB/s",
        needs: &[NGINX, CURL, HAPROXY],
        middle: true,
        goal: None,
        run: haproxy_splices,
        ..KEEPALIVE
    },
];

/// Two workers that serve the run's folder.
pub(super) fn nginx(stage: &Stage<'_>) -> Result<Running> {
    serving(stage, stage.server("nginx"), stage.hosts.right.address, PORT)
}

/// `program`, which is nginx, likewise at `address` and `port`.
pub(super) fn serving(stage: &Stage<'_>, program: Program, address: Ipv4Addr, port: u16) -> Result<Running> {
    let folder = stage.folder.0.display();
    let text = format!(
        "daemon off; worker_processes 2; user root; pid {folder}/pid; error_log {folder}/error.log;
         events {{ worker_connections 512; }}
         http {{
             access_log off; sendfile on; keepalive_requests 100000000;
             server {{
                 listen {address}:{port};
                 root {folder};
                 location = /small {{ return 200 '{SMALL}'; }}
             }}
         }}"
    );
    let configuration = stage.file("nginx.conf");
    std::fs::write(&configuration, text).context(configuration.display())?;
    stage.serve(&program.argument("-c").argument(&configuration), port)
}

/// Ends it; what it logged as an alert or an emergency is an error.
pub(super) fn quit(stage: &Stage<'_>, nginx: Running) -> Result<()> {
    end(nginx)?;
    let log = std::fs::read_to_string(stage.file("error.log")).unwrap_or_default();
    match log.lines().find(|line| ["[alert]", "[emerg]", "[crit]"].iter().any(|level| line.contains(level))) {
        Some(line) => Err(Error::new(format!("nginx logged: {line}"))),
        None => Ok(()),
    }
}

fn small(stage: &Stage<'_>, header: &str) -> Result<Figures> {
    let server = nginx(stage)?;
    let figures = http(stage, stage.hosts.right.address, PORT, "small", SMALL, header)?;
    quit(stage, server)?;
    Ok(figures)
}

/// Fetches once to compare, then lets wrk ask.
pub(super) fn http(
    stage: &Stage<'_>,
    address: Ipv4Addr,
    port: u16,
    path: &str,
    answer: &str,
    header: &str,
) -> Result<Figures> {
    let url = format!("http://{address}:{port}/{path}");
    let fetched = stage.ask(&stage.client("curl").words("-sS --max-time 60").argument(&url))?.stdout;
    if fetched != answer {
        return Err(Error::new(format!("{url} said {fetched:?} instead of {answer:?}")));
    }
    let words = format!("--threads 1 --connections 10 --duration {}s --latency --timeout 10s", stage.seconds);
    let mut wrk = stage.client("wrk").words(&words);
    if !header.is_empty() {
        wrk = wrk.argument("--header").argument(header);
    }
    parse::wrk(&stage.ask(&wrk.argument(&url))?.stdout)
}

fn file(stage: &Stage<'_>) -> Result<Figures> {
    let wanted = large(stage)?;
    let server = nginx(stage)?;
    let figures = fetch(stage, stage.hosts.right.address, &wanted)?;
    quit(stage, server)?;
    Ok(figures)
}

/// A file of 50 MB for the server.
fn large(stage: &Stage<'_>) -> Result<Vec<u8>> {
    let wanted = content(50_000_000, 1);
    std::fs::write(stage.file("large"), &wanted).context("the large file")?;
    Ok(wanted)
}

/// Fetches it a few times, and compares.
fn fetch(stage: &Stage<'_>, address: Ipv4Addr, wanted: &[u8]) -> Result<Figures> {
    let url = format!("http://{address}:{PORT}/large");
    let words = format!("-sS --max-time 60 --write-out %{{speed_download}} {url} -o");
    let (mut bytes_per_second, mut times) = (0.0, 0.0);
    for _ in 0..stage.seconds {
        let said = stage.ask(&stage.client("curl").words(&words).argument(stage.file("got")))?.stdout;
        bytes_per_second += said.trim().parse::<f64>().context("curl's speed")?;
        times += 1.0;
        same(&stage.file("got"), wanted)?;
    }
    Ok(Figures { rate: bytes_per_second / times / 1e6, ..Figures::default() })
}

pub(super) fn same(path: &Path, wanted: &[u8]) -> Result<()> {
    let got = std::fs::read(path).context(path.display())?;
    if got == wanted {
        return Ok(());
    }
    let at = got.iter().zip(wanted).position(|(one, other)| one != other).unwrap_or(got.len());
    Err(Error::new(format!("{}: {} of {} bytes, different at {at}", path.display(), got.len(), wanted.len())))
}

fn parallel(stage: &Stage<'_>) -> Result<Figures> {
    let parts: Vec<Vec<u8>> = (1..=8).map(|seed| content(2_000_000, seed)).collect();
    for (part, index) in parts.iter().zip(1..) {
        std::fs::write(stage.file(&format!("part{index}")), part).context("a part")?;
    }
    let server = nginx(stage)?;
    let url = format!("http://{}:{PORT}/part[1-8]", stage.hosts.right.address);
    let curl = stage.client("curl").words("-sS --max-time 60 --http1.1 --parallel --parallel-immediate");
    let curl = curl.argument(&url).argument("-o").argument(stage.file("got#1"));
    let (start, mut megabytes) = (Instant::now(), 0.0);
    for _ in 0..stage.seconds {
        stage.ask(&curl)?;
        for (part, index) in parts.iter().zip(1..) {
            same(&stage.file(&format!("got{index}")), part)?;
        }
        megabytes += 16.0;
    }
    let rate = megabytes / start.elapsed().as_secs_f64();
    quit(stage, server)?;
    Ok(Figures { rate, ..Figures::default() })
}

fn reload(stage: &Stage<'_>) -> Result<Figures> {
    let server = nginx(stage)?;
    let requests = 4_000 * stage.seconds;
    let url = format!("http://{}:{PORT}/small", stage.hosts.right.address);
    let ab = stage.client("ab").words(&format!("-q -n {requests} -c 8 -s 60 {url}")).start()?;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(150));
        server.signal(libc::SIGHUP)?;
    }
    let said = ab.finish(Duration::from_secs(stage.seconds.into()) + GRACE)?.success()?.stdout;
    let complete = parse::number(&said, "Complete requests:")?;
    let failed = parse::number(&said, "Failed requests:")?;
    if complete != f64::from(requests) || failed != 0.0 || said.contains("Non-2xx") {
        return Err(Error::new(format!("requests failed during the reload:\n{said}")));
    }
    quit(stage, server)?;
    let milliseconds = |label: &str| parse::number(&said, label).ok().map(|value| value * 1e3);
    let rate = parse::number(&said, "Requests per second:")?;
    Ok(Figures { rate, p50_us: milliseconds("50%"), p99_us: milliseconds("99%") })
}

fn haproxy(stage: &Stage<'_>) -> Result<Figures> {
    between(stage, "http", "http-reuse always", |front| http(stage, front, PORT, "small", SMALL, ""))
}

fn haproxy_splices(stage: &Stage<'_>) -> Result<Figures> {
    let wanted = large(stage)?;
    let options = "option splice-request\n option splice-response";
    between(stage, "tcp", options, |front| fetch(stage, front, &wanted))
}

/// `body` with haproxy on the router, in front of nginx; it gets haproxy's address.
fn between(
    stage: &Stage<'_>,
    mode: &str,
    options: &str,
    body: impl FnOnce(Ipv4Addr) -> Result<Figures>,
) -> Result<Figures> {
    let router = stage.hosts.router.as_ref().ok_or_else(|| Error::new("haproxy needs the router"))?;
    let server = nginx(stage)?;
    let (front, back) = (router.address, stage.hosts.right.address);
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode {mode}\n timeout connect 60s\n timeout client 60s\n \
         timeout server 60s\nfrontend f\n bind {front}:{PORT}\n default_backend b\nbackend b\n \
         {options}\n server s {back}:{PORT}\n"
    );
    let configuration = stage.file("haproxy.cfg");
    std::fs::write(&configuration, text).context(configuration.display())?;
    let haproxy = stage.middle(router, "haproxy").argument("-db").argument("-f").argument(&configuration);
    let haproxy = stage.serve(&haproxy, PORT)?;
    let figures = body(front)?;
    drop(haproxy);
    quit(stage, server)?;
    Ok(figures)
}
