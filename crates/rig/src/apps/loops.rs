//! Event loops that run in threads of their own, while other threads open the sockets: `tests/apps/loops` and
//! `tests/apps/tokio`. Client and server are one program; each answer is checked, and a flow without any is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use super::{App, Figures, Stage, end, parse};
use crate::namespace::run_tool;
use crate::{Context, Error, Package, Program, Result};

const PORT: u16 = 7100;
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const ASIO: App = App {
    name: "asio",
    what: "Asio, loops of one and of three threads, TCP and UDP",
    unit: "round trips/s",
    needs: &[
        Package { program: "g++", package: "g++" },
        Package { program: "/usr/include/asio.hpp", package: "libasio-dev" },
    ],
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: None,
    run: |stage| compiled(stage, "asio.cpp", &[]),
};

const TOKIO: App = App {
    name: "tokio-multi",
    what: "Tokio, four workers, TCP and UDP",
    needs: &[],
    run: |stage| tokio(stage, "multi"),
    ..ASIO
};

const JAVA: App = App {
    name: "java-loop",
    what: "Java NIO selector in a thread, and threads that block, TCP and UDP",
    needs: &[Package { program: "javac", package: "default-jdk-headless" }],
    large: true,
    // Otherwise Java's sockets are IPv6 ones, which are left to the kernel.
    run: |stage| java(stage, "-Djava.net.preferIPv4Stack=true -Xmx128m"),
    ..ASIO
};

pub(super) const APPS: &[App] = &[
    ASIO,
    TOKIO,
    App {
        name: "tokio-current",
        what: "Tokio, one thread, TCP and UDP",
        run: |stage| tokio(stage, "current"),
        ..TOKIO
    },
    App {
        name: "libuv",
        what: "libuv loop in a thread, TCP and UDP",
        needs: &[Package { program: "/usr/include/uv.h", package: "libuv1-dev" }],
        run: |stage| compiled(stage, "libuv.c", &["-luv"]),
        ..ASIO
    },
    App {
        name: "libevent",
        what: "libevent loop in a thread, TCP and UDP",
        needs: &[Package { program: "/usr/include/event2/event.h", package: "libevent-dev" }],
        run: |stage| compiled(stage, "libevent.c", &["-levent", "-levent_pthreads"]),
        ..ASIO
    },
    App {
        name: "libev",
        what: "libev loop in a thread, TCP and UDP",
        needs: &[Package { program: "/usr/include/ev.h", package: "libev-dev" }],
        run: |stage| compiled(stage, "libev.c", &["-lev"]),
        ..ASIO
    },
    App {
        name: "grpc",
        what: "gRPC, four channels of unary calls",
        unit: "calls/s",
        needs: &[
            Package { program: "g++", package: "g++" },
            Package { program: "/usr/include/grpcpp/grpcpp.h", package: "libgrpc++-dev" },
        ],
        // gRPC's sockets are IPv6 ones wherever there is IPv6.
        bypasses: false,
        run: |stage| {
            compiled(stage, "grpc.cpp", &["-Wl,--copy-dt-needed-entries", "-lgrpc++", "-lgrpc", "-lgpr"])
        },
        ..ASIO
    },
    JAVA,
    App {
        name: "java-loop-ipv6",
        what: "the same over sockets of both families, which are the kernel's",
        bypasses: false,
        run: |stage| java(stage, "-Xmx128m"),
        ..JAVA
    },
    App {
        name: "grpc-python",
        what: "gRPC of Python, four channels of unary calls and streams",
        unit: "calls/s",
        needs: &[Package { program: "/usr/lib/python3/dist-packages/grpc", package: "python3-grpcio" }],
        bypasses: false,
        run: |stage| {
            let script: PathBuf = [ROOT, "tests/apps/grpc_echo.py"].iter().collect();
            round_trips(stage, |program| program.words("-u").argument(&script), Path::new("/usr/bin/python3"))
        },
        ..ASIO
    },
];

/// Both ends: `program` with the role, the address, and for the client how long.
fn round_trips(stage: &Stage<'_>, program: impl Fn(Program) -> Program, name: &Path) -> Result<Figures> {
    let place = format!("{} {PORT}", stage.hosts.right.address);
    let at = |host: Program, role: &str| program(host.any_cpu()).words(role).words(&place);
    let name = name.to_str().ok_or_else(|| Error::new("a path that is no text"))?;
    let server = stage.serve(&at(stage.server(name), "server"), PORT)?;
    let client = at(stage.client(name), "client").argument(stage.seconds.to_string());
    let said = stage.ask(&client)?.stdout;
    let complaints = end(server)?.stderr;
    if complaints.contains("error") || complaints.contains("ended") || complaints.contains("Exception") {
        return Err(Error::new(format!("the server complained:\n{complaints}")));
    }
    Ok(Figures { rate: parse::number(&said, "round trips/s")?, ..Figures::default() })
}

/// A program of `tests/apps/loops`, compiled unless it has been since its sources changed.
fn compiled(stage: &Stage<'_>, source: &str, libraries: &[&str]) -> Result<Figures> {
    let folder: PathBuf = [ROOT, "tests/apps/loops"].iter().collect();
    let (compiler, standard) = match source.ends_with(".c") {
        true => ("cc", "-std=gnu11"),
        false => ("g++", "-std=c++17"),
    };
    let executable = PathBuf::from(ROOT).join("target/loops").join(source).with_extension("");
    if !is_newer(&executable, &folder) {
        std::fs::create_dir_all(executable.parent().unwrap_or(&folder)).context("target/loops")?;
        let mut command = Command::new(compiler);
        command.args([standard, "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&executable);
        run_tool(command.arg(folder.join(source)).args(libraries))?;
    }
    round_trips(stage, |program| program, &executable)
}

/// Whether the file is newer than all in the folder.
fn is_newer(file: &Path, folder: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let Some(built) = changed(file) else { return false };
    let sources = std::fs::read_dir(folder).into_iter().flatten().flatten();
    sources
        .map(|source| changed(&source.path()))
        .all(|changed| changed.is_some_and(|changed| changed < built))
}

fn tokio(stage: &Stage<'_>, runtime: &str) -> Result<Figures> {
    static BUILD: Once = Once::new();
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(ROOT).join("target"), PathBuf::from);
    let executable = target.join("release/tokio-echo");
    let mut built = Ok(());
    BUILD.call_once(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(ROOT).args(["build", "--release", "--quiet", "-p", "tokio-echo"]);
        built = run_tool(&mut cargo).map(drop);
    });
    built?;
    round_trips(stage, |program| program.argument(runtime), &executable)
}

/// Compiled before it is started, so that the compiler never runs under the library.
fn java(stage: &Stage<'_>, options: &str) -> Result<Figures> {
    let folder = stage.folder.0.clone();
    let source: PathBuf = [ROOT, "tests/apps/loops/LoopNio.java"].iter().collect();
    stage.ask(&stage.hosts.left.program("javac").argument("-d").argument(&folder).argument(source))?;
    let java =
        |program: Program| program.words(options).argument("-cp").argument(&folder).argument("LoopNio");
    round_trips(stage, java, Path::new("java"))
}
