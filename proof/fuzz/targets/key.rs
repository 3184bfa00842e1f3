//! Two who ask, whose names may be close to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_judges::must_hold("key", bytes));
