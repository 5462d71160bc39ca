//! Servers that people run and their clients, all between the same two hosts: each client is another ordinary user's,
//! of one group that a keeper admits. The servers stay; clients are begun as often as one likes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::nginx::{NGINX, WRK};
use super::servers::POSTGRES;
use super::{Folder, memcached, parse, redis};
use crate::requirements::installed;
use crate::sockperf::{Latency, SETTLE};
use crate::{Context, Error, Host, Package, Program, Protocol, Result, Running, TwoHosts, install};

/// Whom a keeper is to admit: `sidestepd --group`.
pub const GROUP: u32 = 4710;
/// The servers' user, nobody: PostgreSQL wants one who has a name.
const SERVERS: u32 = 65_534;
/// The first client's user; each has the next.
const CLIENTS: u32 = 4711;
/// The first member's; each has the next.
const PORT: u16 = 9960;
const SOCKPERF: Package = Package { program: "sockperf", package: "sockperf" };

/// A server with its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// sockperf's ping-pong, messages of 14 bytes.
    PingPong(Protocol),
    /// GET, 50 connections.
    Redis,
    /// 4 threads, 16 connections.
    Memcached,
    /// One process, 10 connections.
    Nginx,
    /// pgbench -S, 8 connections. Not installed unasked.
    Postgres,
}

const ALL: [Member; 6] = [
    Member::PingPong(Protocol::Udp),
    Member::PingPong(Protocol::Tcp),
    Member::Redis,
    Member::Memcached,
    Member::Nginx,
    Member::Postgres,
];

/// Who can be here. What is missing is installed, but for PostgreSQL.
pub fn members() -> Result<Vec<Member>> {
    install(&[SOCKPERF, NGINX, WRK])?;
    install(redis::NEEDS)?;
    install(memcached::NEEDS)?;
    let is_here = |member: &Member| *member != Member::Postgres || installed(POSTGRES);
    Ok(ALL.into_iter().filter(is_here).collect())
}

impl Member {
    /// What it is, and what its rate counts.
    pub fn title(self) -> &'static str {
        match self {
            Member::PingPong(Protocol::Udp) => "sockperf UDP, round trips/s",
            Member::PingPong(Protocol::Tcp) => "sockperf TCP, round trips/s",
            Member::Redis => "redis, 50 connections, requests/s",
            Member::Memcached => "memcached, 4 threads, requests/s",
            Member::Nginx => "nginx, keepalive, requests/s",
            Member::Postgres => "PostgreSQL, 8 clients, transactions/s",
        }
    }

    fn number(self) -> u16 {
        ALL.iter().position(|member| *member == self).unwrap_or(0) as u16
    }

    fn port(self) -> u16 {
        PORT + self.number()
    }

    fn protocol(self) -> Protocol {
        match self {
            Member::PingPong(protocol) => protocol,
            _ => Protocol::Tcp,
        }
    }
}

/// The servers of some members, which run until this is dropped.
#[derive(Debug)]
pub struct Company<'a> {
    hosts: &'a TwoHosts,
    library: Option<&'a Path>,
    folder: Folder,
    _servers: Vec<Running>,
}

impl<'a> Company<'a> {
    /// Under the library, strict, or by the kernel.
    pub fn start(hosts: &'a TwoHosts, library: Option<&'a Path>, members: &[Member]) -> Result<Company<'a>> {
        let folder = Folder::new("company")?;
        std::os::unix::fs::chown(&folder.0, Some(SERVERS), Some(SERVERS)).context(folder.0.display())?;
        let mut company = Company { hosts, library, folder, _servers: Vec::new() };
        for member in members {
            let mut server = company.server(*member)?.start()?;
            server.wait_for_port(member.protocol(), member.port(), crate::PATIENCE)?;
            company._servers.push(server);
            if *member == Member::Postgres {
                company.fill()?;
            }
        }
        Ok(company)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn program(&self, host: &Host, name: impl AsRef<std::ffi::OsStr>, user: u32) -> Program {
        let program = host.program(name).user(user).group(GROUP).session().directory(&self.folder.0);
        program.preload(self.library)
    }

    fn server(&self, member: Member) -> Result<Program> {
        let (at, port) = (self.hosts.right.address, member.port());
        let server =
            |name: &str, words: String| Ok(self.program(&self.hosts.right, name, SERVERS).words(&words));
        match member {
            Member::PingPong(protocol) => {
                let tcp = if protocol == Protocol::Tcp { "--tcp" } else { "" };
                server("sockperf", format!("server {tcp} -i {at} -p {port}"))
            }
            Member::Redis => {
                let words = format!("--bind {at} --port {port} --protected-mode no --appendonly no --save");
                Ok(server("redis-server", words)?.argument(""))
            }
            Member::Memcached => server("memcached", format!("-l {at} -p {port} -U 0 -t 4")),
            Member::Nginx => self.nginx(port),
            Member::Postgres => self.postgres(port),
        }
    }

    fn nginx(&self, port: u16) -> Result<Program> {
        let (folder, at) = (self.folder.0.display(), self.hosts.right.address);
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|which| format!("{which}_temp_path {folder}/{which};")).join(" ");
        let text = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
             events {{ worker_connections 512; }}
             http {{ access_log off; keepalive_requests 100000000; {paths}
                 server {{ listen {at}:{port}; location / {{ return 200 'sixteen bytes ok'; }} }} }}"
        );
        let configuration = self.file("nginx.conf");
        std::fs::write(&configuration, text).context(configuration.display())?;
        let program = self.program(&self.hosts.right, "nginx", SERVERS);
        Ok(program.argument("-e").argument(self.file("error.log")).argument("-c").argument(configuration))
    }

    /// It forks for each connection, which begins in the kernel.
    fn postgres(&self, port: u16) -> Result<Program> {
        let data = self.file("data");
        let make = self.program(&self.hosts.right, postgres("initdb"), SERVERS).preload(None);
        let make = make.words("-U postgres --auth=trust --no-sync -D").argument(&data);
        make.run(crate::PATIENCE)?.success()?;
        std::fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n").context("pg_hba.conf")?;
        let at = self.hosts.right.address;
        let words = format!("-c fsync=off -c unix_socket_directories= -c listen_addresses={at} -p {port} -D");
        let program = self.program(&self.hosts.right, POSTGRES, SERVERS).words(&words).argument(data);
        Ok(program.may_fall_back().environment("SIDESTEP_CARRIER", "late"))
    }

    /// PostgreSQL, by the kernel.
    fn fill(&self) -> Result<()> {
        let ask = |name: &str, words: &str| {
            let to = format!("-h {} -p {}", self.hosts.right.address, Member::Postgres.port());
            let program = self.hosts.left.program(postgres(name)).words(&to).words(words);
            program.run(crate::PATIENCE)?.success()
        };
        let end = Instant::now() + crate::PATIENCE;
        while ask("pg_isready", "").is_err() && Instant::now() < end {}
        ask("pgbench", "-i -q -s 1 -U postgres postgres").map(drop)
    }

    /// A client that asks for so many seconds. sockperf waits before it begins; the others are there for as long.
    pub fn begin(&self, member: Member, seconds: u32) -> Result<Asking> {
        let (at, port) = (self.hosts.right.address, member.port());
        let all = u64::from(seconds) + SETTLE.as_secs();
        let client = |name: &str, words: String| {
            let user = CLIENTS + u32::from(member.number());
            self.program(&self.hosts.left, name, user).words(&words)
        };
        let program = match member {
            Member::PingPong(protocol) => {
                let tcp = if protocol == Protocol::Tcp { "--tcp" } else { "" };
                client("sockperf", format!("ping-pong {tcp} -i {at} -p {port} -m 14 -t {seconds}"))
            }
            // It knows no time, and tells its rate all along.
            Member::Redis => {
                client("redis-benchmark", format!("-h {at} -p {port} -n 2000000000 -c 50 -t get -q"))
            }
            Member::Memcached => {
                // Without a file it looks for one in its user's home, which these have not got.
                let load = self.file("memcaslap");
                let text = "key\n16 16 1\nvalue\n100 100 1\ncmd\n0 0.1\n1 0.9\n";
                std::fs::write(&load, text).context(load.display())?;
                let words = format!(
                    "--servers={at}:{port} --concurrency=16 --time={all}s --verify=0.2 --win_size=1k --threads=1 -F"
                );
                client("memcaslap", words).argument(load)
            }
            Member::Nginx => {
                let words = format!("--threads 1 --connections 10 --duration {all}s --timeout 10s");
                client("wrk", format!("{words} http://{at}:{port}/"))
            }
            Member::Postgres => {
                let words = format!("-h {at} -p {port} -S -n -c 8 -T {all} -U postgres postgres");
                client(&postgres("pgbench").to_string_lossy(), words)
            }
        };
        let ends = Instant::now() + std::time::Duration::from_secs(all);
        Ok(Asking { member, ends, program: program.start()? })
    }
}

fn postgres(name: &str) -> PathBuf {
    Path::new(POSTGRES).with_file_name(name)
}

/// A client at work.
#[derive(Debug)]
pub struct Asking {
    member: Member,
    ends: Instant,
    program: Running,
}

impl Asking {
    /// Answers a second, when it has ended.
    pub fn rate(self) -> Result<f64> {
        let said = match self.member {
            Member::Redis => {
                std::thread::sleep(self.ends.saturating_duration_since(Instant::now()));
                self.program.kill()?.stdout
            }
            _ => {
                let left = self.ends.saturating_duration_since(Instant::now());
                self.program.finish(left + crate::PATIENCE)?.success()?.stdout
            }
        };
        let rate = match self.member {
            Member::PingPong(_) => Latency::read(&said)?.rate,
            Member::Redis => {
                let last = said.rfind("rps=").map_or("", |at| &said[at..]);
                parse::number(last, "(overall:")?
            }
            Member::Memcached => memcached::rate(&said)?,
            Member::Nginx => parse::wrk(&said)?.rate,
            Member::Postgres => parse::number(&said, "tps =")?,
        };
        match rate > 0.0 {
            true => Ok(rate),
            false => Err(Error::new(format!("{}: no answer:\n{said}", self.member.title()))),
        }
    }
}
