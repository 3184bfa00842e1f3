//! Two who ask, whose names may be close to each other.
#![no_main]

use leasehold_hostile::corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = corpus::key(bytes) {
        panic!("{fault}");
    }
});
