//! The environment: profile first, then every variable that is set explicitly, then what follows from both.

use crate::choice::{Moderation, TraceLevel};
use crate::notice::{Notice, quoted};
use crate::parameters::{Parameters, ROWS};
use crate::profile;

/// Names that begin so are ours to judge.
const PREFIXES: [&str; 2] = ["VMA_", "SIDESTEP_"];

/// What says how interrupts are moderated, and so that they are.
const MODERATING: [&str; 7] = [
    "VMA_CQ_MODERATION_COUNT",
    "VMA_CQ_MODERATION_PERIOD_USEC",
    "VMA_CQ_AIM_MAX_COUNT",
    "VMA_CQ_AIM_MAX_PERIOD_USEC",
    "VMA_CQ_AIM_MAX_PERIOD_US",
    "VMA_CQ_AIM_INTERVAL_MSEC",
    "VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC",
];

/// Edits between an unknown name and a known one that still look like a slip of the finger.
const SLIP_MAX: usize = 2;

impl Parameters {
    /// Reads the environment. Never fails: whatever cannot be used is told and replaced.
    pub fn from_env<'a>(environment: impl Iterator<Item = (&'a str, &'a str)>) -> (Parameters, Vec<Notice>) {
        let mut parameters = Parameters::default();
        let mut notices = Vec::new();
        let mut ours: Vec<(&str, &str)> = Vec::new();
        for (name, value) in environment {
            let known = Parameters::row(name).is_some();
            if !known && PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                notices.push(unknown(name));
            }
            // As getenv(3): the first of several wins.
            if known && !ours.iter().any(|(earlier, _)| *earlier == name) {
                ours.push((name, value));
            }
        }
        let value_of = |name: &str| ours.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);

        if let Some(text) = value_of("VMA_SPEC") {
            notices.extend(parameters.set("VMA_SPEC", text));
        }
        notices.extend(profile::apply(parameters.spec, &mut parameters));
        for (name, value) in ours.iter().filter(|(name, _)| *name != "VMA_SPEC") {
            notices.extend(parameters.set(name, value));
        }
        let is_given = |name: &str| value_of(name).is_some();
        if parameters.cq_moderation_enable == Moderation::Driver
            && MODERATING.iter().any(|name| is_given(name))
        {
            parameters.cq_moderation_enable = Moderation::On;
        }
        parameters.apply_implied(is_given("VMA_LOG_DETAILS"));
        parameters.size(is_given);
        (parameters, notices)
    }

    /// Sets one parameter from its variable; what is told about it.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Vec<Notice> {
        let Some(row) = Parameters::row(name) else {
            return vec![unknown(name)];
        };
        let mut notices = Vec::new();
        if row.name != name {
            notices.push(Notice::warning(format!("{name} is an old name; please use {}", row.name)));
        }
        match ((row.set)(self, value), row.unused) {
            (Ok(()), Some(why)) => {
                notices.push(Notice::debug(format!("{name}={}: accepted, no effect: {why}", quoted(value))));
            }
            (Err(trouble), Some(why)) => {
                notices.push(Notice::warning(format!("{name}: {trouble}; of no effect here: {why}")));
            }
            (Err(trouble), None) => notices.push(Notice::warning(format!("{name}: {trouble}"))),
            (Ok(()), None) => {}
        }
        notices
    }

    /// What one parameter implies for another.
    fn apply_implied(&mut self, log_details_given: bool) {
        if self.select_poll_os_force {
            self.select_poll_os_ratio = 1;
            self.select_skip_os = 1;
        }
        if self.tracelevel >= TraceLevel::Debug && !log_details_given {
            self.log_details = 2;
        }
        if self.tcp_timer_resolution_msec < self.timer_resolution_msec {
            self.tcp_timer_resolution_msec = self.timer_resolution_msec;
        }
        // Moderated interrupts serve nobody who never sleeps.
        if self.cq_moderation_enable == Moderation::On && (self.rx_poll == -1 || self.select_poll == -1) {
            self.cq_moderation_enable = Moderation::Off;
        }
        // Queue depths that VMA derives from one another.
        self.rx_wre = self.rx_wre.max(2 * self.rx_wre_batching);
        self.tx_wre = self.tx_wre.max(2 * self.tx_wre_batching);
        if self.cq_moderation_enable == Moderation::Off {
            self.cq_aim_interval_msec = 0;
        }
        self.cq_moderation_count = self.cq_moderation_count.min(self.rx_wre / 2);
        self.cq_aim_max_count = self.cq_aim_max_count.min(self.rx_wre / 2);
        self.qp_compensation_level = self.qp_compensation_level.max(self.rx_wre_batching);
    }
}

impl Parameters {
    /// Buffers and rings in VMA's words size ours, where ours are not set.
    fn size(&mut self, is_given: impl Fn(&str) -> bool) {
        let defaults = Parameters::default();
        let asked = |now: u32, default: u32| (now != default).then_some(now);
        let (rx, tx) = (asked(self.rx_bufs, defaults.rx_bufs), asked(self.tx_bufs, defaults.tx_bufs));
        if (rx.is_some() || tx.is_some()) && !is_given("SIDESTEP_FRAMES") {
            let both = rx.unwrap_or(BUFS_UNSET).saturating_add(tx.unwrap_or(BUFS_UNSET));
            self.frames = both.clamp(FRAMES_LEAST, FRAMES_MOST);
        }
        for (own, name, asked) in [
            (&mut self.rx_ring, "SIDESTEP_RX_RING", asked(self.rx_wre, defaults.rx_wre)),
            (&mut self.tx_ring, "SIDESTEP_TX_RING", asked(self.tx_wre, defaults.tx_wre)),
        ] {
            if let Some(depth) = asked.filter(|_| !is_given(name)) {
                *own = depth.clamp(RING_LEAST, RING_MOST);
            }
        }
    }
}

/// Of the one of VMA_RX_BUFS and VMA_TX_BUFS that is not set, where the other is.
const BUFS_UNSET: u32 = 2048;
/// The bounds of SIDESTEP_FRAMES.
const FRAMES_LEAST: u32 = 256;
const FRAMES_MOST: u32 = 1_048_576;
/// The bounds of SIDESTEP_RX_RING and SIDESTEP_TX_RING.
const RING_LEAST: u32 = 64;
const RING_MOST: u32 = 65_536;

/// Tells of a name that nobody knows: loudly if it looks like a slip, quietly otherwise, as other programs may use
/// the prefix too.
fn unknown(name: &str) -> Notice {
    let names = ROWS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases));
    // A longer text cannot be a slip of a known name, and is not worth the comparison.
    let nearest = (name.len() <= 64)
        .then(|| names.map(|known| (distance(name, known), *known)).min())
        .flatten()
        .filter(|(edits, _)| *edits <= SLIP_MAX);
    match nearest {
        Some((_, known)) => Notice::warning(format!(
            "{} is not a known variable; did you mean {known}? Ignored",
            quoted(name)
        )),
        None => Notice::debug(format!("{} is not a known variable; ignored", quoted(name))),
    }
}

/// Edits (insert, delete, replace) between two names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
