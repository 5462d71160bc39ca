//! Programs that people run, in small: answers are right and the accelerated ends bypass their kernels. Speed is for
//! `cargo x bench apps`, which runs the same table.

use rig::Options;
use rig::apps::{App, Ends};
use rig::skip::{skipped, test_name};
use tests::{assert_host_bypassed_but, world};

/// Which ends are accelerated: client, server.
const BOTH: (bool, bool) = (true, true);
const CLIENT: (bool, bool) = (true, false);
const SERVER: (bool, bool) = (false, true);

/// What a run claims of acceleration.
#[derive(Clone, Copy, PartialEq)]
enum Claim {
    /// The accelerated ends bypass their kernels, if the table has it so.
    Ends,
    /// The client does. The server's workers share a listener, so its handshakes are the kernel's.
    Client,
    /// Nothing, as a user's programs run: what is not accelerated goes by the kernel, and may.
    Nothing,
}

fn runs(name: &str, ways: &[(bool, bool)]) {
    run(name, ways, Claim::Ends);
}

fn answers(name: &str) {
    run(name, &[BOTH], Claim::Nothing);
}

fn run(name: &str, ways: &[(bool, bool)], claim: Claim) {
    let app = App::by_name(name).unwrap_or_else(|| panic!("no app {name}"));
    let loss_permille = app.middle.then_some(0);
    let Some(world) = world(&Options { loss_permille, ..Options::default() }) else { return };
    if let Err(missing) = app.install() {
        skipped(&test_name(), &missing.to_string());
        return;
    }
    for &(client, server) in ways {
        let strict = claim != Claim::Nothing;
        let ends =
            Ends { library: &world.library, client, server, strict, environment: &[], everywhere: &[] };
        let (figures, witness) = app.run(&world.hosts, ends, 1).unwrap_or_else(|error| panic!("{error}"));
        println!("{name}, {ends}: {:.0} {}", figures.rate, app.unit);
        let both = claim == Claim::Ends && app.bypasses;
        if client && (both || claim == Claim::Client) {
            assert_host_bypassed_but(&format!("{ends}: left host"), &witness.client, app.beside);
        }
        if server && both {
            assert_host_bypassed_but(&format!("{ends}: right host"), &witness.server, app.beside);
        }
    }
}

#[test]
fn redis_with_one_connection() {
    runs("redis-1", &[BOTH]);
}

#[test]
fn redis_with_fifty_connections() {
    runs("redis-50", &[BOTH]);
}

#[test]
fn redis_with_requests_in_a_pipeline() {
    runs("redis-pipeline", &[BOTH]);
}

#[test]
fn redis_writes_a_snapshot_meanwhile() {
    runs("redis-bgsave", &[BOTH]);
}

#[test]
fn redis_replicates_between_accelerated_servers() {
    runs("redis-replication", &[BOTH]);
}

#[test]
fn memcached_with_one_thread() {
    runs("memcached-1", &[BOTH]);
}

#[test]
fn memcached_with_four_threads() {
    runs("memcached-4", &[BOTH, SERVER]);
}

#[test]
fn memcached_binary() {
    runs("memcached-binary", &[CLIENT]);
}

#[test]
fn nginx_keeps_connections() {
    runs("nginx-keepalive", &[BOTH, CLIENT]);
}

#[test]
fn nginx_closes_connections() {
    run("nginx-close", &[BOTH], Claim::Client);
}

#[test]
fn nginx_sends_a_file_intact() {
    runs("nginx-file", &[BOTH]);
}

#[test]
fn nginx_reloads_without_a_failed_request() {
    run("nginx-reload", &[BOTH], Claim::Client);
}

#[test]
fn curl_downloads_in_parallel() {
    runs("curl-parallel", &[BOTH]);
}

#[test]
fn haproxy_in_front_of_nginx() {
    runs("haproxy", &[BOTH]);
}

#[test]
fn haproxy_splices_a_file_intact() {
    runs("haproxy-splice", &[BOTH]);
}

/// What these do is right, whatever carries it; how much of it is accelerated is the bench's to tell.
#[test]
fn servers_with_processes_and_threads_of_their_own() {
    for name in ["stunnel", "apache-event"] {
        answers(name);
    }
}

#[test]
fn databases_and_caches() {
    for name in ["postgresql", "mariadb", "varnish", "squid"] {
        answers(name);
    }
}

#[test]
fn commands_that_fetch_and_end() {
    for name in ["curl-200", "wget-r", "rsync", "nuttcp"] {
        answers(name);
    }
}

#[test]
fn python_asyncio() {
    runs("asyncio", &[BOTH]);
}

#[test]
fn python_threads() {
    runs("threaded", &[BOTH]);
}

#[test]
fn node() {
    runs("node", &[BOTH]);
}

#[test]
fn java_nio() {
    runs("java-nio", &[SERVER]);
}

#[test]
fn iperf3_with_eight_streams() {
    runs("iperf3-8", &[BOTH]);
}

#[test]
fn iperf3_udp() {
    runs("iperf3-udp", &[BOTH]);
}

#[test]
fn socat_as_someone_types() {
    runs("socat", &[BOTH]);
}

#[test]
fn socat_with_a_child_per_connection() {
    runs("socat-fork", &[BOTH]);
}

#[test]
fn stress_ng_sockets() {
    runs("stress-sock", &[SERVER]);
}

#[test]
fn stress_ng_udp() {
    runs("stress-udp", &[SERVER]);
}

/// Both ends accelerated, and each alone against the kernel.
const ALL: &[(bool, bool)] = &[BOTH, CLIENT, SERVER];

#[test]
fn loops_of_asio() {
    runs("asio", ALL);
}

#[test]
fn loops_of_tokio() {
    runs("tokio-multi", ALL);
    runs("tokio-current", ALL);
}

#[test]
fn loops_of_libuv() {
    runs("libuv", ALL);
}

#[test]
fn loops_of_libevent() {
    runs("libevent", ALL);
}

#[test]
fn loops_of_libev() {
    runs("libev", ALL);
}

#[test]
fn loops_of_grpc() {
    runs("grpc", ALL);
}

#[test]
fn loops_of_java() {
    runs("java-loop", ALL);
    runs("java-loop-ipv6", &[BOTH]);
}

#[test]
fn sockperf_receives_before_it_sends() {
    runs("sockperf-under-load", ALL);
}

#[test]
fn a_name_server_is_asked_by_several_threads() {
    runs("dnsperf", &[BOTH]);
}
