//! Socket benchmark, compatible with sockperf on the wire.
fn main() {}
