//! An event for a function, whose name is its first line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_judges::must_hold("event", bytes));
