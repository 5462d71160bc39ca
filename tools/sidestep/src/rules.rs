//! `sidestep rules explain`: which line of libvma.conf decides about a socket.

use clap::{Arg, ArgAction, ArgMatches, Command};
use config::rules::Explained;
use config::{Parameters, Role, Rules};
use std::ffi::CString;
use std::net::SocketAddrV4;
use std::process::ExitCode;

pub(crate) fn command() -> Command {
    let value = |name: &'static str, of: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(of).help(help)
    };
    let roles: Vec<&'static str> = Role::ALL.map(|(_, name)| name).to_vec();
    Command::new("rules")
        .about("Explain which rule of libvma.conf decides about a socket")
        .arg(Arg::new("action").required(true).value_parser(["explain"]).help("What to do with the rules"))
        .arg(value("program", "NAME", "The program's name; of a path, the last part").required(true))
        .arg(value("role", "ROLE", "What the socket does").required(true).value_parser(roles))
        .arg(value("peer", "ADDRESS:PORT", "The remote end").value_parser(clap::value_parser!(SocketAddrV4)))
        .arg(value("local", "ADDRESS:PORT", "The local end").value_parser(clap::value_parser!(SocketAddrV4)))
        .arg(value("application-id", "ID", "As VMA_APPLICATION_ID; that is the default"))
        .arg(value("file", "PATH", "The rules; default VMA_CONFIG_FILE, or /etc/libvma.conf"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object"))
        .after_help(
            "Example: sidestep rules explain --program nginx --role tcp_client --peer 10.0.0.7:80\n\n\
             Exit status: 0 the rules let it be accelerated; 1 they leave it to the kernel; 2 the file cannot be read, or a line or word is wrong.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name: &str| options.get_one::<String>(name).cloned();
    let (parameters, _) = crate::params::in_force();
    let path = text("file").unwrap_or(parameters.config_file);
    let content = read(&path)?;
    let (rules, notices) = Rules::parse(&path, &content);
    let problems: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
    problems.iter().for_each(|problem| eprintln!("sidestep rules: {problem}"));
    let role = text("role").and_then(|name| Role::ALL.into_iter().find(|(_, known)| *known == name));
    let (role, _) = role.ok_or("--role is needed")?;
    let named = text("program").unwrap_or_default();
    let program = name_of(&named);
    let id = text("application-id").unwrap_or(parameters.application_id);
    let end = |name: &str| options.get_one::<SocketAddrV4>(name).copied();
    let told = rules.explain(role, program, &id, end("local"), end("peer"));
    let line =
        told.line.map(|line| (line, content.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim()));
    if options.get_flag("json") {
        println!("{}", json(&path, &told, line, &problems));
    } else {
        print!("{}", page(&path, program, &id, &told, line));
    }
    match problems.is_empty() {
        true => Ok(ExitCode::from(u8::from(!told.accelerates))),
        false => Ok(ExitCode::from(2)),
    }
}

/// The rules as a program under the library reads them: no more of a file, and no longer than there is something to be
/// read.
fn read(path: &str) -> Result<String, String> {
    let name = CString::new(path).map_err(|_| format!("cannot read {path:?}: a null byte in it"))?;
    match sys::file::read_whole(&name, config::FILE_MAX) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(libc::ENOENT) if path == Parameters::default().config_file => {
            eprintln!("sidestep rules: {path} is not there: there are no rules");
            Ok(String::new())
        }
        Err(libc::EFBIG) => {
            Err(format!("cannot read {path}: it has more than 1 MiB, so the library does not read it"))
        }
        Err(errno) => Err(format!("cannot read {path}: {}", sys::Errno(errno))),
    }
}

/// By what name rules know a program: without its folder, as libc has it (program_invocation_short_name).
fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn page(path: &str, program: &str, id: &str, told: &Explained, line: Option<(usize, &str)>) -> String {
    let who = match &told.group {
        Some((pattern, of)) => format!("group:    application-id {pattern} {of}\n"),
        None => format!("group:    none fits {program} with the id {id}\n"),
    };
    let rule = match line {
        Some((number, text)) => format!("rule:     {path}:{number}: {text}\n"),
        None => "rule:     none fits, so nothing stands against acceleration\n".to_owned(),
    };
    let answer = if told.accelerates {
        "accelerated, where interface and privileges allow it (sidestep run --check)"
    } else {
        "left to the kernel"
    };
    format!("{who}{rule}decision: {answer}\n")
}

fn json(path: &str, told: &Explained, line: Option<(usize, &str)>, problems: &[&str]) -> serde_json::Value {
    serde_json::json!({
        "file": path,
        "accelerates": told.accelerates,
        "problems": problems,
        "line": line.map(|(number, _)| number),
        "rule": line.map(|(_, text)| text),
        "group": told.group.as_ref().map(|(program, id)| serde_json::json!({"program": program, "id": id})),
    })
}
