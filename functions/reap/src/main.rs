//! Frees what an execution held that has ended.
fn main() {}
