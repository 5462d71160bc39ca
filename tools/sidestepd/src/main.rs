//! `sidestepd`: the keeper of a network namespace. Programs under libvma.so that have no privilege ask it, over a Unix
//! socket, for what needs one.
//!
//! A thread for each client, so that whoever passes a descriptor on which a call never returns (a file of FUSE, a
//! socket that somebody holds) stops only himself.
//!
//! Reading order: `clients.rs` (who is there, how many, until when), `session.rs` (one client; how it is answered is in
//! `keeper::session`), `policy.rs` (who may), `refusals.rs` (who was refused), `status.rs` (what is told of it all),
//! `listening.rs` (where it listens), `log.rs` (what it says).

// What panics where standard error is gone.
#![deny(clippy::print_stderr)]

mod clients;
mod interfaces;
mod listening;
mod log;
mod names;
mod policy;
mod refusals;
mod session;
mod status;
mod telling;

use clap::{Arg, ArgAction, Command, value_parser};
use clients::{Keeper, Limits};
use interfaces::{Held, Settings};
use listening::Listening;
use log::say;
use netlink::Netlink;
use policy::Policy;
use std::process::ExitCode;
use std::time::Duration;

fn program() -> Command {
    let list = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append)
    };
    Command::new("sidestepd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Does for accelerated programs what they have no privilege for")
        .after_help("sidestepd(8) is the manual.")
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .help("Where to listen [default: /run/sidestep/keeper-INODE of this network namespace]"),
        )
        .arg(list("user", "USER", "Admit this user, by name or number, beside root (may be repeated)"))
        .arg(list(
            "group",
            "GROUP",
            "Admit members of this group, instead of those of `sidestep` (may be repeated)",
        ))
        .arg(
            Arg::new("interfaces")
                .long("interfaces")
                .value_name("LIST")
                .default_value("auto")
                .help("Interfaces to hold, as SIDESTEP_INTERFACES names them"),
        )
        .arg(
            Arg::new("hold")
                .long("hold")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64))
                .default_value("10")
                .help("Keep an interface so long after the last program has left it"),
        )
        .arg(
            Arg::new("frames")
                .long("frames")
                .value_name("COUNT")
                .value_parser(value_parser!(u32).range(256..=1_048_576))
                .default_value("16384")
                .help("Packet buffers of each interface, 4 KiB each, for all its programs"),
        )
        .arg(
            Arg::new("linger")
                .long("linger")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64))
                .help("End so many seconds after the last client has left [default: stay]"),
        )
}

fn main() -> ExitCode {
    match run(&program().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &clap::ArgMatches) -> Result<(), String> {
    // A program that started this one blocked them.
    sys::thread::set_mask(0);
    // Clients have threads, and each heap keeps the most that it ever had.
    sys::memory::one_heap();
    let words = |name: &str| options.get_many::<String>(name).into_iter().flatten().map(String::as_str);
    let policy = Policy::new(words("user"), words("group"))?;
    let listening = Listening::begin(options.get_one::<String>("socket").map(String::as_str))?;
    let linger = options.get_one::<u64>("linger").map(|seconds| Duration::from_secs(*seconds));
    let socket = listening.path().to_owned();
    let keeper = Keeper::new(policy, Limits::default(), socket, Held::new(settings(options)?))?;
    let files = libc::RLIMIT_NOFILE as i32;
    if let Ok(limit) = sys::process::limit(files) {
        let _ = sys::process::set_limit(files, sys::process::Limit { soft: limit.hard, ..limit });
    }
    // Programs that wait for an answer may spin on all processors.
    let _ = sys::process::set_nice(-15);
    if sys::process::confine(interfaces::CAPABILITIES).is_err() {
        return Err("privileges could not be given up".to_owned());
    }
    if !clients::can_repair() {
        return Err("CAP_NET_ADMIN is needed in the user namespace of this network namespace".to_owned());
    }
    say!("listens at {}", listening.path());
    keeper.serve(listening, linger);
    Ok(())
}

fn settings(options: &clap::ArgMatches) -> Result<Settings, String> {
    let list = options.get_one::<String>("interfaces").map_or("auto", String::as_str);
    let (interfaces, notices) = config::Interfaces::parse(list);
    if let Some(notice) = notices.first() {
        return Err(notice.text.clone());
    }
    look_for_named(&interfaces);
    let hold = Duration::from_secs(options.get_one::<u64>("hold").copied().unwrap_or(0));
    let frames = options.get_one::<u32>("frames").copied().unwrap_or(0);
    Ok(Settings { interfaces, hold, frames })
}

/// Tells of names that no interface has.
fn look_for_named(interfaces: &config::Interfaces) {
    let Ok(links) = Netlink::open().and_then(|mut netlink| netlink.links()) else { return };
    for pattern in interfaces.chosen() {
        if !links.iter().any(|link| config::glob::matches(pattern, &link.name)) {
            let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            let names = names.join(", ");
            say!("--interfaces: no interface is called {pattern} so far; there are: {names}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::program().debug_assert();
    }

    /// The manual has every option, and none that is not there.
    #[test]
    fn the_manual_has_every_option() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../man/sidestepd.8");
        let page = std::fs::read_to_string(page).unwrap().replace('\\', "");
        let program = super::program();
        let options = program.get_arguments().filter_map(|argument| argument.get_long());
        let mut known: Vec<String> = options.map(|name| format!("--{name}")).collect();
        known.extend(["--help".to_owned(), "--version".to_owned()]);
        for option in &known {
            assert!(page.contains(option.as_str()), "sidestepd.8 has no {option}");
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        for word in page.split(|c| !is_part(c)).filter(|word| word.starts_with("--") && word.len() > 2) {
            assert!(known.iter().any(|option| option == word), "sidestepd.8 has {word}");
        }
    }
}
