//! cargo x: demo, test, bench, check.
fn main() {}
