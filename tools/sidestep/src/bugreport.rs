//! `sidestep bugreport`: one archive with what support needs. What is in it is listed before it is written; on request
//! addresses and names are replaced.

mod contents;
mod redaction;

use clap::{Arg, ArgAction, ArgMatches, Command};
use contents::Document;
use redaction::Redaction;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

pub(crate) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("bugreport")
        .about("Collect what support needs into one archive")
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .default_value("sidestep-bugreport.tar.gz")
                .help("The archive; it must not exist"),
        )
        .arg(flag("redact", "Replace addresses, names of hosts and what looks like a secret"))
        .arg(flag("list", "List what it would have, and end"))
        .arg(flag("yes", "Do not ask before it is written").short('y'))
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let mut documents = contents::collect()?;
    if options.get_flag("redact") {
        let mut redaction = Redaction::new(&contents::host_name());
        for document in &mut documents {
            document.text = redaction.of(&document.text);
        }
    }
    for document in &documents {
        println!("{:28} {:>8} bytes  {}", document.name, document.text.len(), document.about);
    }
    if !options.get_flag("redact") {
        println!("Addresses and names are in it as they are; --redact replaces them.");
    }
    if options.get_flag("list") {
        return Ok(ExitCode::SUCCESS);
    }
    let path = options.get_one::<String>("output").map_or("", String::as_str);
    if !options.get_flag("yes") {
        if !std::io::stdin().is_terminal() {
            return Err("it asks before it writes, and standard input is no terminal: -y (--yes) writes it"
                .to_owned());
        }
        print!("Write {path}? [y/N] ");
        let _ = std::io::stdout().flush();
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        if !line.trim().eq_ignore_ascii_case("y") {
            println!("Nothing was written.");
            return Ok(ExitCode::SUCCESS);
        }
    }
    write(path, &documents).map_err(|error| format!("cannot write {path}: {error}"))?;
    println!("{path} is written; nothing was sent anywhere.");
    Ok(ExitCode::SUCCESS)
}

/// For its owner alone, and never over something that is there.
fn write(path: &str, documents: &[Document]) -> std::io::Result<()> {
    let file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::default()));
    for document in documents {
        let mut header = tar::Header::new_gnu();
        header.set_size(document.text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(now());
        let name = format!("sidestep-bugreport/{}", document.name);
        archive.append_data(&mut header, name, document.text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
