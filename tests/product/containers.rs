//! Programs in containers, made of plain namespaces: seen from outside by `vma_stats` and `sidestep capture`, and
//! served by a keeper that is in the pod with them.

use rig::{Finished, Host, Options, Program, Running, eventually};
use std::path::{Path, PathBuf};
use tests::{DEADLINE, World, assert_host_bypassed, built, talk, wait_for_no_program, world};

const PORT: u16 = 9990;
const NOBODY: u32 = 65_534;

/// A folder that programs have statistics in, gone with the test. In containers another one is at its place.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sidestep-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A container on the host: processes and mounts of its own, and an empty folder in place of `folder`. `script` runs
/// in it with the rest of the arguments.
fn container(host: &Host, folder: &Path, script: &str) -> Program {
    let script = format!("mount -t tmpfs none {} && {script}", folder.display());
    let program = host.program("unshare").words("--pid --fork --kill-child --mount --mount-proc sh -c");
    program.argument(script).argument("sh").any_cpu()
}

fn python(program: Program, script: &str, address: &str) -> Program {
    let program = program.words("/usr/bin/python3 -u -c").argument(script);
    program.argument(address).argument(PORT.to_string())
}

fn preload(world: &World, folder: &Path) -> String {
    let (library, folder) = (world.library.display(), folder.display());
    format!("LD_PRELOAD={library} SIDESTEP_STRICT=1 SIDESTEP_CARRIER=wire VMA_STATS_SHMEM_DIR={folder}")
}

fn ask(host: &Host, address: &str, text: &str, times: u32) {
    let asks =
        host.program("/usr/bin/python3").words("-u -c").argument(talk::DATAGRAM_CLIENT).argument(address);
    let asks = asks.argument(PORT.to_string()).argument(text).argument(times.to_string());
    asks.run(DEADLINE).and_then(Finished::success).unwrap();
}

/// Our number of the process that calls itself `number` in there.
fn outer(running: &Running, number: u32) -> u32 {
    let mut family = vec![running.pid()];
    while let Some(pid) = family.pop() {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let status = read("status");
        let numbers = status.lines().find(|line| line.starts_with("NSpid:")).unwrap_or_default();
        let numbers: Vec<&str> = numbers.split_whitespace().skip(1).collect();
        if numbers.len() > 1 && numbers.last() == Some(&number.to_string().as_str()) {
            return pid;
        }
        let children = read(&format!("task/{pid}/children"));
        family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    panic!("no process calls itself {number}")
}

fn vma_stats(host: &Host, folder: &Path, options: &str) -> String {
    let program = host.program(built("vma-stats", "vma_stats")).argument("-k").argument(folder);
    program.words(options).run(DEADLINE).and_then(Finished::success).unwrap().stdout
}

#[test]
fn programs_of_other_pid_namespaces_are_seen_under_our_numbers_for_them() {
    let Some(world) = world(&Options::default()) else { return };
    let hosts = &world.hosts;
    let folder = Folder::new("outer");
    let address = hosts.right.address.to_string();
    let script = format!("exec env {} \"$@\"", preload(&world, &folder.0));
    // The same number in both, and not one of ours.
    let start = |host: &Host, address: &str| {
        let mut running =
            python(container(host, &folder.0, &script), talk::DATAGRAM_SERVER, address).start().unwrap();
        running.wait_for_output("ready 1 ", DEADLINE).unwrap();
        running
    };
    let right = start(&hosts.right, &address);
    let left = start(&hosts.left, &hosts.left.address.to_string());
    let (of_right, of_left) = (outer(&right, 1), outer(&left, 1));
    // What a container leaves in a folder that is shared with it must not be taken for ours, or removed.
    assert!(std::fs::read_dir(&folder.0).unwrap().next().is_none(), "each has a folder of its own");

    let shown = vma_stats(&hosts.left, &folder.0, "-v 5 -c 1");
    for pid in [of_right, of_left] {
        assert!(shown.contains(&format!("{pid}/python3")), "{pid}: {shown}");
    }
    let shown = vma_stats(&hosts.left, &folder.0, &format!("--why -p {of_right}"));
    assert!(shown.contains(&format!("with pid: {of_right}")), "{shown}");

    // The doctor reads in its environment where it keeps them.
    let doctor =
        hosts.left.program(built("sidestep", "sidestep")).words("doctor --only program-sockets --json");
    let doctor = doctor.argument("--program").argument(of_right.to_string());
    let told = doctor.run(DEADLINE).and_then(Finished::success).unwrap().stdout;
    assert!(told.contains("1 accelerated so far"), "{told}");

    // Captured, too.
    let to = folder.0.join("packets.pcapng");
    let capture = hosts.left.program(built("sidestep", "sidestep")).argument("capture").any_cpu();
    let capture = capture.words(&format!("-p {of_right} -c 20 --json --directory")).argument(&folder.0);
    let capture = capture.argument("-w").argument(&to).start().unwrap();
    eventually("it is captured", || capture.stderr().contains(&format!("({of_right}) on ")));
    ask(&hosts.left, &address, "question", 20);
    let told = capture.finish(DEADLINE).and_then(Finished::success).unwrap().stdout;
    assert!(told.contains("\"captured\":20") && told.contains(&format!("\"pid\":{of_right}")), "{told}");
    let file = std::fs::read(&to).unwrap();
    let comment = format!("[{of_right}] fd 3");
    assert!(file.windows(comment.len()).any(|part| part == comment.as_bytes()), "no {comment}");
    ask(&hosts.left, &address, "quit", 1);
    right.finish(DEADLINE).and_then(Finished::success).unwrap();
}

/// An ordinary user, and a rootless container's root: in a user namespace of its own, where capabilities are worth
/// nothing.
const USERS: [(&str, u32); 2] = [
    ("setpriv --reuid 65534 --regid 65534 --clear-groups", NOBODY),
    ("setpriv --reuid 65534 --regid 65534 --clear-groups unshare --user --map-root-user", 0),
];

/// The server is accelerated, or nothing of it comes back: it is strict.
fn assert_served(world: &World, server: Program, user: u32) {
    let hosts = &world.hosts;
    let address = hosts.right.address.to_string();
    let mut server = python(server, talk::DATAGRAM_SERVER, &address).start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    assert!(server.stdout().ends_with(&format!(" {user}\n")), "{}", server.stdout());
    let before = hosts.right.counters().unwrap();
    ask(&hosts.left, &address, "question", 500);
    assert_host_bypassed("the container", &hosts.right.counters().unwrap().since(&before));
}

/// What the examples give a keeper.
const FIVE: &str = "-all,+net_admin,+net_raw,+bpf,+perfmon,+ipc_lock";

/// A pod: processes, mounts and network of its own, and a keeper that is one of the processes.
#[test]
fn a_keeper_in_the_pod_serves_its_users() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("pod");
    let (keeper, socket) = (built("sidestepd", "sidestepd"), folder.0.join("keeper"));
    for (user, id) in USERS {
        let script = format!(
            "chmod 1777 {folder} && {{ setpriv --bounding-set {FIVE} {keeper} --user {NOBODY} --socket {socket} >&2 & }} && \
             while ! [ -S {socket} ]; do sleep 0.1; done && {user} env {preload} SIDESTEP_KEEPER={socket} \"$@\"",
            folder = folder.0.display(),
            keeper = keeper.display(),
            socket = socket.display(),
            preload = preload(&world, &folder.0),
        );
        assert_served(&world, container(&world.hosts.right, &folder.0, &script), id);
        wait_for_no_program(&world.hosts.right);
    }
}

/// A keeper outside, for containers that have mounts and users of their own, and share processes and network with it.
#[test]
fn a_keeper_on_the_host_serves_containers_that_share_its_processes() {
    let Some(world) = world(&Options::default()) else { return };
    let folder = Folder::new("host");
    let keeper = keeper(&world, &folder);
    for (user, id) in USERS {
        let script = format!("exec {user} env {} \"$@\"", served_by(&world, &folder));
        let program = world.hosts.right.program("unshare").words("--mount sh -c").argument(script);
        assert_served(&world, program.argument("sh").any_cpu(), id);
    }
    drop(keeper);
}

/// Whose processes have other numbers, the keeper cannot tell when they end.
#[test]
fn who_is_in_another_pid_namespace_than_the_keeper_is_the_kernels_and_told_so() {
    let Some(world) = world(&Options::default()) else { return };
    let (folder, inside) = (Folder::new("apart"), Folder::new("apart-inside"));
    let _keeper = keeper(&world, &folder);
    let (user, _) = USERS[0];
    let asks = served_by(&world, &folder).replace("SIDESTEP_STRICT=1", "VMA_TRACELEVEL=info");
    let script = format!("exec {user} env {asks} \"$@\"");
    let address = world.hosts.right.address.to_string();
    let program = container(&world.hosts.right, &inside.0, &script);
    let mut server = python(program, talk::DATAGRAM_SERVER, &address).start().unwrap();
    server.wait_for_output("ready", DEADLINE).unwrap();
    ask(&world.hosts.left, &address, "question", 5);
    eventually("it is told", || server.stderr().contains("pid namespace"));
}

fn keeper(world: &World, folder: &Folder) -> Running {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let keeper = world.hosts.right.program(built("sidestepd", "sidestepd")).words("--user 65534 --socket");
    let keeper = keeper.argument(folder.0.join("keeper")).any_cpu().start().unwrap();
    eventually("the keeper listens", || keeper.stderr().contains("listens at"));
    keeper
}

fn served_by(world: &World, folder: &Folder) -> String {
    format!("{} SIDESTEP_KEEPER={}", preload(world, &folder.0), folder.0.join("keeper").display())
}
