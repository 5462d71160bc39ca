//! libFuzzer's face: one binary for all targets, chosen by the environment variable `FUZZ_TARGET`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static CHOSEN: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let target = fuzz::TARGETS.iter().find(|target| target.name == name);
        let target = target.unwrap_or_else(|| panic!("FUZZ_TARGET={name:?}: no such target"));
        CHOSEN.get_or_init(|| target.run);
    },
    |bytes: &[u8]| {
        if let Some(run) = CHOSEN.get() {
            run(bytes);
        }
    }
);
