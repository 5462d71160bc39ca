//! The lines of the start-up banner, in VMA's format, without their level and prefix.

use crate::parameters::{Parameters, ROWS};

/// The rule above and below the banner.
pub const RULE: &str = "---------------------------------------------------------------------------";

/// One parameter's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `Label   value   [VARIABLE]`.
    pub text: String,
    /// Whether the value is not the default: such lines are shown at INFO, the others at DETAILS.
    pub changed: bool,
}

/// These count as changed whatever they are, as in VMA.
const ALWAYS: [&str; 2] = ["VMA_TRACELEVEL", "VMA_LOG_FILE"];

/// All parameters' lines in the table's order.
pub fn lines(parameters: &Parameters) -> Vec<Line> {
    let defaults = Parameters::default();
    ROWS.iter()
        .map(|row| {
            let (value, default) = (row.value(parameters), row.value(&defaults));
            let changed = value != default || ALWAYS.contains(&row.name);
            // What is not in force must not look so.
            let idle = if row.unused.is_some() { "  no effect" } else { "" };
            Line { text: format!("{:<30} {:<26} [{}]{idle}", row.label, value, row.name), changed }
        })
        .collect()
}

/// The parameters whose value is not the default: variable and value.
pub fn changed(parameters: &Parameters) -> Vec<(&'static str, String)> {
    let defaults = Parameters::default();
    ROWS.iter()
        .map(|row| (row, row.value(parameters)))
        .filter(|(row, value)| *value != row.value(&defaults))
        .map(|(row, value)| (row.name, value))
        .collect()
}
