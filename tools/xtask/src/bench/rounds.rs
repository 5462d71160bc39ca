//! What several rounds of one program gave, and what a table says of them.

use rig::apps::Figures;

use super::median;

/// Rounds that went well, in order.
#[derive(Default)]
pub(super) struct Rounds(pub(super) Vec<Figures>);

impl Rounds {
    pub(super) fn rate(&self) -> f64 {
        median(self.0.iter().map(|round| round.rate))
    }

    /// The rate of the round that others on the machine disturbed least.
    pub(super) fn best(&self) -> f64 {
        self.0.iter().map(|round| round.rate).fold(f64::NAN, f64::max)
    }

    pub(super) fn percentile(&self, of: impl Fn(&Figures) -> Option<f64>) -> f64 {
        median(self.0.iter().filter_map(of))
    }
}
