//! `sidestep`: what helps people who run accelerated programs. Each subcommand is one row of [`SUBCOMMANDS`] and one
//! module; the rest of this file only finds the row.

mod bugreport;
mod capture;
mod completions;
mod doctor;
mod hold;
mod host;
mod measure;
mod params;
mod perf;
mod rules;
mod run;
mod status;
mod top;

use std::process::ExitCode;

/// One subcommand: how it is called, and what runs it.
struct Subcommand {
    /// Its options, and the line that the list of subcommands shows.
    command: fn() -> clap::Command,
    /// Runs it. An error is a message for the user, and exit status 2.
    run: fn(&clap::ArgMatches) -> Result<ExitCode, String>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { command: doctor::command, run: doctor::run },
    Subcommand { command: bugreport::command, run: bugreport::run },
    Subcommand { command: run::command, run: run::run },
    Subcommand { command: rules::command, run: rules::run },
    Subcommand { command: params::command, run: params::run },
    Subcommand { command: perf::command, run: perf::run },
    Subcommand { command: top::command, run: top::run },
    Subcommand { command: capture::command, run: capture::run },
    Subcommand { command: status::command, run: status::run },
    Subcommand { command: hold::command, run: hold::run },
    Subcommand { command: measure::ping_pong::command, run: measure::ping_pong::run },
    Subcommand { command: completions::command, run: completions::run },
];

fn program() -> clap::Command {
    let program = clap::Command::new("sidestep")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Helps people who run programs under libvma.so and libsdp.so")
        .after_help("`sidestep SUBCOMMAND --help` has the options; sidestep(1) is the manual.")
        .subcommand_required(true)
        .arg_required_else_help(true);
    program.subcommands(SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)()))
}

fn main() -> ExitCode {
    // A pager that has enough ends us quietly, as it ends other tools.
    host::system::die_with_the_pipe();
    let matches = program().get_matches();
    let Some((name, options)) = matches.subcommand() else { return ExitCode::from(2) };
    let found = SUBCOMMANDS.iter().find(|subcommand| (subcommand.command)().get_name() == name);
    let outcome = found.map_or_else(|| Err(format!("no subcommand {name}")), |found| (found.run)(options));
    outcome.unwrap_or_else(|message| {
        eprintln!("sidestep {name}: {message}");
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::program().debug_assert();
    }
    /// The manual has every option of every subcommand, and none that is not there.
    #[test]
    fn the_manual_has_every_option() {
        for subcommand in super::program().get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let name = subcommand.get_name();
            let page = |name: &str| {
                std::fs::read_to_string(format!("{}/../../man/{name}.1", env!("CARGO_MANIFEST_DIR")))
            };
            assert!(page("sidestep").unwrap().contains(&format!(".B {name}")), "sidestep.1 has no {name}");
            if name == "completions" {
                continue;
            }
            let page = page(&format!("sidestep-{name}")).unwrap().replace('\\', "");
            let options = subcommand.get_arguments().filter_map(|argument| argument.get_long());
            let mut known: Vec<String> = options.map(|name| format!("--{name}")).collect();
            known.push("--help".to_owned());
            for option in &known {
                assert!(page.contains(option.as_str()), "sidestep-{name}.1 has no {option}");
            }
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
            for word in page.split(|c| !is_part(c)).filter(|word| word.starts_with("--") && word.len() > 2) {
                assert!(known.iter().any(|option| option == word), "sidestep-{name}.1 has {word}");
            }
        }
    }
}
