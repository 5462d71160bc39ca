//! View 4: multicast groups and the descriptors that joined them.

use super::chosen;
use stats::Snapshot;
use stats::report::fd;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The table, printed once.
pub(crate) fn text(snapshot: &Snapshot, ranges: &[(i32, i32)]) -> String {
    let mut members: BTreeMap<Ipv4Addr, Vec<i64>> = BTreeMap::new();
    for socket in chosen(snapshot, ranges) {
        for group in snapshot.groups(socket) {
            members.entry(group).or_default().push(fd(socket));
        }
    }
    let mut out = String::from(
        "VMA Group Memberships Information\nGroup                fd number\n------------------------------\n",
    );
    for (group, descriptors) in members {
        let group = format!("[{group}]");
        let descriptors: Vec<String> = descriptors.iter().map(i64::to_string).collect();
        out += &format!("{group:<20} {}\n", descriptors.join(" "));
    }
    out
}
