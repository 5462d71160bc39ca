//! Servers that people run, all at once on one interface, each with a client of another ordinary user of one group: one
//! keeper on each host, and all of them past the kernels.

use rig::Options;
use rig::apps::company::{self, Company, GROUP, Member};
use tests::keeper::Keeper;
use tests::{World, assert_host_bypassed_but, world};

/// What each client asks for.
const SECONDS: u32 = 2;
/// Until PostgreSQL's processes have connections of their own, and by what it forks for itself.
const FIRST_CALLS: u64 = 2000;

#[test]
fn servers_share_an_interface_and_so_do_their_clients_of_six_users() {
    let Some(world) = world(&Options::default()) else { return };
    let World { hosts, library } = &world;
    let members = match company::members() {
        Ok(members) => members,
        Err(missing) => return rig::skip::skipped(&rig::skip::test_name(), &missing.to_string()),
    };
    let sides = [&hosts.left, &hosts.right];
    let keepers = sides.map(|host| Keeper::start(host, &format!("--group {GROUP}")));
    let company = Company::start(hosts, Some(library), &members).unwrap();
    let before = sides.map(|host| host.counters().unwrap());
    let asking: Vec<_> = members.iter().map(|member| company.begin(*member, SECONDS).unwrap()).collect();
    for (member, asking) in members.iter().zip(asking) {
        println!("{}: {:.0}", member.title(), asking.rate().unwrap());
    }
    let beside = if members.contains(&Member::Postgres) { FIRST_CALLS } else { 0 };
    for (host, before) in sides.into_iter().zip(before) {
        let since = host.counters().unwrap().since(&before);
        let (kernel, wire) = (since.transport_packets(), since.wire_packets());
        println!("{}: {kernel} of {wire} packets by the kernel", host.address);
        assert_host_bypassed_but(&host.address.to_string(), &since, beside);
    }
    drop(company);
    keepers.into_iter().for_each(|keeper| drop(keeper.kill().unwrap()));
}
