//! `sidestep perf`: both ends of it, what disturbs them, and the table.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn perf(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidestep"));
    command.arg("perf").args(words);
    command
}

/// A server, and where it listens; ended with this.
struct Server(Child, String);

impl Server {
    fn at(address: &str) -> Server {
        Server::with(&["serve", address])
    }

    /// Serves once it has said where.
    fn with(words: &[&str]) -> Server {
        let mut child = perf(words).stdout(Stdio::piped()).spawn().expect("sidestep runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("serving at ").expect("an address").to_owned();
        Server(child, address)
    }

    fn json(&self, words: &[&str]) -> serde_json::Value {
        let done = perf(words).args([&self.1, "--seconds", "1", "--json"]).output().expect("sidestep runs");
        assert!(done.status.success(), "{words:?}: {}", text(&done));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn number(value: &serde_json::Value, path: &str) -> f64 {
    value.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("no {path} in {value}"))
}

#[test]
fn each_test_counts_the_same_at_both_ends_and_the_kernel_has_carried_it() {
    let server = Server::at("127.0.0.1:0");
    let stream = server.json(&["stream", "--size", "5000"]);
    assert!(number(&stream, "/bytes") > 0.0 && number(&stream, "/bytes") % 5000.0 == 0.0, "{stream}");
    assert!(number(&stream, "/remote/service_demand_us") > 0.0, "{stream}");
    let requests = server.json(&["rr", "--request", "100", "--response", "70000"]);
    assert_eq!(number(&requests, "/bytes"), number(&requests, "/transactions") * 100.0);
    assert!(number(&requests, "/round_trip_us/p50") <= number(&requests, "/round_trip_us/p99.9"));
    for figures in [stream, requests] {
        assert!(number(&figures, "/kernel_part") > 0.99, "{figures}");
    }
    let connections = server.json(&["crr", "--spin"]);
    assert!(number(&connections, "/transactions") > 0.0 && connections["kernel_part"].is_null());
}

#[test]
fn a_path_is_an_af_unix_socket_whose_file_goes_with_the_server() {
    let path = std::env::temp_dir().join(format!("sidestep-perf-{}", std::process::id()));
    let mut server = Server::with(&["serve", path.to_str().unwrap(), "--once"]);
    let done = perf(&["rr", path.to_str().unwrap(), "--seconds", "1"]).output().expect("sidestep runs");
    assert!(
        text(&done).contains("TCP REQUEST/RESPONSE TEST") && !text(&done).contains("kernel"),
        "{}",
        text(&done)
    );
    assert!(server.0.wait().unwrap().success() && !path.exists());
}

#[test]
fn strangers_do_not_stop_a_server() {
    let server = Server::at("127.0.0.1:0");
    let line = |words: &str| format!("{words:<128}").into_bytes();
    let mut answers = Vec::new();
    for said in [
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        line("sidestep-perf 1 stream 0 0"),
        line("sidestep-perf 1 rr 99999999999 1"),
        line("sidestep-perf 2 rr 1 1"),
        vec![0xff; 128],
    ] {
        let mut stranger = TcpStream::connect(&server.1).unwrap();
        stranger.write_all(&said).unwrap();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stranger.read_to_end(&mut answers);
    }
    assert_eq!(answers, b"");
    // Who leaves in the middle of connections for requests leaves no trace either.
    let mut left = TcpStream::connect(&server.1).unwrap();
    left.write_all(&line("sidestep-perf 1 crr 1 1")).unwrap();
    left.read_exact(&mut [0; 128]).unwrap();
    drop(left);
    assert!(number(&server.json(&["rr"]), "/transactions") > 0.0);
}

#[test]
fn what_cannot_be_is_said() {
    for (words, said) in [
        (&["rr", "127.0.0.1:1"][..], "127.0.0.1:1: Connection refused"),
        (&["rr", "nowhere"], "'nowhere' is no IP address"),
        (&["stream"], "whom? sidestep perf stream ADDRESS"),
        (&["rr", "127.0.0.1:1", "--cpu", "100000"], "--cpu 100000: Invalid argument"),
        (&["serve", "192.0.2.1"], "192.0.2.1:12865: Cannot assign"),
    ] {
        let done = perf(words).output().expect("sidestep runs");
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        assert!(text(&done).contains(said), "{words:?}: {}", text(&done));
    }
}

/// libsdp.so as it is built for use; `None`, with the reason recorded, where there is none.
fn libsdp() -> Option<std::path::PathBuf> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/libsdp.so");
    if library.exists() {
        return library.canonicalize().ok();
    }
    rig::skip::skipped(
        &rig::skip::test_name(),
        "no target/release/libsdp.so: cargo build --release -p libsdp",
    );
    None
}

#[test]
fn the_table_has_three_rows_of_which_only_the_last_leaves_the_kernel() {
    let Some(library) = libsdp() else { return };
    let words = ["table", "--rounds", "1", "--json", "--library", library.to_str().unwrap()];
    let done = perf(&words).output().expect("sidestep runs");
    assert!(done.status.success(), "{}", text(&done));
    let parts: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    for part in parts.as_array().expect("two parts") {
        let kernel: Vec<f64> = (0..3).map(|row| number(part, &format!("/rows/{row}/kernel_part"))).collect();
        assert!(kernel[0] > 0.99 && kernel[1] > 0.99 && kernel[2] < 0.5, "{kernel:?} in {part}");
    }
    assert_eq!(number(&parts, "/0/rows/2/manual/0"), 6601.82);
}

/// What stands in the place of netperf, which Debian keeps in non-free: the words of the listings.
const NETSERVER: &str = r#"#!/bin/sh
sidestep perf serve 127.0.0.1:0 > $HOME/said &
echo $! > $HOME/pid
until grep -q serving $HOME/said; do sleep 0.01; done
"#;
const NETPERF: &str = r#"#!/bin/sh
test=stream
while [ $# -gt 0 ]; do
    case $1 in
    -t) test=rr; shift ;;
    -H) [ $2 = 192.168.0.1 ] || exit 2; shift ;;
    -m) words="--size $2"; shift ;;
    -r) words="--request ${2%,*} --response ${2#*,}"; shift ;;
    esac
    shift
done
exec sidestep perf $test $(sed 's/serving at //' $HOME/said) --seconds 1 $words
"#;
/// The manual's two measurements, from the rules to the end of the server; `pkill netserver` is `stop` here.
const LISTINGS: &str = r#"
trap 'stop 2> /dev/null || true' EXIT
cat > $HOME/libsdp.conf << EOF
match destination *.*
match listen *.*
EOF
LD_PRELOAD=libsdp.so LIBSDP_CONFIG_FILE=$HOME/libsdp.conf netserver
LD_PRELOAD=libsdp.so LIBSDP_CONFIG_FILE=$HOME/libsdp.conf netperf -H 192.168.0.1 -c -C -- -m 65536
LD_PRELOAD=libsdp.so LIBSDP_CONFIG_FILE=$HOME/libsdp.conf netperf -H 192.168.0.1 -c -C -t TCP_RR -- -r 1,1
stop
echo "match shared *:*" > $HOME/both.conf
LD_PRELOAD=libsdp.so LIBSDP_CONFIG_FILE=$HOME/both.conf netserver
LD_PRELOAD=libsdp.so LIBSDP_CONFIG_FILE=$HOME/libsdp.conf netperf -H 192.168.0.1 -c -C -- -m 65536
netperf -H 192.168.0.1 -c -C -- -m 65536
stop
"#;

#[test]
fn the_manuals_measurements_run_as_printed() {
    use std::os::unix::fs::PermissionsExt;
    let Some(library) = libsdp() else { return };
    let home = std::env::temp_dir().join(format!("sidestep-listings-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    let tools =
        [("netserver", NETSERVER), ("netperf", NETPERF), ("stop", "#!/bin/sh\nkill $(cat $HOME/pid)\n")];
    for (name, script) in tools {
        let source = home.join("source");
        std::fs::write(&source, script).expect("a script");
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        // Another process writes what is executed: what another test forks meanwhile would hold a file of ours open.
        let copied = Command::new("cp").arg(&source).arg(home.join(name)).status().expect("cp");
        assert!(copied.success());
    }
    let sidestep =
        Path::new(env!("CARGO_BIN_EXE_sidestep")).parent().expect("its folder").display().to_string();
    let path = format!("{}:{sidestep}:{}", home.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", LISTINGS]).env("HOME", &home).env("PATH", path);
    let done = shell.env("LD_LIBRARY_PATH", library.parent().expect("its folder")).output().expect("a shell");
    let _ = std::fs::remove_dir_all(&home);
    assert!(done.status.success(), "{}", text(&done));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let titles: Vec<&str> = said.lines().filter(|line| line.ends_with(" TEST")).collect();
    let stream = "TCP STREAM TEST";
    assert_eq!(titles, [stream, "TCP REQUEST/RESPONSE TEST", stream, stream], "{}", text(&done));
    let carried = said.lines().filter_map(|line| line.strip_prefix("carried by the kernel's TCP: "));
    let parts: Vec<f64> =
        carried.map(|rest| rest.split(' ').next().expect("a number").parse().expect("a number")).collect();
    let by_memory: Vec<bool> = parts.iter().map(|part| *part < 50.0).collect();
    assert_eq!(by_memory, [true, true, true, false], "{parts:?}");
}
