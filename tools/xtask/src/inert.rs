//! `cargo x test --inert`: whole products under a library that does nothing. A test that passes shows nothing about
//! acceleration, so each that may is named here, with the reason.

use std::path::PathBuf;
use std::process::Command;

use rig::{Context, Result, run_tool};

use crate::build;
use crate::test::{Tally, test_name};

/// Tells the API programs, which judge by themselves (`tests/api.rs`).
pub(crate) const VARIABLE: &str = "SIDESTEP_INERT";

/// Product tests that hold with any library, one that does nothing included, and why.
const HOLD_ANYWAY: [(&str, &str); 20] = [
    ("a_library_that_is_not_there_is_told_by_the_loader_and_the_program_runs", "no library is there at all"),
    (
        "curl_fetches_from_this_machine_as_without_us",
        "nothing is accelerated on this machine's own interfaces",
    ),
    ("curl_fetches_over_the_ordinary_interface_as_without_us", "likewise"),
    ("apt_get_update_behaves_as_without_us", "likewise"),
    ("ipv6_stays_with_the_kernel", "which is all that it says; such sockets are not even counted"),
    ("socat_with_a_child_per_connection", "the children's connections are the kernel's"),
    (
        "a_connection_is_the_standard_input_and_output_of_a_program",
        "what another program is given is the kernel's",
    ),
    ("nuttcp_transfers_over_tcp_and_udp", "so are sockets that are duplicated onto 0, 1 and 2"),
    ("services_that_inetd_starts_with_its_listener_are_served", "likewise"),
    (
        "a_service_that_is_activated_by_its_socket_serves_its_first_client",
        "so is a listener that exec passes on",
    ),
    ("what_liburing_is_given_is_the_kernels", "so are sockets that io_uring is given"),
    ("loops_of_grpc", "its sockets begin in the kernel, and the test asks for answers only"),
    (
        "servers_with_processes_and_threads_of_their_own",
        "run as users run them: the answers are what it is about",
    ),
    ("databases_and_caches", "likewise"),
    ("commands_that_fetch_and_end", "likewise"),
    (
        "with_strange_environments_and_rules_the_program_works_all_the_same",
        "that it works is all that it asks for",
    ),
    ("a_question_or_two_are_the_kernels_and_open_nothing", "what does not happen is what it is about"),
    ("a_few_datagrams_are_the_kernels_and_open_nothing", "likewise"),
    ("stress_ng_sockets", "its processes talk to each other inside of the host"),
    ("stress_ng_udp", "likewise"),
];

/// An empty shared object.
pub(crate) fn library() -> Result<PathBuf> {
    let folder = build::target().join("inert");
    std::fs::create_dir_all(&folder).context(folder.display())?;
    let library = folder.join("libvma.so");
    run_tool(Command::new("cc").args(["-shared", "-fPIC", "-x", "c", "/dev/null", "-o"]).arg(&library))?;
    Ok(library)
}

/// The API programs know what a library is that does nothing.
fn judges_itself(full: &str) -> bool {
    full.contains("api.rs: ")
}

fn holds_anyway(full: &str) -> bool {
    HOLD_ANYWAY.iter().any(|(test, _)| *test == test_name(full))
}

/// Whether a failure of this test is one under a library that does nothing, too.
pub(crate) fn counts_when_failed(full: &str) -> bool {
    judges_itself(full) || holds_anyway(full)
}

/// What `found` means: a test that failed noticed that there is no acceleration.
pub(crate) fn judged(found: Tally, skipped: &[String]) -> Tally {
    let is_skipped = |full: &str| skipped.iter().any(|line| line.split('\t').next() == Some(test_name(full)));
    let mut judged = Tally {
        unsteady: found.unsteady,
        broken: found.broken,
        left: found.left,
        times: found.times,
        ..Tally::default()
    };
    for full in &found.passed {
        if judges_itself(full) || holds_anyway(full) || is_skipped(full) {
            judged.passed.push(full.clone());
        } else {
            judged.failed.push(format!("{full}: passes with a library that does nothing"));
        }
    }
    for full in &found.failed {
        if judges_itself(full) {
            judged.failed.push(full.clone());
        } else if holds_anyway(full) {
            judged
                .failed
                .push(format!("{full}: fails without acceleration, of which it should know nothing"));
        } else {
            judged.passed.push(full.clone());
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_passes_without_acceleration_is_a_failure() {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let passed =
            all(&["api.rs: echo::accelerated", "product/a.rs: proves_nothing", "product/a.rs: cannot_run"]);
        let failed = all(&["product/a.rs: notices", "api.rs: names::accelerated"]);
        let found = Tally { passed, failed, ..Tally::default() };
        let judged = judged(found, &all(&["cannot_run\tno python"]));
        assert_eq!(
            judged.passed,
            ["api.rs: echo::accelerated", "product/a.rs: cannot_run", "product/a.rs: notices"]
        );
        assert_eq!(judged.failed.len(), 2);
    }
}
