//! Servers that people run, all at once on one interface, each with a client of another ordinary user: one keeper on
//! each host, and all of them past the kernels.

use rig::{Finished, Host, Options, Package, Program, Protocol, Running};
use std::path::{Path, PathBuf};
use tests::keeper::{Keeper, NOBODY, wait_for_lanes};
use tests::{DEADLINE, World, assert_host_bypassed_but, world};

const NEEDS: &[Package] = &[
    Package { program: "redis-server", package: "redis-server" },
    Package { program: "redis-benchmark", package: "redis-tools" },
    Package { program: "memcached", package: "memcached" },
    Package { program: "memcaslap", package: "libmemcached-tools" },
    Package { program: "nginx", package: "nginx-light" },
    Package { program: "wrk", package: "wrk" },
    Package { program: "sockperf", package: "sockperf" },
];
/// Not installed unasked.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// The first of the clients' users; each has the next.
const USER: u32 = 4711;
const CLIENTS: u32 = 6;
const PORT: u16 = 9960;
/// Until PostgreSQL's processes have connections of their own, and by what it forks for itself.
const FIRST_CALLS: u64 = 2000;

/// Files of one run, of nobody; gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("rig-{}-together", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Strict: what is not accelerated fails.
fn accelerated(world: &World, host: &Host, name: impl AsRef<std::ffi::OsStr>, user: u32) -> Program {
    host.program(name).preload(Some(&world.library)).user(user).any_cpu()
}

/// Forks for each connection, which begins in the kernel.
fn forks(program: Program) -> Program {
    program.may_fall_back().environment("SIDESTEP_CARRIER", "auto")
}

fn serve(program: Program, folder: &Folder, protocol: Protocol, port: u16) -> Running {
    let mut server = program.directory(&folder.0).start().unwrap();
    server.wait_for_port(protocol, port, DEADLINE).unwrap();
    server
}

fn postgres(world: &World, folder: &Folder) -> Running {
    let World { hosts, .. } = world;
    let (binaries, data) = (Path::new(POSTGRES), folder.file("data"));
    let as_nobody =
        |name: &str| hosts.right.program(binaries.join(name)).user(NOBODY).any_cpu().directory(&folder.0);
    let make = as_nobody("initdb").words("-U postgres --auth=trust --no-sync -D").argument(&data);
    make.run(DEADLINE).and_then(Finished::success).unwrap();
    std::fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n").unwrap();
    let address = hosts.right.address;
    let words =
        format!("-c fsync=off -c unix_socket_directories= -c listen_addresses={address} -p {PORT} -D");
    let server = forks(accelerated(world, &hosts.right, binaries.join("postgres"), NOBODY));
    let server = serve(server.words(&words).argument(&data), folder, Protocol::Tcp, PORT);
    let ready = hosts.left.program(binaries.join("pg_isready")).words(&format!("-h {address} -p {PORT}"));
    rig::eventually("PostgreSQL is ready", || ready.run(DEADLINE).and_then(Finished::success).is_ok());
    let fill = hosts.left.program(binaries.join("pgbench")).any_cpu();
    let fill = fill.words(&format!("-h {address} -p {PORT} -i -q -s 1 -U postgres postgres"));
    fill.run(DEADLINE).and_then(Finished::success).unwrap();
    server
}

fn nginx(world: &World, folder: &Folder, port: u16) -> Running {
    let World { hosts, .. } = world;
    let (text, temporary) = (folder.0.display(), folder.file("nginx.conf"));
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|which| format!("{which}_temp_path {text}/{which};")).join(" ");
    let text = format!(
        "daemon off; master_process off; pid {text}/pid; error_log {text}/error.log;
         events {{ worker_connections 512; }}
         http {{ access_log off; keepalive_requests 100000000; {paths}
             server {{ listen {}:{port}; location / {{ return 200 'sixteen bytes ok'; }} }} }}",
        hosts.right.address
    );
    std::fs::write(&temporary, text).unwrap();
    let server = accelerated(world, &hosts.right, "nginx", NOBODY);
    serve(
        server.argument("-e").argument(folder.file("error.log")).argument("-c").argument(temporary),
        folder,
        Protocol::Tcp,
        port,
    )
}

/// All but PostgreSQL, one process each.
fn servers(world: &World, folder: &Folder) -> Vec<Running> {
    let World { hosts, .. } = world;
    let at = hosts.right.address;
    let server = |name: &str, words: &str, protocol, port| {
        serve(accelerated(world, &hosts.right, name, NOBODY).words(words), folder, protocol, port)
    };
    vec![
        server(
            "redis-server",
            &format!("--bind {at} --port {} --protected-mode no --appendonly no --save ''", PORT + 1),
            Protocol::Tcp,
            PORT + 1,
        ),
        server("memcached", &format!("-l {at} -p {} -U 0 -t 1", PORT + 2), Protocol::Tcp, PORT + 2),
        nginx(world, folder, PORT + 3),
        server("sockperf", &format!("server -i {at} -p {}", PORT + 4), Protocol::Udp, PORT + 4),
        server("sockperf", &format!("server --tcp -i {at} -p {}", PORT + 5), Protocol::Tcp, PORT + 5),
    ]
}

/// One for each, and each another user's.
fn clients(world: &World, folder: &Folder, has_postgres: bool) -> Vec<Program> {
    let World { hosts, .. } = world;
    let at = hosts.right.address;
    let client = |number: u32, name: &str, words: &str| {
        accelerated(world, &hosts.left, name, USER + number).words(words).directory(Path::new("/"))
    };
    // Without a file it looks for one in its user's home, which these have not got.
    let load = folder.file("memcaslap");
    std::fs::write(&load, "key\n16 16 1\nvalue\n100 100 1\ncmd\n0 0.1\n1 0.9\n").unwrap();
    let mut clients = vec![
        client(0, "redis-benchmark", &format!("-h {at} -p {} -n 40000 -c 4 -t set,get --csv", PORT + 1)),
        client(
            1,
            "memcaslap",
            &format!(
                "-F {} --servers={at}:{} --concurrency=4 --time=4s --verify=0.2 --win_size=1k --threads=1",
                load.display(),
                PORT + 2
            ),
        ),
        client(
            2,
            "wrk",
            &format!("--threads 1 --connections 4 --duration 4s --timeout 10s http://{at}:{}/", PORT + 3),
        ),
        client(3, "sockperf", &format!("ping-pong -i {at} -p {} -t 4", PORT + 4)),
        client(4, "sockperf", &format!("ping-pong --tcp -i {at} -p {} -t 4", PORT + 5)),
    ];
    if has_postgres {
        let pgbench = accelerated(world, &hosts.left, Path::new(POSTGRES).join("pgbench"), USER + 5);
        let words = format!("-h {at} -p {PORT} -S -n -c 2 -T 4 -U postgres postgres");
        clients.push(pgbench.words(&words).directory(Path::new("/")));
    }
    clients
}

#[test]
fn servers_share_an_interface_and_so_do_their_clients_of_six_users() {
    let Some(world) = world(&Options::default()) else { return };
    if let Err(missing) = rig::install(NEEDS) {
        return rig::skip::skipped(&rig::skip::test_name(), &missing.to_string());
    }
    let World { hosts, .. } = &world;
    let folder = Folder::new();
    let users: String = (USER..USER + CLIENTS).map(|user| format!("--user {user} ")).collect();
    let keepers = [&hosts.left, &hosts.right].map(|host| Keeper::start(host, &users));
    let has_postgres = Path::new(POSTGRES).join("postgres").exists();
    let mut servers = servers(&world, &folder);
    wait_for_lanes(&hosts.right, servers.len());
    if has_postgres {
        servers.push(postgres(&world, &folder));
    }
    let before = [&hosts.left, &hosts.right].map(|host| host.counters().unwrap());
    let clients = clients(&world, &folder, has_postgres);
    let running: Vec<Running> = clients.iter().map(|client| client.start().unwrap()).collect();
    for one in running {
        one.finish(DEADLINE).and_then(Finished::success).unwrap();
    }
    for (host, before) in [&hosts.left, &hosts.right].into_iter().zip(before) {
        let beside = if has_postgres { FIRST_CALLS } else { 0 };
        let since = host.counters().unwrap().since(&before);
        println!(
            "{}: {} of {} packets by the kernel",
            host.address,
            since.transport_packets(),
            since.wire_packets()
        );
        assert_host_bypassed_but(&host.address.to_string(), &since, beside);
    }
    servers.into_iter().for_each(|server| drop(server.kill().unwrap()));
    keepers.into_iter().for_each(|keeper| drop(keeper.kill().unwrap()));
}
