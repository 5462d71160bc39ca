//! `sidestep params`: the parameters, what they mean, and what the environment sets them to.

use clap::{Arg, ArgAction, ArgMatches, Command};
use config::choice::Spec;
use config::{Notice, Parameters, ROWS, Row, TraceLevel, profile};
use std::process::ExitCode;

pub(crate) fn command() -> Command {
    Command::new("params")
        .about("Show parameters: what they mean, take, and are set to by this environment")
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .help("This parameter, with all that is known of it, or those whose names have this in them"),
        )
        .arg(
            Arg::new("changed")
                .long("changed")
                .action(ArgAction::SetTrue)
                .conflicts_with("name")
                .help("Only those that are not the default"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON object for each, in a list"),
        )
        .after_help(
            "A name may lack its VMA_ or SIDESTEP_, in any case: sidestep params rx_poll\n\n\
             Exit status: 0 done; 1 the environment has a value that is not understood; 2 no such parameter.",
        )
}

/// What a program in this environment would have, and what it would be told.
pub(crate) fn in_force() -> (Parameters, Vec<Notice>) {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Parameters::from_env(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let (parameters, notices) = in_force();
    let loud: Vec<&Notice> = notices.iter().filter(|notice| notice.level <= TraceLevel::Warning).collect();
    loud.iter().for_each(|notice| eprintln!("sidestep params: {}", notice.text));
    let named = options.get_one::<String>("name");
    let rows: Vec<&Row> = match named {
        Some(name) => find(name)?,
        None if options.get_flag("changed") => {
            let defaults = Parameters::default();
            ROWS.iter().filter(|row| row.value(&parameters) != row.value(&defaults)).collect()
        }
        None => ROWS.iter().collect(),
    };
    if options.get_flag("json") {
        let all: Vec<serde_json::Value> = rows.iter().map(|row| json(row, &parameters)).collect();
        println!("{}", serde_json::Value::from(all));
    } else if named.is_some() && rows.len() == 1 {
        rows.iter().for_each(|row| print!("{}", page(row, &parameters)));
    } else {
        rows.iter().for_each(|row| print!("{}", line(row, &parameters)));
    }
    Ok(ExitCode::from(u8::from(!loud.is_empty())))
}

/// By its name or an old one, whole or without its prefix; else all that have this in their names.
fn find(name: &str) -> Result<Vec<&'static Row>, String> {
    let name = name.to_ascii_uppercase();
    let candidates = [name.clone(), format!("VMA_{name}"), format!("SIDESTEP_{name}")];
    let known = |row: &&Row| candidates.iter().any(|candidate| row.is_named(candidate));
    if let Some(row) = ROWS.iter().find(known) {
        return Ok(vec![row]);
    }
    let similar: Vec<&Row> = ROWS.iter().filter(|row| row.name.contains(&name)).collect();
    if similar.is_empty() {
        return Err(format!("no parameter has {name} in its name; `sidestep params` lists all"));
    }
    Ok(similar)
}

fn line(row: &Row, parameters: &Parameters) -> String {
    let mark = if row.unused.is_some() { "  no effect" } else { "" };
    format!("{:<38} {}{mark}\n", row.name, shown(&row.value(parameters)))
}

fn page(row: &Row, parameters: &Parameters) -> String {
    let doc = row.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = format!("{}\n    {doc}\n", row.name);
    if let Some(why) = row.unused {
        out += &format!("    No effect: {why}.\n");
    }
    out += &format!("    takes      {}\n", row.takes());
    out += &format!("    default    {}\n", shown(&row.value(&Parameters::default())));
    out += &format!("    here       {}\n", shown(&row.value(parameters)));
    if !row.aliases.is_empty() {
        out += &format!("    old names  {}\n", row.aliases.join(", "));
    }
    if row.name == "VMA_SPEC" {
        out += &profiles();
    }
    out
}

/// The profiles, with what each sets and what it leaves out.
fn profiles() -> String {
    let mut out = String::new();
    for spec in Spec::ALL.iter().copied().filter(|spec| *spec != Spec::None) {
        out += &format!("\n    {}\n", spec.name());
        for (name, value) in profile::settings(spec) {
            out += &format!("        {name}={value}\n");
        }
        for (setting, reason) in profile::left_out(spec) {
            out += &format!("        left out: {setting} ({reason})\n");
        }
    }
    out
}

fn shown(value: &str) -> &str {
    if value.trim().is_empty() { "(empty)" } else { value.trim() }
}

fn json(row: &Row, parameters: &Parameters) -> serde_json::Value {
    serde_json::json!({
        "name": row.name,
        "old_names": row.aliases,
        "group": row.group,
        "means": row.doc.split_whitespace().collect::<Vec<_>>().join(" "),
        "takes": row.takes(),
        "default": row.value(&Parameters::default()).trim(),
        "value": row.value(parameters).trim(),
        "no_effect": row.unused,
    })
}
