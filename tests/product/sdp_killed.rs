//! Processes under libsdp.so or libvma.so that are killed at random moments: what they sent arrives, the end is the
//! kernel's, nobody hangs, and nothing of the dead is left.

use rig::skip::{skipped, test_name, without_namespaces};
use rig::{Finished, Result};
use std::path::Path;
use tests::{DEADLINE, compile, library};

/// How many rounds; `cargo x test --long` says more.
const ROUNDS: &str = "SIDESTEP_KILLED_ROUNDS";
const FEW: u32 = 150;
const RULES: &str = "use both server * *:*\nuse both client * *:*\n";

/// Rounds, ends, resets, rounds in which a segment was mapped.
fn killed(library: Option<&Path>, rules: &Path, rounds: u32, seed: u32) -> Result<[u32; 4]> {
    let hosts = rig::one_host()?;
    let program = compile("apps/sdp_killed.c")?;
    let words = format!("{rounds} {seed} {}", rig::PATIENCE.as_millis());
    let program = hosts.left.program(program.path()).any_cpu().words(&words).preload(library).may_fall_back();
    let program = program
        .environment("LIBSDP_CONFIG_FILE", rules)
        // The wire, which others of the rig demand, keeps connections inside the host in the kernel.
        .environment("SIDESTEP_CARRIER", "auto")
        // The counters of who was killed stay in their file until vma_stats has looked at it.
        .environment("VMA_STATS_SHMEM_DIR", "");
    let done: Finished = program.run(DEADLINE + rig::PATIENCE * (rounds / 100))?.success()?;
    let numbers: Vec<u32> = done.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Ok(numbers.try_into().unwrap_or_else(|_| panic!("it said {}", done.stdout)))
}

#[test]
fn what_the_dead_sent_arrives_and_nothing_of_them_is_left() {
    what_the_dead_sent_arrives_under("libsdp.so", 4);
}

#[test]
fn the_same_in_memory_by_itself() {
    what_the_dead_sent_arrives_under("libvma.so", 50);
}

/// `name`: of the library. A segment is mapped in more than one of `part` rounds: who looks for a peer by itself does
/// so later, the more connections were over soon.
fn what_the_dead_sent_arrives_under(name: &str, part: u32) {
    if without_namespaces() {
        return;
    }
    let Some(library) = library().and_then(|vma| vma.with_file_name(name).canonicalize().ok()) else {
        let how = format!("no target/release/{name}: cargo build --release -p libsdp -p preload");
        return skipped(&test_name(), &how);
    };
    let rules = std::env::temp_dir().join(format!("{name}-killed-{}.conf", std::process::id()));
    std::fs::write(&rules, RULES).unwrap();
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(FEW);
    // As on the kernel, which is the oracle: with the same seed, and never with a segment.
    let [_, ends, resets, mapped] =
        killed(None, &rules, FEW.min(rounds), 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(ends > 0 && resets > 0 && mapped == 0, "on the kernel: {ends} {resets} {mapped}");
    // Another seed each time, which the program tells when it fails.
    let seed = if rounds == FEW { 1 } else { std::process::id() };
    let [all, ends, resets, mapped] =
        killed(Some(&library), &rules, rounds, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    println!("{all} rounds: {ends} ends, {resets} resets, {mapped} with a segment");
    assert!(
        all == rounds && ends > 0 && resets > 0 && mapped > rounds / part,
        "{all} {ends} {resets} {mapped}"
    );
    let _ = std::fs::remove_file(&rules);
}
