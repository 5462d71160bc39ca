//! `sidestep run`: starts a program under the library, after it looked whether that can work, and says what will not.

mod checks;

use checks::Finding;
use clap::{Arg, ArgAction, ArgMatches, Command};
use config::choice::Spec;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};

pub(crate) fn command() -> Command {
    let value = |name: &'static str, of: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(of).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let specs: Vec<&'static str> = Spec::ALL.iter().map(|spec| spec.name()).collect();
    Command::new("run")
        .about("Start a program under the library, and say first what will not be accelerated")
        .arg(value("profile", "NAME", "A ready-made set of parameters (VMA_SPEC)").value_parser(specs))
        .arg(value("interfaces", "LIST", "Which interfaces are accelerated (SIDESTEP_INTERFACES)"))
        .arg(value("library", "PATH", "Another libvma.so than the installed one"))
        .arg(flag("hold", "Keep processors from deep sleep while the program lives, as sidestep hold"))
        .arg(flag("strict", "Do not start what cannot be accelerated, and let sockets fail that are not (SIDESTEP_STRICT)"))
        .arg(flag("check", "Only look, and start nothing"))
        .arg(flag("json", "With --check: print what was found as one JSON object").requires("check"))
        .arg(
            Arg::new("program")
                .value_name("PROGRAM")
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(clap::value_parser!(OsString))
                .help("The program and its arguments"),
        )
        .after_help(
            "Example: sidestep run --interfaces eth1 --profile latency -- redis-server --port 7000\n\n\
             Exit status: that of the program; with --check 0 nothing stands against acceleration, 1 something does; \
             2 the program was not started, with the reason.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let words: Vec<OsString> = options.get_many("program").into_iter().flatten().cloned().collect();
    let (program, arguments) = words.split_first().ok_or("which program?")?;
    let path = checks::locate(Path::new(program))?;
    let library = options.get_one::<String>("library").map(PathBuf::from);
    let library = library.map_or_else(
        || installed("libvma.so"),
        |given| given.canonicalize().map_err(|error| format!("{}: {error}", given.display())),
    )?;
    let interfaces = options.get_one::<String>("interfaces").cloned();
    let findings = checks::all(&path, interfaces.as_deref());
    let stands = findings.iter().any(|finding| finding.stops);
    if options.get_flag("json") {
        println!("{}", json(&path, &library, &findings));
    } else {
        findings.iter().for_each(|finding| eprintln!("sidestep run: {}", finding.text));
    }
    if options.get_flag("check") {
        return Ok(ExitCode::from(u8::from(stands)));
    }
    if stands && options.get_flag("strict") {
        return Err("not started (--strict)".to_owned());
    }
    let mut command = std::process::Command::new(&path);
    command.arg0(program).args(arguments);
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    if let Some(profile) = options.get_one::<String>("profile") {
        command.env("VMA_SPEC", profile);
    }
    if let Some(interfaces) = interfaces {
        command.env("SIDESTEP_INTERFACES", interfaces);
    }
    if options.get_flag("strict") {
        command.env("SIDESTEP_STRICT", "1");
    }
    let holder = if options.get_flag("hold") { held(options.get_flag("strict"))? } else { None };
    let error = command.exec();
    if let Some(mut holder) = holder {
        let _ = holder.kill();
        let _ = holder.wait();
    }
    Err(format!("{}: {error}", path.display()))
}

/// Who holds the idle states for this process; `None`: nobody could, which has been said and is no reason not to start.
fn held(strict: bool) -> Result<Option<Child>, String> {
    match crate::hold::holder(0) {
        Ok(holder) => Ok(Some(holder)),
        Err(error) if strict => Err(format!("not started (--strict): {error}")),
        Err(_) => Ok(None),
    }
}

/// The library of that name beside this program: of a build, of a tarball, of a package; else the loader is asked by
/// the name alone.
pub(crate) fn installed(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let found = ["", "../lib", "../lib/x86_64-linux-gnu", "../lib64"]
        .iter()
        .map(|place| folder.join(place).join(name))
        .find(|place| place.is_file());
    Ok(found.and_then(|found| found.canonicalize().ok()).unwrap_or_else(|| PathBuf::from(name)))
}

fn json(program: &Path, library: &Path, findings: &[Finding]) -> serde_json::Value {
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| serde_json::json!({"check": finding.check, "stops": finding.stops, "text": finding.text}))
        .collect();
    serde_json::json!({
        "program": program.to_string_lossy(),
        "library": library.to_string_lossy(),
        "findings": findings,
    })
}
