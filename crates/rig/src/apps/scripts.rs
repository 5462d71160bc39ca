//! Servers written in Python, JavaScript and Java, as their manuals teach: `tests/apps/`. wrk asks them all.

use std::path::PathBuf;

use super::nginx::http;
use super::{App, Figures, Stage};
use crate::{Error, Package, Program, Result};

const PORT: u16 = 8000;
/// What every one of them answers.
const ANSWER: &str = "hello from a script\n";
/// Debian's own, never a version manager's wrapper script.
const PYTHON: &str = "/usr/bin/python3";
const WRK: Package = Package { program: "wrk", package: "wrk" };
const CURL: Package = Package { program: "curl", package: "curl" };

const ASYNCIO: App = App {
    name: "asyncio",
    what: "Python asyncio server, wrk with 10 connections",
    unit: "requests/s",
    needs: &[Package { program: PYTHON, package: "python3" }, WRK, CURL],
    middle: false,
    bypasses: true,
    beside: 0,
    large: false,
    goal: None,
    run: |stage| script(stage, PYTHON, &["-u"], "http_asyncio.py"),
};

pub(super) const APPS: &[App] = &[
    ASYNCIO,
    App {
        name: "threaded",
        what: "Python ThreadingHTTPServer, a thread per connection",
        run: |stage| script(stage, PYTHON, &["-u"], "http_threads.py"),
        ..ASYNCIO
    },
    App {
        name: "node",
        what: "Node http server",
        large: true,
        needs: &[Package { program: "node", package: "nodejs" }, WRK, CURL],
        run: |stage| script(stage, "node", &[], "http_node.js"),
        ..ASYNCIO
    },
    App {
        name: "java-nio",
        what: "Java NIO selector server",
        large: true,
        needs: &[Package { program: "java", package: "default-jdk-headless" }, WRK, CURL],
        run: java,
        ..ASYNCIO
    },
];

fn source(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/apps", name].iter().collect()
}

fn script(stage: &Stage<'_>, interpreter: &str, options: &[&str], name: &str) -> Result<Figures> {
    let program = options.iter().fold(stage.server(interpreter), Program::argument);
    serve(stage, program.argument(source(name)))
}

/// Compiled before it is started, so that the compiler never runs under the library.
fn java(stage: &Stage<'_>) -> Result<Figures> {
    let folder = stage.folder.0.clone();
    let compile = stage.hosts.left.program("javac").argument("-d").argument(&folder);
    stage.ask(&compile.argument(source("HttpNio.java")))?;
    // Otherwise Java's sockets are IPv6 ones, which are left to the kernel.
    let options = "-Djava.net.preferIPv4Stack=true -Xmx256m -cp";
    let program = stage.server("java").words(options).argument(&folder);
    serve(stage, program.argument("HttpNio"))
}

fn serve(stage: &Stage<'_>, program: Program) -> Result<Figures> {
    let address = stage.hosts.right.address;
    let server = stage.serve(&program.words(&format!("{address} {PORT}")), PORT)?;
    let figures = http(stage, address, PORT, "", ANSWER, "")?;
    let said = server.kill()?.stderr;
    if said.contains("Traceback") || said.contains("Exception") || said.contains("Error") {
        return Err(Error::new(format!("the server complained:\n{said}")));
    }
    Ok(figures)
}
