//! Placeholder until the handler lands.
fn main() {}
