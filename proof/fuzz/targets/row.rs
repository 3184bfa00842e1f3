//! Items in the place of rows, and what is tried on them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_judges::must_hold("row", bytes));
