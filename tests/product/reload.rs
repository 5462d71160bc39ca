//! Servers that replace their workers, or themselves, under load: no request fails, whichever way its connections
//! begin. What a reload costs otherwise is in `docs/differences.md`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::skip::{skipped, test_name};
use rig::{Finished, Options, Package, Program, Protocol};
use tests::{DEADLINE, World, wait_for_acceleration, world};

const PORT: u16 = 9450;

/// Requests, one connection each, until its input ends and a hundred have succeeded: how many did, or what failed.
const LOAD: &str = "\
import socket,sys,threading
over, good, bad = threading.Event(), [], []
def ask():
    while not bad and not (over.is_set() and len(good) > 100):
        try:
            peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
            peer.sendall(b'GET /small HTTP/1.0\\r\\n\\r\\n')
            said = b''.join(iter(lambda: peer.recv(65536), b''))
            peer.close()
            assert said.endswith(b'small'), said
            good.append(1)
        except BaseException as error:
            bad.append(repr(error))
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
sys.stdin.readline()
over.set()
for thread in threads: thread.join()
sys.exit(' '.join(bad[:5]) or 0)
";

/// A server that serves `small`, and the signal that makes it reload.
struct Server {
    needs: Package,
    /// The text of its configuration, which is the file `configuration` of its folder, for an address and that folder.
    configuration: fn(&str, &str) -> String,
    /// Its words; `{conf}`, `{folder}` and `{place}` are filled in.
    words: &'static str,
    signal: i32,
}

fn nginx_configuration(place: &str, folder: &str) -> String {
    format!(
        "user root; worker_processes 2; daemon off; pid {folder}/pid; error_log {folder}/log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {folder}/tmp;\n\
         server {{ listen {place}; root {folder}; }} }}\n"
    )
}

fn haproxy_configuration(place: &str, _folder: &str) -> String {
    format!(
        "defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
         frontend all\n bind {place}\n http-request return status 200 content-type text/plain string small\n"
    )
}

fn application(_place: &str, _folder: &str) -> String {
    "def app(environ, start):\n    start('200 OK', [('Content-Length', '5')])\n    return [b'small']\n"
        .to_owned()
}

fn apache_configuration(place: &str, folder: &str) -> String {
    format!(
        "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
         ServerName x\nServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/log\nListen {place}\n\
         DocumentRoot {folder}\nStartServers 2\n<Directory />\nRequire all granted\n</Directory>\n"
    )
}

/// Without `queue_requests false` a worker that leaves closes what it has accepted and not read from yet, on the kernel
/// as well.
fn puma_configuration(place: &str, _folder: &str) -> String {
    format!(
        "bind 'tcp://{place}'\nworkers 2\nthreads 1, 4\nenvironment 'none'\nqueue_requests false\n\
         app {{ |env| [200, {{ 'Content-Length' => '5' }}, ['small']] }}\n"
    )
}

const NGINX: Server = Server {
    needs: Package { program: "/usr/sbin/nginx", package: "nginx-light" },
    configuration: nginx_configuration,
    words: "-c {conf}",
    signal: libc::SIGHUP,
};

const HAPROXY: Server = Server {
    needs: Package { program: "/usr/sbin/haproxy", package: "haproxy" },
    configuration: haproxy_configuration,
    words: "-W -db -f {conf} -p {folder}/pid",
    signal: libc::SIGUSR2,
};

const GUNICORN: Server = Server {
    needs: Package { program: "/usr/bin/gunicorn", package: "gunicorn" },
    configuration: application,
    words: "-w 2 -b {place} --chdir {folder} configuration:app",
    signal: libc::SIGHUP,
};

const APACHE: Server = Server {
    needs: Package { program: "/usr/sbin/apache2", package: "apache2-bin" },
    configuration: apache_configuration,
    words: "-DFOREGROUND -f {conf}",
    signal: libc::SIGUSR1,
};

/// SIGUSR1 replaces one worker after the other.
const PUMA: Server = Server {
    needs: Package { program: "/usr/bin/puma", package: "puma" },
    configuration: puma_configuration,
    words: "-C {conf}",
    signal: libc::SIGUSR1,
};

/// Three reloads under load, on each of these carriers.
fn reloads(server: &Server, carriers: &[&str]) {
    let Some(world) = world(&Options::default()) else { return };
    if let Err(missing) = rig::install(&[server.needs]) {
        skipped(&test_name(), &missing.to_string());
        return;
    }
    let folder = Folder::new();
    for carrier in carriers {
        reload(&world, server, &folder.0, carrier);
    }
}

fn reload(world: &World, server: &Server, folder: &Path, carrier: &str) {
    let right = &world.hosts.right;
    let address = right.address.to_string();
    let (place, path) = (format!("{address}:{PORT}"), folder.display().to_string());
    std::fs::write(folder.join("small"), "small").unwrap();
    let configuration = folder.join("configuration.py");
    std::fs::write(&configuration, (server.configuration)(&place, &path)).unwrap();
    let words = server.words.replace("{conf}", &configuration.display().to_string());
    let words = words.replace("{folder}", &path).replace("{place}", &place);
    let program: Program = right.program(server.needs.program).words(&words).preload(Some(&world.library));
    let mut running =
        program.may_fall_back().environment("SIDESTEP_CARRIER", carrier).any_cpu().start().unwrap();
    running.wait_for_port(Protocol::Tcp, PORT, DEADLINE).unwrap();

    let load = world.hosts.left.program("/usr/bin/python3").words("-u -c").argument(LOAD);
    let mut load = load.argument(&address).argument(PORT.to_string()).piped().start().unwrap();
    // Who comes after a reload may find the interface taken by those that leave. One question for each connection opens
    // nothing.
    if *carrier == *"wire" {
        wait_for_acceleration(right);
    }
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(800));
        running.signal(server.signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(800));
    // Who is gone already says why at its end.
    let _ = load.tell("enough\n");
    load.finish(DEADLINE).and_then(Finished::success).unwrap_or_else(|error| panic!("{carrier}: {error}"));
    running.signal(libc::SIGTERM).unwrap();
    running.finish(DEADLINE).unwrap();
}

/// A folder of this test, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("rig-{}-{}", std::process::id(), test_name()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nginx_replaces_its_workers_without_a_failed_request() {
    reloads(&NGINX, &["auto", "wire"]);
}

#[test]
fn haproxy_replaces_its_worker_without_a_failed_request() {
    reloads(&HAPROXY, &["auto", "wire"]);
}

#[test]
fn gunicorn_replaces_its_workers_without_a_failed_request() {
    reloads(&GUNICORN, &["auto", "wire"]);
}

#[test]
fn puma_replaces_its_workers_without_a_failed_request() {
    reloads(&PUMA, &["auto", "wire"]);
}

#[test]
fn apache_replaces_its_processes_without_a_failed_request() {
    reloads(&APACHE, &["auto", "wire"]);
}
