//! `VMA_SPEC`: ready-made sets of parameters as data, `conf/profiles/*.conf`, a reason on each line.

use crate::choice::Spec;
use crate::notice::Notice;
use crate::parameters::Parameters;

/// The text of a profile; none for `none`.
pub fn text(spec: Spec) -> &'static str {
    match spec {
        Spec::None => "",
        Spec::UltraLatency => include_str!("../../../conf/profiles/ultra-latency.conf"),
        Spec::Latency => include_str!("../../../conf/profiles/latency.conf"),
        Spec::West29 => include_str!("../../../conf/profiles/29west.conf"),
        Spec::WombatFh => include_str!("../../../conf/profiles/wombat_fh.conf"),
        Spec::Mcd => include_str!("../../../conf/profiles/mcd.conf"),
        Spec::McdIrq => include_str!("../../../conf/profiles/mcd-irq.conf"),
        Spec::Rti => include_str!("../../../conf/profiles/rti.conf"),
        Spec::Sr7750 => include_str!("../../../conf/profiles/7750.conf"),
        Spec::MultiRingLatency => include_str!("../../../conf/profiles/multi_ring_latency.conf"),
        Spec::Redis => include_str!("../../../conf/profiles/redis.conf"),
        Spec::Nginx => include_str!("../../../conf/profiles/nginx.conf"),
        Spec::Memcached => include_str!("../../../conf/profiles/memcached.conf"),
        Spec::Postgres => include_str!("../../../conf/profiles/postgres.conf"),
        Spec::Throughput => include_str!("../../../conf/profiles/throughput.conf"),
        Spec::Frugal => include_str!("../../../conf/profiles/frugal.conf"),
    }
}

/// The settings of a profile: variable and value.
pub fn settings(spec: Spec) -> impl Iterator<Item = (&'static str, &'static str)> {
    text(spec).lines().filter_map(|line| {
        let (name, value) = line.split('#').next().unwrap_or("").split_once('=')?;
        Some((name.trim(), value.trim()))
    })
}

/// What VMA's profile sets beside that, and why it is left out here: the setting, and the reason.
pub fn left_out(spec: Spec) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = text(spec).lines().filter_map(|line| line.strip_prefix("# left out: "));
    lines.filter_map(|line| line.split_once(' ')).map(|(setting, reason)| (setting, reason.trim()))
}

/// Sets what the profile says. Told is trouble.
pub(crate) fn apply(spec: Spec, parameters: &mut Parameters) -> Vec<Notice> {
    let told = settings(spec).flat_map(|(name, value)| parameters.set(name, value));
    told.filter(|notice| notice.level != crate::TraceLevel::Debug).collect()
}
