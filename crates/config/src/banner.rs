//! The lines of the start-up banner, in VMA's format, without their level and prefix.

use crate::choice::Spec;
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

/// All parameters' lines in the table's order; the log level always counts as changed, as in VMA.
pub fn lines(parameters: &Parameters) -> Vec<Line> {
    let defaults = Parameters::default();
    ROWS.iter()
        .map(|row| {
            let (value, default) = (row.value(parameters), row.value(&defaults));
            let changed = value != default || row.name == "VMA_TRACELEVEL";
            Line { text: format!("{:<30} {:<26} [{}]", row.label, value, row.name), changed }
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

/// What VMA's banner calls the profile.
pub fn spec_title(spec: Spec) -> &'static str {
    match spec {
        Spec::None => "NONE",
        Spec::UltraLatency => "Ultra Latency",
        Spec::Latency => "Latency",
        Spec::West29 => "29West LBM Logic",
        Spec::WombatFh => "Wombat FH LBM Logic",
        Spec::Mcd => "Memcached Logic",
        Spec::McdIrq => "Memcached Interrupt Mode",
        Spec::Rti => "RTI Logic",
        Spec::Sr7750 => "7750 Low Latency Profile",
        Spec::MultiRingLatency => "Multi Ring Latency Profile",
    }
}
