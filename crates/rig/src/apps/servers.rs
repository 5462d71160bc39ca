//! Servers with processes, threads and privileges of their own: databases, caches, proxies, Apache in two of its ways.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::nginx::{self, CURL, NGINX, SMALL, WRK, http};
use super::{App, Figures, Stage, end, parse};
use crate::{Context, Error, Package, Program, Result, run_tool};

const PORT: u16 = 8090;
/// The URL that every server here answers with [`SMALL`].
const PATH: &str = "small";
const APACHE: &str = "/usr/sbin/apache2";
pub(super) const POSTGRES: &str = "/usr/lib/postgresql/15/bin/postgres";
const SETPRIV: Package = Package { program: "setpriv", package: "util-linux" };
/// What a program without root's rights needs to be accelerated.
const CAPABILITIES: &str = "+net_admin,+net_raw,+bpf,+perfmon,+ipc_lock";

const VARNISH: App = App {
    name: "varnish",
    what: "varnish, hits, wrk with 10 connections",
    unit: "requests/s",
    needs: &[Package { program: "varnishd", package: "varnish" }, NGINX, WRK, CURL],
    middle: false,
    // The cache asks nginx on the same host.
    bypasses: false,
    beside: 0,
    large: true,
    goal: None,
    run: varnish,
};

pub(super) const APPS: &[App] = &[
    VARNISH,
    App {
        name: "squid",
        what: "squid, hits, wrk with 10 connections",
        needs: &[Package { program: "squid", package: "squid" }, SETPRIV, NGINX, WRK, CURL],
        run: squid,
        ..VARNISH
    },
    App {
        name: "stunnel",
        what: "stunnel in front of nginx, a thread per connection, wrk with 10 connections",
        needs: &[
            Package { program: "stunnel", package: "stunnel4" },
            Package { program: "openssl", package: "openssl" },
            NGINX,
            WRK,
            CURL,
        ],
        large: false,
        run: stunnel,
        ..VARNISH
    },
    App {
        name: "apache-event",
        what: "Apache, event, a connection per request",
        needs: &[Package { program: APACHE, package: "apache2-bin" }, WRK, CURL],
        large: false,
        run: |stage| apache(stage, "event"),
        ..VARNISH
    },
    App {
        name: "apache-prefork",
        what: "Apache, prefork, a connection per request",
        needs: &[Package { program: APACHE, package: "apache2-bin" }, WRK, CURL],
        large: false,
        run: |stage| apache(stage, "prefork"),
        ..VARNISH
    },
    App {
        name: "postgresql",
        what: "PostgreSQL, not as root, pgbench -S with 8 clients",
        unit: "transactions/s",
        needs: &[Package { program: POSTGRES, package: "postgresql-15" }, SETPRIV],
        run: postgresql,
        ..VARNISH
    },
    App {
        name: "mariadb",
        what: "MariaDB, a thread per connection, sysbench with 8 threads reads single rows",
        unit: "queries/s",
        needs: &[
            Package { program: "mariadbd", package: "mariadb-server" },
            Package { program: "sysbench", package: "sysbench" },
        ],
        run: mariadb,
        ..VARNISH
    },
];

/// nginx for a proxy in front of it: on the server's host, by the kernel, on `port` of 127.0.0.1.
fn behind(stage: &Stage<'_>, port: u16) -> Result<crate::Running> {
    let at = core::net::Ipv4Addr::LOCALHOST;
    nginx::serving(stage, stage.hosts.right.program("nginx"), at, port)
}

fn ask(stage: &Stage<'_>, header: &str) -> Result<Figures> {
    http(stage, stage.hosts.right.address, PORT, PATH, SMALL, header)
}

fn varnish(stage: &Stage<'_>) -> Result<Figures> {
    let _behind = behind(stage, 8091)?;
    let words = format!("-F -a {}:{PORT} -b 127.0.0.1:8091 -t 3600 -n", stage.hosts.right.address);
    let words = stage.server("varnishd").words(&words).argument(stage.file("varnish"));
    let server = stage.serve(&words, PORT)?;
    let figures = ask(stage, "")?;
    end(server)?;
    Ok(figures)
}

fn squid(stage: &Stage<'_>) -> Result<Figures> {
    let _behind = behind(stage, 8091)?;
    let (address, folder) = (stage.hosts.right.address, stage.folder.0.display());
    let text = format!(
        "http_port {address}:{PORT} accel defaultsite={address} no-vhost\n\
         cache_peer 127.0.0.1 parent 8091 0 no-query originserver\nhttp_access allow all\n\
         cache_mem 16 MB\nrefresh_pattern . 60 100% 60 override-expire\naccess_log none\n\
         cache_log {folder}/cache.log\npid_filename none\ncoredump_dir {folder}\nshutdown_lifetime 0 seconds\n\
         pinger_enable off\n"
    );
    let configuration = stage.file("squid.conf");
    std::fs::write(&configuration, text).context(configuration.display())?;
    // It refuses to stay root.
    run_tool(Command::new("chown").arg("nobody").arg(&stage.folder.0))?;
    let server = as_user(stage.server("setpriv"), "nobody", "nogroup").words("squid -N -f");
    let server = stage.serve(&server.argument(&configuration), PORT)?;
    let figures = ask(stage, "")?;
    end(server)?;
    Ok(figures)
}

fn stunnel(stage: &Stage<'_>) -> Result<Figures> {
    let _behind = behind(stage, 8091)?;
    let (address, folder) = (stage.hosts.right.address, stage.folder.0.display());
    let (key, certificate) = (stage.file("key.pem"), stage.file("certificate.pem"));
    let words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=rig -keyout";
    run_tool(Command::new("openssl").args(words.split_whitespace()).arg(&key).arg("-out").arg(&certificate))?;
    let text = format!(
        "foreground = yes\npid =\ndebug = err\n[s]\naccept = {address}:{PORT}\nconnect = 127.0.0.1:8091\n\
         cert = {folder}/certificate.pem\nkey = {folder}/key.pem\n"
    );
    let configuration = stage.file("stunnel.conf");
    std::fs::write(&configuration, text).context(configuration.display())?;
    let server = stage.serve(&stage.server("stunnel").argument(&configuration), PORT)?;
    let url = format!("https://{address}:{PORT}/{PATH}");
    let fetched = stage.ask(&stage.client("curl").words("-ksS --max-time 20").argument(&url))?.stdout;
    if fetched != SMALL {
        return Err(Error::new(format!("{url} said {fetched:?}")));
    }
    let words = format!("--threads 1 --connections 10 --duration {}s --latency --timeout 10s", stage.seconds);
    let figures = parse::wrk(&stage.ask(&stage.client("wrk").words(&words).argument(&url))?.stdout)?;
    end(server)?;
    Ok(figures)
}

fn apache(stage: &Stage<'_>, way: &str) -> Result<Figures> {
    let (address, folder) = (stage.hosts.right.address, stage.folder.0.display());
    std::fs::write(stage.file(PATH), SMALL).context("the small answer")?;
    let modules = "/usr/lib/apache2/modules";
    let text = format!(
        "LoadModule mpm_{way}_module {modules}/mod_mpm_{way}.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\nServerName rig\nListen {address}:{PORT}\n\
         PidFile {folder}/pid\nErrorLog {folder}/error.log\nDefaultRuntimeDir {folder}\nDocumentRoot {folder}\n\
         User nobody\nGroup nogroup\nMutex fcntl:{folder}\n"
    );
    let configuration = stage.file("apache.conf");
    std::fs::write(&configuration, text).context(configuration.display())?;
    let server = stage.server(APACHE).words("-DFOREGROUND -f").argument(&configuration);
    let server = stage.serve(&server, PORT)?;
    let figures = ask(stage, "Connection: close")?;
    end(server)?;
    Ok(figures)
}

/// setpriv for a program of `user` that keeps what acceleration needs.
fn as_user(setpriv: Program, user: &str, group: &str) -> Program {
    setpriv
        .words(&format!("--reuid={user} --regid={group} --clear-groups"))
        .words(&format!("--inh-caps={CAPABILITIES} --ambient-caps={CAPABILITIES}"))
}

fn postgresql(stage: &Stage<'_>) -> Result<Figures> {
    let (address, data) = (stage.hosts.right.address, stage.file("data"));
    let binaries = Path::new(POSTGRES).parent().unwrap_or(Path::new("/"));
    run_tool(Command::new("chown").arg("postgres").arg(&stage.folder.0))?;
    let words = "-U postgres --auth=trust --no-sync -D";
    let make = as_user(stage.hosts.right.program("setpriv"), "postgres", "postgres")
        .argument(binaries.join("initdb"));
    stage.ask(&make.words(words).argument(&data).directory(&stage.folder.0))?;
    std::fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n").context("pg_hba.conf")?;
    let settings = format!("-c fsync=off -c unix_socket_directories= -c listen_addresses={address} -D");
    let server = as_user(stage.server("setpriv"), "postgres", "postgres")
        .argument(POSTGRES)
        .words(&settings)
        .argument(&data);
    let server = stage.serve(&server.directory(&stage.folder.0), 5432)?;
    let pgbench = |program: Program, words: &str| {
        program.argument(format!("-h{address}")).words(words).words("-U postgres postgres")
    };
    let ready = stage.hosts.left.program(binaries.join("pg_isready")).argument(format!("-h{address}"));
    let end = Instant::now() + super::GRACE;
    while ready.run(super::GRACE)?.success().is_err() && Instant::now() < end {}
    let filling = pgbench(stage.hosts.left.program(binaries.join("pgbench")), "-i -q -s 1");
    stage.ask(&filling)?;
    // The server's user: memory joins processes of one user.
    let client = as_user(stage.client("setpriv"), "postgres", "postgres").argument(binaries.join("pgbench"));
    let loading = pgbench(client.directory(&stage.folder.0), &format!("-S -n -c 8 -T {}", stage.seconds));
    let said = stage.ask(&loading)?.stdout;
    let failed = parse::number(&said, "number of failed transactions:")?;
    if failed != 0.0 {
        return Err(Error::new(format!("pgbench: transactions failed:\n{said}")));
    }
    let rate = parse::number(&said, "tps =")?;
    server.signal(libc::SIGINT)?;
    server.finish(super::GRACE)?.success()?;
    Ok(Figures { rate, p50_us: None, p99_us: None })
}

fn mariadb(stage: &Stage<'_>) -> Result<Figures> {
    let (address, data) = (stage.hosts.right.address, stage.file("data"));
    std::fs::create_dir_all(&data).context(data.display())?;
    let text = "CREATE DATABASE sbtest;\nCREATE USER 'sb'@'%';\nGRANT ALL ON sbtest.* TO 'sb'@'%';\n";
    let first = stage.file("first.sql");
    std::fs::write(&first, text).context(first.display())?;
    let make = stage
        .hosts
        .right
        .program("mariadb-install-db")
        .words("--user=root --auth-root-authentication-method=normal");
    stage.ask(&make.argument(format!("--datadir={}", data.display())))?;
    let words = format!("--no-defaults --user=root --bind-address={address} --port=3306 --skip-name-resolve");
    let server = stage
        .server("mariadbd")
        .words(&words)
        .argument(format!("--datadir={}", data.display()))
        .argument(format!("--socket={}", stage.file("socket").display()))
        .argument(format!("--init-file={}", first.display()));
    let server = stage.serve(&server, 3306)?;
    let words = |what: &str| {
        format!(
            "oltp_point_select --db-driver=mysql --mysql-host={address} --mysql-user=sb --tables=1 \
             --table-size=10000 --threads=8 --time={} --percentile=99 {what}",
            stage.seconds
        )
    };
    stage.ask(&stage.hosts.left.program("sysbench").words(&words("prepare")))?;
    let said = stage.ask(&stage.client("sysbench").words(&words("run")))?.stdout;
    if parse::number(&said, "ignored errors:")? != 0.0 {
        return Err(Error::new(format!("sysbench: errors:\n{said}")));
    }
    let total = parse::number(&said, "total:")?;
    end(server)?;
    let p99 = parse::number(&said, "99th percentile:")? * 1e3;
    Ok(Figures { rate: total / f64::from(stage.seconds), p50_us: None, p99_us: Some(p99) })
}
