//! A running process, as procfs and its statistics show it.

use super::facts::{Acceleration, Banned, Left, Memory, Program, Thread, Threads};
use super::live::statistics_folder;
use std::path::PathBuf;

type Result<T> = core::result::Result<T, i32>;

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn read(pid: &str, name: &str) -> Result<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/{name}")).map_err(errno)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn program(pid: &str) -> Result<Program> {
    use std::os::unix::fs::MetadataExt;
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let path = std::fs::read_link(&link).map_err(errno)?.to_string_lossy().into_owned();
    let maps = read(pid, "maps")?;
    let mode = std::fs::metadata(&link).map_or(0, |data| data.mode());
    Ok(Program {
        path,
        preloaded: maps.lines().any(|line| line.trim_end_matches(" (deleted)").ends_with("/libvma.so")),
        dynamic: maps
            .lines()
            .any(|line| line.contains("/ld-linux") || line.contains("/ld-musl") || line.contains("/libc.so")),
        raised: mode & 0o6000 != 0,
        go: read(pid, "environ").is_ok() && is_go(&link),
    })
}

/// A Go program has its build's mark near the beginning of its data; the first MiB has it unless it is very large.
fn is_go(link: &std::path::Path) -> bool {
    use std::io::Read;
    let mut head = Vec::new();
    let opened = std::fs::File::open(link);
    let read = opened.and_then(|file| file.take(8 << 20).read_to_end(&mut head));
    read.is_ok() && super::go::built(&head)
}

pub(super) fn threads(pid: &str) -> Result<Threads> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(errno)?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let of = |name: &str| read(pid, &format!("task/{id}/{name}"));
        // A thread may end while it is looked at.
        let (Ok(status), Ok(stat)) = (of("status"), of("stat")) else { continue };
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        // Behind the name, which may hold anything: state is field 3, utime 14, stime 15, processor 39.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field =
            |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        all.push((
            field(14) + field(15),
            Thread {
                id,
                name: of("comm").unwrap_or_default().trim_end().to_owned(),
                allowed: allowed.unwrap_or_default().trim().to_owned(),
                last: u32::try_from(field(39)).unwrap_or(0),
                share: 0,
            },
        ));
    }
    let total = all.iter().map(|(time, _)| time).sum::<u64>().max(1);
    all.sort_by_key(|(time, thread)| (u64::MAX - time, thread.id));
    let share = |(time, thread): (u64, Thread)| Thread { share: (time * 100 / total) as u32, ..thread };
    Ok(Threads { all: all.into_iter().map(share).collect() })
}

/// Only what irqbalance was told of processors: the rest of an environment is nobody's business.
pub(super) fn banned(pid: &str) -> Result<Banned> {
    let environment = read(pid, "environ")?;
    let of = |name: &str| {
        let values = environment.split('\0').filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.map(str::trim).find(|value| !value.is_empty()).map(str::to_owned)
    };
    Ok(Banned { list: of("IRQBALANCE_BANNED_CPULIST"), mask: of("IRQBALANCE_BANNED_CPUS") })
}

/// Where it was told to keep its statistics; unless we may read that, where we would.
fn its_folder(pid: &str) -> PathBuf {
    let environment = read(pid, "environ").unwrap_or_default();
    let told = environment.split('\0').find_map(|word| word.strip_prefix("VMA_STATS_SHMEM_DIR="));
    PathBuf::from(told.filter(|folder| !folder.is_empty()).map_or_else(statistics_folder, str::to_owned))
}

/// Each line of numa_maps is a mapping, with its pages as words like `N0=12`.
pub(super) fn memory(pid: &str) -> Result<Memory> {
    let mut pages = std::collections::BTreeMap::new();
    for word in read(pid, "numa_maps")?.split_whitespace() {
        let Some((node, count)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) else {
            continue;
        };
        if let (Ok(node), Ok(count)) = (node.parse::<usize>(), count.parse::<u64>()) {
            *pages.entry(node).or_default() += count;
        }
    }
    Ok(Memory { pages })
}

pub(super) fn acceleration(pid: &str) -> Result<Acceleration> {
    let number: u32 = pid.parse().map_err(|_| libc::EINVAL)?;
    // In a container it has another folder of that name, and another number for itself.
    let place = vma_stats::place::of(&its_folder(pid), number);
    let bytes = std::fs::read(place.folder.join(stats::segment::file_name(place.number))).map_err(errno)?;
    let snapshot = stats::Snapshot::parse(&bytes).map_err(|_| libc::EPROTO)?;
    let left = snapshot.left.iter().filter(|(_, count)| *count > 0).map(|(why, count)| Left {
        count: *count,
        why: why.text().to_owned(),
        remedy: why.remedy().to_owned(),
        ordinary: why.is_ordinary(),
    });
    let lanes = snapshot.lanes.iter().map(|(_, lane)| lane);
    let losses = lanes.clone().map(|lane| {
        lane.rx_ring_full.value()
            + lane.rx_fill_empty.value()
            + lane.rx_dropped.value()
            + lane.tx_ring_full.value()
    });
    Ok(Acceleration {
        accelerated: snapshot.process.sockets_accelerated.value(),
        left: left.collect(),
        interfaces: lanes.clone().map(stats::report::interface).collect(),
        losses: losses.sum(),
    })
}
